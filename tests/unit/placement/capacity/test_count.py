# SPDX-License-Identifier: BSD-2-Clause
"""How many more instances fit: the same as asking one by one, and each where it is allowed."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster_drawing import draw

from ganeti.placement.capacity import count as capacity
from ganeti.placement.capacity.count import UNITS, Allocation, Room, Size, rising, runs
from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.picture import Cluster, Instance
from ganeti.placement.cluster.policy import BUILT_IN_POLICY
from ganeti.placement.kernel.state import NOWHERE, ClusterState

SEEDS = st.integers(min_value=0, max_value=10**6)
KIND = st.sampled_from(("mirrored", "shared", "mixed", "tiny", "full"))
TEMPLATE = st.sampled_from(("drbd", "plain", "rbd"))
SIZE = st.builds(
    Size,
    st.sampled_from((1024, 3000, 8192)),
    st.sampled_from((10240, 60000, 150000)),
    st.sampled_from((1, 3)),
    st.just(1),
)
FEW = settings(max_examples=40, deadline=None, derandomize=True)


def _tiny(seed: int, kind: str) -> Cluster:
    """A cluster of one group that allows all sizes."""
    cluster = draw(seed, kind, nodes=2 + seed % 3, instances=seed % 6).cluster
    group = replace(cluster.groups[0], policy=BUILT_IN_POLICY)
    nodes = [replace(node, group=group.uuid) for node in cluster.nodes]
    return replace(cluster, nodes=nodes, groups=[group], policy=BUILT_IN_POLICY)


def _room(state: ClusterState, template: str, *, checked: bool) -> Room:
    everyone = tuple(state.everyone())
    return Room(
        template=template,
        nodes_each=2 if template == "drbd" else 1,
        spindle_use=1,
        candidates=tuple(node for node in everyone if state.online[node]),
        members=everyone,
        checked=everyone if checked else (),
    )


def _places(state: ClusterState, room: Room, number: int) -> list[tuple[int, int]]:
    """Everywhere the checks let an instance go that is on no node."""
    found = []
    for primary in room.candidates:
        for secondary in room.candidates if room.nodes_each == 2 else (NOWHERE,):
            if secondary == primary or state.refuse_primary(number, primary):
                continue
            if secondary == NOWHERE or not state.refuse_secondary(number, secondary, primary):
                found.append((primary, secondary))
    return found


def _one_by_one(state: ClusterState, room: Room, instances: list[Instance]) -> int:
    """How many fit when each goes where the score is lowest, the first of equals."""
    members = list(room.members)
    for count, instance in enumerate(instances):
        number = state.add_instance(instance, NOWHERE)
        best: tuple[float, tuple[int, int]] | None = None
        for place in _places(state, room, number):
            mark = state.mark()
            state.move(number, *place)
            score = state.score(members)
            state.rollback(mark)
            if best is None or score < best[0]:
                best = score, place
        if best is None:
            return count
        state.move(number, *best[1])
    return len(instances)


@FEW
@given(SEEDS, KIND, TEMPLATE, SIZE)
def test_the_standard_count_is_that_of_allocating_one_by_one(seed: int, kind: str, template: str, size: Size) -> None:
    cluster = _tiny(seed, kind)
    allocation = Allocation(ClusterState(cluster), _room(ClusterState(cluster), template, checked=False))
    allocation.fill(size, 12)
    placed = [allocation.state.instances[number] for number in allocation.numbers]
    again = [replace(instance, primary="", secondary="") for instance in placed]
    more = [replace(again[0], name="more")] if again else []
    count = _one_by_one(ClusterState(cluster), allocation.room, again + (more if len(again) < 12 else []))
    assert count == len(again)


@FEW
@given(SEEDS, KIND, TEMPLATE, st.booleans(), st.booleans())
def test_everything_placed_is_allowed_where_it_is(
    seed: int, kind: str, template: str, checked: bool, shrinking: bool
) -> None:
    cluster = _tiny(seed, kind)
    state, again = ClusterState(cluster), ClusterState(cluster)
    allocation = Allocation(state, _room(state, template, checked=checked))
    size = Size(16384, 400000, 8, 1)
    failures = allocation.fill_tiered(size, 15) if shrinking else allocation.fill(size, 15)
    for number, placed in zip(allocation.numbers, allocation.placed, strict=True):
        instance, primary, secondary = state.instances[number], state.primary_of[number], state.secondary_of[number]
        assert (instance.memory_mib, instance.disk_mib, instance.vcpus) == (
            placed.memory_mib,
            placed.disk_mib,
            placed.vcpus,
        )
        fresh = again.add_instance(replace(instance, primary="", secondary=""), NOWHERE)
        assert (primary, secondary) in _places(again, allocation.room, fresh)
        again.move(fresh, primary, secondary)
    assert again.score(state.everyone()) == state.score(state.everyone())
    assert sum(count for _, count in runs(allocation.placed)) == len(allocation.placed)
    assert len(allocation.placed) == 15 or failures or not allocation.room.candidates or allocation.room.nodes_each == 2


@pytest.mark.parametrize("template", ["plain", "drbd"])
@pytest.mark.parametrize("checked", [False, True])
def test_at_the_limit_it_tells_what_single_nodes_have_against_one_more(template: str, checked: bool) -> None:
    cluster, size = _tiny(4, "mirrored"), Size(4096, 1024, 1, 1)
    cluster = replace(cluster, nodes=[replace(cluster.nodes[0], total_cpus=1.0, node_cpus=4), *cluster.nodes[1:]])
    state = ClusterState(cluster)
    allocation = Allocation(state, _room(state, template, checked=checked))
    failures = allocation.fill(size, 2)
    assert len(allocation.placed) == 2
    assert failures == Allocation(state, _room(state, template, checked=False)).fill(size, 0)
    assert failures[FailMode.FailCPU] >= 1


def _literally(allocation: Allocation, size: Size) -> None:
    """Fill by sizes that shrink, as the rule says it: every size is looked at, one after the other."""
    failures, before = allocation.fill(size), len(allocation.placed)
    smaller = _shrunk(size, rising(failures)[-1])
    if smaller is not None:
        _literally(allocation, smaller)
        if len(allocation.placed) > before:
            return
    for mode in (mode for mode in reversed(rising(failures)) if failures[mode]):
        smaller = _shrunk(size, mode)
        while smaller is not None and _shrunk(smaller, mode) is not None:
            fits, against = _look(allocation, smaller)
            if fits:
                _literally(allocation, smaller)
                return
            if not against[mode]:
                break
            smaller = _shrunk(smaller, mode)


def _shrunk(size: Size, mode: FailMode) -> Size | None:
    attributes = {
        FailMode.FailMem: "memory_mib",
        FailMode.FailDisk: "disk_mib",
        FailMode.FailCPU: "vcpus",
        FailMode.FailSpindles: "spindles",
    }
    if mode not in attributes:
        return None
    left = getattr(size, attributes[mode]) - UNITS[mode]
    return replace(size, **{attributes[mode]: left}) if left >= UNITS[mode] else None


def _look(allocation: Allocation, size: Size) -> tuple[bool, dict[FailMode, int]]:
    """Whether one more would fit, by filling and taking back."""
    mark, before = allocation.state.mark(), len(allocation.placed)
    one = Allocation(allocation.state, allocation.room)
    failures = one._would_fit(size, checked=True)
    allocation.state.rollback(mark)
    assert len(allocation.placed) == before
    return failures.fits, failures.failures


@FEW
@given(
    SEEDS,
    KIND,
    TEMPLATE,
    st.sampled_from((512, 1000, 2048)),
    st.sampled_from((1024, 3000)),
    st.sampled_from((1, 3)),
    st.booleans(),
)
def test_sizes_shrink_as_if_each_was_looked_at(
    seed: int, kind: str, template: str, memory: int, disk: int, vcpus: int, checked: bool
) -> None:
    cluster = _tiny(seed, kind)
    nodes = [replace(node, total_cpus=min(2.0, node.total_cpus)) for node in cluster.nodes]
    cluster = replace(cluster, nodes=nodes)
    found = []
    for fill in (Allocation.fill_tiered, _literally):
        state = ClusterState(cluster)
        allocation = Allocation(state, _room(state, template, checked=checked))
        fill(allocation, Size(memory, disk, vcpus, 1))
        found.append((runs(allocation.placed), [state.primary_of[number] for number in allocation.numbers]))
    assert found[0] == found[1]


def _with_ranges(cluster: Cluster, minima: list[tuple[int, int, int]]) -> Cluster:
    """Let a policy admit sizes up to half as much again as each of the *minima*, in the order they are given."""
    standard, most = BUILT_IN_POLICY.ranges[0]
    ranges = tuple(
        (
            replace(standard, memory_mib=memory, disk_mib=disk, cpus=vcpus),
            replace(most, memory_mib=memory + memory // 2, disk_mib=disk + disk // 2, cpus=vcpus + 1),
        )
        for memory, disk, vcpus in minima
    )
    groups = [replace(group, policy=replace(group.policy, ranges=ranges)) for group in cluster.groups]
    return replace(cluster, policy=replace(cluster.policy, ranges=ranges), groups=groups)


@FEW
@given(
    SEEDS,
    KIND,
    TEMPLATE,
    st.sampled_from((512, 1000, 2048, 10000)),
    st.sampled_from((1024, 3000, 9000)),
    st.sampled_from((1, 3, 9)),
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 1500), st.integers(0, 2500), st.integers(1, 2)), min_size=2, max_size=3),
)
def test_where_a_policy_has_several_ranges_sizes_shrink_as_if_each_was_looked_at(
    seed: int,
    kind: str,
    template: str,
    memory: int,
    disk: int,
    vcpus: int,
    checked: bool,
    minima: list[tuple[int, int, int]],
) -> None:
    cluster = _with_ranges(_tiny(seed, kind), minima)
    found = []
    for last_plain in (capacity._last_plain, lambda goes_on, floor: 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(capacity, "_last_plain", last_plain)
            state = ClusterState(cluster)
            allocation = Allocation(state, _room(state, template, checked=checked))
            failures = allocation.fill_tiered(Size(memory, disk, vcpus, 1))
        found.append((runs(allocation.placed), [state.primary_of[number] for number in allocation.numbers], failures))
    assert found[0] == found[1]


@FEW
@given(
    SEEDS,
    st.sampled_from(("mirrored", "shared", "full")),
    TEMPLATE,
    st.sampled_from((512, 1000, 2048)),
    st.sampled_from((1024, 3000)),
    st.sampled_from((1, 3)),
    st.lists(st.tuples(st.integers(1, 1500), st.integers(900, 2500), st.integers(1, 2)), min_size=2, max_size=3),
)
def test_what_a_policy_finds_too_small_hides_nothing_that_is_large_enough(
    seed: int, kind: str, template: str, memory: int, disk: int, vcpus: int, minima: list[tuple[int, int, int]]
) -> None:
    """Below the least size everything fails for that size: above it another mode may lead on."""
    cluster = _with_ranges(_tiny(seed, kind), minima)
    first, *others = cluster.nodes
    first = replace(first, unavailable="", total_memory_mib=5100.0 + seed % 900, node_memory_mib=0, total_cpus=64.0)
    first = replace(first, free_memory_mib=int(first.total_memory_mib), total_disk_mib=10**6, free_disk_mib=10**6)
    others = [replace(node, total_disk_mib=0.0, free_disk_mib=0) for node in others] if seed % 3 else others
    cluster = replace(cluster, nodes=[first, *others])
    found = []
    for fill in (Allocation.fill_tiered, _literally):
        state = ClusterState(cluster)
        allocation = Allocation(state, _room(state, template, checked=False))
        fill(allocation, Size(memory, disk, vcpus, 1))
        found.append((runs(allocation.placed), [state.primary_of[number] for number in allocation.numbers]))
    assert found[0] == found[1]


def test_below_the_least_disk_less_memory_is_tried_for_the_least() -> None:
    """One node lacks memory for another instance, others have no disk: less disk leads nowhere, less memory does."""
    lean = replace(_tiny(1, "equal").nodes[0], unavailable="", node_memory_mib=0, total_cpus=64.0, total_disk_mib=10**6)
    lean = replace(lean, total_memory_mib=5200.0, free_memory_mib=5200, free_disk_mib=10**6)
    without = [replace(lean, name=name, total_disk_mib=0.0, free_disk_mib=0) for name in ("without1", "without2")]
    cluster = _with_ranges(
        replace(_tiny(1, "equal"), nodes=[lean, *without], instances=[]), [(600, 1024, 1), (9000, 9000, 1)]
    )
    state = ClusterState(cluster)
    allocation = Allocation(state, _room(state, "plain", checked=False))
    allocation.fill_tiered(Size(900, 1024, 1, 1))
    assert [(size.memory_mib, size.disk_mib, count) for size, count in runs(allocation.placed)] == [
        (900, 1024, 5),
        (644, 1024, 1),
    ]


def test_where_a_policy_has_two_ranges_a_huge_size_is_shrunk_as_quickly() -> None:
    """In 2^53 MiB there are so many steps that they cannot be looked at one by one."""
    cluster = _with_ranges(_tiny(1, "equal"), [(512, 1024, 1), (4096, 1024, 1)])
    state = ClusterState(cluster)
    allocation = Allocation(state, _room(state, "plain", checked=False))
    allocation.fill_tiered(Size(2**53, 2**53, 2**53, 1))
    assert runs(allocation.placed)


def test_a_thousand_sizes_that_fit_one_below_the_other() -> None:
    """Each node is short of a little more memory than the one before it."""
    node = replace(_tiny(1, "equal").nodes[0], total_cpus=8.0, node_memory_mib=0, unavailable="", node_cpus=0)
    nodes = [
        replace(
            node,
            name=f"node{number}",
            total_memory_mib=float(65 + 64 * number),
            free_memory_mib=65 + 64 * number,
            total_disk_mib=2047.0,
            free_disk_mib=2047,
        )
        for number in range(2, 1060)
    ]
    cluster = replace(_tiny(1, "equal"), nodes=nodes, instances=[])
    ranges = (
        (
            replace(BUILT_IN_POLICY.ranges[0][0], memory_mib=64),
            replace(BUILT_IN_POLICY.ranges[0][1], memory_mib=1 << 20),
        ),
    )
    policy = replace(BUILT_IN_POLICY, ranges=ranges)
    cluster = replace(cluster, policy=policy, groups=[replace(cluster.groups[0], policy=policy)])
    state = ClusterState(cluster)
    allocation = Allocation(state, _room(state, "plain", checked=False))
    allocation.fill_tiered(Size(1060 * 64, 1024, 1, 1))
    assert len(runs(allocation.placed)) > 1050

# SPDX-License-Identifier: BSD-2-Clause
"""Laws of "why": what excludes a node does, what would admit the instance does so and not one unit less."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples
from tests.fakes.tight_clusters import MIRRORED, Case, admitted, after, build, smaller_ways

from ganeti.placement.cluster.lack import Change, Way
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.definition import checks
from ganeti.placement.definition.moves import read_plain
from ganeti.placement.dispatch import place
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import NodeRefusal, Placement
from ganeti.placement.why.explain import refusals
from ganeti.placement.why.nearest import nearest_fit
from ganeti.placement.why.question import Question
from ganeti.placement.why.room import primary_limits, room_of, secondary_limits

SEEDS = st.integers(min_value=0, max_value=10**6)
FEW = settings(max_examples=examples(30, quick=10, campaign=1000), deadline=None, derandomize=True)
MANY = settings(max_examples=examples(40, quick=10, campaign=2000), deadline=None, derandomize=True)
KINDS = pytest.mark.parametrize(("mirrored", "exclusive"), [(False, False), (True, False), (False, True), (True, True)])


def question(case: Case) -> Question:
    state = ClusterState(case.cluster)
    names = [group.name for group in case.cluster.groups]
    group = names.index(case.request.group) if case.request.group else NOWHERE
    return Question(state, case.request, case.options, group)


def explained(case: Case) -> tuple[NodeRefusal, ...]:
    return refusals(question(case), NOWHERE, ())


@KINDS
@MANY
@given(seed=SEEDS)
def test_a_limit_is_exceeded_exactly_where_a_check_refuses(mirrored: bool, exclusive: bool, seed: int) -> None:
    case = build(seed, mirrored=mirrored, exclusive=exclusive)
    picture, instance = read_plain(case.cluster), case.request.instance
    for number, view in enumerate(picture.views):
        room = room_of(view, number)
        for forced in (False, True):
            refusal = checks.refuse_primary(view, instance, forced=forced)
            exceeded = [limit for limit in primary_limits(room, instance, forced=forced) if limit.exceeded]
            assert [limit.mode for limit in exceeded[:1]] == ([refusal.mode] if refusal else [])
        for primary in range(len(picture.views)):
            refusal = checks.refuse_secondary(view, instance, primary)
            exceeded = [limit for limit in secondary_limits(room, instance, primary) if limit.exceeded]
            assert [limit.mode for limit in exceeded[:1]] == ([refusal.mode] if refusal else [])


def _nodes(refusal: NodeRefusal) -> tuple[str, ...]:
    """The nodes a refusal is about, primary first."""
    both = (refusal.node, refusal.partner) if refusal.role != "secondary" else (refusal.partner, refusal.node)
    return tuple(name for name in both if name)


def _judged(case: Case) -> list[tuple[NodeRefusal, tuple[str, ...]]]:
    required = case.request.required_nodes
    return [(r, _nodes(r)) for r in explained(case) if r.lacks and len(_nodes(r)) == required]


@KINDS
@MANY
@given(seed=SEEDS)
def test_a_node_is_refused_exactly_if_it_does_not_admit(mirrored: bool, exclusive: bool, seed: int) -> None:
    case = build(seed, mirrored=mirrored, exclusive=exclusive)
    names = [node.name for node in case.cluster.nodes]
    groups = {node.name: node.group for node in case.cluster.nodes}
    for refusal in explained(case):
        own = refusal.node
        if mirrored:
            mates = [name for name in names if name != own and groups[name] == groups[own]]
            fits = any(admitted(case, (own, mate)) or admitted(case, (mate, own)) for mate in mates)
            if not mates:
                continue
        else:
            fits = admitted(case, (own,))
        assert (not refusal.lacks) == fits, refusal


@KINDS
@MANY
@given(seed=SEEDS)
def test_every_way_admits(mirrored: bool, exclusive: bool, seed: int) -> None:
    case = build(seed, mirrored=mirrored, exclusive=exclusive)
    for refusal, nodes in _judged(case):
        assert not admitted(case, nodes)
        for way in filter(_can_be_made, refusal.ways):
            assert admitted(after(case, way), nodes), (way, refusal.sentence)


@KINDS
@MANY
@given(seed=SEEDS)
def test_no_way_is_larger_than_it_must_be(mirrored: bool, exclusive: bool, seed: int) -> None:
    case = build(seed, mirrored=mirrored, exclusive=exclusive)
    for refusal, nodes in _judged(case):
        for way in filter(_can_be_made, refusal.ways):
            if mirrored and any(change.constraint == "exclusion-tag" for change in way):
                continue  # the departure of a mirrored instance also frees its reserve elsewhere
            for smaller in smaller_ways(way):
                assert not admitted(after(case, smaller), nodes), (way, smaller)


@KINDS
@MANY
@given(seed=SEEDS)
def test_ratios_are_the_least_that_do(mirrored: bool, exclusive: bool, seed: int) -> None:
    case = build(seed, mirrored=mirrored, exclusive=exclusive)
    for refusal, nodes in _judged(case):
        for way in filter(_can_be_made, refusal.ways):
            for at, change in enumerate(way):
                if change.constraint.endswith("-ratio"):
                    less = replace(change, target=math.nextafter(float(change.target), 0.0))
                    assert not admitted(after(case, (*way[:at], less, *way[at + 1 :])), nodes)


def _can_be_made(way: Way) -> bool:
    """Uses of spindles can only be freed by somebody leaving."""
    return not any(change.subject == "node" and change.constraint == "spindle-uses" for change in way)


@KINDS
@MANY
@given(seed=SEEDS)
def test_a_node_has_a_way_unless_nothing_helps(mirrored: bool, exclusive: bool, seed: int) -> None:
    case = build(seed, mirrored=mirrored, exclusive=exclusive)
    for refusal, _ in _judged(case):
        assert refusal.ways, refusal
        assert list(refusal.ways) == sorted(refusal.ways, key=_distance)
        assert refusal.change


@KINDS
@MANY
@given(seed=SEEDS)
def test_the_nearest_nodes_admit_after_the_change(mirrored: bool, exclusive: bool, seed: int) -> None:
    case = build(seed, mirrored=mirrored, exclusive=exclusive)
    asked = question(case)
    nearest = nearest_fit(asked)
    judged = _judged(case)
    if any(not refusal.lacks for refusal in explained(case)):
        return
    if nearest.nodes:
        assert not admitted(case, nearest.nodes)
        for way in filter(_can_be_made, nearest.ways):
            assert admitted(after(case, way), nearest.nodes)
        assert _distance(nearest.ways[0]) == min(refusal.distance for refusal, _ in judged)
    else:
        assert not any(refusal.ways for refusal, _ in judged)


@KINDS
@MANY
@given(seed=SEEDS)
def test_the_largest_sizes_fit_and_nothing_larger_does(mirrored: bool, exclusive: bool, seed: int) -> None:
    case = build(seed, mirrored=mirrored, exclusive=exclusive)
    if any(not refusal.lacks for refusal in explained(case)):
        return
    instance = case.request.instance
    names = [node.name for node in case.cluster.nodes]
    groups = {node.name: node.group for node in case.cluster.nodes}
    places = [(a, b) for a in names for b in names if a != b and groups[a] == groups[b]]
    found = {size.scaled: size for size in nearest_fit(question(case)).largest}
    for scaled, unit in (("memory", "memory_mib"), ("disk", "disk_mib"), ("vcpus", "vcpus")):
        asked = getattr(instance, unit)
        size = found.get(scaled)
        best = getattr(size, unit) if size else 0
        if size:
            assert admitted(_with(case, scaled, asked - best), size.nodes)
        for larger in sorted({best + 1, best + 7, (best + asked) // 2, asked - 1}):
            if best < larger < asked and (scaled != "disk" or _still_there(instance, asked - larger)):
                changed = _with(case, scaled, asked - larger)
                assert not any(admitted(changed, at) for at in (places if mirrored else [(n,) for n in names]))


def _with(case: Case, scaled: str, less: int) -> Case:
    return after(case, [Change("instance", scaled, "", less)])


def _still_there(instance: Instance, less: int) -> bool:
    return less < sum(disk.size_mib for disk in instance.disks)


@KINDS
@MANY
@given(seed=SEEDS)
def test_the_largest_in_proportion_fits(mirrored: bool, exclusive: bool, seed: int) -> None:
    case = build(seed, mirrored=mirrored, exclusive=exclusive)
    for size in nearest_fit(question(case)).largest:
        if size.scaled == "everything":
            instance = case.request.instance
            less = [
                Change("instance", "memory", "", instance.memory_mib - size.memory_mib),
                Change("instance", "vcpus", "", instance.vcpus - size.vcpus),
            ]
            percents = [p for p in range(1, 101) if max(1, instance.memory_mib * p // 100) == size.memory_mib]
            assert any(admitted(_scaled(after(case, less), percent), size.nodes) for percent in percents)


def _scaled(case: Case, percent: int) -> Case:
    """Each disk at *percent* of its size."""
    instance = case.request.instance
    disks = tuple(replace(disk, size_mib=disk.size_mib * percent // 100) for disk in instance.disks)
    lost = sum(disk.size_mib for disk in instance.disks) - sum(disk.size_mib for disk in disks)
    smaller = replace(instance, disks=disks, disk_mib=instance.disk_mib - lost)
    return replace(case, request=replace(case.request, instance=smaller))


@FEW
@given(seed=SEEDS)
def test_where_failures_must_be_tried_every_way_admits(seed: int) -> None:
    """Instances without a second node: whether failures are absorbed only the allocator's own trial says."""
    case = build(seed, mirrored=False)
    case = replace(case, options=replace(case.options, capacity_checks=True))
    for refusal, nodes in _judged(case):
        for way in filter(_can_be_made, refusal.ways):
            if any(change.target == "redundancy-now" for change in way):
                continue  # what else would fail after that is not tried
            changed = after(case, way)
            request = replace(changed.request, restrict_to=nodes)
            assert isinstance(place(changed.cluster, request, options=changed.options), Placement), (refusal, way)


def _distance(way: Way) -> float:
    return sum(change.share for change in way)


def test_the_cases_are_of_every_kind() -> None:
    """So that the laws above speak about something."""
    constraints = {"memory", "disk", "vcpus", "spindles", "spindle-uses", "disk-spindles"}
    constraints |= {"exclusion-tag", "redundancy", "availability", "network", "alloc-policy"}
    constraints |= {"group", "restriction", "policy-memory", "policy-disk", "policy-vcpus", "policy-template"}
    parts = {("instance", "memory"), ("node", "memory"), ("group", "vcpu-ratio"), ("group", "spindle-ratio")}
    for seed in range(400):
        for exclusive in (False, True):
            for refusal in explained(build(seed, mirrored=seed % 2 == 0, exclusive=exclusive)):
                constraints -= {lack.constraint for lack in refusal.lacks}
                parts -= {(change.subject, change.constraint) for way in refusal.ways for change in way}
        if not constraints | parts:
            break
    assert (constraints, parts) == (set(), set())
    assert MIRRORED

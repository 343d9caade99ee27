# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes may be rebooted together, and where their instances are meanwhile."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster_drawing import KINDS, draw

from ganeti.placement.balance.rolling import (
    ALGORITHMS,
    Batch,
    Evacuation,
    NoCapacityError,
    colourings,
    fewest,
    is_mirrored,
    reboot_graph,
    split_by_capacity,
)
from ganeti.placement.cluster.picture import Cluster, Group, Instance, Node
from ganeti.placement.kernel.state import ClusterState

SEEDS = st.integers(min_value=0, max_value=10**6)
KIND = st.sampled_from(KINDS)
FEW = settings(max_examples=60, deadline=None, derandomize=True)


def _cluster(*instances: Instance, nodes: int = 4, memory_mib: int = 8192) -> ClusterState:
    node = Node("", "u", memory_mib, 0, memory_mib, 409600, 409600, 8)
    return ClusterState(
        Cluster(
            nodes=[replace(node, name=f"n{number}") for number in range(nodes)],
            instances=list(instances),
            groups=[Group("u", "default")],
        )
    )


def _instance(name: str, primary: str, secondary: str = "", memory_mib: int = 1024) -> Instance:
    template = "drbd" if secondary else "rbd"
    return Instance(name, memory_mib, 10240, 1, template, primary=primary, secondary=secondary)


@FEW
@given(SEEDS, KIND, st.booleans())
def test_no_batch_takes_both_nodes_of_an_instance_or_two_with_one_secondary(
    seed: int, kind: str, maintenance: bool
) -> None:
    state = ClusterState(draw(seed, kind).cluster)
    everyone = state.everyone()
    found = colourings(reboot_graph(state, everyone, offline_maintenance=maintenance))
    assert [colouring.name for colouring in found] == list(ALGORITHMS)
    for colouring in found:
        assert sorted(node for members in colouring.classes for node in members) == everyone
        colour = {node: number for number, members in enumerate(colouring.classes) for node in members}
        waiting: dict[tuple[int, int], set[int]] = {}
        for number, (primary, secondary) in enumerate(zip(state.primary_of, state.secondary_of, strict=True)):
            if is_mirrored(state, number):
                assert colour[primary] != colour[secondary]
                if not state.instances[number].forthcoming:
                    waiting.setdefault((secondary, colour[primary]), set()).add(primary)
        assert maintenance or all(len(primaries) == 1 for primaries in waiting.values())


@FEW
@given(SEEDS, KIND, st.booleans())
def test_every_batch_can_be_emptied_at_once(seed: int, kind: str, everything: bool) -> None:
    state = ClusterState(draw(seed, kind).cluster)
    before = state.primary_of[:], state.secondary_of[:], state.score(state.everyone())
    classes = fewest(colourings(reboot_graph(state, state.everyone()))).classes
    try:
        batches = split_by_capacity(state, classes, Evacuation(everything=everything))
    except NoCapacityError:
        batches = []
    assert (state.primary_of, state.secondary_of, state.score(state.everyone())) == before
    assert not batches or sorted(node for batch in batches for node in batch.nodes) == state.everyone()
    for batch in batches:
        _check_empty(state, batch, everything)


def _check_empty(state: ClusterState, batch: Batch, everything: bool) -> None:
    going, mark = set(batch.nodes), state.mark()
    for number, primary, secondary in batch.moves:
        assert state.online[primary] or is_mirrored(state, number)
        state.move(number, primary, secondary)
    for number, instance in enumerate(state.instances):
        if instance.forthcoming:
            continue
        if not is_mirrored(state, number):
            assert state.primary_of[number] not in going
        elif everything:
            assert not {state.primary_of[number], state.secondary_of[number]} <= going
    moved = {primary for _, primary, _ in batch.moves}
    assert all(state.view(node).free_memory_mib > 0 for node in moved) or everything
    state.rollback(mark)


def test_what_went_to_a_node_goes_on_when_that_is_emptied_too() -> None:
    state = _cluster(_instance("a", "n0"), _instance("b", "n1"))
    (batch,) = split_by_capacity(state, [(0, 1)], Evacuation())
    assert batch == Batch((0, 1), ((0, 2, -1), (1, 2, -1)))


def test_a_class_is_split_where_its_instances_do_not_fit_together() -> None:
    state = _cluster(*(_instance(f"i{number}", f"n{number}", memory_mib=5000) for number in range(4)), nodes=5)
    batches = split_by_capacity(state, [(0, 1, 2)], Evacuation())
    assert [batch.nodes for batch in batches] == [(0,), (1,), (2,)]


def test_nothing_fits() -> None:
    state = _cluster(_instance("a", "n0", memory_mib=5000), _instance("b", "n1", memory_mib=5000), nodes=2)
    with pytest.raises(NoCapacityError, match="Not enough capacity to move non-redundant instances"):
        split_by_capacity(state, [(0,), (1,)], Evacuation())
    (batch, _) = split_by_capacity(state, [(0,), (1,)], Evacuation(unmirrored=False))
    assert batch == Batch((0,))


def test_mirrored_primaries_find_the_unmirrored_ones_where_they_went() -> None:
    mirrored = _instance("a", "n0", "n1", 4096)
    full = _cluster(mirrored, _instance("b", "n0", memory_mib=4096), nodes=3)
    with pytest.raises(NoCapacityError, match="Failed to migrate instances off nodes"):
        split_by_capacity(full, [(0,)], Evacuation(everything=True))
    roomy = _cluster(mirrored, _instance("b", "n0", memory_mib=1024), nodes=3)
    (batch,) = split_by_capacity(roomy, [(0,)], Evacuation(everything=True))
    assert batch.moves == ((0, 1, 2), (1, 1, -1))


def test_a_secondary_needs_a_third_node() -> None:
    state = _cluster(_instance("a", "n0", "n1"), nodes=2)
    with pytest.raises(NoCapacityError, match="Not enough capacity to move secondaries"):
        split_by_capacity(state, [(0,), (1,)], Evacuation(everything=True))

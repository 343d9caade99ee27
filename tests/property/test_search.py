# SPDX-License-Identifier: BSD-2-Clause
"""Laws of looking for nodes over drawn clusters: the kernel finds what the definition finds by trying everything."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster_drawing import KINDS, Dice, draw
from tests.fakes.thoroughness import examples

from ganeti.model.templates import TEMPLATES, traits_of
from ganeti.placement.allocate.new_instance import place_instance
from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.picture import Cluster, Disk, Instance, Status
from ganeti.placement.definition import search as defined
from ganeti.placement.definition.moves import read_plain
from ganeti.placement.kernel.searches import (
    NodeSearch,
    best_exchange,
    best_target,
    find_nodes,
    nodes_failing,
    refuse_failover,
    shared_redundancy,
)
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import Options

SEEDS = st.integers(min_value=0, max_value=10**6)
KIND = st.sampled_from([*KINDS, "even"])
FEW = settings(max_examples=examples(40, quick=20, campaign=2000), deadline=None, derandomize=True)


def small(seed: int, kind: str) -> Cluster:
    """A cluster in which everything can be tried; in an even one many candidates are equal on paper."""
    if kind != "even":
        return draw(seed, kind, nodes=2 + seed % 6, instances=seed % 15).with_load()
    found = draw(seed, "equal", nodes=2 + seed % 9, instances=0).cluster
    return replace(found, instances=[])


def new_instance(seed: int, cluster: Cluster, *, mirrored: bool) -> Instance:
    dice = Dice(seed)
    names = [name for name, traits in TEMPLATES.items() if traits.has_secondary == mirrored]
    size = dice.pick((0, 1024, 10240, 40960))
    tags = [tag for instance in cluster.instances for tag in instance.tags]
    return Instance(
        name="new",
        memory_mib=dice.pick((128, 1024, 2048, 3000, 8192)),
        disk_mib=size,
        vcpus=dice.among(1, 4),
        template=dice.pick(names),
        disks=(Disk(size, dice.pick((None, 1, 2))),) if size else (),
        status=dice.pick((Status.RUNNING, Status.RUNNING, Status.RUNNING, Status.ADMIN_DOWN)),
        auto_balance=dice.chance(0.8),
        spindle_use=dice.among(1, 2),
        forthcoming=dice.chance(0.1),
        tags=tuple(dice.pick(tags) for _ in range(dice.below(3))) if tags else (),
        load=(1.0, 1.0, 1.0, 1.0) if dice.chance(0.7) else (dice.unit(), dice.unit(), dice.unit(), dice.unit()),
    )


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def policies_of(cluster: Cluster) -> defined.Policies:
    return {group.uuid: group.policy for group in cluster.groups}


def online(state: ClusterState, group: int) -> list[int]:
    return [node for node in state.group_members(group) if state.online[node]]


@FEW
@given(
    seed=SEEDS,
    kind=KIND,
    mirrored=st.booleans(),
    whole=st.booleans(),
    checked=st.booleans(),
    forced=st.booleans(),
)
def test_an_instance_goes_where_the_definition_puts_it(
    seed: int, kind: str, mirrored: bool, whole: bool, checked: bool, forced: bool
) -> None:
    cluster = small(seed, kind)
    instance = new_instance(seed, cluster, mirrored=mirrored)
    state, plain = ClusterState(cluster), read_plain(cluster)
    for group in range(len(state.groups)):
        candidates, members = online(state, group), state.everyone() if whole else state.group_members(group)
        options = Options(capacity_checks=checked, ignore_soft_errors=forced)
        found = place_instance(state, instance, 1 + mirrored, candidates, members, options)
        meant = defined.allocation(
            plain,
            policies_of(cluster),
            instance,
            1 + mirrored,
            candidates,
            members,
            checked=members if checked else (),
            ignore_soft_errors=forced,
        )
        assert found.nodes == meant.nodes
        assert (found.successes, found.failures) == (meant.successes, +meant.failures)
        if meant.nodes:
            assert same(found.key[0], meant.score)


@FEW
@given(seed=SEEDS, kind=KIND)
def test_pairs_of_several_groups_are_found_in_one_search(seed: int, kind: str) -> None:
    cluster = small(seed, kind)
    instance = new_instance(seed, cluster, mirrored=True)
    state, plain = ClusterState(cluster), read_plain(cluster)
    candidates = [node for node in state.everyone() if state.online[node]]
    number = state.add_instance(instance, NOWHERE)
    found = find_nodes(state, NodeSearch(number, 2, candidates, state.everyone()))
    meant = defined.allocation(plain, policies_of(cluster), instance, 2, candidates, state.everyone())
    assert found.nodes == meant.nodes
    assert Counter({FailMode(mode): n for mode, n in enumerate(found.failures) if n}) == +meant.failures


@FEW
@given(seed=SEEDS, kind=KIND)
def test_a_node_fails_without_loss_where_the_definition_says_so(seed: int, kind: str) -> None:
    cluster = small(seed, kind)
    state, plain = ClusterState(cluster), read_plain(cluster)
    policies = policies_of(cluster)
    members = state.everyone()
    expected = [node for node in members if not defined.absorbs(plain, policies, node, members)]
    assert nodes_failing(state, members) == expected


@FEW
@given(seed=SEEDS, kind=KIND, forced=st.booleans())
def test_the_best_target_of_a_hop_is_the_defined_one(seed: int, kind: str, forced: bool) -> None:
    cluster = small(seed, kind)
    state, plain = ClusterState(cluster), read_plain(cluster)
    for number, instance in enumerate(cluster.instances):
        traits = traits_of(instance.template)
        assert traits is not None
        role = "secondary" if traits.has_secondary else "primary"
        members = state.group_members(state.group_of[state.primary_of[number]])
        hop = best_target(state, number, role, members, members, forced=forced)
        meant = defined.hops(plain, number, role, members, forced=forced)
        refusals = {node: getattr(after, "mode", 0) for node, after in meant.items()}
        assert hop.failures == refusals
        assert (None if hop.target == NOWHERE else hop.target) == defined.best_hop(meant, members)


@FEW
@given(seed=SEEDS, kind=KIND, forced=st.booleans())
def test_both_nodes_are_exchanged_as_defined(seed: int, kind: str, forced: bool) -> None:
    cluster = small(seed, kind)
    state, plain = ClusterState(cluster), read_plain(cluster)
    mirrored = [n for n in range(len(cluster.instances)) if state.secondary_of[n] != NOWHERE]
    for number in mirrored[:3]:
        own = (state.primary_of[number], state.secondary_of[number])
        for group in range(len(state.groups)):
            targets = [node for node in online(state, group) if node not in own]
            members = state.group_members(group)
            found = best_exchange(state, number, targets, members, forced=forced)
            meant = defined.exchange(plain, number, targets, members, forced=forced)
            assert ((found.primary, found.secondary) if found.primary != NOWHERE else None) == meant.nodes
            if meant.nodes is None:
                assert (found.failed_step, found.failure) == (meant.failed_step, meant.failure)


@FEW
@given(seed=SEEDS, kind=KIND, mirrored=st.booleans(), checked=st.booleans())
def test_what_is_left_out_cannot_win(seed: int, kind: str, mirrored: bool, checked: bool) -> None:
    """In clusters too large for the definition: nearly all pairs are left out there."""
    cluster = draw(seed, "equal" if kind == "even" else kind, nodes=20 + seed % 70, instances=seed % 400).with_load()
    state = ClusterState(cluster)
    number = state.add_instance(new_instance(seed, cluster, mirrored=mirrored), NOWHERE)
    candidates = [node for node in state.everyone() if state.online[node]]
    asked = NodeSearch(number, 1 + mirrored, candidates, state.everyone(), state.everyone() if checked else ())
    everything = repr(find_nodes(state, asked._replace(exhaustive=True)))
    assert repr(find_nodes(state, asked)) == everything
    if checked:
        with shared_redundancy(state, state.everyone(), state.everyone()) as redundancy:
            for _ in range(2):
                assert repr(find_nodes(state, asked._replace(redundancy=redundancy))) == everything
    mirrors = [n for n in range(number) if state.secondary_of[n] != NOWHERE]
    for moved in mirrors[:2]:
        own = (state.primary_of[moved], state.secondary_of[moved])
        group = state.group_of[own[0]]
        targets = [node for node in online(state, group) if node not in own]
        found = [
            best_exchange(state, moved, targets, state.group_members(group), forced=False, exhaustive=exhaustive)
            for exhaustive in (False, True)
        ]
        assert (found[0].primary, found[0].secondary) == (found[1].primary, found[1].secondary)


@FEW
@given(seed=SEEDS, kind=KIND, mirrored=st.booleans())
def test_a_search_leaves_no_trace(seed: int, kind: str, mirrored: bool) -> None:
    cluster = small(seed, kind)
    state = ClusterState(cluster)
    before = traces(state)
    place_instance(
        state,
        new_instance(seed, cluster, mirrored=mirrored),
        1 + mirrored,
        online(state, 0),
        state.everyone(),
        Options(),
    )
    nodes_failing(state, state.everyone())
    for number in range(len(cluster.instances)):
        role = "secondary" if state.secondary_of[number] != NOWHERE else "primary"
        best_target(state, number, role, state.everyone(), state.everyone(), forced=False)
        if role == "secondary":
            best_exchange(state, number, state.everyone(), state.everyone(), forced=False)
            refuse_failover(state, number, forced=False)
    assert traces(state) == before


def traces(state: ClusterState) -> Sequence[object]:
    return [
        repr([state.view(node) for node in state.everyone()]),
        repr(state.components(state.everyone())),
        list(state.primary_of),
        list(state.secondary_of),
        len(state.instances),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_search_has_the_same_result(kind: str) -> None:
    cluster = draw(7, kind).with_load()
    instance = new_instance(7, cluster, mirrored=True)
    state = ClusterState(cluster)
    results = [place_instance(state, instance, 2, online(state, 0), state.everyone(), Options()) for _ in range(2)] + [
        place_instance(ClusterState(cluster), instance, 2, online(state, 0), state.everyone(), Options())
    ]
    assert repr(results[0]) == repr(results[1]) == repr(results[2])

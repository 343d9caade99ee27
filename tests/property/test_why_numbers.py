# SPDX-License-Identifier: BSD-2-Clause
"""The numbers of "why" say what its words say, and both hold on clusters of every kind."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples
from tests.fakes.tight_clusters import Case, admitted, after, build, smaller_ways
from tests.fakes.varied_clusters import varied

from ganeti.placement.cluster.lack import Way
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import NodeRefusal
from ganeti.placement.why.alike import reason_of
from ganeti.placement.why.explain import Refusals, refusals
from ganeti.placement.why.question import Question
from ganeti.placement.why.room import PRIMARY
from ganeti.placement.why.tallies import ROLES

SEEDS = st.integers(min_value=0, max_value=10**6)
MANY = settings(max_examples=examples(60, quick=15, campaign=3000), deadline=None, derandomize=True)
MIRRORED = pytest.mark.parametrize("mirrored", [False, True])


def question(case: Case) -> Question:
    names = [group.name for group in case.cluster.groups]
    group = names.index(case.request.group) if case.request.group else NOWHERE
    return Question(ClusterState(case.cluster), case.request, case.options, group)


def same(one: float, other: float) -> bool:
    """Sums in another order differ in their last digits."""
    return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def check_numbers(asked: Question) -> None:
    everyone = range(len(asked.state.nodes))
    for number in everyone:
        for role in ROLES if asked.paired else (PRIMARY,):
            tally = asked.tallies.of(number, role)
            assert same(tally.alone, asked.alone(number, role).distance), (number, role)
            mates = [n for n in everyone if n != number and asked.group_of[n] == asked.group_of[number]]
            if not asked.paired or not mates:
                continue
            pairs = [(number, mate) if role == PRIMARY else (mate, number) for mate in mates]
            least = min(asked.pair(*pair).distance for pair in pairs)
            taken = (number, tally.partner) if role == PRIMARY else (tally.partner, number)
            assert same(tally.distance, least), (number, role, tally.partner)
            assert same(tally.distance, asked.pair(*taken).distance)


@MIRRORED
@pytest.mark.parametrize("exclusive", [False, True])
@MANY
@given(seed=SEEDS)
def test_the_numbers_are_those_of_the_words(mirrored: bool, exclusive: bool, seed: int) -> None:
    check_numbers(question(build(seed, mirrored=mirrored, exclusive=exclusive)))


@MIRRORED
@MANY
@given(seed=SEEDS)
def test_they_are_so_for_every_kind_of_cluster(mirrored: bool, seed: int) -> None:
    check_numbers(question(varied(seed, mirrored=mirrored)))


@MIRRORED
@MANY
@given(seed=SEEDS)
def test_groups_by_numbers_are_groups_by_words(mirrored: bool, seed: int) -> None:
    """Which nodes are told together is decided without the words."""
    asked = question(varied(seed, mirrored=mirrored))
    by_words = {refusal.node: reason_of(refusal) for refusal in refusals(asked)}
    for group in Refusals(asked).alike():
        reasons = {by_words[name][0] for name in group.names}
        assert reasons == {reason_of(group.first)[0]}, group
        for resource, (least, most) in group.missing.items():
            amounts = [by_words[name][1][resource] for name in group.names]
            assert (least, most) == (min(amounts), max(amounts))


# brute force


def nodes_of(refusal: NodeRefusal) -> tuple[str, ...]:
    both = (refusal.node, refusal.partner) if refusal.role != "secondary" else (refusal.partner, refusal.node)
    return tuple(name for name in both if name)


def can_be_made(way: Way) -> bool:
    return not any(change.subject == "node" and change.constraint == "spindle-uses" for change in way)


@MIRRORED
@MANY
@given(seed=SEEDS)
def test_a_node_is_refused_exactly_if_it_does_not_admit(mirrored: bool, seed: int) -> None:
    case = varied(seed, mirrored=mirrored)
    groups = {node.name: node.group for node in case.cluster.nodes}
    for refusal in refusals(question(case)):
        own = refusal.node
        mates = [name for name in groups if name != own and groups[name] == groups[own]]
        if mirrored and not mates:
            continue
        places = [pair for mate in mates for pair in ((own, mate), (mate, own))] if mirrored else [(own,)]
        assert (not refusal.lacks) == any(admitted(case, place) for place in places), refusal


@MIRRORED
@MANY
@given(seed=SEEDS)
def test_every_way_admits_and_none_is_too_large(mirrored: bool, seed: int) -> None:
    case = varied(seed, mirrored=mirrored)
    for refusal in refusals(question(case)):
        nodes = nodes_of(refusal)
        if not refusal.lacks or len(nodes) < case.request.required_nodes:
            continue
        for way in filter(can_be_made, refusal.ways):
            assert admitted(after(case, way), nodes), (way, refusal.sentence)
            if mirrored and any(change.constraint == "exclusion-tag" for change in way):
                continue  # the departure of a mirrored instance also frees its reserve elsewhere
            if _widens(case, way):
                continue
            for smaller in smaller_ways(way):
                assert not admitted(after(case, smaller), nodes), (way, smaller)


def _widens(case: Case, way: Way) -> bool:
    """A policy that is widened is so in all of its ranges, and another one may do then."""
    several = any(len(group.policy.ranges) > 1 for group in case.cluster.groups)
    return several and any(change.constraint.startswith("policy-") for change in way)

# SPDX-License-Identifier: BSD-2-Clause
"""Laws of balancing over drawn clusters: the kernel means what the definition says, and a move creates nothing."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster_drawing import KINDS, draw
from tests.fakes.thoroughness import examples

from ganeti.placement.balance.steps import BalanceOptions, balance, best_step, optimal_score
from ganeti.placement.cluster.failure import Refusal
from ganeti.placement.cluster.picture import Cluster
from ganeti.placement.definition import score as definition
from ganeti.placement.definition.moves import (
    NOWHERE,
    Move,
    PlainCluster,
    after_move,
    candidates,
    plan,
    read_plain,
)
from ganeti.placement.definition.moves import best_step as defined_best_step
from ganeti.placement.definition.moves import optimal_score as defined_optimal_score
from ganeti.placement.definition.score import uses_node_disk
from ganeti.placement.kernel.state import ClusterState

SEEDS = st.integers(min_value=0, max_value=10**6)
KIND = st.sampled_from(KINDS)
FEW = settings(max_examples=examples(40, quick=16, campaign=2000), deadline=None, derandomize=True)
OPTIONS = st.builds(
    BalanceOptions,
    disk_moves=st.sampled_from((True, True, True, False)),
    instance_moves=st.sampled_from((True, True, True, False)),
    evacuation=st.sampled_from((False, False, True)),
    restricted_migration=st.sampled_from((False, False, True)),
    ignore_soft_errors=st.sampled_from((False, False, True)),
    max_length=st.just(4),
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "exclusion_prefixes": st.just(("owner", "service")),
        "min_disk_ratio": st.sampled_from((0.0, 0.1, 0.6)),
        "max_cpu_ratio": st.sampled_from((0.5, 2.0, 8.0)),
    },
)


def small(seed: int, kind: str) -> Cluster:
    """A cluster the definition can plan for in a moment."""
    found = draw(seed, kind, nodes=2 + seed % 6, instances=seed % 15)
    return found.with_load() if found.load else found.cluster


def groups_of(cluster: Cluster) -> list[list[int]]:
    return [[n for n, node in enumerate(cluster.nodes) if node.group == group.uuid] for group in cluster.groups]


def same(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def views_of(state: ClusterState, members: Sequence[int]) -> list[definition.NodeView]:
    return [state.view(node) for node in members]


@FEW
@given(seed=SEEDS, kind=KIND, limits=LIMITS)
def test_what_was_read_is_what_the_definition_reads(seed: int, kind: str, limits: dict) -> None:
    cluster = small(seed, kind)
    state, plain = ClusterState(cluster, **limits), read_plain(cluster, **limits)
    for node in range(len(cluster.nodes)):
        ours, defined = state.view(node), plain.views[node]
        assert (
            definition.metrics_of(ours) == definition.metrics_of(defined) or cluster.nodes[node].total_memory_mib == 0
        )
        assert ours.peers == defined.peers
    for members in groups_of(cluster):
        assert same(state.score(members), plain.score(members))
        components = definition.score_components([plain.views[node] for node in members])
        assert [*map(repr, state.components(members).values())] == [*map(repr, components.values())]
        assert optimal_score(state, members) == defined_optimal_score(plain, members)


@FEW
@given(seed=SEEDS, kind=KIND, options=OPTIONS, limits=LIMITS)
def test_the_best_step_is_the_one_the_definition_chooses(
    seed: int, kind: str, options: BalanceOptions, limits: dict
) -> None:
    cluster = small(seed, kind)
    movable = [(seed >> number) % 8 != 7 for number in range(len(cluster.instances))]
    state, plain = ClusterState(cluster, **limits), read_plain(cluster, **limits)
    for members in groups_of(cluster):
        step, defined = best_step(state, members, movable, options), defined_best_step(plain, members, movable, options)
        assert (step is None) == (defined is None)
        if step is not None and defined is not None:
            assert (step.instance, step.kind, step.target) == (defined.instance, defined.move.kind, defined.move.target)
            assert (step.after, step.score) == (defined.cluster.places[step.instance], defined.score)


@FEW
@given(seed=SEEDS, kind=KIND, options=OPTIONS)
def test_a_plan_is_legal_step_by_step_and_ends_at_its_score(seed: int, kind: str, options: BalanceOptions) -> None:
    cluster = small(seed, kind)
    movable = [True] * len(cluster.instances)
    for members in groups_of(cluster):
        state, plain = ClusterState(cluster), read_plain(cluster)
        score = plain.score(members)
        for step in balance(state, members, movable, replace(options, max_length=-1)):
            after = after_move(plain, step.instance, Move(step.kind, step.target), forced=options.ignore_soft_errors)
            assert isinstance(after, PlainCluster), after
            assert after.score(members) == step.score < score
            assert step.before == plain.places[step.instance]
            assert step.after == after.places[step.instance]
            plain, score = after, step.score
        assert same(state.score(members), score)


@FEW
@given(seed=SEEDS, kind=KIND)
def test_whole_plans_are_those_of_the_definition(seed: int, kind: str) -> None:
    cluster, options = small(seed, kind), BalanceOptions(max_length=3)
    movable = [True] * len(cluster.instances)
    for members in groups_of(cluster):
        ours = [
            (step.instance, step.kind, step.target, step.score)
            for step in balance(ClusterState(cluster), members, movable, options)
        ]
        defined = [
            (step.instance, step.move.kind, step.move.target, step.score)
            for step in plan(read_plain(cluster), members, movable, options)
        ]
        assert ours == defined


def larger(seed: int, kind: str) -> Cluster:
    """A cluster in which a step leaves most nodes as they were."""
    found = draw(seed, kind, nodes=2 + seed % 50, instances=seed * 7 % 250)
    return found.with_load() if found.load else found.cluster


@FEW
@given(seed=SEEDS, kind=st.sampled_from([kind for kind in KINDS if kind != "spindles"]), options=OPTIONS, limits=LIMITS)
def test_what_is_kept_from_one_step_to_the_next_changes_no_step(
    seed: int, kind: str, options: BalanceOptions, limits: dict
) -> None:
    """Each step is the one a search that knows nothing finds, also when instances were moved by others in between."""
    cluster = larger(seed, kind)
    dice = random.Random(seed)
    movable = [dice.random() < 0.9 for _ in cluster.instances]
    eager = replace(options, min_gain_limit=-math.inf, min_score=-math.inf, max_length=40)
    for members in groups_of(cluster):
        state, count = ClusterState(cluster, **limits), 0
        expected = best_step(state, members, movable, eager)
        for step in balance(state, members, movable, eager):
            assert repr(step) == repr(expected)
            for _ in range(dice.choice((0, 0, 0, 0, 1, 1, 2, 9))):
                _move_any(state, members, dice)
            expected = best_step(state, members, movable, eager)
            count += 1
        assert expected is None or count == eager.max_length


def _move_any(state: ClusterState, members: Sequence[int], dice: random.Random) -> None:
    number = dice.randrange(len(state.instances))
    places = state.primary_of[number], state.secondary_of[number]
    if NOWHERE not in places and len(members) > 1:
        state.move(number, *dice.choice((places[::-1], dice.sample(members, 2))))
    elif places[0] != NOWHERE and places[1] == NOWHERE:
        state.move(number, dice.choice(members))


def totals(plain: PlainCluster) -> tuple[int, ...]:
    """What no move may change, over all nodes: memory and disk in use with what is free, spindles, cpus, instances."""
    views = plain.views
    return (
        sum(view.free_memory_mib for view in views),
        sum(view.forthcoming_free_memory_mib for view in views),
        sum(view.free_disk_mib for view in views),
        sum(view.used_cpus(forthcoming=True) for view in views),
        sum(len(view.primaries) for view in views),
        sum(len(view.secondaries) for view in views),
    )


@FEW
@given(seed=SEEDS, kind=KIND)
def test_a_move_conserves_memory_and_disk(seed: int, kind: str) -> None:
    cluster = small(seed, kind)
    plain = read_plain(cluster)
    before = totals(plain)
    for members in groups_of(cluster):
        for number in range(len(cluster.instances)):
            if not set(plain.places[number]) <= {*members, NOWHERE}:
                continue
            for move in candidates(plain, number, members, BalanceOptions()):
                after = after_move(plain, number, move, forced=True)
                if isinstance(after, Refusal):
                    continue
                assert totals(after) == before
                others = [at for at in range(len(cluster.instances)) if at != number]
                assert [after.places[at] for at in others] == [plain.places[at] for at in others]
                places = [node for node in after.places[number] if node != NOWHERE]
                assert len(set(places)) == len(places) == len([n for n in plain.places[number] if n != NOWHERE])


@FEW
@given(seed=SEEDS, kind=KIND)
def test_what_was_moved_can_be_taken_back(seed: int, kind: str) -> None:
    """A rollback leaves every value as it was, the last digit of the load too."""
    cluster = small(seed, kind)
    state, everyone = ClusterState(cluster), range(len(cluster.nodes))
    before = [repr(definition.metrics_of(view)) for view in views_of(state, everyone)]
    lists = [(state.listed(node), state.listed(node, secondary=True)) for node in everyone]
    mark = state.mark()
    for number, instance in enumerate(cluster.instances):
        primary, secondary = state.primary_of[number], state.secondary_of[number]
        target = (primary + 1 + seed) % len(cluster.nodes)
        state.move(number, target, secondary if secondary != target else primary if secondary != NOWHERE else NOWHERE)
        state.add_instance(replace(instance, name=f"copy-{instance.name}"), target)
    state.rollback(mark)
    assert [repr(definition.metrics_of(view)) for view in views_of(state, everyone)] == before
    assert [(state.listed(node), state.listed(node, secondary=True)) for node in everyone] == lists
    assert len(state.instances) == len(cluster.instances)


@FEW
@given(seed=SEEDS, kind=KIND)
def test_free_disk_is_what_the_lists_leave(seed: int, kind: str) -> None:
    """However a plan got there, each node's free disk is what it reported and what came and went since."""
    cluster = small(seed, kind)
    state = ClusterState(cluster)

    def on(node: int) -> int:
        everyone = [*state.listed(node), *state.listed(node, secondary=True)]
        instances = [state.instances[number] for number in everyone]
        return sum(one.disk_mib for one in instances if uses_node_disk(one) and not one.forthcoming)

    whole = [node.free_disk_mib + on(number) for number, node in enumerate(cluster.nodes)]
    for members in groups_of(cluster):
        for _ in balance(state, members, [True] * len(cluster.instances), BalanceOptions(max_length=6)):
            assert [state.view(node).free_disk_mib + on(node) for node in range(len(whole))] == whole

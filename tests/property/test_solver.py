# SPDX-License-Identifier: BSD-2-Clause
"""Laws of the solver over drawn clusters: legal steps, no worse than the default, no more moves, none dearer."""

from collections.abc import Sequence
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster_drawing import KINDS, draw
from tests.fakes.thoroughness import examples

from ganeti.placement.balance.plan_price import price_of_hop
from ganeti.placement.balance.solver import MOVE_MIB, Solver
from ganeti.placement.balance.steps import BalanceOptions, Step, balance
from ganeti.placement.cluster.picture import Cluster
from ganeti.placement.definition.moves import Move, PlainCluster, after_move, candidates, read_plain
from ganeti.placement.kernel.state import ClusterState

SEEDS = st.integers(min_value=0, max_value=10**6)
KIND = st.sampled_from(KINDS)
FEW = settings(max_examples=examples(40, quick=16, campaign=1000), deadline=None, derandomize=True)
OPTIONS = st.builds(
    BalanceOptions,
    disk_moves=st.sampled_from((True, True, True, False)),
    instance_moves=st.sampled_from((True, True, True, False)),
    evacuation=st.sampled_from((False, False, True)),
    restricted_migration=st.sampled_from((False, False, True)),
    ignore_soft_errors=st.sampled_from((False, False, True)),
    max_length=st.sampled_from((-1, -1, 1, 3)),
)
WORK = 400_000


def groups_of(cluster: Cluster) -> list[list[int]]:
    return [[n for n, node in enumerate(cluster.nodes) if node.group == group.uuid] for group in cluster.groups]


def played(
    cluster: Cluster, members: Sequence[int], options: BalanceOptions, steps: Sequence[Step]
) -> tuple[PlainCluster, int]:
    """The cluster after *steps*, each held to the definition, and what they cost."""
    plain, cost = read_plain(cluster), 0
    for step in steps:
        move = Move(step.kind, step.target)
        assert move in list(candidates(plain, step.instance, members, options))  # type: ignore[arg-type]
        assert plain.places[step.instance] == step.before
        dead = plain.offline(step.before[0])
        cost += MOVE_MIB + price_of_hop(cluster.instances[step.instance], step.kind, from_dead_primary=dead).total_mib
        after = after_move(plain, step.instance, move, forced=options.ignore_soft_errors)
        assert isinstance(after, PlainCluster), after
        assert after.places[step.instance] == step.after
        assert after.score(members) == step.score or step.score != step.score
        plain = after
    return plain, cost


@FEW
@given(seed=SEEDS, kind=KIND, options=OPTIONS)
def test_the_plan_is_legal_and_no_worse_than_the_default(seed: int, kind: str, options: BalanceOptions) -> None:
    drawing = draw(seed, kind)
    cluster = drawing.with_load()
    movable = [(seed >> number % 16) % 8 != 7 for number in range(len(cluster.instances))]
    for members in groups_of(cluster):
        default = list(balance(ClusterState(cluster), members, movable, options))
        plan = Solver(partial(ClusterState, cluster), members, movable, options, work=WORK).solve()
        assert len(plan.steps) <= len(default)
        after, cost = played(cluster, members, options, plan.steps)
        _, default_cost = played(cluster, members, options, default)
        assert cost == plan.cost <= default_cost
        assert all(movable[step.instance] and cluster.instances[step.instance].auto_balance for step in plan.steps)
        if default:
            assert plan.steps
            assert after.score(members) == plan.score <= default[-1].score


def test_the_same_question_has_the_same_answer() -> None:
    cluster = draw(7, "mirrored").cluster
    members, movable = list(range(len(cluster.nodes))), [True] * len(cluster.instances)
    first, second = (
        Solver(partial(ClusterState, cluster), members, movable, BalanceOptions(), work=WORK).solve() for _ in range(2)
    )
    assert first == second
    assert first.steps


def test_it_finds_cheaper_plans() -> None:
    """On many drawn clusters: a search that never finds anything would pass all the laws."""
    cheaper = total = 0
    drawn = examples(30, quick=9)
    for seed in range(drawn):
        cluster = draw(seed, "mirrored").cluster
        members, movable = list(range(len(cluster.nodes))), [True] * len(cluster.instances)
        solver = Solver(partial(ClusterState, cluster), members, movable, BalanceOptions(), work=WORK * 10)
        solver.solve()
        total += bool(solver.first.steps)
        cheaper += solver.best.cost < solver.first.cost
    assert total > drawn * 2 / 3
    assert cheaper > total / 2, (cheaper, total)

# SPDX-License-Identifier: BSD-2-Clause
"""No plan gets below the bound: not the default's, not the solver's, and not one placed at random."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster_drawing import KINDS, Dice, draw
from tests.fakes.thoroughness import examples

from ganeti.model.templates import traits_of
from ganeti.placement.balance.lower_bound import lower_bound
from ganeti.placement.balance.steps import BalanceOptions, balance
from ganeti.placement.cluster.picture import Cluster
from ganeti.placement.kernel.state import NOWHERE, ClusterState

FEW = settings(max_examples=examples(80, quick=40, campaign=2000), deadline=None, derandomize=True)


def groups_of(cluster: Cluster) -> list[list[int]]:
    return [[n for n, node in enumerate(cluster.nodes) if node.group == group.uuid] for group in cluster.groups]


@FEW
@given(seed=st.integers(min_value=0, max_value=10**6), kind=st.sampled_from(KINDS))
def test_no_placement_is_below_the_bound(seed: int, kind: str) -> None:
    drawing = draw(seed, kind)
    cluster, dice = drawing.with_load() if seed % 2 else drawing.cluster, Dice(seed)
    movable = [(seed >> number % 16) % 8 != 7 for number in range(len(cluster.instances))]
    for members in groups_of(cluster):
        state = ClusterState(cluster)
        bound = lower_bound(state, members, movable)
        for step in balance(state, members, movable, BalanceOptions(min_gain=0.0, ignore_soft_errors=True)):
            assert not step.score < bound
        assert not state.score(members) < bound
        for number, instance in enumerate(cluster.instances):
            traits, places = traits_of(instance.template), (state.primary_of[number], state.secondary_of[number])
            if not movable[number] or traits is None or not traits.movable or not instance.auto_balance:
                continue
            if not {*places} - {NOWHERE} <= set(members):
                continue
            primary = dice.pick(members)
            others = [node for node in members if node != primary]
            state.move(number, primary, dice.pick(others) if places[1] != NOWHERE else NOWHERE)
            assert not state.score(members) < bound


def test_what_cannot_be_halved_is_told() -> None:
    """Three equal instances on two equal nodes: a bound of nothing would be true and useless."""
    drawing = draw(5, "equal", nodes=2, instances=3)
    state = ClusterState(drawing.cluster)
    assert lower_bound(state, [0, 1], [True] * 3) > 1.5

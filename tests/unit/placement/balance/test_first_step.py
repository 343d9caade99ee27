# SPDX-License-Identifier: BSD-2-Clause
"""The first moves by measured load: not where it is even, and not of instances that stay."""

from dataclasses import replace

import pytest
from tests.fakes.maintained_cluster import MaintainedCluster

from ganeti.placement.balance.first_step import balance_step
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.request.terms import BalanceStep, Options

BUSY = ("i0", "i6")


@pytest.mark.parametrize(
    ("threshold", "stay", "moves"),
    [(0.0, (), True), (0.1, (), True), (0.6, (), False), (0.0, BUSY, False), (0.0, ("i6",), True)],
)
def test_load_moves_what_may_move(threshold: float, stay: tuple[str, ...], moves: bool) -> None:
    """n0 has two busy guests of 16 processors each, n1 lacks a guest: by numbers nothing is to be gained."""
    cluster = MaintainedCluster().picture()
    spare = next(each.name for each in cluster.instances if each.primary == "n1")
    instances = [
        replace(each, load=(16.0 if each.name in BUSY else 0.1, *each.load[1:]))
        for each in cluster.instances
        if each.name not in (spare, "i12")
    ]
    state = ClusterState(replace(cluster, instances=instances))
    before = state.score(list(state.group_members(0)))
    load = {each.name: each.load[0] for each in instances}
    question = BalanceStep((), 0.01, False, load, threshold, frozenset(stay))
    names = [name for room in balance_step(state, question, Options()).rooms for name, _ in room.jobs]
    assert bool(set(names) & set(BUSY)) is moves
    assert not set(names) & set(stay)
    assert state.score(list(state.group_members(0))) == before, "the state is as it was"

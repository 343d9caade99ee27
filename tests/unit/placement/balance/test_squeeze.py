# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes can go off, or must come on, and that the plan leaves room everywhere."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster_drawing import draw

from ganeti.placement.balance.squeeze import (
    LARGE,
    Plan,
    Squeezing,
    offline_candidates,
    online_candidates,
    spare_instance,
)
from ganeti.placement.cluster.picture import Cluster
from ganeti.placement.cluster.policy import Spec
from ganeti.placement.kernel.state import ClusterState

SEEDS = st.integers(min_value=0, max_value=10**6)
FEW = settings(max_examples=40, deadline=None, derandomize=True)
SIZE = st.sampled_from((LARGE, 0))


def _shared(seed: int, *, standby: Sequence[int] = ()) -> tuple[Cluster, str]:
    drawing = draw(seed, "shared", nodes=3 + seed % 5, instances=seed % 20)
    nodes = [
        replace(node, unavailable="offline", tags=("htools:standby:x",)) if number in standby else node
        for number, node in enumerate(drawing.cluster.nodes)
    ]
    return replace(drawing.cluster, nodes=nodes), drawing.master


def _squeezing(cluster: Cluster, large: int) -> Squeezing:
    return Squeezing(cluster, ClusterState, [True] * len(cluster.instances), large=large)


def _follows(cluster: Cluster, plan: Plan, unavailable: str) -> ClusterState:
    """The cluster with the nodes of *plan* switched and its steps made one by one, each of them allowed."""
    nodes = [
        replace(node, unavailable=unavailable) if number in plan.nodes else node
        for number, node in enumerate(cluster.nodes)
    ]
    state = ClusterState(replace(cluster, nodes=nodes))
    for step in plan.steps:
        assert (state.primary_of[step.instance], state.secondary_of[step.instance]) == step.before
        assert state.online[step.after[0]]
        forced = not state.online[step.before[0]]
        assert not state.refuse_primary(step.instance, step.after[0], forced=forced)
        state.move(step.instance, *step.after)
    return state


@FEW
@given(SEEDS, SIZE, st.sampled_from((0.0, 2.0, 10.0, 40.0)))
def test_nothing_is_left_on_a_node_that_goes_off(seed: int, large: int, factor: float) -> None:
    cluster, master = _shared(seed)
    squeezing = _squeezing(cluster, large)
    spare = spare_instance(cluster.policy.standard, factor)
    candidates = offline_candidates(squeezing.start, [master])
    assert master not in {cluster.nodes[node].name for node in candidates}
    plan = squeezing.switch_off(candidates, spare)
    assert [node for node in candidates if node in plan.nodes] == list(plan.nodes)
    state = _follows(cluster, plan, "offline")
    assert state.primary_of == plan.state.primary_of
    if plan.nodes:
        assert all(state.online[node] for node in state.primary_of)
        assert squeezing.fits(state, spare)


@FEW
@given(SEEDS, SIZE, st.sampled_from((2.0, 10.0, 40.0)))
def test_nodes_come_on_until_there_is_room(seed: int, large: int, factor: float) -> None:
    cluster, _ = _shared(seed, standby=(1, 2))
    squeezing = _squeezing(cluster, large)
    standby = online_candidates(squeezing.start)
    assert standby == [1, 2]
    spare = spare_instance(cluster.policy.standard, factor)
    plan = squeezing.switch_on(standby, spare)
    assert list(plan.nodes) == standby[: len(plan.nodes)]
    state = _follows(cluster, plan, "")
    good = all(state.online[node] for node in state.primary_of) and squeezing.fits(state, spare)
    assert plan.enough == good


def test_large_clusters_move_only_what_must_move() -> None:
    cluster, master = _shared(11)
    spare = spare_instance(cluster.policy.standard, 2.0)
    squeezing = _squeezing(cluster, 0)
    plan = squeezing.switch_off(offline_candidates(squeezing.start, [master]), spare)
    assert plan.nodes
    assert {step.before[0] for step in plan.steps} <= set(plan.nodes)


def test_the_spare_instance_is_rounded_down() -> None:
    spare = spare_instance(Spec(1000, 3, 10240, 1, 1, 1), 1.5)
    assert (spare.memory_mib, spare.vcpus, spare.spindle_use, spare.disk_mib) == (1500, 4, 1, 0)


@pytest.mark.parametrize("factor", [float("inf"), float("nan"), 1e300])
def test_a_factor_beyond_reason_fits_nowhere(factor: float) -> None:
    spare = spare_instance(Spec(1000, 3, 10240, 1, 1, 1), factor)
    assert min(spare.memory_mib, spare.vcpus, spare.spindle_use) > 1 << 49


@pytest.mark.parametrize("forthcoming", [False, True])
def test_nodes_with_local_disks_stay_on(forthcoming: bool) -> None:
    cluster, master = _shared(11)
    name = cluster.nodes[1].name
    local = replace(cluster.instances[0], template="plain", primary=name, forthcoming=forthcoming)
    state = ClusterState(replace(cluster, instances=[local]))
    assert (1 in offline_candidates(state, [master])) == forthcoming


def test_no_master_is_switched_off() -> None:
    cluster, _ = _shared(11)
    state = ClusterState(replace(cluster, instances=[]))
    names = [node.name for node in cluster.nodes]
    assert offline_candidates(state, names[1:]) == ([] if state.nodes[0].unavailable else [0])
    assert offline_candidates(state, names) == []

# SPDX-License-Identifier: BSD-2-Clause
"""Who is a member, what is bad, which limits are broken."""

import pytest

from ganeti.placement.cluster.picture import Cluster, Group, Instance, Node
from ganeti.placement.kernel.state import ClusterState
from ganeti.tools.htools.printing import standing


def node(name: str, group: str = "g", *, free_mib: int = 4096, cpus: float = 4, unavailable: str = "") -> Node:
    return Node(name, group, 4096, 0, free_mib, 102400, 102400, cpus, unavailable=unavailable)


def state_of(nodes: list[Node], instances: list[Instance]) -> ClusterState:
    groups = [Group("empty", "empty"), Group("g", "first"), Group("h", "second")]
    return ClusterState(Cluster(nodes, instances, groups))


def drbd(name: str, primary: str, secondary: str, memory_mib: int = 1024, *, forthcoming: bool = False) -> Instance:
    return Instance(name, memory_mib, 1024, 1, "drbd", primary, secondary, forthcoming=forthcoming)


def test_groups_without_nodes_are_left_out() -> None:
    state = state_of([node("a"), node("b", "h"), node("c")], [drbd("i", "a", "c")])
    assert standing.groups_with_nodes(state) == [1, 2]
    assert standing.members_of(state, 1) == [0, 2]


def test_an_instance_belongs_where_its_primary_is() -> None:
    state = state_of([node("a"), node("b", "h")], [drbd("across", "a", "b")])
    assert standing.instances_of(state, [0]) == [0]
    assert standing.instances_of(state, [1]) == []


def test_without_a_node_online_the_score_has_no_parts() -> None:
    state = state_of([node("a", unavailable="offline"), node("b")], [])
    assert standing.components(state, [0]) == {}
    assert standing.components(state, []) == {}
    assert len(standing.components(state, [0, 1])) == 20


def test_bad_nodes_cannot_take_over_and_are_online() -> None:
    crowded = [drbd("i", "b", "a", 2048), drbd("j", "b", "c", 2048)]
    nodes = [node("a", free_mib=1024), node("b", free_mib=0), node("c", free_mib=1024, unavailable="drained")]
    assert standing.bad_nodes(state_of(nodes, crowded), [0, 1, 2]) == [0]


def test_each_instance_counts_once_and_forthcoming_ones_do_not() -> None:
    instances = [drbd("i", "a", "b"), drbd("j", "b", "a"), drbd("k", "b", "a", forthcoming=True)]
    state = state_of([node("a"), node("b")], instances)
    assert standing.instances_on(state, [0, 1]) == 2


@pytest.mark.parametrize(("spindle_use", "vcpus", "limit"), [(1, 1, ""), (33, 1, "FailDisk"), (1, 17, "FailCPU")])
def test_the_first_broken_limit_is_named(spindle_use: int, vcpus: int, limit: str) -> None:
    instance = Instance("i", 1, 1, vcpus, "plain", "a", spindle_use=spindle_use)
    state = state_of([node("a")], [instance])
    assert standing.broken_limit(state.view(0)) == limit

# SPDX-License-Identifier: BSD-2-Clause
"""The order of peer maps, as seen in 3.1."""

from ganeti.placement.balance.steps import Step
from ganeti.placement.cluster.picture import Cluster, Group, Instance, Node
from ganeti.placement.kernel.state import ClusterState
from ganeti.tools.htools.printing.peer_maps import PeerMaps


def state_of(*instances: Instance) -> ClusterState:
    nodes = [Node(name, "g", 10000, 0, 10000, 4096, 4096, 4) for name in "abcd"]
    return ClusterState(Cluster(nodes, instances, [Group("g", "group")]))


def instance(name: str, primary: str, secondary: str, memory_mib: int = 512, *, balanced: bool = True) -> Instance:
    return Instance(name, memory_mib, 1, 1, "drbd", primary, secondary, auto_balance=balanced)


def test_of_equals_the_newest_comes_first() -> None:
    state = state_of(instance("1", "d", "a"), instance("2", "b", "a"), instance("3", "c", "a", 1024))
    assert PeerMaps(state).of(0) == [(2, 1024), (1, 512), (3, 512)]


def test_an_instance_that_is_not_balanced_leaves_an_entry_of_nothing() -> None:
    assert PeerMaps(state_of(instance("1", "b", "a", balanced=False))).of(0) == [(1, 0)]


def test_what_grows_to_the_same_passes_its_equals() -> None:
    state = state_of(instance("1", "b", "a", 256), instance("2", "c", "a", 512), instance("3", "b", "a", 256))
    assert PeerMaps(state).of(0) == [(1, 512), (2, 512)]


def test_a_failover_turns_an_entry_round() -> None:
    state = state_of(instance("1", "b", "a"))
    maps = PeerMaps(state)
    maps.follow(Step(0, "f", -1, (1, 0), (0, 1), 0.0))
    assert (maps.of(0), maps.of(1)) == ([], [(0, 512)])


def test_nothing_left_takes_the_entry_away_even_from_one_that_is_not_balanced() -> None:
    state = state_of(instance("1", "b", "a"), instance("2", "b", "a", balanced=False))
    maps = PeerMaps(state)
    maps.follow(Step(0, "r", 3, (1, 0), (1, 3), 0.0))
    assert maps.of(0) == []


def test_nodes_without_secondaries_have_none() -> None:
    assert PeerMaps(state_of(Instance("1", 512, 1, 1, "plain", "a"))).of(0) == []

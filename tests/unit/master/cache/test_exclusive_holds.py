# SPDX-License-Identifier: BSD-2-Clause
"""What jobs had for themselves, and which nodes may be other than they reported when they give it up."""

import pytest
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.master.cache.exclusive_holds import ExclusiveHolds, nodes_under
from ganeti.master.operations.instance.power.console import InstanceConsole
from ganeti.model.locks import ALL_INSTANCES, ALL_NETWORKS, ALL_NODE_RES, ALL_NODES, BGL, CONFIG

JOB, OTHER = [5, "a", 1], [6, "b", 1]


@pytest.mark.requirement("S1.46")
def test_what_was_exclusive_counts_when_it_is_given_up() -> None:
    holds = ExclusiveHolds()
    assert holds.change("granted", JOB, {"instance/a": "exclusive", "node/n": "shared"}) == []
    assert holds.change("waiting", OTHER, {"instance/a": "exclusive"}, 0) == []
    assert holds.change("freed", OTHER, {"node/n": "release", "instance/a": "release"}) == []
    assert holds.change("freed", JOB, {"node/n": "release"}) == []
    assert holds.change("freed", JOB, {"instance/a": "release"}) == ["instance/a"]
    assert holds.change("freed", JOB, {"instance/a": "release"}) == []


@pytest.mark.requirement("S1.47")
def test_what_only_looks_makes_nothing_void() -> None:
    view = configuration()
    add_instance(view, "web1")
    plan = InstanceConsole(instance_name="web1").locks(view)
    holds = ExclusiveHolds()
    locks = dict.fromkeys(plan.shared, "shared") | dict.fromkeys(plan.exclusive, "exclusive")
    assert "instance/web1" in locks
    holds.change("granted", JOB, locks)
    assert holds.change("freed", JOB, dict.fromkeys(locks, "release")) == []


def test_sharing_what_was_exclusive_gives_it_up() -> None:
    holds = ExclusiveHolds()
    holds.change("granted", JOB, {"node/n": "exclusive"})
    assert holds.change("granted", JOB, {"node/n": "shared"}) == ["node/n"]


def test_what_was_freed_unseen_counts() -> None:
    holds = ExclusiveHolds()
    assert holds.table([["instance/a", [[JOB, "exclusive"]]], ["node/n", [[JOB, "shared"]]]]) == []
    assert holds.table([["instance/a", [[JOB, "exclusive"]]]]) == []
    assert holds.table([["instance/a", [[OTHER, "exclusive"]]]]) == ["instance/a"]
    assert holds.change("freed", OTHER, {"instance/a": ""}) == ["instance/a"]


@pytest.mark.requirement("S1.46")
@pytest.mark.parametrize(
    ("locks", "nodes"),
    [
        ([], []),
        (["instance/web1"], ["uuid-node2"]),
        (["instance/new"], []),
        (["node/uuid-node3", "node-res/uuid-node1", "node/gone"], ["uuid-node1", "uuid-node3"]),
        (["nodegroup/uuid-group1", "network/x", CONFIG, ALL_NETWORKS], []),
        *(
            ([lock], ["uuid-node1", "uuid-node2", "uuid-node3"])
            for lock in (BGL, ALL_NODES, ALL_NODE_RES, ALL_INSTANCES)
        ),
    ],
)
def test_nodes_that_locks_guard(locks: list[str], nodes: list[str]) -> None:
    config = configuration()
    add_instance(config, "web1", "uuid-node2")
    assert sorted(nodes_under(config, locks)) == nodes

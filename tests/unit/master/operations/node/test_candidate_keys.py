# SPDX-License-Identifier: BSD-2-Clause
"""Who gets the authority's key and access by ssh, when, and what takes it back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import NodeCallError, NodeUnreachableError
from ganeti.master.operations.node.add import AddNodeToCluster
from ganeti.master.operations.node.changes import ReplaceNode
from ganeti.master.operations.node.remove import RemoveNodeFromCluster
from ganeti.master.operations.node.set_params import ModifyNode
from ganeti.model.objects import CLUSTER_KEY, CONFIG_VERSION
from ganeti.ports.context import UndoChange

KNOWN = {"uuid-node1": ["ssh-rsa AAA1 root@node1"], "gone": ["ssh-rsa AAA9 root@gone"]}


class Asked:
    """Every node call with its arguments, and the machines' answers."""

    def __init__(self, pool: int = 10, **cluster: Any) -> None:
        self.ctx = FakeContext(configuration(), catalogue())
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        answers: dict[str, Any] = {
            "version": lambda name, **_: CONFIG_VERSION,
            "node_verify": lambda name, **_: {"client-cert": f"digest-{name}"},
            "candidate_keys": lambda name, **_: {"authority_key": "secret", "public_keys": KNOWN},
            "shared_files": lambda name, **_: [],
            "root_public_key": lambda name, **_: f"ssh-rsa AAA{name[-1]} root@{name}",
        }
        for call in ("upload_file", "node_demote_from_mc", "node_ssh_key_add", "node_ssh_key_remove"):
            self.ctx.nodes.handlers[call] = self._noting(call)
        self.ctx.nodes.handlers["node_leave_cluster"] = self._noting("node_leave_cluster")
        self.ctx.nodes.handlers.update(answers)
        config = self.ctx.config.config
        cluster = {"candidate_pool_size": pool, "modify_ssh_setup": True} | cluster
        config.put("cluster", CLUSTER_KEY, replace(config.cluster, **cluster))

    def _noting(self, call: str) -> Any:
        def note(name: str, **arguments: Any) -> None:
            self.calls.append((name, call, arguments))

        return note

    def node(self, name: str, **values: Any) -> None:
        config = self.ctx.config.config
        node = replace(config.find_node(name), **values)
        config.put("nodes", node.uuid, node)

    def told(self, call: str) -> dict[str, dict[str, Any]]:
        return {name: arguments for name, made, arguments in self.calls if made == call}

    def position(self, words: str) -> int:
        return next(index for index, line in enumerate(self.ctx.story) if line.startswith(words))


def test_a_promoted_node_gets_everything_before_it_is_a_candidate() -> None:
    asked = Asked(pool=1)
    asked.node("node2", master_candidate=False)
    asked.node("node3", master_candidate=False)
    run(ModifyNode(node_name="node2", master_candidate=True), asked.ctx)
    assert asked.told("upload_file") == {
        "node2": {"path": "/var/lib/ganeti/ca.key", "content": "secret", "mode": 0o400}
    }
    mine = {"uuid-node2": ["ssh-rsa AAA2 root@node2"]}
    everybody = {"uuid-node1": KNOWN["uuid-node1"]} | mine
    assert asked.told("node_ssh_key_add") == {
        "node2": {"keys": everybody, "remember": True, "only": True},
        "node1": {"keys": mine},
        "node3": {"keys": mine},
    }
    assert asked.position("undo: take the keys") < asked.position("node2 upload_file")
    assert asked.position("undo: take the ssh key of node node2 out of those that node3") < asked.position("node3 node")
    assert asked.ctx.story[-1] == "commit ReplaceNode settles"
    assert asked.ctx.lines == []
    undone = {(record.node_uuid, record.call) for record in asked.ctx.records}
    assert undone == {("uuid-node2", "node_demote_from_mc")} | {
        (f"uuid-node{number}", "node_ssh_key_remove") for number in (1, 2, 3)
    }
    assert "secret" not in repr(asked.ctx.records)


def test_a_node_that_cannot_be_given_the_key_is_no_candidate() -> None:
    asked = Asked()
    asked.node("node2", master_candidate=False)
    asked.ctx.nodes.handlers["upload_file"] = NodeCallError("node2: no room")
    with pytest.raises(NodeCallError):
        run(ModifyNode(node_name="node2", master_candidate=True), asked.ctx)
    assert not asked.ctx.config.view().find_node("node2").master_candidate
    assert asked.ctx.records[-1].call == "node_demote_from_mc"


@pytest.mark.parametrize("flags", [{"master_candidate": False}, {"drained": True}])
def test_a_demoted_node_loses_everything_once_it_is_none(flags: dict[str, bool]) -> None:
    asked = Asked(pool=1)
    run(ModifyNode(node_name="node2", **flags), asked.ctx)
    assert asked.told("node_demote_from_mc") == {"node2": {"master": "node1"}}
    gone = {"nodes": ["uuid-node2"]}
    assert asked.told("node_ssh_key_remove") == {"node1": gone, "node2": gone, "node3": gone}
    assert asked.position("commit ReplaceNode") < asked.position("node2 node_demote_from_mc")
    last = asked.ctx.records[-1]
    assert isinstance(last, UndoChange) and isinstance(last.change, ReplaceNode)
    assert not last.change.node.master_candidate, "what was begun is completed"


def test_an_offline_node_is_not_asked_and_the_others_are() -> None:
    asked = Asked(pool=1)
    run(ModifyNode(node_name="node2", offline=True), asked.ctx)
    assert asked.told("node_demote_from_mc") == {}
    assert sorted(asked.told("node_ssh_key_remove")) == ["node1", "node3"]
    assert any("node2 is offline and keeps its /var/lib/ganeti/ca.key" in line for line in asked.ctx.lines)


def test_it_is_cleared_when_it_comes_back_as_no_candidate() -> None:
    asked = Asked(pool=1)
    asked.node("node2", offline=True, master_candidate=False)
    run(ModifyNode(node_name="node2", offline=False), asked.ctx)
    assert list(asked.told("node_demote_from_mc")) == ["node2"]
    assert asked.told("node_ssh_key_add") == {"node2": {"keys": {"uuid-node1": KNOWN["uuid-node1"]}, "only": True}}


def test_a_node_filled_into_the_pool_gets_the_keys_too() -> None:
    asked = Asked(pool=2)
    asked.node("node3", master_candidate=False)
    run(RemoveNodeFromCluster(node_name="node2"), asked.ctx)
    assert list(asked.told("upload_file")) == ["node3"]
    assert sorted(asked.told("node_ssh_key_add")) == ["node1", "node2", "node3"]
    assert asked.told("node_leave_cluster") == {"node2": {"modify_ssh_setup": True}}
    assert sorted(asked.told("node_ssh_key_remove")) == ["node1", "node3"]


def test_a_node_that_could_not_be_promoted_keeps_nothing() -> None:
    asked = Asked(pool=2)
    asked.node("node3", master_candidate=False)
    asked.ctx.nodes.handlers["root_public_key"] = NodeUnreachableError("node3 does not answer")
    run(RemoveNodeFromCluster(node_name="node2"), asked.ctx)
    assert not asked.ctx.config.view().find_node("node3").master_candidate
    assert "node3" in asked.told("node_demote_from_mc")
    assert any("could not be promoted" in line for line in asked.ctx.lines)


def test_a_joined_node_that_is_no_candidate_gets_no_key_but_lets_candidates_in() -> None:
    asked = Asked(pool=1)
    run(AddNodeToCluster(node_name="node4", node_setup=True), asked.ctx)
    assert asked.told("upload_file") == {}
    assert asked.told("node_ssh_key_add") == {"node4": {"keys": {"uuid-node1": KNOWN["uuid-node1"]}, "only": True}}


def test_a_former_candidate_that_is_added_again_as_none_loses_its_keys() -> None:
    asked = Asked(pool=1)
    run(AddNodeToCluster(node_name="node2", readd=True), asked.ctx)
    assert "node2" in asked.told("node_demote_from_mc")
    assert sorted(asked.told("node_ssh_key_remove")) == ["node1", "node2", "node3"]


def test_ssh_is_left_alone_where_the_cluster_does_not_look_after_it() -> None:
    asked = Asked(pool=1, modify_ssh_setup=False)
    run(ModifyNode(node_name="node2", master_candidate=False), asked.ctx)
    run(ModifyNode(node_name="node2", master_candidate=True), asked.ctx)
    run(AddNodeToCluster(node_name="node4", node_setup=True), asked.ctx)
    run(RemoveNodeFromCluster(node_name="node4"), asked.ctx)
    assert list(asked.told("upload_file")) == ["node2"]
    assert asked.told("node_leave_cluster") == {"node4": {}}
    assert not any("ssh" in line for line in asked.ctx.story)


def test_what_is_missing_is_said() -> None:
    asked = Asked()
    asked.node("node2", master_candidate=False)
    asked.ctx.nodes.handlers["candidate_keys"] = lambda name: {"authority_key": None, "public_keys": KNOWN}
    asked.ctx.nodes.handlers["root_public_key"] = lambda name, kind: None
    asked.ctx.nodes.dead.add("node3")
    run(ModifyNode(node_name="node2", master_candidate=True), asked.ctx)
    assert asked.ctx.config.view().find_node("node2").master_candidate
    assert any("The master has no /var/lib/ganeti/ca.key" in line for line in asked.ctx.lines)
    assert any("root of node node2 has no ssh key" in line for line in asked.ctx.lines)


def test_a_node_that_does_not_answer_holds_nobody_up() -> None:
    asked = Asked()
    asked.node("node2", master_candidate=False)
    asked.ctx.nodes.dead.add("node3")
    run(ModifyNode(node_name="node2", master_candidate=True), asked.ctx)
    assert any("gnt-node add --readd node3" in line for line in asked.ctx.lines)


@pytest.mark.parametrize(
    "operation", [ModifyNode(node_name="node2", offline=True), RemoveNodeFromCluster(node_name="node2")]
)
def test_whenever_it_dies_no_candidate_has_lost_its_key_on_some_nodes(operation: Any) -> None:
    """All that is to be completed is written down at once: records alone would be carried out alone."""
    asked = Asked(pool=1)
    run(operation, asked.ctx)
    assert any(getattr(record, "call", "") == "node_ssh_key_remove" for record in asked.ctx.records)
    for count in asked.ctx.pushes:
        found = asked.ctx.records[:count]
        takes = [record for record in found if getattr(record, "call", "") == "node_ssh_key_remove"]
        assert not takes or any(isinstance(record, UndoChange) for record in found)

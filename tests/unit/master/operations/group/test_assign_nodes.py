# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_ASSIGN_NODES."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import ExecutionError, PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.group.assign_nodes import PutNodesIntoGroup
from ganeti.model.locks import group_lock, node_lock
from ganeti.model.objects import Disk, Instance, NodeGroup

GREEN = "uuid-green"


@pytest.fixture
def ctx() -> FakeContext:
    """Three nodes in one group, an empty group, and an instance mirrored on nodes 1 and 2."""
    config = configuration()
    config.put("nodegroups", GREEN, NodeGroup(uuid=GREEN, name="green"))
    config.put("disks", "d", Disk(uuid="d", dev_type="local", nodes=["uuid-node1", "uuid-node2"]))
    instance = Instance(uuid="i", name="pair", primary_node="uuid-node1", disks=["d"], os="noop", hypervisor="pretend")
    config.put("instances", "i", instance)
    return FakeContext(config, catalogue())


def assign(ctx: FakeContext, *nodes: str, **parameters: Any) -> None:
    run(decode({"OP_ID": PutNodesIntoGroup.op_id, "group_name": "green", "nodes": list(nodes), **parameters}), ctx)


def groups(ctx: FakeContext) -> list[str]:
    return [node.group for node in sorted(ctx.config.view().nodes(), key=lambda node: node.name)]


def test_nodes_change_their_group(ctx: FakeContext) -> None:
    assign(ctx, "node3", "node3")
    assert groups(ctx) == ["uuid-group1", "uuid-group1", GREEN]
    assign(ctx, "node1", "node2")
    assert groups(ctx) == [GREEN] * 3


def test_an_instance_is_not_split(ctx: FakeContext) -> None:
    with pytest.raises(ExecutionError, match=r"two groups: pair; move the other node as well, or add --force"):
        assign(ctx, "node1")
    assert groups(ctx) == ["uuid-group1"] * 3
    assign(ctx, "node1", force=True)
    assert groups(ctx) == [GREEN, "uuid-group1", "uuid-group1"]
    assert any("two groups: pair" in line for line in ctx.log.lines)


def test_what_is_split_already_stops_nothing(ctx: FakeContext) -> None:
    config = ctx.config.view()
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), group=GREEN))
    assign(ctx, "node3")
    assert groups(ctx) == ["uuid-group1", GREEN, GREEN]


@pytest.mark.parametrize(("nodes", "words"), [([], "Name the nodes"), (["nobody"], "'nobody' not known")])
def test_nodes_must_be_named(ctx: FakeContext, nodes: list[str], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        assign(ctx, *nodes)


def test_both_groups_and_the_nodes_are_locked(ctx: FakeContext) -> None:
    operation = decode({"OP_ID": PutNodesIntoGroup.op_id, "group_name": "green", "nodes": ["node1"]})
    wanted = {group_lock(GREEN), group_lock("uuid-group1"), node_lock("uuid-node1")}
    assert operation.locks(ctx.config.view()).exclusive == wanted

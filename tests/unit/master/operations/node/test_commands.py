# SPDX-License-Identifier: BSD-2-Clause
"""What runs on nodes because somebody asks: restricted commands, repair commands, the restart of a machine."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master import operations
from ganeti.master.operation import decode
from ganeti.model.locks import BGL, node_lock

operations.load()


@pytest.fixture
def ctx() -> FakeContext:
    return FakeContext(configuration(), catalogue())


def restricted(**parameters: Any) -> Any:
    return decode({"OP_ID": "OP_RESTRICTED_COMMAND", "nodes": ["node2", "node1"], "command": "check", **parameters})


def test_each_node_answers_for_itself_in_the_order_asked(ctx: FakeContext) -> None:
    ctx.nodes.handlers["restricted_command"] = lambda node, name: f"{name} of {node}"
    ctx.nodes.dead.add("node1")
    assert run(restricted(), ctx) == [(True, "check of node2"), (False, "Node node1 does not answer")]


def test_the_nodes_are_shared_unless_it_is_to_be_alone(ctx: FakeContext) -> None:
    nodes = {node_lock("uuid-node1"), node_lock("uuid-node2")}
    view = ctx.config.view()
    assert (restricted().locks(view).shared - {BGL}, restricted().locks(view).exclusive) == (nodes, set())
    assert restricted(use_locking=True).locks(view).exclusive == nodes


def test_a_repair_command_gets_its_input(ctx: FakeContext) -> None:
    ctx.nodes.handlers["repair_command"] = lambda node, name, input: f"{node} {name} {input}"
    operation = decode({"OP_ID": "OP_REPAIR_COMMAND", "node_name": "node2", "command": "fan", "input": "{}"})
    assert operation.locks(ctx.config.view()).exclusive == {node_lock("uuid-node2")}
    assert run(operation, ctx) == "node2 fan {}"


def powercycle(ctx: FakeContext, node: str, **parameters: Any) -> Any:
    return run(decode({"OP_ID": "OP_NODE_POWERCYCLE", "node_name": node, **parameters}), ctx)


def test_a_node_restarts_without_a_lock(ctx: FakeContext) -> None:
    ctx.nodes.handlers["node_powercycle"] = lambda node: "Reboot scheduled in 5 seconds"
    operation = decode({"OP_ID": "OP_NODE_POWERCYCLE", "node_name": "node2"})
    assert operation.locks(ctx.config.view()).exclusive == set()
    assert powercycle(ctx, "node2") == "Reboot scheduled in 5 seconds"
    with pytest.raises(PrerequisiteError, match="Node node1 is the master: add --force"):
        powercycle(ctx, "node1")
    powercycle(ctx, "node1", force=True)
    assert ctx.story == ["node2 node_powercycle", "node1 node_powercycle"]


def test_one_that_is_offline_cannot_be_asked(ctx: FakeContext) -> None:
    config = ctx.config.config
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), offline=True))
    with pytest.raises(PrerequisiteError, match="Node node2 is offline, so it cannot be asked: use gnt-node power"):
        powercycle(ctx, "node2", force=True)

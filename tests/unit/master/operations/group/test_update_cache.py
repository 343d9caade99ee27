# SPDX-License-Identifier: BSD-2-Clause
"""OP_UPDATE_NODE_GROUP_CACHE: which locks it shares, whom it asks, and what becomes of groups that change meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.group.update_cache import UpdateNodeGroupCache
from ganeti.model.locks import BGL
from ganeti.model.objects import NodeGroup

ONE, TWO = "uuid-group1", "uuid-group2"
ANSWERED = {"offline": False, "bootid": "b", "mfree": 5}
SILENT = {"offline": False, "bootid": None, "mfree": None}
AWAY = {"offline": True, "bootid": None, "mfree": None}


@pytest.fixture
def ctx() -> FakeContext:
    """Node 3 and its instance are in a group of their own."""
    config = configuration()
    config.put("nodegroups", TWO, NodeGroup(uuid=TWO, name="another"))
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), group=TWO))
    for number, name in enumerate(("web1", "web2", "web3"), 1):
        add_instance(config, name, f"uuid-node{number}")
    found = FakeContext(config, catalogue())
    nodes = {"node1": ANSWERED, "node2": ANSWERED}
    found.group_states = {ONE: {"group": {"name": "default", "uuid": ONE}, "nodes": nodes, "instances": {}}}
    return found


def update(group: str) -> UpdateNodeGroupCache:
    operation = decode({"OP_ID": "OP_UPDATE_NODE_GROUP_CACHE", "group_name": group})
    assert isinstance(operation, UpdateNodeGroupCache)
    return operation


@pytest.mark.requirement("S1.54")
def test_all_nodes_and_instances_of_the_group_are_locked_and_others_may_look_too(ctx: FakeContext) -> None:
    found = update("default").locks(ctx.config.view())
    assert found.shared == {BGL, "node/uuid-node1", "node/uuid-node2", "instance/web1", "instance/web2"}
    assert not found.exclusive
    assert update(TWO).locks(ctx.config.view()).shared == {BGL, "node/uuid-node3", "instance/web3"}


@pytest.mark.requirement("S1.54")
def test_the_state_is_renewed_once_and_given(ctx: FakeContext) -> None:
    assert run(update("default"), ctx) == ctx.group_states[ONE]
    assert (ctx.story, ctx.lines) == ([f"renew {ONE}"], [])
    assert update("default").summary() == "UPDATE_NODE_GROUP_CACHE(default)"


def test_names_come_in_their_natural_order(ctx: FakeContext) -> None:
    ctx.group_states[ONE] |= {"nodes": dict.fromkeys(("n10", "n9"), ANSWERED), "instances": {"i10": {}, "i9": {}}}
    state = run(update("default"), ctx)
    assert [list(state[part]) for part in ("nodes", "instances")] == [["n9", "n10"], ["i9", "i10"]]


def test_a_node_without_an_answer_is_named_and_no_error(ctx: FakeContext) -> None:
    ctx.group_states[ONE]["nodes"] = {"node1": ANSWERED, "node2": SILENT, "node4": AWAY}
    assert run(update(ONE), ctx)["nodes"]["node2"] == SILENT
    assert ctx.lines == ["Node node2 did not answer: nothing is known of it now"]


def test_a_group_that_was_emptied_is_no_error(ctx: FakeContext) -> None:
    config = ctx.config.config
    config.remove("instances", "uuid-web3")
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), group=ONE))
    ctx.group_states[TWO] = {"group": {"name": "another", "uuid": TWO}, "nodes": {}, "instances": {}}
    assert update("another").locks(config).shared == {BGL}
    assert run(update("another"), ctx) == ctx.group_states[TWO]


def test_a_group_that_was_removed_is_named(ctx: FakeContext) -> None:
    ctx.config.config.remove("nodegroups", TWO)
    for phase in (lambda: update("another").locks(ctx.config.view()), lambda: run(update("another"), ctx)):
        with pytest.raises(PrerequisiteError, match="another"):
            phase()
    assert not ctx.story


@pytest.mark.parametrize("wrong", [{}, {"group_name": ""}, {"group_name": None}, {"group_name": "default", "x": 1}])
def test_wrong_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PrerequisiteError, match="OP_UPDATE_NODE_GROUP_CACHE"):
        decode({"OP_ID": "OP_UPDATE_NODE_GROUP_CACHE", **wrong})

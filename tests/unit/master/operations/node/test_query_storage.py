# SPDX-License-Identifier: BSD-2-Clause
"""Places of disks on nodes: who is asked, what is told of each."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import LOCAL_DIR, catalogue, configuration

from ganeti.base.errors import NodeUnreachableError, PrerequisiteError
from ganeti.master.operations.node.query_storage import FIELDS, QueryStorage


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    context.nodes.handlers["storage_list"] = lambda node, units: [
        {"template": unit.template, "name": unit.setting, "size_mib": 1000, "free_mib": 250} for unit in units
    ]
    return context


def ask(ctx: FakeContext, **parameters: Any) -> list[list[Any]]:
    return run(QueryStorage(**{"output_fields": list(FIELDS), "storage_type": "local"} | parameters), ctx)


def test_a_row_for_each_node(ctx: FakeContext) -> None:
    rows = ask(ctx)
    assert [row[0] for row in rows] == ["node1", "node2", "node3"]
    assert rows[0] == ["node1", "local", LOCAL_DIR, 1000, 750, 250, True]


def test_the_nodes_and_fields_asked_for(ctx: FakeContext) -> None:
    assert ask(ctx, nodes=["node2"], output_fields=["free", "node"]) == [[250, "node2"]]
    assert ctx.story == ["node2 storage_list"]


def test_by_name(ctx: FakeContext) -> None:
    assert ask(ctx, name="/nowhere") == []
    assert len(ask(ctx, name=LOCAL_DIR)) == 3


def test_one_that_is_offline_is_not_asked_and_one_that_fails_is_told_of(ctx: FakeContext) -> None:
    config = ctx.config.config
    config.put("nodes", "uuid-node1", replace(config.node("uuid-node1"), offline=True))
    ctx.nodes.handlers["storage_list"] = NodeUnreachableError("no route")
    assert ask(ctx) == []
    assert "node1 storage_list" not in ctx.story
    assert str(ctx.log.lines).count("does not say what it has") == 2


def test_a_size_that_cannot_be_read(ctx: FakeContext) -> None:
    ctx.nodes.handlers["storage_list"] = lambda node, units: [
        {"template": "local", "name": LOCAL_DIR, "size_mib": None, "free_mib": None}
    ]
    assert ask(ctx, nodes=["node1"]) == [["node1", "local", LOCAL_DIR, None, None, None, True]]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"output_fields": ["colour"]}, "Unknown field 'colour': there are node, type"),
        ({"storage_type": "lvm-vg"}, "storage of type 'lvm-vg': there are common, local"),
    ],
)
def test_what_there_is_not(ctx: FakeContext, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        ask(ctx, **parameters)


def test_an_answer_of_another_form_is_an_error_of_its_node(ctx: FakeContext) -> None:
    ctx.nodes.handlers["storage_list"] = lambda node, units: [{"name": 5}]
    ctx.nodes.ill_formed = {"storage_list"}
    assert ask(ctx) == []
    assert "The answer to storage_list has not its form" in str(ctx.log.lines)

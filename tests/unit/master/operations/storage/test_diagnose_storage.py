# SPDX-License-Identifier: BSD-2-Clause
"""Providers of external storage: what the nodes say, brought together."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.query.query import Query
from ganeti.master.operations.storage.diagnose import DiagnoseStorage
from ganeti.master.query.external_storage import EXTERNAL_STORAGE

SAN = {"name": "san", "path": "/srv/ganeti/extstorage/san", "fault": "", "parameters": [["pool", "where"], ["x", ""]]}


@pytest.fixture
def ctx() -> FakeContext:
    return FakeContext(configuration(), catalogue())


def ask(ctx: FakeContext, **parameters: Any) -> Any:
    return run(
        decode({"OP_ID": DiagnoseStorage.op_id, "output_fields": list(EXTERNAL_STORAGE.fields), **parameters}), ctx
    )


def test_what_all_nodes_have(ctx: FakeContext) -> None:
    ctx.nodes.handlers["extstorage_diagnose"] = lambda node: [
        SAN | ({"parameters": [["pool", "where"]]} if node == "node2" else {})
    ]
    [[name, nodes, groups, parameters]] = ask(ctx)
    assert (name, groups, parameters) == ("san", {"default": True}, [("pool", "where")])
    assert nodes["node2"] == [[SAN["path"], True, "", [("pool", "where")]]]
    assert ask(ctx, names=["other"]) == []


def test_a_node_without_it_makes_it_unusable_and_one_that_is_silent_is_told_of(ctx: FakeContext) -> None:
    ctx.nodes.handlers["extstorage_diagnose"] = lambda node: [] if node == "node2" else [SAN]
    ctx.nodes.dead.add("node3")
    assert ask(ctx, output_fields=["nodegroup_status", "parameters"]) == [[{"default": False}, []]]
    assert "No word about external storage: Node node3 does not answer" in str(ctx.log.lines)
    with pytest.raises(PrerequisiteError, match="Unknown field 'moon': there are name"):
        ask(ctx, output_fields=["moon"])


def test_op_query_gives_the_same(ctx: FakeContext) -> None:
    ctx.nodes.handlers["extstorage_diagnose"] = lambda node: [SAN]
    answer = run(Query(what="extstorage", fields=["name", "nodegroup_status"]), ctx)
    assert answer["data"] == [[[0, "san"], [0, {"default": True}]]]

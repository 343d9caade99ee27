# SPDX-License-Identifier: BSD-2-Clause
"""Exports can be asked for like everything else: every node says which it keeps."""

import asyncio

import pytest
from tests.fakes.context import FakeNodes
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.query import resources
from ganeti.master.query.collecting import Inquiry, NodeAsker, collector
from ganeti.master.query.exports import export_rows
from ganeti.master.query.fields import QueryWorld
from ganeti.master.query.running import describe_fields, run_query


def ask(kept, qfilter=None, names=(), dead=()):
    """Rows, where each node keeps what *kept* says."""
    config = configuration()
    nodes = FakeNodes(config, [])
    nodes.dead = set(dead)
    nodes.handlers["export_list"] = lambda name, **_: kept.get(name, [])
    world, asker = QueryWorld(config, catalogue()), NodeAsker(nodes)
    exports = resources.build(catalogue())["export"]
    rows = asyncio.run(export_rows(config, asker, names))
    collect = collector(Inquiry(world, asker, None))
    return asyncio.run(run_query(exports, rows, ["node", "export"], qfilter, collect))[1]


def test_a_row_for_each_export_and_for_each_silent_node():
    assert ask({}) == []
    assert ask({"node1": ["web1", "web2"], "node3": ["db1"]}, dead=["node2"]) == [
        [[0, "node1"], [0, "web1"]],
        [[0, "node1"], [0, "web2"]],
        [[0, "node2"], [2, None]],
        [[0, "node3"], [0, "db1"]],
    ]


def test_only_some_nodes():
    kept = {"node1": ["web1"], "node2": ["web2"]}
    assert ask(kept, ["|", ["==", "node", "node1"]]) == [[[0, "node1"], [0, "web1"]]]
    assert ask(kept, names=["node2"]) == [[[0, "node2"], [0, "web2"]]]
    assert ask(kept, ["|", ["==", "node", "node3"]]) == []


def test_an_unknown_node_is_an_error_and_a_filter_on_exports_is_none():
    kept = {"node1": ["web1", "web2"]}
    with pytest.raises(PrerequisiteError, match="moon"):
        ask(kept, names=["moon"])
    assert ask(kept, ["|", ["==", "node", "node1"]]) == [[[0, "node1"], [0, "web1"]], [[0, "node1"], [0, "web2"]]]
    assert ask(kept, ["==", "export", "web2"]) == [[[0, "node1"], [0, "web2"]]]
    assert ask(kept, ["==", "export", "moon"]) == []


def test_fields_have_the_titles_of_3_1():
    listed = describe_fields(resources.build(catalogue())["export"], None)["fields"]
    assert [(each["name"], each["title"], each["kind"]) for each in listed] == [
        ("export", "Export", "text"),
        ("node", "Node", "text"),
    ]

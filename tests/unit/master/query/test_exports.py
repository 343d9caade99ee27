# SPDX-License-Identifier: BSD-2-Clause
"""Exports can be asked for like everything else; no node has one, as nothing makes them yet."""

import asyncio

from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.master.query import resources
from ganeti.master.query.collecting import Inquiry, NodeAsker, collector
from ganeti.master.query.exports import ExportRow
from ganeti.master.query.fields import QueryWorld
from ganeti.master.query.running import describe_fields, run_query


def ask(rows, qfilter=None):
    world = QueryWorld(configuration(), catalogue())
    exports = resources.build(catalogue())["export"]
    collect = collector(Inquiry(world, NodeAsker(None), None))
    found = exports.rows(world) + rows
    return asyncio.run(run_query(exports, found, ["node", "export"], qfilter, collect))[1]


def test_no_node_has_exports():
    assert ask([]) == []


def test_a_row_names_the_node_and_the_instance():
    assert ask([ExportRow("node1", "web1"), ExportRow("node2", None)]) == [
        [[0, "node1"], [0, "web1"]],
        [[0, "node2"], [0, None]],
    ]


def test_a_known_node_without_exports_is_no_error():
    assert ask([ExportRow("node2", "web1")], ["|", ["==", "node", "node1"]]) == []


def test_fields_have_the_titles_of_3_1():
    listed = describe_fields(resources.build(catalogue())["export"], None)["fields"]
    assert [(each["name"], each["title"], each["kind"]) for each in listed] == [
        ("export", "Export", "text"),
        ("node", "Node", "text"),
    ]

# SPDX-License-Identifier: BSD-2-Clause
"""Spindles of nodes: physical volumes, which are counted where exclusive storage gives them away whole."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.node_answers import facts
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.master.cache.node_reports import report_of
from ganeti.master.query.collecting import storage_units
from ganeti.master.query.fields import NODATA, OFFLINE, UNAVAILABLE, QueryWorld
from ganeti.master.query.node_rows import NodeRow
from ganeti.master.query.nodes import NODES
from ganeti.model.configuration import Configuration
from ganeti.model.node_calls.node import NodeFacts, StorageSpace
from ganeti.model.objects import CLUSTER_KEY
from ganeti.model.templates import TEMPLATES
from ganeti.model.traits import Catalogue

WITH_VOLUMES = Catalogue(catalogue().templates | {"plain": TEMPLATES["plain"]}, catalogue().hypervisors)


@pytest.fixture
def config() -> Configuration:
    found = configuration()
    cluster = replace(found.cluster, enabled_disk_templates=["local", "plain"], volume_group_name="xenvg")
    found.put("cluster", CLUSTER_KEY, cluster)
    return found


def has_exclusive_storage(config: Configuration, node: str = "uuid-node2") -> None:
    config.put("nodes", node, replace(config.node(node), ndparams={"exclusive_storage": True}))


def told(counted: tuple[int, int] | tuple[None, None] = (8, 3)) -> NodeFacts:
    volumes = StorageSpace(
        type="lvm-vg", name="xenvg", storage_size=9, storage_free=7, spindles=counted[0], free_spindles=counted[1]
    )
    found = facts(spaces=[(9, 7)])
    return replace(found, storage=[*found.storage, volumes])


def test_they_are_asked_for_where_a_node_has_exclusive_storage(config: Configuration) -> None:
    world = QueryWorld(config, WITH_VOLUMES)
    assert [(unit.template, unit.spindles) for unit in storage_units(config.cluster, world)] == [
        ("local", False),
        ("plain", False),
    ]
    has_exclusive_storage(config)
    assert [unit.spindles for unit in storage_units(config.cluster, world)] == [False, True]


def test_a_list_shows_them_of_nodes_with_exclusive_storage(config: Configuration) -> None:
    has_exclusive_storage(config)

    def shown(node: str, live: NodeFacts | None) -> list[Any]:
        row = NodeRow(config.node(node), QueryWorld(config, WITH_VOLUMES), live)
        return [NODES.fields[name].get(row) for name in ("sptotal", "spfree")]

    assert shown("uuid-node2", told()) == [8, 3]
    assert shown("uuid-node2", None) == [NODATA] * 2
    assert shown("uuid-node2", told((None, None))) == [NODATA] * 2
    assert shown("uuid-node1", told()) == [UNAVAILABLE] * 2
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), offline=True))
    assert shown("uuid-node2", None) == [OFFLINE] * 2


def test_a_report_has_them() -> None:
    assert report_of(told(), [], ["local", "plain"]).spindles == (8, 3)
    assert report_of(told((None, None)), [], ["local", "plain"]).spindles is None

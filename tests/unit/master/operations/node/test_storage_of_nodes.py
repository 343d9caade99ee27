# SPDX-License-Identifier: BSD-2-Clause
"""Volumes of nodes, and what is changed and repaired of the places where disks are kept."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import NodeUnreachableError, PrerequisiteError
from ganeti.master import operations
from ganeti.master.operation import decode
from ganeti.model.locks import node_lock

operations.load()


@pytest.fixture
def ctx() -> FakeContext:
    return FakeContext(configuration(), catalogue())


def ask(ctx: FakeContext, op_id: str, **parameters: Any) -> Any:
    return run(decode({"OP_ID": op_id, **parameters}), ctx)


def volumes(ctx: FakeContext, **parameters: Any) -> Any:
    fields = ["node", "phys", "vg", "name", "size", "instance"]
    return ask(ctx, "OP_NODE_QUERYVOLS", **{"output_fields": fields, **parameters})


def test_volumes_and_whose_they_are(ctx: FakeContext) -> None:
    instance = add_instance(ctx.config.config, "one", "uuid-node2")
    disk = ctx.config.config.disk(instance.disks[0])
    ctx.config.config.put("disks", disk.uuid, replace(disk, logical_id=["xenvg", "d0"]))
    ctx.nodes.handlers["node_volumes"] = lambda node: [
        {"device": "/dev/sdb", "group": "xenvg", "name": "d0", "size_mib": 64},
        {"device": "/dev/sda", "group": "xenvg", "name": "root", "size_mib": 9},
    ]
    assert volumes(ctx, nodes=["node2", "node3"]) == [
        ["node2", "/dev/sda", "xenvg", "root", "9", "-"],
        ["node2", "/dev/sdb", "xenvg", "d0", "64", "one"],
        ["node3", "/dev/sda", "xenvg", "root", "9", "-"],
        ["node3", "/dev/sdb", "xenvg", "d0", "64", "-"],
    ]
    assert volumes(ctx, output_fields=["name"], nodes=["node1"]) == [["root"], ["d0"]]


def test_a_node_that_cannot_say_is_told_of(ctx: FakeContext) -> None:
    ctx.nodes.handlers["node_volumes"] = NodeUnreachableError("no route")
    assert volumes(ctx, nodes=["node1"]) == []
    assert "Can't compute volume data on node node1: no route" in str(ctx.log.lines)
    with pytest.raises(PrerequisiteError, match="Unknown field 'moon': there are phys, vg"):
        volumes(ctx, output_fields=["moon"])


def modify(ctx: FakeContext, **parameters: Any) -> Any:
    given = {"node_name": "node2", "storage_type": "lvm-pv", "name": "/dev/sdb", "changes": {"allocatable": False}}
    return ask(ctx, "OP_NODE_MODIFY_STORAGE", **{**given, **parameters})


def test_a_physical_volume_takes_no_more(ctx: FakeContext) -> None:
    asked: list[Any] = []
    ctx.nodes.handlers["storage_modify"] = lambda node, **given: asked.append((node, given))
    modify(ctx)
    assert asked == [("node2", {"name": "/dev/sdb", "allocatable": False})]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"storage_type": "lvm-vg"}, "Storage of type 'lvm-vg' cannot be modified: only physical volumes"),
        ({"storage_type": "moon"}, "Storage of type .moon. cannot be modified"),
        ({"changes": {"size": 1}}, "'size' cannot be changed: only allocatable can"),
        ({"changes": {}}, "say what becomes of it"),
        ({"changes": {"allocatable": 1}}, "allocatable is true or false"),
        ({"name": None}, "Name a physical volume"),
    ],
)
def test_nothing_else_is_changed(ctx: FakeContext, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        modify(ctx, **parameters)
    assert ctx.story == []


def repair(ctx: FakeContext, **parameters: Any) -> Any:
    given = {"node_name": "node2", "storage_type": "lvm-vg", "name": "xenvg"}
    return ask(ctx, "OP_REPAIR_NODE_STORAGE", **{**given, **parameters})


@pytest.fixture
def volume_groups(ctx: FakeContext) -> FakeContext:
    """A cluster of which one enabled template keeps disks in volume groups."""
    templates = dict(ctx.catalogue.templates)
    templates["local"] = dataclasses.replace(templates["local"], storage_type="lvm-vg")
    ctx.catalogue = dataclasses.replace(ctx.catalogue, templates=templates)
    return ctx


def test_a_volume_group_is_repaired(volume_groups: FakeContext) -> None:
    ctx = volume_groups
    ctx.nodes.handlers["storage_repair"] = lambda node, name: None
    operation = decode({"OP_ID": "OP_REPAIR_NODE_STORAGE", "node_name": "node2", "storage_type": "ext", "name": "a"})
    assert operation.locks(ctx.config.view()).exclusive == {node_lock("uuid-node2")}
    repair(ctx)
    assert ctx.story == ["node2 storage_repair"]
    with pytest.raises(PrerequisiteError, match="Storage of type 'file' cannot be repaired: name a volume group"):
        repair(ctx, storage_type="file")


def test_a_volume_group_that_holds_no_disks_of_the_cluster_is_left_alone(ctx: FakeContext) -> None:
    ctx.nodes.handlers["storage_repair"] = lambda node, name: None
    with pytest.raises(PrerequisiteError, match="No enabled disk template keeps disks in storage of type 'lvm-vg'"):
        repair(ctx)
    assert ctx.story == []


def test_a_copy_that_may_be_the_last_is_not_given_up(volume_groups: FakeContext) -> None:
    ctx = volume_groups
    config = ctx.config.config
    instance = add_instance(config, "one", "uuid-node1", template="local")
    disk = config.disk(instance.disks[0])
    config.put("disks", disk.uuid, replace(disk, nodes=["uuid-node1", "uuid-node2"]))
    config.put("instances", instance.uuid, replace(instance, disks_active=True))
    with pytest.raises(PrerequisiteError, match="Disks of instance one are in use, and node2 may have their only"):
        repair(ctx)
    repair(ctx, ignore_consistency=True)
    assert ctx.story == ["node2 storage_repair"]

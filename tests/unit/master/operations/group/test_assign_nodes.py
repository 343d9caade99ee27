# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_ASSIGN_NODES."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import ExecutionError, PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.group.assign_nodes import PutNodesIntoGroup
from ganeti.master.verify import instances as of_instances
from ganeti.model.locks import group_lock, node_lock
from ganeti.model.objects import Disk, Instance, Network, NodeGroup
from ganeti.model.traits import VOLUME_GROUP, TemplateTraits

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
    for dry_run in (False, True):
        with pytest.raises(ExecutionError, match=r"two groups: pair; move the other node as well, or add --force"):
            assign(ctx, "node1", dry_run=dry_run)
    assert groups(ctx) == ["uuid-group1"] * 3
    assign(ctx, "node1", force=True)
    assert groups(ctx) == [GREEN, "uuid-group1", "uuid-group1"]
    assert any("two groups: pair" in line for line in ctx.log.lines)


def test_what_is_split_already_stops_nothing(ctx: FakeContext) -> None:
    config = ctx.config.view()
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), group=GREEN))
    assign(ctx, "node3")
    assert groups(ctx) == ["uuid-group1", GREEN, GREEN]


def test_networks_that_the_new_group_lacks_are_named(ctx: FakeContext) -> None:
    config = ctx.config.view()
    config.put("networks", "lan", Network(uuid="lan", name="lan", network="10.0.0.0/24"))
    web1 = add_instance(config, "web1", "uuid-node3")
    config.put("instances", web1.uuid, replace(web1, nics=[replace(web1.nics[0], network="lan")]))
    old = config.group("uuid-group1")
    config.put("nodegroups", old.uuid, replace(old, networks={"lan": {"mode": "bridged", "link": "br0"}}))
    missing = "NIC 0 is in network lan, which is not connected to node group green"
    assert not list(of_instances.placement(config, ctx.catalogue, config.find_instance("web1")))
    assign(ctx, "node3")
    assert [line for line in ctx.log.lines if f"Instance web1: {missing}" in line]
    [found] = of_instances.placement(config, ctx.catalogue, config.find_instance("web1"))
    assert missing in found.message and found.severity == "WARNING"
    before = len(ctx.log.lines)
    assign(ctx, "node2", "node1")
    assert not [line for line in ctx.log.lines[before:] if "web1" in line]


def mirrored_volumes(ctx: FakeContext) -> None:
    """The disks of the pair, as of a template like drbd."""
    volumes = TemplateTraits("local", VOLUME_GROUP, has_disks=True, node_count=2)
    ctx.catalogue = dataclasses.replace(ctx.catalogue, templates=ctx.catalogue.templates | {"local": volumes})


_EXCLUSIVE = {"ndparams": {"exclusive_storage": True}}


@pytest.mark.parametrize(
    "opcode",
    [
        {"OP_ID": "OP_GROUP_SET_PARAMS", "group_name": "default", **_EXCLUSIVE},
        {"OP_ID": "OP_CLUSTER_SET_PARAMS", **_EXCLUSIVE},
        {"OP_ID": PutNodesIntoGroup.op_id, "group_name": "green", "nodes": ["node1", "node2"]},
    ],
)
def test_mirrored_volumes_on_exclusive_storage_are_named(ctx: FakeContext, opcode: dict[str, Any]) -> None:
    mirrored_volumes(ctx)
    config = ctx.config.view()
    green = config.group(GREEN)
    config.put("nodegroups", GREEN, replace(green, ndparams={"exclusive_storage": True}))
    assert not list(of_instances.placement(config, ctx.catalogue, config.instance("i")))
    run(decode(opcode), ctx)
    told = "template local, which is not supported on nodes that have exclusive storage set: node1, node2"
    assert [line for line in ctx.log.lines if f"Instance pair: instance has {told}" in line]
    [found] = of_instances.placement(config, ctx.catalogue, config.instance("i"))
    assert (found.code, found.severity) == ("EINSTANCEUNSUITABLENODE", "ERROR") and told in found.message


@pytest.mark.parametrize(("nodes", "words"), [([], "Name the nodes"), (["nobody"], "'nobody' not known")])
def test_nodes_must_be_named(ctx: FakeContext, nodes: list[str], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        assign(ctx, *nodes)


def test_both_groups_and_the_nodes_are_locked(ctx: FakeContext) -> None:
    operation = decode({"OP_ID": PutNodesIntoGroup.op_id, "group_name": "green", "nodes": ["node1"]})
    wanted = {group_lock(GREEN), group_lock("uuid-group1"), node_lock("uuid-node1")}
    assert operation.locks(ctx.config.view()).exclusive == wanted

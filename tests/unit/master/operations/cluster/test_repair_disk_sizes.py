# SPDX-License-Identifier: BSD-2-Clause
"""The configuration says of disks what size they have."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import NodeUnreachableError
from ganeti.master.operations.cluster.repair_disk_sizes import RepairDiskSizes
from ganeti.model.templates import TEMPLATES
from ganeti.model.traits import Catalogue


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    for name, node in (("web1", "uuid-node1"), ("web2", "uuid-node2")):
        add_instance(context.config.view(), name, node)
    sizes(context, 65)
    return context


def sizes(ctx: FakeContext, size_mib: int | None) -> None:
    ctx.nodes.handlers["blockdev_getdimensions"] = lambda name, disks: [
        None if size_mib is None else (size_mib, None) for _ in disks
    ]


def known(ctx: FakeContext) -> list[int]:
    view = ctx.config.view()
    return [disk.size for name in ("web1", "web2") for disk in view.instance_disks(view.find_instance(name))]


def repair(ctx: FakeContext, *names: str) -> Any:
    return run(RepairDiskSizes(instances=list(names)), ctx)


def test_what_is_wrong_is_put_right_in_one_commit(ctx: FakeContext) -> None:
    assert repair(ctx) == [("web1", 0, "size", 65), ("web2", 0, "size", 65)]
    assert known(ctx) == [65, 65]
    assert [line for line in ctx.story if line.startswith("commit")] == ["commit CorrectDiskSizes settles"]
    assert repair(ctx) == []


def test_only_those_named(ctx: FakeContext) -> None:
    assert repair(ctx, "web2") == [("web2", 0, "size", 65)]
    assert known(ctx) == [64, 65]


def test_a_disk_that_is_not_there_keeps_its_size(ctx: FakeContext) -> None:
    sizes(ctx, None)
    assert repair(ctx) == []
    assert "is not there" in str(ctx.log.lines)


def test_a_node_that_does_not_say_it_and_one_that_is_offline(ctx: FakeContext) -> None:
    config = ctx.config.config
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), offline=True))
    ctx.nodes.handlers["blockdev_getdimensions"] = NodeUnreachableError("no route")
    assert repair(ctx) == []
    assert "node1 does not say" in str(ctx.log.lines) and "node2 is offline" in str(ctx.log.lines)


def test_spindles_are_put_right_on_exclusive_storage(ctx: FakeContext) -> None:
    config = ctx.config.config
    ctx.catalogue = Catalogue(ctx.catalogue.templates | {"plain": TEMPLATES["plain"]}, ctx.catalogue.hypervisors)
    for name in ("web1", "web2"):
        [disk] = config.instance_disks(config.find_instance(name))
        config.put("disks", disk.uuid, replace(disk, dev_type="plain"))
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), ndparams={"exclusive_storage": True}))
    ctx.nodes.handlers["blockdev_getdimensions"] = lambda name, disks: [(64, 3) for _ in disks]
    assert repair(ctx) == [("web2", 0, "spindles", 3)]
    assert [config.instance_disks(config.find_instance(name))[0].spindles for name in ("web1", "web2")] == [None, 3]
    assert repair(ctx) == []

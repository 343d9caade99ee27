# SPDX-License-Identifier: BSD-2-Clause
"""Lost disks are made anew; what is there is never touched."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import disk_status, guest, node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import BlockDeviceError, PrerequisiteError
from ganeti.master.operations.instance.disks.recreate_disks import RecreateDisks
from ganeti.model.templates import TEMPLATES
from ganeti.model.traits import Catalogue


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    add_instance(context.config.view(), "web1", template="local", admin_state="down")
    add_instance(context.config.view(), "web2", template="none", admin_state="down")
    context.nodes.handlers["node_info"] = lambda name, **_: node_facts(storage_free_mib=1000)
    there(context, False)
    return context


def there(ctx: FakeContext, found: bool) -> None:
    ctx.nodes.handlers["blockdev_find"] = lambda name, disk: disk_status(size_mib=64) if found else None


def recreate(ctx: FakeContext, **parameters: Any) -> None:
    run(RecreateDisks(instance_name="web1", **parameters), ctx)


def instance(ctx: FakeContext) -> Any:
    return ctx.config.view().find_instance("web1")


def disk(ctx: FakeContext) -> Any:
    return ctx.config.view().instance_disks(instance(ctx))[0]


def test_a_lost_disk_is_made_where_it_was(ctx: FakeContext) -> None:
    before = disk(ctx)
    recreate(ctx)
    assert ctx.story == [
        "node1 instance_info",
        "node1 blockdev_find",
        "node1 node_info",
        "undo: remove disk 0 of web1 from node1",
        "node1 blockdev_create",
        "commit ReplaceDisks settles",
    ]
    assert (disk(ctx).uuid, disk(ctx).size, disk(ctx).logical_id) == (before.uuid, 64, before.logical_id)


@pytest.mark.parametrize("dry_run", [False, True])
def test_room_is_looked_for_first(ctx: FakeContext, dry_run: bool) -> None:
    ctx.nodes.handlers["node_info"] = lambda name, **_: node_facts(storage_free_mib=100)
    recreate(ctx, dry_run=True)
    with pytest.raises(PrerequisiteError, match=r"for web1: needed 128 MiB, available 100 MiB"):
        recreate(ctx, disks=[[0, {"size": 128}]], dry_run=dry_run)
    assert not [line for line in ctx.story if line.startswith(("undo", "commit"))]


def test_a_shared_disk_that_cannot_be_made_is_not_removed(ctx: FakeContext) -> None:
    """The provider does not attach it to this node, and says that it is there: it was not lost."""
    add_instance(ctx.config.config, "web3", template="common", admin_state="down")
    ctx.nodes.handlers["blockdev_create"] = BlockDeviceError("there is such a volume")
    with pytest.raises(BlockDeviceError):
        run(RecreateDisks(instance_name="web3"), ctx)
    assert not any("remove disk" in line for line in ctx.story)
    ctx.nodes.handlers["blockdev_create"] = lambda name, **_: None
    run(RecreateDisks(instance_name="web3"), ctx)
    assert ctx.story[-3:-1] == ["node1 blockdev_create", "undo: remove disk 0 of web3 from node1"]


def test_on_another_node_with_another_size(ctx: FakeContext) -> None:
    recreate(ctx, nodes=["node3"], disks=[[0, {"size": 128, "mode": "ro"}]])
    assert (disk(ctx).size, disk(ctx).mode, disk(ctx).nodes) == (128, "ro", ["uuid-node3"])
    assert instance(ctx).primary_node == "uuid-node3"
    assert "node3 blockdev_create" in ctx.story


@pytest.mark.parametrize(("spindles", "recorded"), [(3, 3), ("3", 3), (None, None)])
def test_on_as_many_spindles_as_are_named(ctx: FakeContext, spindles: int | str | None, recorded: int | None) -> None:
    config = ctx.config.config
    ctx.catalogue = Catalogue(ctx.catalogue.templates | {"plain": TEMPLATES["plain"]}, ctx.catalogue.hypervisors)
    config.put("disks", disk(ctx).uuid, replace(disk(ctx), dev_type="plain", spindles=2))
    with pytest.raises(PrerequisiteError, match="exclusive storage only, which node node1 does not have"):
        recreate(ctx, disks=[[0, {"spindles": 4}]])
    config.put("nodes", "uuid-node1", replace(config.node("uuid-node1"), ndparams={"exclusive_storage": True}))
    recreate(ctx, disks=[[0, {"spindles": spindles}]])
    assert disk(ctx).spindles == recorded
    recreate(ctx)
    assert disk(ctx).spindles == recorded


@pytest.mark.parametrize("wanted", ["down", "up"])
def test_where_the_old_node_is_offline_it_is_not_asked(ctx: FakeContext, wanted: str) -> None:
    """One that was to run there is down afterwards: its disks are empty."""
    config = ctx.config.config
    own = instance(ctx)
    config.put("instances", own.uuid, replace(own, admin_state=wanted))
    node = config.node("uuid-node1")
    config.put(
        "nodes", node.uuid, type(node)(**{f: getattr(node, f) for f in node.__struct_fields__} | {"offline": True})
    )
    if wanted == "up":
        with pytest.raises(PrerequisiteError, match="should be running"):
            recreate(ctx)
    recreate(ctx, nodes=["node2"])
    assert instance(ctx).admin_state == "down"
    assert not [line for line in ctx.story if line.startswith("node1")]
    assert instance(ctx).primary_node == "uuid-node2"


def test_a_disk_that_is_there_is_not_touched(ctx: FakeContext) -> None:
    there(ctx, True)
    with pytest.raises(PrerequisiteError, match="Disk 0 of web1 is there"):
        recreate(ctx)
    assert "node1 blockdev_create" not in ctx.story


def test_an_allocator_leaves_no_disk_behind_on_a_node_that_is_being_drained(
    ctx: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To harep a drained node is like one that is offline, and a reinstallation would follow."""

    async def place(*_: Any, **__: Any) -> list[str]:
        return ["node2"]

    monkeypatch.setattr("ganeti.master.allocation.place", place)
    config = ctx.config.config
    config.put("nodes", "uuid-node1", replace(config.node("uuid-node1"), drained=True))
    ctx.nodes.handlers["blockdev_find"] = lambda name, disk: disk_status(size_mib=64) if name == "node1" else None
    with pytest.raises(PrerequisiteError, match="Disk 0 of web1 is there"):
        recreate(ctx, iallocator="hail")
    recreate(ctx, nodes=["node2"])
    assert instance(ctx).primary_node == "uuid-node2", "who names the node has decided"


def test_what_cannot_be_made_changes_nothing(ctx: FakeContext) -> None:
    ctx.nodes.handlers["blockdev_create"] = BlockDeviceError("no space left")
    with pytest.raises(BlockDeviceError):
        recreate(ctx, nodes=["node3"])
    assert instance(ctx).primary_node == "uuid-node1"
    assert len(ctx.records) == 1


def test_an_instance_that_runs_keeps_its_disks(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_info"] = lambda name, instance: guest()
    with pytest.raises(PrerequisiteError, match="shut it down first"):
        recreate(ctx)


def test_an_allocator_says_where(ctx: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def place(ctx: Any, allocator: str, request: Any, *, reserve: bool) -> list[str]:
        asked.append((allocator, request.group_name, reserve))
        return ["node2"]

    monkeypatch.setattr("ganeti.master.allocation.place", place)
    recreate(ctx, iallocator="hail")
    assert asked == [("hail", "default", False)]
    assert instance(ctx).primary_node == "uuid-node2"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"disks": [1]}, "the last one has the index 0"),
        ({"disks": [0, 0]}, "named twice"),
        ({"disks": [[0, {"name": "x"}]]}, "'name' cannot be changed"),
        ({"disks": [[0, {"size": 0}]]}, "more than zero"),
        ({"disks": [[0, {}, {}]]}, "names no disk"),
        ({"nodes": ["node2", "node3"]}, "are on 1 node"),
        ({"nodes": ["node9"]}, "node9"),
    ],
)
def test_what_makes_no_sense(ctx: FakeContext, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        recreate(ctx, **parameters)
    assert not [line for line in ctx.story if "create" in line]


def test_an_instance_without_disks(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match="has no disks"):
        run(RecreateDisks(instance_name="web2"), ctx)

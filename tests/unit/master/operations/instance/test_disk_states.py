# SPDX-License-Identifier: BSD-2-Clause
"""Opening, closing and enlarging the disks of an instance."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import disk_status, guest, node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, BlockDeviceError, ExecutionError, PrerequisiteError
from ganeti.master.operations.instance.disks.activate_disks import ActivateInstanceDisks
from ganeti.master.operations.instance.disks.deactivate_disks import DeactivateInstanceDisks
from ganeti.master.operations.instance.disks.grow_disk import GrowDisk
from ganeti.model.objects import CLUSTER_KEY
from ganeti.model.traits import VOLUME_GROUP

RUNS = guest()


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    add_instance(context.config.view(), "web1", admin_state="down")
    add_instance(context.config.view(), "web2", template="none")
    sizes(context, 64)
    return context


def sizes(ctx: FakeContext, size_mib: int | None) -> None:
    found = None if size_mib is None else disk_status(dev_path="/srv/web1.disk0", size_mib=size_mib)
    ctx.nodes.handlers["blockdev_find"] = lambda name, disk: found


def instance(ctx: FakeContext) -> Any:
    return ctx.config.view().find_instance("web1")


def disk(ctx: FakeContext) -> Any:
    return ctx.config.view().instance_disks(instance(ctx))[0]


def grow(ctx: FakeContext, amount: int, **parameters: Any) -> None:
    run(GrowDisk(instance_name="web1", disk=parameters.pop("disk", 0), amount=amount, **parameters), ctx)


@pytest.mark.parametrize("dry_run", [False, True])
def test_growth_looks_for_room_first(ctx: FakeContext, dry_run: bool) -> None:
    add_instance(ctx.config.config, "web3", template="local", admin_state="down")
    ctx.nodes.handlers["node_info"] = lambda name, **_: node_facts(storage_free_mib=100)
    run(GrowDisk(instance_name="web3", disk=0, amount=100, dry_run=True), ctx)
    with pytest.raises(PrerequisiteError, match=r"for web3: needed 101 MiB, available 100 MiB"):
        run(GrowDisk(instance_name="web3", disk=0, amount=101, dry_run=dry_run), ctx)
    assert not [line for line in ctx.story if line.startswith(("undo", "commit"))]


def test_disks_are_opened_and_told(ctx: FakeContext) -> None:
    sizes(ctx, disk(ctx).size)
    assert run(ActivateInstanceDisks(instance_name="web1"), ctx) == [("node1", "disk/0", "/srv/web1.disk0")]
    assert instance(ctx).disks_active
    assert ctx.story == [
        "undo: close the disks of web1",
        "node1 instance_disks_assemble",
        "node1 blockdev_find",
        "commit SetInstanceState settles",
    ]


def test_what_is_open_already_is_not_closed_by_an_undo(ctx: FakeContext) -> None:
    run(ActivateInstanceDisks(instance_name="web1"), ctx)
    ctx.story.clear()
    run(ActivateInstanceDisks(instance_name="web1"), ctx)
    assert not [line for line in ctx.story if line.startswith("undo")]


def test_another_size_than_is_known_is_told_of_unless_it_does_not_matter(ctx: FakeContext) -> None:
    sizes(ctx, disk(ctx).size + 1)
    run(ActivateInstanceDisks(instance_name="web1"), ctx)
    assert "repair-disk-sizes" in str(ctx.log.lines)
    ctx.log.lines.clear()
    run(ActivateInstanceDisks(instance_name="web1", ignore_size=True), ctx)
    assert "repair-disk-sizes" not in str(ctx.log.lines)


def test_disks_are_closed(ctx: FakeContext) -> None:
    run(ActivateInstanceDisks(instance_name="web1"), ctx)
    run(DeactivateInstanceDisks(instance_name="web1"), ctx)
    assert not instance(ctx).disks_active
    assert "node1 instance_disks_shutdown" in ctx.story


def test_disks_in_use_stay_open(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_info"] = lambda name, instance: RUNS
    with pytest.raises(PrerequisiteError, match="runs and uses its disks: shut it down first"):
        run(DeactivateInstanceDisks(instance_name="web1"), ctx)
    assert "node1 instance_disks_shutdown" not in ctx.story
    run(DeactivateInstanceDisks(instance_name="web1", force=True), ctx)
    assert "node1 instance_disks_shutdown" in ctx.story


def test_a_disk_grows_then_the_configuration_says_so(ctx: FakeContext) -> None:
    before = disk(ctx).size
    sizes(ctx, before + 100)
    grow(ctx, 100)
    assert disk(ctx).size == before + 100
    assert ctx.story == [
        "node1 instance_info",
        "node1 blockdev_grow",
        "node1 blockdev_find",
        "commit SetDiskSize settles",
        "node1 blockdev_find",
    ]


def test_a_running_guest_is_told(ctx: FakeContext) -> None:
    seen: list[Any] = []
    ctx.nodes.handlers["instance_info"] = lambda name, instance: RUNS
    ctx.nodes.handlers["blockdev_grow"] = lambda name, disk, amount_mib, in_use: seen.append((amount_mib, in_use))
    ctx.nodes.handlers["instance_resize_disk"] = lambda name, instance, disk: seen.append(disk.size_mib)
    wanted = disk(ctx).size + 36
    sizes(ctx, wanted)
    grow(ctx, wanted, absolute=True)
    assert seen == [(36, True), wanted]


def test_of_a_disk_that_the_guest_only_reads_its_next_start_is_told(ctx: FakeContext) -> None:
    config, before = ctx.config.config, disk(ctx)
    config.put("disks", before.uuid, replace(before, mode="ro"))
    ctx.nodes.handlers["instance_info"] = lambda name, instance: RUNS
    sizes(ctx, before.size + 36)
    grow(ctx, 36)
    assert disk(ctx).size == before.size + 36
    assert any("only reads disk 0, and sees its new size when it is started again" in line for line in ctx.log.lines)


def test_what_a_guest_may_have_written_is_not_wiped(ctx: FakeContext) -> None:
    """A volume is made of whole extents, so it may be larger than its disk."""
    config, before = ctx.config.config, disk(ctx).size
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, prealloc_wipe_disks=True))
    found, wiped = [before + 28, before + 124, before + 124], list[tuple[int, int]]()
    ctx.nodes.handlers["blockdev_find"] = lambda name, disk: disk_status(dev_path="/dev/x", size_mib=found.pop(0))
    ctx.nodes.handlers["blockdev_wipe"] = lambda name, disk, **part: wiped.append(tuple(part.values()))
    grow(ctx, 100)
    assert wiped == [(before + 28, 72)]


def test_a_running_guest_is_told_of_what_is_wiped(ctx: FakeContext) -> None:
    """A new volume holds what another guest has left there."""
    config, before = ctx.config.config, disk(ctx).size
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, prealloc_wipe_disks=True))
    template = ctx.catalogue.templates[disk(ctx).dev_type]
    ctx.catalogue.templates[template.name] = dataclasses.replace(template, storage_type=VOLUME_GROUP)
    found, wiped = [before + 28, before + 124], list[tuple[int, int]]()
    ctx.nodes.handlers["instance_info"] = lambda name, instance: RUNS
    ctx.nodes.handlers["blockdev_find"] = lambda name, disk: disk_status(dev_path="/dev/x", size_mib=found.pop(0))
    ctx.nodes.handlers["blockdev_wipe"] = lambda name, disk, **part: wiped.append(tuple(part.values()))
    grow(ctx, 100, wait_for_sync=False)
    assert wiped == [(before + 28, 72)]
    assert ctx.story.index("node1 blockdev_wipe") < ctx.story.index("node1 instance_resize_disk")


def test_a_full_disk_changes_nothing(ctx: FakeContext) -> None:
    before = disk(ctx).size
    ctx.nodes.handlers["blockdev_grow"] = BlockDeviceError("Disk cannot grow: no space left")
    with pytest.raises(BlockDeviceError, match="no space left"):
        grow(ctx, 100)
    assert disk(ctx).size == before


def test_one_that_has_not_grown_is_an_error(ctx: FakeContext) -> None:
    before = disk(ctx).size
    for found in (before, None):
        sizes(ctx, found)
        with pytest.raises(ExecutionError, match="has not grown"):
            grow(ctx, 100)
    assert disk(ctx).size == before


@pytest.mark.parametrize(
    ("parameters", "words", "code"),
    [
        ({"amount": 0}, "already", WRONG_INPUT),
        ({"amount": 1, "absolute": True}, "a disk is not made smaller", WRONG_STATE),
        ({"amount": 2**62, "ignore_ipolicy": True}, "at most", WRONG_INPUT),
        ({"amount": 1, "disk": 1}, "the last one has the index 0", WRONG_INPUT),
    ],
)
def test_a_size_that_cannot_be(ctx: FakeContext, parameters: dict[str, Any], words: str, code: str) -> None:
    with pytest.raises(PrerequisiteError, match=words) as refused:
        grow(ctx, **parameters)
    assert ctx.story == [] and refused.value.code == code


def test_an_instance_without_disks(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match="the instance has none"):
        run(GrowDisk(instance_name="web2", disk=0, amount=1), ctx)
    assert run(ActivateInstanceDisks(instance_name="web2"), ctx) == []

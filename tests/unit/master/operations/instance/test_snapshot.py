# SPDX-License-Identifier: BSD-2-Clause
"""Going back to a snapshot: what is left when it ends between two disks, and how that is completed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import BlockDeviceError, PrerequisiteError
from ganeti.master.operations.instance.disks.activate_disks import ActivateInstanceDisks
from ganeti.master.operations.instance.disks.snapshot import SnapshotInstance
from ganeti.master.operations.instance.power.startup import StartInstance


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    config = context.config.config
    instance = add_instance(config, "web1", "uuid-node1", admin_state="down")
    [disk] = config.instance_disks(instance)
    config.put("disks", "uuid-second", replace(disk, uuid="uuid-second"))
    config.put("instances", instance.uuid, replace(instance, disks=[disk.uuid, "uuid-second"]))
    kept = [{"name": "before", "created_s": 1.0}, {"name": "later", "created_s": 2.0}]
    context.nodes.handlers["instance_snapshots"] = lambda node, instance: [kept, kept]
    context.nodes.handlers["instance_info"] = lambda node, instance: None
    return context


def snapshot(ctx: FakeContext, action: Any, name: str = "before") -> None:
    run(SnapshotInstance(action=action, instance_name="web1", snapshot_name=name), ctx)


def test_disks_of_different_moments_are_not_started(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_snapshot_revert"] = BlockDeviceError("the node lost power between two disks")
    with pytest.raises(BlockDeviceError):
        snapshot(ctx, "revert")
    remedy = "snapshot before was interrupted, .*gnt-instance snapshot revert web1 before"
    for refused in (StartInstance(instance_name="web1"), ActivateInstanceDisks(instance_name="web1")):
        with pytest.raises(PrerequisiteError, match=remedy):
            run(refused, ctx)
    for action, name in (("create", "third"), ("remove", "before")):
        with pytest.raises(PrerequisiteError, match=remedy):
            snapshot(ctx, action, name)
    snapshot(ctx, "remove", "later")
    ctx.nodes.handlers["instance_snapshot_revert"] = lambda node, instance, name: None
    snapshot(ctx, "revert")
    assert ctx.config.view().find_instance("web1").reverting is None
    run(ActivateInstanceDisks(instance_name="web1"), ctx)


def test_the_mark_is_there_before_the_first_disk_is_changed(ctx: FakeContext) -> None:
    seen: list[str | None] = []
    ctx.nodes.handlers["instance_snapshot_revert"] = lambda node, instance, name: seen.append(
        ctx.config.view().find_instance("web1").reverting
    )
    snapshot(ctx, "revert", "later")
    assert seen == ["later"]

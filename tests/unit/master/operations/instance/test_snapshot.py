# SPDX-License-Identifier: BSD-2-Clause
"""Going back to a snapshot: what is left when it ends between two disks, and how that is completed."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import BlockDeviceError, ExecutionError, PrerequisiteError
from ganeti.master.operations.instance.disks.activate_disks import ActivateInstanceDisks
from ganeti.master.operations.instance.disks.replace_disks import ReplaceDisks
from ganeti.master.operations.instance.disks.snapshot import SnapshotInstance
from ganeti.master.operations.instance.moving.failover import FailoverInstance
from ganeti.master.operations.instance.power.startup import StartInstance
from ganeti.master.operations.instance.remove import RemoveInstanceOperation
from ganeti.model.node_calls.disks import FAULTY, DiskStatus
from ganeti.model.traits import TemplateTraits
from ganeti.ports.context import UndoNodeCall


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


def test_what_an_export_has_left_can_be_removed_and_nothing_else_be_called_so(ctx: FakeContext) -> None:
    kept = [{"name": ".export", "created_s": 1.0}]
    ctx.nodes.handlers["instance_snapshots"] = lambda node, instance: [kept, kept]
    for action in ("create", "revert"):
        with pytest.raises(PrerequisiteError, match=r"'\.export' cannot be the name of a snapshot"):
            snapshot(ctx, action, ".export")
    snapshot(ctx, "remove", ".export")
    assert "node1 instance_snapshot_remove" in ctx.story


@pytest.fixture
def both(ctx: FakeContext) -> FakeContext:
    """The disks have a copy on node2, too."""
    config = ctx.config.config
    for disk in config.instance_disks(config.find_instance("web1")):
        config.put("disks", disk.uuid, replace(disk, dev_type="twin", nodes=["uuid-node1", "uuid-node2"]))
    ctx.catalogue.templates["twin"] = TemplateTraits(name="twin", storage_type="twin", node_count=2)
    found = DiskStatus(dev_path="/dev/twin", size_mib=64, generation=3)
    ctx.nodes.handlers["blockdev_find"] = lambda node, disk: msgspec.to_builtins(found)
    ctx.nodes.handlers["instance_freeze"] = lambda node, instance: True
    return ctx


def calls(ctx: FakeContext, *names: str) -> list[str]:
    return [line for line in ctx.story if line.split()[-1] in names]


def test_both_copies_are_kept_while_the_guest_is_frozen(both: FakeContext) -> None:
    asked: list[tuple[str, bool]] = []
    both.nodes.handlers["instance_snapshot_take"] = lambda node, instance, name, frozen: (
        asked.append((node, frozen)) or True
    )
    snapshot(both, "create", "third")
    assert sorted(asked) == [("node1", True), ("node2", True)]
    told = calls(both, "instance_freeze", "instance_snapshot_take", "instance_thaw")
    assert (told[0], told[-1]) == ("node1 instance_freeze", "node1 instance_thaw")
    assert "its file systems were frozen" in both.lines[-1]


def test_no_room_on_the_second_node_alone_leaves_no_snapshot_and_a_guest_that_writes(both: FakeContext) -> None:
    def take(node: str, **_: Any) -> bool:
        if node == "node2":
            raise BlockDeviceError("64 MiB are needed, 1 MiB are free there")
        return True

    both.nodes.handlers["instance_snapshot_take"] = take
    with pytest.raises(BlockDeviceError, match="64 MiB are needed"):
        snapshot(both, "create", "third")
    assert calls(both, "instance_thaw") == ["node1 instance_thaw"]
    undone = [(record.node_uuid, record.call) for record in both.records if isinstance(record, UndoNodeCall)]
    assert undone == [("uuid-node2", "instance_snapshot_remove"), ("uuid-node1", "instance_snapshot_remove")]


def test_a_guest_writes_on_only_when_both_copies_have_ended(both: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one whose agent did not answer in time: it may have frozen the guest late."""
    call = both.nodes.call

    async def slowly(node_uuid: str, name: str, /, **arguments: Any) -> Any:
        if name == "instance_snapshot_take":
            if node_uuid == "uuid-node2":
                raise BlockDeviceError("64 MiB are needed, 1 MiB are free there")
            for _ in range(9):
                await asyncio.sleep(0)
            both.story.append("node1 copied")
        return await call(node_uuid, name, **arguments)

    monkeypatch.setattr(both.nodes, "call", slowly)
    for frozen in (True, False):
        both.story.clear()
        both.nodes.handlers["instance_freeze"] = lambda node, instance, frozen=frozen: frozen
        with pytest.raises(BlockDeviceError, match="64 MiB are needed"):
            snapshot(both, "create", "third")
        assert calls(both, "copied", "instance_thaw") == ["node1 copied", "node1 instance_thaw"]


def test_copies_that_differ_are_not_kept_as_if_they_were_one(both: FakeContext) -> None:
    good = DiskStatus(dev_path="/dev/twin", size_mib=64, generation=3)
    for other in (replace(good, generation=2), replace(good, ldisk_status=FAULTY), None):
        both.nodes.handlers["blockdev_find"] = lambda node, disk, other=other: msgspec.to_builtins(
            good if node == "node1" else other
        )
        with pytest.raises(
            PrerequisiteError, match=r"copies of disk 0 of web1 are not known to be equal: .*wait-for-sync"
        ):
            snapshot(both, "create", "third")
    node = both.config.config.node("uuid-node2")
    both.config.config.put("nodes", node.uuid, replace(node, offline=True))
    for action, name in (("create", "third"), ("revert", "before")):
        with pytest.raises(
            PrerequisiteError, match=r"node2 is marked offline, and .* needs both copies .*replace-disks"
        ):
            snapshot(both, action, name)
    snapshot(both, "remove")
    assert any("may be left on node2, which is offline" in text for text in both.lines)


def test_what_ends_between_two_copies_is_completed_before_anything_starts(both: FakeContext) -> None:
    def revert(node: str, **_: Any) -> None:
        if node == "node2":
            raise BlockDeviceError("the node lost power")

    both.nodes.handlers["instance_snapshot_revert"] = revert
    with pytest.raises(BlockDeviceError):
        snapshot(both, "revert")
    with pytest.raises(PrerequisiteError, match="snapshot before was interrupted"):
        run(StartInstance(instance_name="web1"), both)
    both.nodes.handlers["instance_snapshot_revert"] = lambda node, instance, name: None
    snapshot(both, "revert")
    assert both.config.view().find_instance("web1").reverting is None


def interrupt_between_copies(both: FakeContext, lost: str) -> None:
    """The primary went back, the other did not; then node *lost* is lost."""

    def revert(node: str, **_: Any) -> None:
        if node == "node2":
            raise BlockDeviceError("the node lost power")

    both.nodes.handlers["instance_snapshot_revert"] = revert
    with pytest.raises(BlockDeviceError):
        snapshot(both, "revert")
    both.nodes.handlers["instance_snapshot_revert"] = lambda node, instance, name: None
    node = both.config.config.find_node(lost)
    both.config.config.put("nodes", node.uuid, replace(node, offline=True))
    both.nodes.dead.add(lost)
    both.story.clear()


def complete_with_node3(both: FakeContext, primary: str) -> None:
    """Repeated, it stays incomplete for as long as the lost node has a copy; then another node gets one."""
    for _ in ("once", "again"):
        with pytest.raises(ExecutionError, match=r"is offline: give .*replace-disks -n NODE web1.* repeat this"):
            snapshot(both, "revert")
        with pytest.raises(PrerequisiteError, match="snapshot before was interrupted"):
            run(StartInstance(instance_name="web1"), both)
    found = msgspec.to_builtins(DiskStatus(dev_path="/dev/twin", size_mib=64, generation=3))
    both.nodes.handlers["blockdev_find"] = lambda node, disk: found
    run(ReplaceDisks(instance_name="web1", mode="replace_new_secondary", remote_node="node3", disks=[]), both)
    assert both.config.view().find_instance("web1").reverting == "before"
    both.story.clear()
    snapshot(both, "revert")
    assert calls(both, "instance_snapshot_revert") == [
        f"{each} instance_snapshot_revert" for each in (primary, "node3")
    ]
    assert both.config.view().find_instance("web1").reverting is None


def test_a_revert_whose_secondary_node_is_lost_is_completed_with_another_one(both: FakeContext) -> None:
    interrupt_between_copies(both, "node2")
    complete_with_node3(both, "node1")


def test_a_revert_whose_primary_node_is_lost_is_completed_on_the_other_one(both: FakeContext) -> None:
    instance = both.config.config.find_instance("web1")
    both.config.config.put("instances", instance.uuid, replace(instance, admin_state="up"))
    interrupt_between_copies(both, "node1")
    both.nodes.handlers["node_info"] = lambda name, **_: node_facts(memory_free_mib=1000)
    run(FailoverInstance(instance_name="web1", ignore_ipolicy=True), both)
    moved = both.config.view().find_instance("web1")
    assert (moved.primary_node, moved.reverting) == ("uuid-node2", "before")
    assert calls(both, "instance_disks_steal", "instance_disks_shutdown", "instance_start") == [
        "node2 instance_disks_steal",
        "node2 instance_disks_shutdown",
    ]
    complete_with_node3(both, "node2")


def test_both_nodes_being_there_an_interrupted_revert_keeps_the_instance_where_it_is(both: FakeContext) -> None:
    interrupt_between_copies(both, "node3")
    for refused in (
        FailoverInstance(instance_name="web1"),
        FailoverInstance(instance_name="web1", ignore_consistency=True),
        ReplaceDisks(instance_name="web1", mode="replace_new_secondary", remote_node="node3", disks=[]),
    ):
        with pytest.raises(PrerequisiteError, match="snapshot before was interrupted"):
            run(refused, both)


@pytest.mark.parametrize("lost", ["node1", "node2", "node3"])
def test_an_instance_whose_revert_was_interrupted_can_be_removed(both: FakeContext, lost: str) -> None:
    interrupt_between_copies(both, lost)
    run(RemoveInstanceOperation(instance_name="web1", ignore_failures=lost != "node3"), both)
    assert [each.name for each in both.config.view().instances()] == []


def test_a_snapshot_of_the_secondary_node_alone_is_named_and_not_gone_back_to(both: FakeContext) -> None:
    mine, theirs = [{"name": "before", "created_s": 1.0}], [{"name": "old", "created_s": 0.5}]
    both.nodes.handlers["instance_snapshots"] = lambda node, instance: (
        [mine, mine] if node == "node1" else [theirs, theirs]
    )
    listed = run(SnapshotInstance(action="list", instance_name="web1"), both)
    assert listed == [("old", 0.5, []), ("before", 1.0, [0, 1])]
    with pytest.raises(PrerequisiteError, match=r"is kept on its secondary node alone: .*gnt-instance failover web1"):
        snapshot(both, "revert", "old")


def test_the_configuration_knows_a_name_before_it_is_made_and_until_it_is_removed(ctx: FakeContext) -> None:
    config = ctx.config.config
    instance = config.find_instance("web1")
    ctx.catalogue.templates["san"] = TemplateTraits(name="san", storage_type="san", snapshots_in_configuration=True)
    for disk in config.instance_disks(instance):
        config.put("disks", disk.uuid, replace(disk, dev_type="san"))
    ctx.nodes.handlers["instance_snapshots"] = lambda node, instance: [
        [{"name": name, "created_s": taken} for name, taken in disk.snapshots.items()] for disk in instance.disks
    ]
    seen: list[Any] = []

    def take(node: str, instance: Any, name: str) -> bool:
        seen.extend(disk.snapshots for disk in instance.disks)
        return False

    ctx.nodes.handlers["instance_snapshot_take"] = take
    snapshot(ctx, "create")
    assert [list(each) for each in seen] == [["before"], ["before"]]
    assert all(disk.snapshots for disk in config.instance_disks(instance))
    snapshot(ctx, "remove")
    assert not any(disk.snapshots for disk in config.instance_disks(instance))


def test_a_node_that_refuses_to_go_back_does_so_before_the_instance_is_marked(both: FakeContext) -> None:
    """Under the mark its remedy is refused: to open the disks, so that the copies are made equal."""

    refusing = {"node1"}

    def refuse(node: str, **_: Any) -> None:
        if node in refusing:
            raise BlockDeviceError("The copy of disk 1 is not complete: have it made equal first")

    both.nodes.handlers["instance_snapshot_revert_check"] = refuse
    for each in ("node1", "node2"):
        refusing = {each}
        with pytest.raises(BlockDeviceError, match="is not complete"):
            snapshot(both, "revert")
        assert both.config.view().find_instance("web1").reverting is None
    assert calls(both, "instance_snapshot_revert") == []
    run(ActivateInstanceDisks(instance_name="web1"), both)


@pytest.mark.parametrize("mode", ["replace_new_secondary", "replace_on_secondary"])
def test_new_copies_that_lack_snapshots_are_told_of(both: FakeContext, mode: Any) -> None:
    """Node1 has *before*, node2 has that and *old*: of what is made anew there is none."""
    found = msgspec.to_builtins(DiskStatus(dev_path="/dev/twin", size_mib=64, generation=3))
    both.nodes.handlers["blockdev_find"] = lambda node, disk: found

    def kept(node: str, **_: Any) -> list[Any]:
        is_new = node == "node3" or "node2 blockdev_renew" in both.story
        names = ["before"] if node == "node1" else [] if is_new else ["before", "old"]
        return [[{"name": name, "created_s": 1.0} for name in names]] * 2

    both.nodes.handlers["instance_snapshots"] = kept
    remote = "node3" if mode == "replace_new_secondary" else None
    run(ReplaceDisks(instance_name="web1", mode=mode, remote_node=remote, disks=[]), both)
    new = f"The copies on {remote or 'node2'} are new: snapshots"
    assert f"{new} before of web1 are on node1 alone from now on" in "\n".join(both.lines)
    assert f"{new} old of web1 went with the copies that were replaced" in "\n".join(both.lines)

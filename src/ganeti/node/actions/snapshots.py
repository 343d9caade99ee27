# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about snapshots of an instance's disks; all disks have one, or none has."""

from ganeti.base.errors import BlockDeviceError, GanetiError
from ganeti.model.node_calls.disks import InstanceSnapshots, Snapshot
from ganeti.model.node_calls.snapshots import (
    InstanceFreeze,
    InstanceSnapshotRemove,
    InstanceSnapshotRevert,
    InstanceSnapshotRevertCheck,
    InstanceSnapshotTake,
    InstanceThaw,
)
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.node.actions.registry import answers
from ganeti.node.hypervisors.interface import GuestSnapshots
from ganeti.node.state import NodeState
from ganeti.node.storage.interface import Snapshots


@answers(InstanceSnapshots)
async def instance_snapshots(node: NodeState, asked: InstanceSnapshots) -> list[list[Snapshot]]:
    return [await snapshots_of(node, disk).of(disk) for disk in asked.instance.disks]


@answers(InstanceFreeze)
async def instance_freeze(node: NodeState, asked: InstanceFreeze) -> bool:
    guest = await _guest(node, asked.instance)
    return guest is not None and await guest.freeze(asked.instance.name)


@answers(InstanceThaw)
async def instance_thaw(node: NodeState, asked: InstanceThaw) -> None:
    guest = await _guest(node, asked.instance)
    if guest is not None:
        await guest.thaw(asked.instance.name)


@answers(InstanceSnapshotTake)
async def instance_snapshot_take(node: NodeState, asked: InstanceSnapshotTake) -> bool:
    async with node.snapshots_of(asked.instance.name):
        return await _take(node, asked.instance, asked.name, asked.frozen)


async def _take(node: NodeState, instance: InstanceSpec, name: str, frozen_before: bool | None) -> bool:
    hypervisor = node.hypervisor_of(instance)
    runs = await hypervisor.info(instance.name) is not None
    guest = hypervisor.snapshots() if runs else None
    freezes = frozen_before is None
    frozen = bool(frozen_before) or (freezes and guest is not None and await guest.freeze(instance.name))
    try:
        for disk in instance.disks:
            kept = snapshots_of(node, disk)
            if runs and not frozen and kept.copies(disk):
                raise BlockDeviceError(
                    f"Disk {disk.index} of {instance.name} is a raw image that the guest writes: shut it down, give it "
                    "an agent that holds its writes (use_guest_agent), or make disks with format=qcow2"
                )
            if guest is not None and kept.needs_guest(disk):
                if name not in [each.name for each in await kept.of(disk)]:
                    await guest.take(instance.name, disk, name)
            else:
                await kept.take(disk, name)
    except GanetiError:
        try:
            await _remove(node, instance, name, guest)
        except GanetiError as err:
            node.world.log(f"snapshot {name} of instance {instance.name} is still there in part: {err}")
        raise
    finally:
        if guest is not None and freezes:  # an agent that did not answer in time may have frozen it late
            await guest.thaw(instance.name)
    node.world.log(f"snapshot {name} of instance {instance.name} taken{', its guest frozen' if frozen else ''}")
    return frozen


@answers(InstanceSnapshotRevertCheck)
async def instance_snapshot_revert_check(node: NodeState, asked: InstanceSnapshotRevertCheck) -> None:
    await _require_revertible(node, asked.instance, asked.name)


@answers(InstanceSnapshotRevert)
async def instance_snapshot_revert(node: NodeState, asked: InstanceSnapshotRevert) -> None:
    instance = asked.instance
    name = asked.name
    await _require_revertible(node, instance, name)
    for disk in instance.disks:
        await snapshots_of(node, disk).revert(disk, name)
    node.world.log(f"disks of instance {instance.name} are as in snapshot {name}")


@answers(InstanceSnapshotRemove)
async def instance_snapshot_remove(node: NodeState, asked: InstanceSnapshotRemove) -> None:
    instance = asked.instance
    async with node.snapshots_of(instance.name):
        guest = await _guest(node, instance)
        if guest is not None:
            await guest.thaw(instance.name)  # a daemon that was killed may have left it frozen
        await _remove(node, instance, asked.name, guest)
    node.world.log(f"snapshot {asked.name} of instance {instance.name} removed")


async def _remove(node: NodeState, instance: InstanceSpec, name: str, guest: GuestSnapshots | None) -> None:
    for disk in instance.disks:
        kept = snapshots_of(node, disk)
        if name not in [each.name for each in await kept.of(disk)]:
            continue
        if guest is not None and kept.needs_guest(disk):
            await guest.remove(instance.name, disk, name)
        else:
            await kept.remove(disk, name)


async def _require_revertible(node: NodeState, instance: InstanceSpec, name: str) -> None:
    """Raise `BlockDeviceError` for any disk that cannot go back, before the first one changes."""
    for disk in instance.disks:
        kept = snapshots_of(node, disk)
        if not _is_second_copy(node, disk) and name not in [each.name for each in await kept.of(disk)]:
            raise BlockDeviceError(f"Disk {disk.index} of {instance.name} has no snapshot {name}: none is changed")
        await kept.check_revert(disk, name)


def _is_second_copy(node: NodeState, disk: DiskSpec) -> bool:
    return disk.primary not in ("", node.world.node_name)


async def _guest(node: NodeState, instance: InstanceSpec) -> GuestSnapshots | None:
    """What the running guest has to do with it; None for one that is stopped."""
    hypervisor = node.hypervisor_of(instance)
    return None if await hypervisor.info(instance.name) is None else hypervisor.snapshots()


def snapshots_of(node: NodeState, disk: DiskSpec) -> Snapshots:
    """Raises `BlockDeviceError` for a template that keeps none."""
    template = node.template_of(disk)
    if (kept := template.snapshots()) is None:
        raise BlockDeviceError(
            f"Disks of template {disk.template} keep no snapshots, since {template.why_no_snapshots}: back the "
            "instance up instead (gnt-backup export)"
        )
    return kept

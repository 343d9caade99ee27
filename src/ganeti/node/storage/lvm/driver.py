# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `plain`: each disk is a logical volume of the node.

The logical id is ``[VOLUME GROUP, VOLUME]``. A volume stays active while its instance is stopped, as in 3.1.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from ganeti.base.errors import WRONG_INPUT, BlockDeviceError, PrerequisiteError
from ganeti.model.new_disk import NewDisk
from ganeti.model.node_calls.disks import FAULTY, DiskStatus
from ganeti.model.node_calls.node import StorageSpace
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.model.parameters import Parameter
from ganeti.model.templates import TEMPLATES, UNSHARED
from ganeti.node.storage import devices
from ganeti.node.storage.image_io import in_thread
from ganeti.node.storage.interface import CountsSpindles, DiskTemplate, Snapshots
from ganeti.node.storage.lvm.snapshots import MARK, VolumeSnapshots, is_of_disk
from ganeti.node.storage.lvm.volumes import MIB, PhysicalVolume, Volume, Volumes, check_names
from ganeti.ports.node_world import NodeWorld

PARAMETERS = (Parameter("stripes", "int", 1, "over how many physical volumes a disk is spread", minimum=1),)


def group_of(new: NewDisk, key: str = "vg") -> str:
    """The volume group of a new disk: the one asked for, or the cluster's."""
    if key in new.asked:
        return new.word(key, "name a volume group, or leave it out for the cluster's")
    if not new.volume_group:
        raise PrerequisiteError(
            f"Disk {new.index}: the cluster has no volume group: add {key}=NAME, or set one for all "
            "(gnt-cluster modify --vg-name)",
            WRONG_INPUT,
        )
    return new.volume_group


def _logical_id(new: NewDisk) -> list[Any]:
    return [group_of(new), f"{new.uuid}.disk{new.index}"]


def _adoptee(new: NewDisk) -> list[Any]:
    volume = new.word("adopt", "name a logical volume")
    disk, mark, _ = volume.partition(MARK)
    if mark:
        raise PrerequisiteError(
            f"Disk {new.index}: {volume} is a snapshot of the disk {disk}: adopt another volume", WRONG_INPUT
        )
    return [group_of(new), volume]


class LogicalVolumes(DiskTemplate, CountsSpindles):
    traits = replace(
        TEMPLATES[UNSHARED],
        parameters=PARAMETERS,
        keys=("vg", "adopt"),
        naming=_logical_id,
        adoptee=_adoptee,
        quick_snapshots=True,
    )

    def __init__(self, world: NodeWorld) -> None:
        super().__init__(world)
        self.volumes = Volumes(world)

    async def create(self, disk: DiskSpec) -> None:
        group, name = _place(disk)
        there = await self.volumes.look(group, name)
        if there is not None:
            await self._require_size(there, disk)
            return
        sentence = f"Disk {group}/{name} of {disk.size_mib} MiB cannot be made"
        physical = await self.volumes.physical(group)
        await self._require_space(sentence, group, disk.size_mib)
        if disk.exclusive:
            on = exclusive_volumes(sentence, physical, disk)
            await self.volumes.create(group, name, disk.size_mib, stripes=len(on), on=on)
            return
        for stripes in range(max(1, min(_stripes(disk), len(_usable(physical)))), 0, -1):
            try:
                await self.volumes.create(group, name, disk.size_mib, stripes=stripes)
            except BlockDeviceError as err:
                if stripes == 1:
                    raise BlockDeviceError(f"{sentence}: {err}") from err
            else:
                break

    async def remove(self, disk: DiskSpec) -> None:
        """Snapshots of the volume go with it."""
        group, name = _place(disk)
        if await self.volumes.look(group, name) is not None:
            await self.volumes.remove(group, name)

    async def adopt(self, disk: DiskSpec, source: list[Any]) -> None:
        group, name = _place(disk)
        there = await self.volumes.look(group, name)
        if there is None:
            old_group, old = _place_of(source)
            before = await self.volumes.look(old_group, old)
            if before is None or old_group != group:
                raise BlockDeviceError(f"Volume {old_group}/{old} is missing: it cannot become a disk")
            if before.in_use:
                raise BlockDeviceError(f"Volume {old_group}/{old} is in use: unmount it, or name another one")
            await self.volumes.rename(group, old, name)
            there = replace(before, name=name)
        await self._require_size(there, disk)

    async def rename(self, disk: DiskSpec, logical_id: list[Any]) -> None:
        (group, name), (wanted_group, wanted) = _place(disk), _place_of(logical_id)
        if (group, name) == (wanted_group, wanted) or await self.volumes.look(wanted_group, wanted) is not None:
            return
        if await self.volumes.look(group, name) is None:
            raise BlockDeviceError(f"Disk {group}/{name} is missing: the volume was removed on this node")
        await self.volumes.rename(group, name, wanted)

    async def activate(self, disk: DiskSpec, owner: str, *, for_migration: bool = False) -> AttachedDisk:
        volume = await self._look(disk)
        if owner:
            volume.require_whole()
        path = self.volumes.path(volume.group, volume.name)
        if not await in_thread(os.path.exists, path):
            await self.volumes.activate(volume.group, volume.name)
        if owner and volume.owner != owner:
            with contextlib.suppress(BlockDeviceError):  # a note for people, which a full metadata area refuses
                await self.volumes.tag_owner(volume, owner)
        return AttachedDisk(spec=disk, path=path)

    async def deactivate(self, disk: DiskSpec) -> None:
        """The volume stays active."""

    async def stored_path(self, disk: DiskSpec) -> str:
        return os.path.realpath((await self.activate(disk, "")).path)

    async def begin_copy(self, disk: DiskSpec, size: int) -> None:
        """Parts that are left out of a copy are zeros, so what the space held before is overwritten.

        The volume on the other node may be larger than the disk is known to be, as where its extents are.
        """
        if await self.find(disk) is not None:
            raise BlockDeviceError(f"Disk {'/'.join(_place(disk))} cannot be copied here: one is here already")
        unfinished = structs.replace(self._unfinished(disk), size_mib=max(disk.size_mib, -(-size // MIB)))
        await self.remove(unfinished)
        await self.create(unfinished)
        path = (await self.activate(unfinished, "")).path
        await in_thread(devices.write_zeros, path, 0, size)

    def unfinished_path(self, disk: DiskSpec) -> str:
        return os.path.realpath(self.volumes.path(*_place(self._unfinished(disk))))

    async def end_copy(self, disk: DiskSpec) -> None:
        await self.rename(self._unfinished(disk), disk.logical_id)

    async def find(self, disk: DiskSpec) -> DiskStatus | None:
        group, name = _place(disk)
        volume = await self.volumes.look(group, name)
        if volume is None:
            return None
        status = FAULTY if volume.broken else 1
        return DiskStatus(
            dev_path=f"/dev/{group}/{name}",
            size_mib=volume.size // MIB,
            ldisk_status=status,
            is_degraded=volume.broken,
            spindles=len(volume.devices) if disk.exclusive else None,
        )

    async def grow(self, disk: DiskSpec, amount_mib: int, *, in_use: bool = False) -> None:
        if amount_mib < 0:
            raise BlockDeviceError(f"Disk {disk.logical_id} cannot grow by {amount_mib} MiB: give a positive size")
        volume, wanted_mib = await self._look(disk), disk.size_mib + amount_mib
        if volume.size >= wanted_mib * MIB:
            return
        sentence = f"Disk {volume.group}/{volume.name} cannot grow to {wanted_mib} MiB"
        if kept := await self.snapshots().of(disk):  # LVM grows none that is in use, and they have room for this size
            names = ", ".join(each.name for each in kept)
            raise BlockDeviceError(
                f"{sentence} while it has snapshots ({names}): remove them first (gnt-instance snapshot remove)"
            )
        on: Sequence[str] = volume.devices if disk.exclusive else ()
        await self._require_space(sentence, volume.group, wanted_mib - volume.size // MIB)
        try:
            await self.volumes.extend(volume.group, volume.name, wanted_mib, on)
        except BlockDeviceError as err:
            raise BlockDeviceError(f"{sentence}: {err}") from err

    async def wipe(self, disk: DiskSpec, offset_mib: int, size_mib: int) -> None:
        volume = await self._look(disk)
        if offset_mib < 0 or size_mib < 0 or (offset_mib + size_mib) * MIB > volume.size:
            raise BlockDeviceError(
                f"Disk {volume.group}/{volume.name} cannot be wiped from {offset_mib} to {offset_mib + size_mib} MiB: "
                "it has not so many"
            )
        path = (await self.activate(disk, "")).path
        await in_thread(devices.write_zeros, path, offset_mib * MIB, size_mib * MIB)

    async def space(self, setting: str) -> StorageSpace:
        try:
            size, free, _ = await self.volumes.group_space(setting)
        except BlockDeviceError:
            return StorageSpace(type=self.traits.storage_type, name=setting, storage_size=None, storage_free=None)
        return StorageSpace(
            type=self.traits.storage_type, name=setting, storage_size=size // MIB, storage_free=free // MIB
        )

    async def spindles(self, setting: str) -> tuple[int, int]:
        physical = await self.volumes.physical(setting)
        return len(physical), len(empty_volumes(physical))

    async def verify(self, setting: str) -> list[str]:
        try:
            await self.volumes.group_space(setting)
            physical = await self.volumes.physical(setting)
        except BlockDeviceError as err:
            return [f"volume group '{setting}' is missing or cannot be read: {err}"]
        return [
            f"invalid character ':' in physical volume '{each.name}' of volume group '{setting}'"
            for each in physical
            if ":" in each.name
        ]

    async def list_owned(self, setting: str) -> Sequence[str]:
        names = {volume.name for volume in await self.volumes.of_group(setting)}
        return sorted(name for name in names if not is_of_disk(name, names))

    def snapshots(self) -> Snapshots:
        return VolumeSnapshots(self.volumes)

    async def _look(self, disk: DiskSpec) -> Volume:
        group, name = _place(disk)
        volume = await self.volumes.look(group, name)
        if volume is None:
            raise BlockDeviceError(f"Disk {group}/{name} is missing on node {self.world.node_name}")
        return volume

    async def _require_size(self, there: Volume, disk: DiskSpec) -> None:
        """A volume is as large as was asked for, rounded up to whole extents over its stripes."""
        _, _, extent = await self.volumes.group_space(there.group)
        rounding = extent * max(1, there.stripes, len(there.devices))
        if not 0 <= there.size - disk.size_mib * MIB < rounding:
            raise BlockDeviceError(
                f"Disk {there.group}/{there.name} of {disk.size_mib} MiB cannot be made: there is one of "
                f"{there.size // MIB} MiB already; remove it first"
            )

    async def _require_space(self, sentence: str, group: str, needed_mib: int) -> None:
        _, free, _ = await self.volumes.group_space(group)
        if free < needed_mib * MIB:
            raise BlockDeviceError(
                f"{sentence}: {needed_mib} MiB are needed and {free // MIB} MiB are free in volume group {group}"
            )

    def _unfinished(self, disk: DiskSpec) -> DiskSpec:
        group, name = _place(disk)
        return structs.replace(disk, logical_id=[group, f"{name}.new"])


def _usable(physical: Sequence[PhysicalVolume]) -> list[PhysicalVolume]:
    return [each for each in physical if each.allocatable and each.free]


def empty_volumes(physical: Sequence[PhysicalVolume]) -> list[PhysicalVolume]:
    """Those that a disk with exclusive storage can take."""
    return [each for each in _usable(physical) if not each.used]


def exclusive_volumes(sentence: str, physical: Sequence[PhysicalVolume], disk: DiskSpec) -> list[str]:
    """Physical volumes that nothing else lies on: as many as spindles are asked for, or as the size takes."""
    empty = sorted(empty_volumes(physical), key=lambda each: (-each.size, each.name))
    count = disk.spindles or 1
    while disk.spindles is None and count <= len(empty) and sum(pv.free for pv in empty[:count]) < disk.size_mib * MIB:
        count += 1
    chosen = empty[:count]
    if len(chosen) < count or sum(each.free for each in chosen) < disk.size_mib * MIB:
        raise BlockDeviceError(
            f"{sentence}: with exclusive storage it needs {count} empty physical volumes with {disk.size_mib} MiB, and "
            f"{len(empty)} are empty, with {sum(each.free for each in empty) // MIB} MiB"
        )
    return [each.name for each in chosen]


def _stripes(disk: DiskSpec) -> int:
    return max(1, int(disk.params.get("stripes") or 1))


def _place(disk: DiskSpec) -> tuple[str, str]:
    return _place_of(disk.logical_id)


def _place_of(logical_id: list[Any]) -> tuple[str, str]:
    match logical_id:
        case [str(group), str(name)]:
            check_names(group, name)
            return group, name
    raise BlockDeviceError(f"Logical id {logical_id} names no volume: it must be [volume group, volume]")

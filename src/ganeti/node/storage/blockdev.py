# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `blockdev`: block devices that are there already, on every node where the instance may run.

The logical id is ``["manual", PATH]``, a path below ``/dev/disk/`` that names the same device on each node. Devices are
adopted, never made or removed.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ganeti.base.errors import WRONG_INPUT, BlockDeviceError, PrerequisiteError
from ganeti.base.names import absolute_path_fault, shown
from ganeti.model.new_disk import NewDisk
from ganeti.model.node_calls.disks import DiskStatus
from ganeti.model.node_calls.node import StorageSpace
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.model.templates import TEMPLATES
from ganeti.node.storage import devices
from ganeti.node.storage.image_io import MIB, in_thread
from ganeti.node.storage.interface import DiskTemplate

DRIVER = "manual"
PLACE = "/dev/disk/"


def _logical_id(new: NewDisk) -> list[Any]:
    path = new.asked.get("adopt")
    fault = absolute_path_fault(path) if isinstance(path, str) else "it must be text"
    if fault is None and not str(path).startswith(PLACE):
        fault = f"name a device below {PLACE}, which is the same after a restart"
    if fault is not None:
        raise PrerequisiteError(f"Disk {new.index}: '{shown(str(path))}' cannot be adopted: {fault}", WRONG_INPUT)
    return [DRIVER, path]


class AdoptedDevices(DiskTemplate):
    traits = replace(
        TEMPLATES["blockdev"],
        keys=("adopt",),
        naming=_logical_id,
        adoptee=_logical_id,
        adopts_only=True,
        locked=False,
    )
    why_no_snapshots = "the device is only used here, and made elsewhere"

    async def create(self, disk: DiskSpec) -> None:
        found = await self.find(disk)
        if found is None:
            raise BlockDeviceError(
                f"Disk {_path(disk)} of {disk.size_mib} MiB cannot be made: devices of template {self.traits.name} are "
                "adopted, and there is none; attach it to this node"
            )
        if (found.size_mib or 0) != disk.size_mib:
            raise BlockDeviceError(
                f"Disk {_path(disk)} of {disk.size_mib} MiB cannot be made: there is one of {found.size_mib} MiB "
                "already; name a device of the right size"
            )

    async def adopt(self, disk: DiskSpec, source: list[Any]) -> None:
        await self.create(disk)
        if await in_thread(devices.in_use, self._place(disk)):
            raise BlockDeviceError(
                f"Device {_path(disk)} is in use on node {self.world.node_name}: unmount it, or name another one"
            )

    async def rename(self, disk: DiskSpec, logical_id: list[Any]) -> None:
        """A device keeps its name."""

    async def remove(self, disk: DiskSpec) -> None:
        """A device stays, with what is on it."""

    async def activate(self, disk: DiskSpec, owner: str, *, for_migration: bool = False) -> AttachedDisk:
        if await self.find(disk) is None:
            raise BlockDeviceError(
                f"Disk {_path(disk)} is missing on node {self.world.node_name}: attach the device, with the same name"
            )
        return AttachedDisk(spec=disk, path=self._place(disk))

    async def deactivate(self, disk: DiskSpec) -> None:
        """There is nothing to close."""

    async def find(self, disk: DiskSpec) -> DiskStatus | None:
        size = await in_thread(devices.size_of, self._place(disk))
        return None if size is None else DiskStatus(dev_path=_path(disk), size_mib=size // MIB)

    async def grow(self, disk: DiskSpec, amount_mib: int, *, in_use: bool = False) -> None:
        if await self.find(disk) is None:
            raise BlockDeviceError(f"Disk {_path(disk)} is missing")
        raise BlockDeviceError(f"Devices of template {self.traits.name} cannot grow: enlarge {_path(disk)} itself")

    async def wipe(self, disk: DiskSpec, offset_mib: int, size_mib: int) -> None:
        found = await self.find(disk)
        if found is None or offset_mib < 0 or size_mib < 0 or offset_mib + size_mib > (found.size_mib or 0):
            raise BlockDeviceError(
                f"Disk {_path(disk)} cannot be wiped from {offset_mib} to {offset_mib + size_mib} MiB: it has not so "
                "many"
            )
        await in_thread(devices.write_zeros, self._place(disk), offset_mib * MIB, size_mib * MIB)

    async def space(self, setting: str) -> StorageSpace:
        return StorageSpace(type=self.traits.storage_type, name=setting, storage_size=None, storage_free=None)

    async def verify(self, setting: str) -> list[str]:
        return []

    async def list_owned(self, setting: str) -> Sequence[str]:
        return []

    def _place(self, disk: DiskSpec) -> str:
        return self.world.paths.under(_path(disk))


def _path(disk: DiskSpec) -> str:
    """Where the device is; raises `BlockDeviceError` for a logical id that names none."""
    match disk.logical_id:
        case [str(driver), str(path)] if driver == DRIVER and path.startswith(PLACE) and os.path.normpath(path) == path:
            return path
    raise BlockDeviceError(f"Logical id {disk.logical_id} names no device: it must be ['{DRIVER}', '{PLACE}…']")

# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of the images of a Ceph cluster: Ceph itself keeps them, and they go with the image."""

import time
from typing import Protocol

import msgspec

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import Snapshot
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage import rbd_clients
from ganeti.node.storage.interface import Snapshots


class Images(rbd_clients.Images, Protocol):
    async def rbd_long(self, disk: DiskSpec, *words: str) -> str:
        """What takes the longer the larger the image is."""
        ...


class _Kept(msgspec.Struct, frozen=True):
    name: str
    timestamp: str = ""


class ImageSnapshots(Snapshots):
    def __init__(self, images: Images) -> None:
        self._images = images

    async def of(self, disk: DiskSpec) -> list[Snapshot]:
        text = await self._images.rbd(disk, "snap", "ls", "--format", "json", self._images.name_of(disk))
        kept = msgspec.json.decode(text or "[]", type=list[_Kept])
        return [Snapshot(name=each.name, created_s=_seconds(each.timestamp)) for each in kept]

    async def take(self, disk: DiskSpec, name: str) -> None:
        if not await self._has(disk, name):
            await self._images.rbd(disk, "snap", "create", "--no-progress", f"{self._images.name_of(disk)}@{name}")

    async def revert(self, disk: DiskSpec, name: str) -> None:
        if not await self._has(disk, name):
            raise BlockDeviceError(f"Disk {disk.index} has no snapshot {name}")
        await self._images.rbd_long(disk, "snap", "rollback", "--no-progress", f"{self._images.name_of(disk)}@{name}")

    async def remove(self, disk: DiskSpec, name: str) -> None:
        if await self._has(disk, name):
            await self._images.rbd_long(disk, "snap", "rm", "--no-progress", f"{self._images.name_of(disk)}@{name}")

    async def _has(self, disk: DiskSpec, name: str) -> bool:
        return name in [each.name for each in await self.of(disk)]


def _seconds(text: str) -> float:
    """As rbd prints a time, in the C locale; 0 where it cannot be read."""
    try:
        return time.mktime(time.strptime(text, "%a %b %d %H:%M:%S %Y"))
    except ValueError:
        return 0.0

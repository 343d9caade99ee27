# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots inside qcow2 images; QEMU makes and removes those of an image that it has open."""

from collections.abc import Awaitable, Callable

import msgspec

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import Snapshot
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.image_io import QCOW2
from ganeti.node.storage.interface import Snapshots


class _Kept(msgspec.Struct, frozen=True, rename={"seconds": "date-sec"}):
    name: str
    seconds: float = 0.0


class _Bitmap(msgspec.Struct, frozen=True):
    name: str


class _Qcow2(msgspec.Struct, frozen=True):
    bitmaps: list[_Bitmap] = []


class _Specific(msgspec.Struct, frozen=True):
    data: _Qcow2 = _Qcow2()


class _Image(msgspec.Struct, frozen=True, rename={"specific": "format-specific"}):
    snapshots: list[_Kept] = []
    specific: _Specific = _Specific()


class Qcow2Snapshots(Snapshots):
    """*place* gives the path of a disk's image, *tool* runs ``qemu-img`` with arguments and a sentence for errors."""

    def __init__(
        self, place: Callable[[DiskSpec], Awaitable[str]], tool: Callable[[list[str], str], Awaitable[str]]
    ) -> None:
        self._place, self._tool = place, tool

    def needs_guest(self, disk: DiskSpec) -> bool:
        return True

    async def of(self, disk: DiskSpec) -> list[Snapshot]:
        image = await self._look(await self._place(disk))
        return [Snapshot(name=each.name, created_s=each.seconds, in_image=True) for each in image.snapshots]

    async def take(self, disk: DiskSpec, name: str) -> None:
        await self._change(disk, "-c", name, there=False)

    async def revert(self, disk: DiskSpec, name: str) -> None:
        if name not in [each.name for each in await self.of(disk)]:
            raise BlockDeviceError(f"Disk {disk.index} has no snapshot {name}")
        path = await self._place(disk)
        for bitmap in (await self._look(path)).specific.data.bitmaps:  # they would not tell of what is changed now
            words = ["bitmap", "--remove", "-f", QCOW2, path, bitmap.name]
            await self._tool(words, f"The bitmap {bitmap.name} of disk {path} cannot be removed")
        await self._change(disk, "-a", name, there=True)

    async def remove(self, disk: DiskSpec, name: str) -> None:
        await self._change(disk, "-d", name, there=True)

    async def _look(self, path: str) -> _Image:
        words = ["info", "--output=json", "-U", "-f", QCOW2, path]
        text = await self._tool(words, f"The snapshots of disk {path} cannot be read")
        return msgspec.json.decode(text, type=_Image)

    async def _change(self, disk: DiskSpec, action: str, name: str, *, there: bool) -> None:
        """Where it is done already, nothing is."""
        if (name in [each.name for each in await self.of(disk)]) == there:
            path = await self._place(disk)
            await self._tool(["snapshot", "-q", action, name, path], f"Snapshot {name} of disk {path} cannot be")

# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of raw images: whole copies ``IMAGE.snap-NAME`` beside them, made and put back by one rename each.

Nothing keeps a guest's writes out of a copy, so the caller freezes its file systems before.
"""

import os
from collections.abc import Awaitable, Callable

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import Snapshot
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage import image_io
from ganeti.node.storage.image_io import MIB, QCOW2, in_thread
from ganeti.node.storage.interface import Snapshots
from ganeti.node.storage.qcow2_snapshots import Qcow2Snapshots

MARK = ".snap-"


class RawSnapshots(Snapshots):
    """*place* gives the path of a disk's image."""

    def __init__(self, place: Callable[[DiskSpec], Awaitable[str]]) -> None:
        self._place = place

    def copies(self, disk: DiskSpec) -> bool:
        return True

    async def of(self, disk: DiskSpec) -> list[Snapshot]:
        path = await self._place(disk)
        kept = await in_thread(_kept, path)
        found = [Snapshot(name=name.partition(MARK)[2], created_s=os.stat(name).st_mtime) for name in kept]
        return sorted(found, key=lambda each: (each.created_s, each.name))

    async def take(self, disk: DiskSpec, name: str) -> None:
        path = await self._place(disk)
        target = place_of(path, name)
        if not os.path.exists(target):
            await self._copy(path, target, await in_thread(os.path.getsize, path))

    async def revert(self, disk: DiskSpec, name: str) -> None:
        path = await self._place(disk)
        source = place_of(path, name)
        if not os.path.exists(source):
            raise BlockDeviceError(f"Disk {disk.index} has no snapshot {name}")
        await self._copy(source, path, max(disk.size_mib * MIB, await in_thread(os.path.getsize, source)))

    async def remove(self, disk: DiskSpec, name: str) -> None:
        path = await self._place(disk)
        await in_thread(_remove, place_of(path, name))

    async def _copy(self, source: str, target: str, size: int) -> None:
        try:
            await in_thread(_copy, source, target, size)
        except OSError as err:
            await in_thread(image_io.unlink, _unfinished(target))
            raise image_io.failed("copied", source, err) from err


class ImageSnapshots(Snapshots):
    """Of image files of either format."""

    def __init__(self, raw: RawSnapshots, qcow2: Qcow2Snapshots) -> None:
        self._raw, self._qcow2 = raw, qcow2

    def _for(self, disk: DiskSpec) -> Snapshots:
        return self._qcow2 if disk.params.get("format") == QCOW2 else self._raw

    def needs_guest(self, disk: DiskSpec) -> bool:
        return self._for(disk).needs_guest(disk)

    def copies(self, disk: DiskSpec) -> bool:
        return self._for(disk).copies(disk)

    async def of(self, disk: DiskSpec) -> list[Snapshot]:
        return await self._for(disk).of(disk)

    async def take(self, disk: DiskSpec, name: str) -> None:
        await self._for(disk).take(disk, name)

    async def revert(self, disk: DiskSpec, name: str) -> None:
        await self._for(disk).revert(disk, name)

    async def remove(self, disk: DiskSpec, name: str) -> None:
        await self._for(disk).remove(disk, name)


def place_of(path: str, name: str) -> str:
    """Of the snapshot *name* of the image at *path*."""
    return f"{path}{MARK}{name}"


def rename_with(old_path: str, path: str) -> None:
    """Let the snapshots of an image follow it to another name."""
    for name in _kept(old_path):
        image_io.publish(name, path + name.removeprefix(old_path))


def remove_all(path: str) -> None:
    for name in _kept(path, unfinished=True):
        image_io.unlink(name)


def _kept(path: str, *, unfinished: bool = False) -> list[str]:
    directory, image = os.path.split(path)
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        f"{directory}/{name}"
        for name in names
        if name.startswith(f"{image}{MARK}")
        if unfinished or not name.endswith(".new")
    ]


def _unfinished(target: str) -> str:
    return f"{target}.new"


def _copy(source: str, target: str, size: int) -> None:
    """Whole and durable, or as before."""
    needed_mib = os.stat(source).st_blocks * 512 // MIB + 1
    _, free_mib = image_io.space_mib(os.path.dirname(target))
    if free_mib < needed_mib:
        raise BlockDeviceError(
            f"Disk {source} cannot be copied for a snapshot: {needed_mib} MiB are needed, {free_mib} MiB are free there"
        )
    fresh = _unfinished(target)
    image_io.write_raw(fresh, size, full=False)
    image_io.copy_raw(source, fresh)
    image_io.publish(fresh, target)


def _remove(path: str) -> None:
    image_io.unlink(path)
    image_io.sync(os.path.dirname(path))

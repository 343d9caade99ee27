# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of logical volumes: volumes ``VOLUME.snap-NAME`` with room for all of the origin, so that none overflows.

Reverting merges the snapshot into the volume, which uses it up, and takes it again. The volume has a tag meanwhile:
with the tag and without the snapshot, the volume itself has the snapshot's content, and no instance may use it until
the snapshot is taken.
"""

import asyncio

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import Snapshot
from ganeti.model.node_calls.exports import EXPORTED
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.interface import Snapshots
from ganeti.node.storage.lvm.volumes import Volume, Volumes

MARK = ".snap-"
_MERGE_S, _POLL_S = 600, 0.2


class VolumeSnapshots(Snapshots):
    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes

    async def of(self, disk: DiskSpec) -> list[Snapshot]:
        group, name = disk.logical_id
        volumes = await self._volumes.of_group(group)
        found = {each.name.removeprefix(f"{name}{MARK}") for each in volumes if each.name.startswith(f"{name}{MARK}")}
        found |= {each.reverting for each in volumes if each.name == name and each.reverting}
        times = await self._volumes.times(group)
        kept = [Snapshot(name=each, created_s=times.get(f"{name}{MARK}{each}", 0.0)) for each in found]
        return sorted(kept, key=lambda each: (each.created_s, each.name))

    async def take(self, disk: DiskSpec, name: str) -> None:
        group, origin = disk.logical_id
        _, there = await self._look(disk, name)
        if there is None:
            await self._volumes.snapshot(group, origin, f"{origin}{MARK}{name}")

    async def has_whole(self, disk: DiskSpec, name: str) -> bool:
        """Whether the disk can go back to this snapshot, or is on its way."""
        volume, there = await self._look(disk, name)
        return volume.reverting == name or (there is not None and not there.broken)

    async def check_revert(self, disk: DiskSpec, name: str) -> None:
        volume, there = await self._look(disk, name)
        if volume.reverting != name and there is not None and there.broken:
            raise BlockDeviceError(
                f"Snapshot {name} of disk {disk.index} has overflown, or a part of it is gone, so what it kept is "
                "lost: remove it (gnt-instance snapshot remove)"
            )

    async def revert(self, disk: DiskSpec, name: str) -> None:
        """Completes what was interrupted, too."""
        group, origin = disk.logical_id
        kept = f"{origin}{MARK}{name}"
        volume, there = await self._look(disk, name)
        if volume.reverting != name:
            await self.check_revert(disk, name)
            volume.require_whole()
            if there is None:
                raise BlockDeviceError(f"Disk {disk.index} has no snapshot {name}")
            await self._volumes.begin_revert(volume, name)
        if there is not None:
            await self._merge(group, kept, begun=there.merging)
        await self.take(disk, name)
        await self._volumes.end_revert(volume, name)

    async def _merge(self, group: str, kept: str, *, begun: bool) -> None:
        if not begun:
            await self._volumes.merge(group, kept)
        for _ in range(int(_MERGE_S / _POLL_S)):
            if await self._volumes.look(group, kept) is None:
                break
            await asyncio.sleep(_POLL_S)
        else:
            raise BlockDeviceError(f"Volume {group}/{kept} is still being merged: see lvs, and revert again later")

    async def remove(self, disk: DiskSpec, name: str) -> None:
        group, origin = disk.logical_id
        volume = await self._volumes.look(group, origin)
        if volume is not None and volume.reverting == name:
            await self._volumes.end_revert(volume, name)
        if await self._volumes.look(group, f"{origin}{MARK}{name}") is not None:
            await self._volumes.remove(group, f"{origin}{MARK}{name}")

    def device(self, disk: DiskSpec, name: str) -> str:
        group, origin = disk.logical_id
        return self._volumes.path(group, f"{origin}{MARK}{name}")

    async def _look(self, disk: DiskSpec, name: str) -> tuple[Volume, Volume | None]:
        """The volume, and its snapshot if it has one of this name."""
        group, origin = disk.logical_id
        volume = await self._volumes.look(group, origin)
        if volume is None:
            raise BlockDeviceError(f"Disk {group}/{origin} is missing")
        return volume, await self._volumes.look(group, f"{origin}{MARK}{name}")


def is_of_disk(name: str, names: set[str]) -> bool:
    """Whether a volume is a snapshot of another one of *names* that is there to stay: none that an export has left."""
    origin, mark, snapshot = name.partition(MARK)
    return bool(mark) and origin in names and snapshot != EXPORTED

# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of a mirrored volume: each node keeps one of its volume with the data.

Two nodes take theirs one after the other, and a guest may write in between. So when a disk has gone back, DRBD's own
data of the copy that is not the primary's are made anew: it gets everything when both are next connected.
"""

from collections.abc import Awaitable, Callable

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import Snapshot
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.drbd.places import volumes
from ganeti.node.storage.interface import Snapshots
from ganeti.node.storage.lvm.snapshots import VolumeSnapshots


class ReplicatedSnapshots(Snapshots):
    """Of the copy that node *node_name* has; *give_up* says of a closed one that it has nothing yet."""

    def __init__(
        self,
        of_volumes: VolumeSnapshots,
        node_name: str,
        is_open: Callable[[DiskSpec], Awaitable[bool]],
        give_up: Callable[[DiskSpec], Awaitable[None]],
    ) -> None:
        self._of_volumes = of_volumes
        self._node_name = node_name
        self._is_open, self._give_up = is_open, give_up

    async def of(self, disk: DiskSpec) -> list[Snapshot]:
        return await self._of_volumes.of(_data(disk))

    async def take(self, disk: DiskSpec, name: str) -> None:
        await self._of_volumes.take(_data(disk), name)

    async def remove(self, disk: DiskSpec, name: str) -> None:
        await self._of_volumes.remove(_data(disk), name)

    async def revert(self, disk: DiskSpec, name: str) -> None:
        if await self._is_open(disk):
            raise BlockDeviceError(
                f"Disk {disk.index} is in use on node {self._node_name}: close it first (gnt-instance deactivate-disks)"
            )
        if disk.primary == self._node_name:
            await self._of_volumes.revert(_data(disk), name)
            return
        await self._give_up(disk)
        if name in [each.name for each in await self.of(disk)]:
            await self._of_volumes.revert(_data(disk), name)

    async def remove_all(self, disk: DiskSpec) -> None:
        """Before the volume gets another name, under which they would not be found."""
        for each in await self.of(disk):
            await self.remove(disk, each.name)


def _data(disk: DiskSpec) -> DiskSpec:
    data, _ = volumes(disk)
    return data

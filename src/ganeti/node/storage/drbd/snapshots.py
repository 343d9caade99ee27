# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of a mirrored volume: each node keeps one of its volume with the data.

Two nodes take theirs one after the other, and a guest may write in between. So when a disk has gone back, DRBD's own
data of the copy that is not the primary's are made anew: it gets everything when both are next connected.
"""

from collections.abc import Awaitable, Callable

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import Snapshot
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.drbd.owners import own_device
from ganeti.node.storage.drbd.places import link_of, volumes
from ganeti.node.storage.drbd.states import BEHIND
from ganeti.node.storage.drbd.tools import Tools
from ganeti.node.storage.interface import Snapshots
from ganeti.node.storage.lvm.driver import LogicalVolumes
from ganeti.node.storage.lvm.snapshots import VolumeSnapshots


class ReplicatedSnapshots(Snapshots):
    """Of the copy that node *node_name* has; *tools* gives those of its kernel module."""

    def __init__(self, volumes: LogicalVolumes, node_name: str, tools: Callable[[], Awaitable[Tools]]) -> None:
        self._volumes = volumes
        self._of_volumes = VolumeSnapshots(volumes.volumes)
        self._node_name = node_name
        self._tools = tools

    async def of(self, disk: DiskSpec) -> list[Snapshot]:
        return await self._of_volumes.of(_data(disk))

    async def take(self, disk: DiskSpec, name: str) -> None:
        await self._of_volumes.take(_data(disk), name)

    async def remove(self, disk: DiskSpec, name: str) -> None:
        await self._of_volumes.remove(_data(disk), name)

    def device(self, disk: DiskSpec, name: str) -> str:
        return self._of_volumes.device(_data(disk), name)

    async def check_revert(self, disk: DiskSpec, name: str) -> None:
        """DRBD makes nobody primary whose copy is not complete, and the other one is given up when a disk goes back."""
        link, tools = link_of(disk, self._node_name), await self._tools()
        if await own_device(tools, disk, link) is not None:
            raise BlockDeviceError(
                f"Disk {disk.index} is in use on node {self._node_name}: close it first (gnt-instance deactivate-disks)"
            )
        if disk.primary != self._node_name:
            return
        data, meta = volumes(disk)
        await self._of_volumes.check_revert(data, name)
        state = await tools.metadata_state(link, await self._volumes.stored_path(meta))
        if state is None or state in BEHIND:
            raise BlockDeviceError(
                f"The copy of disk {disk.index} on node {self._node_name} is not complete ({state or 'no DRBD data'}): "
                "have it made equal first (gnt-instance activate-disks --wait-for-sync)"
            )

    async def revert(self, disk: DiskSpec, name: str) -> None:
        await self.check_revert(disk, name)
        link = link_of(disk, self._node_name)
        if disk.primary == self._node_name:
            await self._of_volumes.revert(_data(disk), name)
            return
        _, meta = volumes(disk)
        await (await self._tools()).create_metadata(link, await self._volumes.stored_path(meta))
        if await self._of_volumes.has_whole(_data(disk), name):
            await self._of_volumes.revert(_data(disk), name)

    async def remove_all(self, disk: DiskSpec) -> None:
        """Before the volume gets another name, under which they would not be found."""
        for each in await self.of(disk):
            await self.remove(disk, each.name)


def _data(disk: DiskSpec) -> DiskSpec:
    data, _ = volumes(disk)
    return data

# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of a mirrored disk: each node keeps a copy of its own image beside it, as for raw images.

Going back, each node takes its own. From then on the two are not known to be equal, so that all of the primary's is
copied to the other node when the disk is next opened, as after a loss of power.
"""

import os
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.image_io import in_thread
from ganeti.node.storage.mirror.places import Places, read_kept, write_kept
from ganeti.node.storage.raw_snapshots import RawSnapshots, place_of


class CopySnapshots(RawSnapshots):
    """Of the copy that node *node_name* has."""

    def __init__(self, place: Callable[[DiskSpec], Awaitable[str]], node_name: str, places: Places) -> None:
        super().__init__(place)
        self._node_name = node_name
        self._places = places

    async def check_revert(self, disk: DiskSpec, name: str) -> None:
        del name
        if self._places.is_open(disk.uuid):
            raise BlockDeviceError(
                f"Disk {disk.index} is in use on node {self._node_name}: close it first (gnt-instance deactivate-disks)"
            )
        if disk.primary == self._node_name and not (await in_thread(read_kept, await self._place(disk))).valid:
            raise BlockDeviceError(
                f"The copy of disk {disk.index} on node {self._node_name} is not complete: have it made equal first "
                "(gnt-instance activate-disks --wait-for-sync)"
            )

    async def revert(self, disk: DiskSpec, name: str) -> None:
        path = await self._place(disk)
        await self.check_revert(disk, name)
        there = await in_thread(os.path.exists, place_of(path, name))
        if disk.primary == self._node_name and not there:
            raise BlockDeviceError(f"Disk {disk.index} has no snapshot {name} on node {self._node_name}")
        await in_thread(_part, path, valid=there)
        if there:
            await super().revert(disk, name)


def _part(path: str, *, valid: bool) -> None:
    """Note, before anything changes, that the two copies are not equal; one that does not go back is not *valid*."""
    kept = read_kept(path)
    write_kept(path, replace(kept, clean=False, valid=kept.valid and valid))

# SPDX-License-Identifier: BSD-2-Clause
"""The volumes of a copy that is made anew: ``VOLUME.old``, kept until the new copy has everything.

The volume with the data is renamed first. So where it is missing, and its old one has no data of DRBD beside it yet,
the renaming was cut short; where it is there, the old ones are a removal that was.
"""

from collections.abc import Sequence

from msgspec import structs

from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.lvm.driver import LogicalVolumes

OLD = ".old"


class ReplacedVolumes:
    """Of one disk on this node: the volume with the data, and the one with DRBD's own."""

    def __init__(self, driver: LogicalVolumes, volumes: Sequence[DiskSpec]) -> None:
        self._driver = driver
        self._data, self._meta = volumes

    async def make_way(self, *, complete: bool) -> None:
        """Give the names free: a *complete* copy becomes the old one, another one is removed."""
        if complete:
            await self.forget()
            for volume in (self._data, self._meta):
                await self._driver.rename(volume, old_of(volume).logical_id)
            return
        if await self._was_cut_short():
            await self._driver.rename(self._meta, old_of(self._meta).logical_id)
        for volume in (self._meta, self._data):
            await self._driver.remove(volume)

    async def put_back(self) -> None:
        """Let the copy that was set aside just now be the copy again, where a new one could not be made."""
        old_data, old_meta = old_of(self._data), old_of(self._meta)
        if await self._driver.find(old_data) is None:
            return
        # First, so that a new volume never lies beside the old one's data of DRBD.
        await self._driver.remove(self._data)
        if await self._driver.find(old_meta) is not None:
            await self._driver.remove(self._meta)
            await self._driver.rename(old_meta, self._meta.logical_id)
        await self._driver.rename(old_data, self._data.logical_id)

    async def forget(self) -> None:
        """Remove the old copy."""
        for volume in (self._data, self._meta):
            await self._driver.remove(old_of(volume))

    async def _was_cut_short(self) -> bool:
        there = [await self._driver.find(each) is not None for each in (self._data, old_of(self._data))]
        return there == [False, True] and await self._driver.find(old_of(self._meta)) is None


def old_of(volume: DiskSpec) -> DiskSpec:
    group, name = volume.logical_id
    return structs.replace(volume, logical_id=[group, f"{name}{OLD}"])

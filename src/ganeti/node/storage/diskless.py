# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `diskless`: instances without disks, so there is nothing to make or find."""

from collections.abc import Sequence

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import DiskStatus
from ganeti.model.node_calls.node import StorageSpace
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.model.templates import NO_DISKS, TEMPLATES
from ganeti.node.storage.interface import DiskTemplate


class NoDisks(DiskTemplate):
    traits = TEMPLATES[NO_DISKS]

    async def create(self, disk: DiskSpec) -> None:
        raise self._none()

    async def remove(self, disk: DiskSpec) -> None:
        """There was never one."""

    async def activate(self, disk: DiskSpec, owner: str, *, for_migration: bool = False) -> AttachedDisk:
        raise self._none()

    async def deactivate(self, disk: DiskSpec) -> None:
        """There was never one."""

    async def find(self, disk: DiskSpec) -> DiskStatus | None:
        return None

    async def grow(self, disk: DiskSpec, amount_mib: int, *, in_use: bool = False) -> None:
        raise self._none()

    async def wipe(self, disk: DiskSpec, offset_mib: int, size_mib: int) -> None:
        raise self._none()

    async def space(self, setting: str) -> StorageSpace:
        return StorageSpace(type=self.traits.storage_type, name=setting, storage_size=None, storage_free=None)

    async def verify(self, setting: str) -> list[str]:
        return []

    async def list_owned(self, setting: str) -> Sequence[str]:
        return []

    def _none(self) -> BlockDeviceError:
        return BlockDeviceError("Instances of the template diskless have no disks: choose another template")

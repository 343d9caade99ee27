# SPDX-License-Identifier: BSD-2-Clause
"""A disk template in memory that keeps a copy on each of two nodes: what a mirrored template looks like from outside.

The logical id is ``["pair", NODE, NODE, NAME]``. What the primary writes is in each copy that follows it as soon as a
driver is next asked anything; a new copy is in sync after its primary has been asked twice how far it is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import DiskStatus
from ganeti.model.node_calls.node import StorageSpace
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.model.traits import TemplateTraits
from ganeti.node.storage.interface import DiskTemplate, GivesBack
from ganeti.ports.node_world import NodeWorld

MIB = 1024 * 1024
PRIMARY, SECONDARY, CLOSED = "primary", "secondary", "closed"


@dataclass
class Copy:
    """One node's copy of a disk."""

    descriptor: int
    role: str = CLOSED
    owner: str = ""
    shares: bool = False
    """Whether it may be primary beside another one."""
    valid: bool = False
    """Whether it holds all that was written."""
    percent: float = 0.0

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size


@dataclass
class Pairs:
    """All copies on all nodes, by disk name and node."""

    disks: dict[str, dict[str, Copy]] = field(default_factory=dict)

    def left(self) -> list[str]:
        return sorted(f"{name} on {node}" for name, copies in self.disks.items() for node in copies)

    def roles(self, name: str) -> dict[str, str]:
        return {node: copy.role for node, copy in sorted(self.disks.get(name, {}).items())}

    def close(self) -> None:
        for copies in self.disks.values():
            for copy in copies.values():
                os.close(copy.descriptor)
        self.disks.clear()


class PairedDisks(DiskTemplate, GivesBack):
    traits = TemplateTraits(name="pair", storage_type="pair", node_count=2)

    def __init__(self, world: NodeWorld, pairs: Pairs, setting: str = "") -> None:
        super().__init__(world)
        self.pairs = pairs
        self.setting = setting

    async def create(self, disk: DiskSpec) -> None:
        copies = self._copies(disk)
        if self.world.node_name not in (disk.copies or disk.logical_id[1:3]):
            raise BlockDeviceError(f"Disk {_name(disk)} cannot be made: it has no copy on {self.world.node_name}")
        mine = copies.get(self.world.node_name)
        if mine is None:
            descriptor = os.memfd_create(_name(disk))
            os.ftruncate(descriptor, disk.size_mib * MIB)
            self.pairs.disks.setdefault(_name(disk), {})[self.world.node_name] = Copy(descriptor)
        elif mine.size != disk.size_mib * MIB:
            raise BlockDeviceError(
                f"Disk {_name(disk)} of {disk.size_mib} MiB cannot be made: there is one of {mine.size // MIB} MiB"
            )

    async def remove(self, disk: DiskSpec) -> None:
        copies = self._copies(disk)
        mine = copies.pop(self.world.node_name, None)
        if mine is not None:
            os.close(mine.descriptor)
        if not copies:
            self.pairs.disks.pop(_name(disk), None)

    async def activate(self, disk: DiskSpec, owner: str, *, for_migration: bool = False) -> AttachedDisk:
        mine, others = self._mine(disk), self._others(disk)
        for node, other in others.items():
            if other.role == PRIMARY and not (for_migration and other.shares and mine.valid):
                raise BlockDeviceError(f"Disk {_name(disk)} is in use on node {node} by instance {other.owner}")
            if other.valid and not mine.valid:
                raise BlockDeviceError(f"The copy of disk {_name(disk)} is behind that of node {node}")
        mine.role, mine.owner, mine.shares, mine.valid = PRIMARY, owner, for_migration, True
        for other in others.values():
            if other.role == CLOSED:  # from now on it misses what is written
                other.valid = False
        return AttachedDisk(spec=disk, path=f"/proc/self/fd/{mine.descriptor}")

    async def deactivate(self, disk: DiskSpec) -> None:
        self._take_role(disk, CLOSED)

    async def become_secondary(self, disk: DiskSpec) -> None:
        self._take_role(disk, SECONDARY)

    async def settle_migration(self, disk: DiskSpec, owner: str, *, arrived: bool) -> None:
        mine = self._copies(disk).get(self.world.node_name)
        if mine is None:
            return
        if arrived:
            for other in self._others(disk).values():
                other.role = SECONDARY if other.role == PRIMARY else other.role
            await self.activate(disk, owner)
        elif mine.shares:
            self._take_role(disk, SECONDARY)

    async def steal(self, disk: DiskSpec, owner: str, reason: str) -> None:
        mine = self._mine(disk)
        for node, other in self._others(disk).items():
            if other.role == PRIMARY:
                self.world.log(f"disk {_name(disk)} taken from {node} for {owner}: {reason}")
            other.role, other.valid = CLOSED, False
        mine.valid = True

    async def find(self, disk: DiskSpec) -> DiskStatus | None:
        mine = self._copies(disk).get(self.world.node_name)
        if mine is None:
            return None
        wanted = disk.copies or self._others(disk)
        others = [other for node, other in self._others(disk).items() if node in wanted]
        for other in others:
            if mine.role == PRIMARY and other.role == SECONDARY and not other.valid:
                other.percent += 50.0
                other.valid = other.percent >= 100.0
        behind = [other for other in others if mine.role == PRIMARY and not other.valid]
        following = [other.percent for other in behind if other.role == SECONDARY]
        return DiskStatus(
            dev_path=_name(disk),
            size_mib=mine.size // MIB,
            sync_percent=min(following, default=None),
            is_degraded=bool(behind) or len(others) == 0,
        )

    async def grow(self, disk: DiskSpec, amount_mib: int, *, in_use: bool = False) -> None:
        mine, wanted = self._mine(disk), (disk.size_mib + amount_mib) * MIB
        if mine.size < wanted:
            os.ftruncate(mine.descriptor, wanted)

    async def ungrow(self, disk: DiskSpec) -> None:
        os.ftruncate(self._mine(disk).descriptor, disk.size_mib * MIB)

    async def wipe(self, disk: DiskSpec, offset_mib: int, size_mib: int) -> None:
        mine, end_mib = self._mine(disk), offset_mib + size_mib
        if end_mib * MIB > mine.size:
            raise BlockDeviceError(f"Disk {_name(disk)} cannot be wiped from {offset_mib} to {end_mib} MiB")
        os.pwrite(mine.descriptor, bytes(size_mib * MIB), offset_mib * MIB)

    async def space(self, setting: str) -> StorageSpace:
        known = 1000 if setting == self.setting else None
        return StorageSpace(type=self.traits.storage_type, name=setting, storage_size=known, storage_free=known)

    async def verify(self, setting: str) -> list[str]:
        return []

    async def list_owned(self, setting: str) -> Sequence[str]:
        return sorted(name for name, copies in self.pairs.disks.items() if self.world.node_name in copies)

    def _copies(self, disk: DiskSpec) -> dict[str, Copy]:
        copies = self.pairs.disks.get(_name(disk), {})
        primaries = [copy for copy in copies.values() if copy.role == PRIMARY]
        for copy in copies.values():
            if len(primaries) == 1 and copy.role == SECONDARY and copy.valid:
                _duplicate(primaries[0], copy)
        return copies

    def _mine(self, disk: DiskSpec) -> Copy:
        mine = self._copies(disk).get(self.world.node_name)
        if mine is None:
            raise BlockDeviceError(f"The copy of disk {_name(disk)} on {self.world.node_name} is missing")
        return mine

    def _others(self, disk: DiskSpec) -> dict[str, Copy]:
        return {node: copy for node, copy in self._copies(disk).items() if node != self.world.node_name}

    def _take_role(self, disk: DiskSpec, role: str) -> None:
        mine = self._copies(disk).get(self.world.node_name)
        if mine is None:
            return
        if role == CLOSED and any(other.role == PRIMARY for other in self._others(disk).values()):
            mine.valid = False
        mine.role, mine.owner, mine.shares = role, "", False


def _duplicate(source: Copy, target: Copy) -> None:
    """Holes stay holes: a disk of many MiB costs what is written on it."""
    os.ftruncate(target.descriptor, 0)
    os.ftruncate(target.descriptor, source.size)
    end = 0
    while end < source.size:
        try:
            start = os.lseek(source.descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing is written after this
                return
            raise
        end = os.lseek(source.descriptor, start, os.SEEK_HOLE)
        os.pwrite(target.descriptor, os.pread(source.descriptor, end - start, start), start)


del DiskTemplate.registry[PairedDisks.traits.name]  # a driver of the tests: nodes do not know it


def _name(disk: DiskSpec) -> str:
    return str(disk.logical_id[-1])

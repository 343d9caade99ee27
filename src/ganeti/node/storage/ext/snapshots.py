# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of a provider's volumes: volumes ``VOLUME.snap-NAME``, made by its script `snapshot`.

No script lists volumes, so the configuration keeps the names (`Disk.snapshots`), and a disk brings them along. No
script goes back to one either: what the volume of the snapshot holds is copied into the disk.
"""

import contextlib
import os
from typing import Protocol

from msgspec.structs import replace

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import DiskStatus, Snapshot
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.ext.paths import as_path
from ganeti.node.storage.ext.scripts import Provider, ScriptFailedError, find_provider, volume_of
from ganeti.node.storage.ext.users import VolumeUsers
from ganeti.node.storage.image_io import MIB, in_thread
from ganeti.node.storage.interface import Snapshots
from ganeti.ports.node_world import NodeWorld

MARK = ".snap-"
SCRIPT = "snapshot"


class Volumes(Protocol):
    """What the template does with any volume of a provider."""

    world: NodeWorld
    users: VolumeUsers

    async def find(self, disk: DiskSpec) -> DiskStatus | None: ...

    async def remove(self, disk: DiskSpec) -> None: ...

    def is_open(self, disk: DiskSpec) -> bool: ...

    def note_absence(self, disk: DiskSpec) -> None: ...


class VolumeSnapshots(Snapshots):
    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes

    async def of(self, disk: DiskSpec) -> list[Snapshot]:
        kept = [Snapshot(name=name, created_s=created_s) for name, created_s in disk.snapshots.items()]
        return sorted(kept, key=lambda each: (each.created_s, each.name))

    async def take(self, disk: DiskSpec, name: str) -> None:
        provider, kept = find_provider(self._volumes.world, disk), kept_as(disk, name)
        made = await self._volumes.find(kept)
        if made is None:
            await self._make(provider, disk, kept)
            made = await self._volumes.find(kept)
        if made is not None and (made.size_mib is None or made.size_mib >= disk.size_mib):
            return
        with contextlib.suppress(BlockDeviceError):
            await provider.run("remove", kept)
            await in_thread(self._volumes.note_absence, kept)
        if made is None:
            await in_thread(self._volumes.note_absence, kept)
        fault = "cannot be attached" if made is None else f"has {made.size_mib} MiB of {disk.size_mib} MiB"
        raise BlockDeviceError(
            f"Provider {provider.name} says that it made snapshot {name} of volume {volume_of(disk)}, but volume "
            f"{volume_of(kept)} {fault}"
        )

    async def check_revert(self, disk: DiskSpec, name: str) -> None:
        del name
        if await in_thread(self._volumes.is_open, disk):
            raise BlockDeviceError(f"Disk {disk.index} is in use: close it first (gnt-instance deactivate-disks)")

    async def revert(self, disk: DiskSpec, name: str) -> None:
        """Repeated after an interruption, it copies everything again."""
        if name not in disk.snapshots:
            raise BlockDeviceError(f"Disk {disk.index} has no snapshot {name}")
        await self.check_revert(disk, name)
        world, users = self._volumes.world, self._volumes.users
        provider, kept = find_provider(world, disk), kept_as(disk, name)
        try:
            async with (
                users.attached(provider, kept) as old,
                users.attached(provider, disk) as new,
                as_path(world, kept, old) as source,
                as_path(world, disk, new) as target,
            ):
                await in_thread(_put_back, source, target, disk.size_mib * MIB)
        except ScriptFailedError as err:
            raise BlockDeviceError(f"Snapshot {name} of disk {disk.index} cannot be reached: {err}") from err
        except OSError as err:
            raise BlockDeviceError(
                f"Disk {disk.index} cannot be given the content of snapshot {name}: {err.strerror}"
            ) from err

    async def remove(self, disk: DiskSpec, name: str) -> None:
        """Raises `BlockDeviceError` where it may be there still."""
        await self._volumes.remove(kept_as(disk, name))

    async def _make(self, provider: Provider, disk: DiskSpec, kept: DiskSpec) -> None:
        if not provider.has(SCRIPT):
            await in_thread(self._volumes.note_absence, kept)
            raise BlockDeviceError(
                f"Provider {provider.name} has no script snapshot: use one that has, or back the instance up "
                "(gnt-backup export)"
            )
        told = {"VOL_SNAPSHOT_NAME": volume_of(kept), "VOL_SNAPSHOT_SIZE": str(disk.size_mib)}
        try:
            await provider.run(SCRIPT, disk, **told)
        except ScriptFailedError:
            if await self._volumes.find(kept) is None:  # two scripts say so: the undo has nothing to remove
                await in_thread(self._volumes.note_absence, kept)
            raise


def kept_as(disk: DiskSpec, name: str) -> DiskSpec:
    """The volume that keeps the snapshot *name* of a disk."""
    provider, volume = disk.logical_id
    return replace(disk, logical_id=[provider, f"{volume}{MARK}{name}"], snapshots={})


def _put_back(source: str, target: str, size: int) -> None:
    """Let the device *target* hold what *source* does, and zeros behind that, durably; what is equal is not written."""
    with contextlib.ExitStack() as opened:
        old = opened.enter_context(open(source, "rb", buffering=0)).fileno()
        new = opened.enter_context(open(target, "r+b", buffering=0)).fileno()
        for position in range(0, size, MIB):
            length = min(MIB, size - position)
            wanted = os.pread(old, length, position).ljust(length, b"\0")
            if os.pread(new, length, position) != wanted:
                _write(new, wanted, position)
        os.fsync(new)


def _write(descriptor: int, data: bytes, position: int) -> None:
    left = memoryview(data)
    while left:
        done = os.pwrite(descriptor, left, position)
        left, position = left[done:], position + done

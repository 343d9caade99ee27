# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about single disks, and the directories of disks that are files."""

import asyncio
import errno
import os
from typing import Any

from ganeti.base.errors import BlockDeviceError, GanetiError
from ganeti.model.node_calls.disks import (
    BlockdevCheckNew,
    BlockdevFind,
    BlockdevFindEach,
    BlockdevGetdimensions,
    DiskStatus,
    FoundDisk,
)
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.node.actions.registry import FAST_S, SLOW_S, answers, node_call
from ganeti.node.state import NodeState
from ganeti.node.storage.allowed_paths import AllowedPaths
from ganeti.node.storage.copying import copy_disk
from ganeti.node.storage.image_io import in_thread
from ganeti.node.storage.interface import GivesBack

_LOOKED_AT_ONCE = 4
"""Each look may start programs."""


@answers(BlockdevCheckNew, changes=False)
async def blockdev_check_new(node: NodeState, asked: BlockdevCheckNew) -> None:
    for disk in asked.disks:
        await node.template_of(disk).check_new(disk)


@node_call(timeout_s=SLOW_S)
async def blockdev_create(node: NodeState, *, disk: DiskSpec) -> None:
    """Make a disk, whole or not at all."""
    await node.template_of(disk).create(disk)
    node.world.log(f"disk {disk.label} of {disk.size_mib} MiB made")


@node_call(timeout_s=SLOW_S)
async def blockdev_wipe(node: NodeState, *, disk: DiskSpec, offset_mib: int, size_mib: int) -> None:
    """Write zeros over a part of a disk that nobody uses."""
    await node.template_of(disk).wipe(disk, offset_mib, size_mib)


@node_call(timeout_s=SLOW_S)
async def blockdev_convert(node: NodeState, *, source: DiskSpec, target: DiskSpec, owner: str) -> None:
    """Copy a disk of *owner*, which does not run, to a new one of the same size, and compare them; both are open."""
    disks = [
        await node.template_of(disk).as_file(await node.template_of(disk).activate(disk, owner))
        for disk in (source, target)
    ]
    await copy_disk(node.world, *disks)
    node.world.log(f"disk {source.label} of instance {owner} copied to {target.label}")


@node_call()
async def blockdev_remove(node: NodeState, *, disk: DiskSpec) -> None:
    await node.template_of(disk).remove(disk)
    node.world.log(f"disk {disk.label} removed")


@node_call(timeout_s=SLOW_S)
async def blockdev_renew(node: NodeState, *, disk: DiskSpec) -> None:
    """Make this node's copy anew, empty; another node gives it the content when both are open."""
    await node.template_of(disk).renew(disk)
    node.world.log(f"copy of disk {disk.label} made anew")


@node_call()
async def blockdev_rename(node: NodeState, *, disk: DiskSpec, logical_id: list[Any]) -> None:
    """Give a closed disk another logical id; where that names it already, nothing is done."""
    await node.template_of(disk).rename(disk, logical_id)
    node.world.log(f"disk {disk.label} renamed to {logical_id[-1]}")


@node_call()
async def blockdev_adopt(node: NodeState, *, disk: DiskSpec, source: list[Any]) -> None:
    """Let a volume that nobody uses become a disk."""
    await node.template_of(disk).adopt(disk, source)
    node.world.log(f"volume {source[-1]} is disk {disk.label} now")


@node_call()
async def blockdev_assemble(
    node: NodeState, *, disk: DiskSpec, owner: str, for_migration: bool = False
) -> AttachedDisk:
    """Make a disk usable here by the instance *owner*."""
    return await node.template_of(disk).activate(disk, owner, for_migration=for_migration)


@node_call()
async def blockdev_shutdown(node: NodeState, *, disk: DiskSpec) -> None:
    await node.template_of(disk).deactivate(disk)


@answers(BlockdevFind, changes=False)
async def blockdev_find(node: NodeState, asked: BlockdevFind) -> DiskStatus | None:
    return await node.template_of(asked.disk).find(asked.disk)


@answers(BlockdevFindEach, changes=False)
async def blockdev_find_each(node: NodeState, asked: BlockdevFindEach) -> list[FoundDisk]:
    places = asyncio.Semaphore(_LOOKED_AT_ONCE)

    async def look(disk: DiskSpec) -> FoundDisk:
        async with places:
            try:
                return FoundDisk(status=await node.template_of(disk).find(disk))
            except GanetiError as err:
                return FoundDisk(fault=str(err))

    return await asyncio.gather(*map(look, asked.disks))


@node_call(timeout_s=SLOW_S)
async def blockdev_grow(node: NodeState, *, disk: DiskSpec, amount_mib: int, in_use: bool = False) -> None:
    """Grow a disk to the size in *disk* plus *amount_mib*; *in_use* says that a guest has it open."""
    await node.template_of(disk).grow(disk, amount_mib, in_use=in_use)
    node.world.log(f"disk {disk.label} grown by {amount_mib} MiB to {disk.size_mib + amount_mib} MiB")


@node_call()
async def blockdev_ungrow(node: NodeState, *, disk: DiskSpec) -> None:
    """Cut a secondary's copy to the size in *disk*: the primary's has not grown, so nothing is behind that."""
    template = node.template_of(disk)
    if isinstance(template, GivesBack):
        await template.ungrow(disk)
        node.world.log(f"disk {disk.label} has {disk.size_mib} MiB again")


@answers(BlockdevGetdimensions, changes=False)
async def blockdev_getdimensions(node: NodeState, asked: BlockdevGetdimensions) -> list[tuple[int, int | None] | None]:
    found = [await node.template_of(disk).find(disk) for disk in asked.disks]
    return [
        None if status is None or status.size_mib is None else (status.size_mib, status.spindles) for status in found
    ]


@node_call()
async def blockdev_steal(node: NodeState, *, disk: DiskSpec, owner: str, reason: str) -> None:
    """Take a disk from a dead node; the caller answers for nothing writing there any more."""
    await node.template_of(disk).steal(disk, owner, reason)


@node_call(timeout_s=FAST_S)
async def file_storage_dir_create(node: NodeState, *, file_storage_dir: str) -> None:
    """Make a directory of disks below an allowed one."""
    await in_thread(_make_directory, AllowedPaths(node.paths), file_storage_dir)


@node_call(timeout_s=FAST_S)
async def file_storage_dir_remove(node: NodeState, *, file_storage_dir: str) -> None:
    """Remove an empty directory of disks; one that is gone, or allowed by the administrator by name, is left alone."""
    await in_thread(_remove_directory, AllowedPaths(node.paths), file_storage_dir)


def _make_directory(allowed: AllowedPaths, file_storage_dir: str) -> None:
    place = allowed.check(file_storage_dir, directory=True)
    try:
        os.makedirs(place, mode=0o750, exist_ok=True)
    except OSError as err:
        raise BlockDeviceError(f"Directory {file_storage_dir} cannot be made: {err.strerror}") from err


def _remove_directory(allowed: AllowedPaths, file_storage_dir: str) -> None:
    place = allowed.check(file_storage_dir, directory=True)
    if allowed.is_listed(file_storage_dir):
        return
    try:
        os.rmdir(place)
    except FileNotFoundError:
        return
    except OSError as err:
        if err.errno == errno.ENOTEMPTY:
            raise BlockDeviceError(f"Directory {file_storage_dir} cannot be removed: there are files in it") from err
        raise BlockDeviceError(f"Directory {file_storage_dir} cannot be removed: {err.strerror}") from err

# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about single disks, and the directories of disks that are files."""

import asyncio
import errno
import os

from ganeti.base.errors import BlockDeviceError, GanetiError
from ganeti.model.node_calls.disks import (
    FAULTY,
    GOOD,
    BlockdevAdopt,
    BlockdevAssemble,
    BlockdevCheckNew,
    BlockdevConvert,
    BlockdevCreate,
    BlockdevFind,
    BlockdevFindEach,
    BlockdevForgetReplaced,
    BlockdevGetdimensions,
    BlockdevGrow,
    BlockdevRemove,
    BlockdevRename,
    BlockdevRenew,
    BlockdevShutdown,
    BlockdevSteal,
    BlockdevUngrow,
    BlockdevWipe,
    DiskStatus,
    FileStorageDirCreate,
    FileStorageDirRemove,
    FoundDisk,
)
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState
from ganeti.node.storage.allowed_paths import AllowedPaths
from ganeti.node.storage.copying import copy_disk
from ganeti.node.storage.image_io import in_thread
from ganeti.node.storage.interface import GivesBack

_LOOKED_AT_ONCE = 4
"""Each look may start programs."""


@answers(BlockdevCheckNew)
async def blockdev_check_new(node: NodeState, asked: BlockdevCheckNew) -> None:
    for disk in asked.disks:
        await node.template_of(disk).check_new(disk)


@answers(BlockdevCreate)
async def blockdev_create(node: NodeState, asked: BlockdevCreate) -> None:
    disk = asked.disk
    await node.template_of(disk).create(disk)
    node.world.log(f"disk {disk.label} of {disk.size_mib} MiB made")


@answers(BlockdevWipe)
async def blockdev_wipe(node: NodeState, asked: BlockdevWipe) -> None:
    await node.template_of(asked.disk).wipe(asked.disk, asked.offset_mib, asked.size_mib)


@answers(BlockdevConvert)
async def blockdev_convert(node: NodeState, asked: BlockdevConvert) -> None:
    disks = [
        await node.template_of(disk).as_file(await node.template_of(disk).activate(disk, asked.owner))
        for disk in (asked.source, asked.target)
    ]
    await copy_disk(node.world, *disks, is_zero=node.template_of(asked.target).traits.new_disks_are_zeros)
    node.world.log(f"disk {asked.source.label} of instance {asked.owner} copied to {asked.target.label}")


@answers(BlockdevRemove)
async def blockdev_remove(node: NodeState, asked: BlockdevRemove) -> None:
    disk = asked.disk
    await node.template_of(disk).remove(disk)
    node.world.log(f"disk {disk.label} removed")


@answers(BlockdevRenew)
async def blockdev_renew(node: NodeState, asked: BlockdevRenew) -> None:
    disk, template = asked.disk, node.template_of(asked.disk)
    if asked.only_unusable and (found := await template.find(disk)) is not None and found.ldisk_status != FAULTY:
        node.world.log(f"copy of disk {disk.label} kept: it is usable")
        if found.ldisk_status == GOOD:
            await template.forget_replaced(disk)
        return
    await template.renew(disk)
    node.world.log(f"copy of disk {disk.label} made anew")


@answers(BlockdevForgetReplaced)
async def blockdev_forget_replaced(node: NodeState, asked: BlockdevForgetReplaced) -> None:
    await node.template_of(asked.disk).forget_replaced(asked.disk)


@answers(BlockdevRename)
async def blockdev_rename(node: NodeState, asked: BlockdevRename) -> None:
    disk = asked.disk
    await node.template_of(disk).rename(disk, asked.logical_id)
    node.world.log(f"disk {disk.label} renamed to {asked.logical_id[-1]}")


@answers(BlockdevAdopt)
async def blockdev_adopt(node: NodeState, asked: BlockdevAdopt) -> None:
    disk = asked.disk
    await node.template_of(disk).adopt(disk, asked.source)
    node.world.log(f"volume {asked.source[-1]} is disk {disk.label} now")


@answers(BlockdevAssemble)
async def blockdev_assemble(node: NodeState, asked: BlockdevAssemble) -> AttachedDisk:
    return await node.template_of(asked.disk).activate(asked.disk, asked.owner, for_migration=asked.for_migration)


@answers(BlockdevShutdown)
async def blockdev_shutdown(node: NodeState, asked: BlockdevShutdown) -> None:
    await node.template_of(asked.disk).deactivate(asked.disk)


@answers(BlockdevFind)
async def blockdev_find(node: NodeState, asked: BlockdevFind) -> DiskStatus | None:
    return await node.template_of(asked.disk).find(asked.disk)


@answers(BlockdevFindEach)
async def blockdev_find_each(node: NodeState, asked: BlockdevFindEach) -> list[FoundDisk]:
    places = asyncio.Semaphore(_LOOKED_AT_ONCE)

    async def look(disk: DiskSpec) -> FoundDisk:
        async with places:
            try:
                return FoundDisk(status=await node.template_of(disk).find(disk))
            except GanetiError as err:
                return FoundDisk(fault=str(err))

    return await asyncio.gather(*map(look, asked.disks))


@answers(BlockdevGrow)
async def blockdev_grow(node: NodeState, asked: BlockdevGrow) -> None:
    disk = asked.disk
    amount_mib = asked.amount_mib
    await node.template_of(disk).grow(disk, amount_mib, in_use=asked.in_use)
    node.world.log(f"disk {disk.label} grown by {amount_mib} MiB to {disk.size_mib + amount_mib} MiB")


@answers(BlockdevUngrow)
async def blockdev_ungrow(node: NodeState, asked: BlockdevUngrow) -> None:
    disk = asked.disk
    template = node.template_of(disk)
    if isinstance(template, GivesBack):
        await template.ungrow(disk)
        node.world.log(f"disk {disk.label} has {disk.size_mib} MiB again")


@answers(BlockdevGetdimensions)
async def blockdev_getdimensions(node: NodeState, asked: BlockdevGetdimensions) -> list[tuple[int, int | None] | None]:
    found = [await node.template_of(disk).find(disk) for disk in asked.disks]
    return [
        None if status is None or status.size_mib is None else (status.size_mib, status.spindles) for status in found
    ]


@answers(BlockdevSteal)
async def blockdev_steal(node: NodeState, asked: BlockdevSteal) -> None:
    await node.template_of(asked.disk).steal(asked.disk, asked.owner, asked.reason)


@answers(FileStorageDirCreate)
async def file_storage_dir_create(node: NodeState, asked: FileStorageDirCreate) -> None:
    await in_thread(_make_directory, AllowedPaths(node.paths), asked.file_storage_dir)


@answers(FileStorageDirRemove)
async def file_storage_dir_remove(node: NodeState, asked: FileStorageDirRemove) -> None:
    await in_thread(_remove_directory, AllowedPaths(node.paths), asked.file_storage_dir)


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

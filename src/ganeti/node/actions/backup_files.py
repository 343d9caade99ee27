# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that read a backup where it is kept: the files of its guest, and the guest that boots from it."""

import json
import os
import re
import shutil
from contextlib import suppress
from typing import Final

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.base.names import shown as printable
from ganeti.model.node_calls.backup_files import (
    BackupBoot,
    BackupFiles,
    BackupFileSystems,
    BackupReadFile,
    BackupRoom,
    BackupServe,
    BackupTakeFile,
    BackupUnserve,
    FetchedDiscard,
    FetchedWrite,
    FileSystem,
    FoundPath,
)
from ganeti.model.node_requests import AttachedDisk
from ganeti.node.actions.instances import start_on
from ganeti.node.actions.registry import answers
from ganeti.node.backups import served, volumes
from ganeti.node.backups.fat_files import FatFiles
from ganeti.node.backups.guest_files import GuestFiles
from ganeti.node.backups.room import require_room, room
from ganeti.node.backups.served import ServedChain
from ganeti.node.backups.xfs_files import XfsFiles
from ganeti.node.state import NodeState
from ganeti.node.storage import image_io, shown
from ganeti.node.storage.image_io import in_thread
from ganeti.system.files import plain_file

_PIECE_BYTES = 4 * 1024 * 1024
_FETCHED = re.compile(r"[0-9]{1,18}")
_TAKEN = "file"
_READERS: Final[dict[str, type[GuestFiles]]] = {volumes.FAT: FatFiles, volumes.XFS: XfsFiles}


@answers(BackupServe)
async def backup_serve(node: NodeState, asked: BackupServe) -> None:
    task = ServedChain(instance_uuid=asked.instance_uuid, chain=asked.chain, sizes=asked.sizes, key=asked.key)
    await served.serve(node.world, asked.name, task)


@answers(BackupUnserve)
async def backup_unserve(node: NodeState, asked: BackupUnserve) -> None:
    for disk in range(asked.disks):
        await shown.hide(node.world, _shown_as(asked.name, disk))
    await served.end(node.world, asked.name)
    await in_thread(shutil.rmtree, _spool(node, asked.name), ignore_errors=True)


@answers(BackupRoom)
async def backup_room(node: NodeState, asked: BackupRoom) -> int:
    del asked
    directory = node.paths.backup_scratch_dir
    try:
        return (await in_thread(room, directory))[0]
    except OSError as err:
        raise BlockDeviceError(f"{directory} cannot be used on node {node.world.node_name}: {err.strerror}") from err


@answers(BackupBoot)
async def backup_boot(node: NodeState, asked: BackupBoot) -> None:
    """Each disk is an image over the served one."""
    spool = _spool(node, asked.name)
    os.makedirs(spool, mode=0o700, exist_ok=True)
    disks = []
    for disk in asked.instance.disks:
        served_disk = served.disk_node(node.paths, asked.name, disk.index)
        below = json.dumps({"driver": image_io.RAW, "file": served_disk, "read-only": True})
        path = f"{spool}/disk{disk.index}.qcow2"
        words = ["qemu-img", "create", "-q", "-f", image_io.QCOW2, "-F", image_io.RAW, "-b", f"json:{below}", path]
        try:
            await node.world.run([*words, f"{disk.size_mib}M"])
        except CommandError as err:
            raise BlockDeviceError(f"Disk {disk.index} of the backup cannot be booted from: {err}") from err
        disks.append(AttachedDisk(spec=disk, path=path, image_format=image_io.QCOW2))
    await start_on(node, asked.instance, disks)


@answers(BackupFileSystems)
async def backup_file_systems(node: NodeState, asked: BackupFileSystems) -> list[FileSystem]:
    found = []
    for disk in asked.disks:
        found += await volumes.file_systems(node.world, disk, await _disk(node, asked.name, disk))
    return found


@answers(BackupFiles)
async def backup_files(node: NodeState, asked: BackupFiles) -> FoundPath | None:
    with volumes.opened(await _disk(node, asked.name, asked.file_system.disk)) as descriptor:
        return await _files(node, asked.name, asked.file_system, descriptor).find(asked.path)


@answers(BackupTakeFile)
async def backup_take_file(node: NodeState, asked: BackupTakeFile) -> int:
    target = f"{_spool(node, asked.name)}/{_TAKEN}"
    with volumes.opened(await _disk(node, asked.name, asked.file_system.disk)) as descriptor:
        await _files(node, asked.name, asked.file_system, descriptor).take(asked.path, target)
    return os.stat(target).st_size


@answers(BackupReadFile)
async def backup_read_file(node: NodeState, asked: BackupReadFile) -> bytes:
    return await in_thread(_piece, f"{_spool(node, asked.name)}/{_TAKEN}", asked.offset)


@answers(FetchedWrite)
async def fetched_write(node: NodeState, asked: FetchedWrite) -> str:
    path = _fetched(node, asked.name)
    try:
        size = len(asked.data) if asked.offset else max(asked.size, len(asked.data))
        await in_thread(require_room, os.path.dirname(path), size, "The file from the backup")
        await in_thread(_add, path, asked.offset, asked.data)
    except OSError as err:
        raise BlockDeviceError(f"{path} cannot be written on node {node.world.node_name}: {err.strerror}") from err
    return path


@answers(FetchedDiscard)
async def fetched_discard(node: NodeState, asked: FetchedDiscard) -> None:
    await in_thread(image_io.unlink, _fetched(node, asked.name))


async def _disk(node: NodeState, name: str, disk: int) -> str:
    """The file that shows a disk of a served backup, and only to the user that reads it."""
    source = served.disk_node(node.paths, name, disk)
    return await shown.show(node.world, _shown_as(name, disk), source, reader=volumes.READER)


def _files(node: NodeState, name: str, file_system: FileSystem, descriptor: int) -> GuestFiles:
    spool = _spool(node, name)
    os.makedirs(spool, mode=0o700, exist_ok=True)
    reader = _READERS.get(file_system.kind, GuestFiles)
    return reader(node.world, file_system, descriptor, spool)


def _shown_as(name: str, disk: int) -> str:
    return f"{name}.disk{disk}"


def _spool(node: NodeState, name: str) -> str:
    return f"{node.paths.backup_scratch_dir}/{served.checked(name)}"


def _fetched(node: NodeState, name: str) -> str:
    if not _FETCHED.fullmatch(name):
        raise BlockDeviceError(f"'{printable(name)}' cannot name a file that was read out of a backup")
    return f"{node.paths.backup_files_dir}/{name}"


def _piece(path: str, offset: int) -> bytes:
    with open(path, "rb", opener=plain_file) as file:
        return os.pread(file.fileno(), _PIECE_BYTES, offset)


def _add(path: str, offset: int, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    if not offset:
        with suppress(FileNotFoundError):
            os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as file:
        file.seek(offset)
        file.write(data)

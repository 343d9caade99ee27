# SPDX-License-Identifier: BSD-2-Clause
"""What lies on a backed-up disk: its partitions, logical volumes of LVM, and their file systems.

A guest wrote these bytes, so no code of this daemon or of the kernel reads them: programs of util-linux and e2fsprogs,
`fat_program`, `xfs_program` and `lvm_program` do, as a user that owns nothing, without capabilities, without a network,
and with bounded memory and time.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError, CommandError
from ganeti.model.node_calls.backup_files import FileSystem
from ganeti.node.backups import lvm_program
from ganeti.ports.node_world import Completed, NodeWorld

READER = 65534
"""The user that reads what guests wrote: nobody."""
FAT = "vfat"
XFS = "xfs"
IN_ONE_PIECE = ("ext2", "ext3", "ext4", FAT)
"""What is read where it lies in one piece: their readers are told an offset alone."""
LVM = "LVM2_member"
_SECTOR = 512
_MEMORY_BYTES = 2 * 1024**3
_ANSWER_S = 120.0
_MOST_PARTITIONS, _MOST_PLACES = 128, 512
"""Every place costs a program, and a guest writes as many as it likes."""
_NOTHING_FOUND = 2
"""Status of blkid."""


class _Volume(msgspec.Struct, frozen=True, kw_only=True):
    """What `lvm_program` says."""

    name: str
    pieces: list[tuple[int, int]] | None


async def file_systems(world: NodeWorld, disk: int, path: str) -> list[FileSystem]:
    """Those of the disk whose bytes are at *path*; raises `BlockDeviceError`."""
    found: list[FileSystem] = []
    with opened(path) as descriptor:
        parts = await _partitions(world, descriptor) or [(0, 0)]
        for partition, offset in parts[:_MOST_PARTITIONS]:
            if len(found) >= _MOST_PLACES:
                break
            whole = await _file_system(world, descriptor, FileSystem(disk=disk, partition=partition, offset=offset))
            found += (await _logical_volumes(world, descriptor, whole) if whole.kind == LVM else []) or [whole]
    return found


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def as_nobody(
    world: NodeWorld,
    argv: list[str],
    descriptor: int,
    *,
    stdout_path: str | None = None,
    most_bytes: int = 0,
    timeout_s: float = _ANSWER_S,
) -> Completed:
    """Run a program that reads the open file *descriptor*; raises `BlockDeviceError` where it cannot run.

    It ends by the signal SIGXFSZ where it writes more than *most_bytes* into the file at *stdout_path*.
    """
    limits = ["unshare", "--net", "--", "prlimit", f"--as={_MEMORY_BYTES}", f"--fsize={most_bytes}", "--core=0", "--"]
    rights = ["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    words = [*limits, "setpriv", f"--reuid={READER}", f"--regid={READER}", *rights, "--", *argv]
    try:
        return await world.run(words, timeout_s=timeout_s, stdout_path=stdout_path, pass_fds=[descriptor], check=False)
    except CommandError as err:
        raise BlockDeviceError(f"The backup cannot be read on node {world.node_name}: {err}") from err


def name_of(descriptor: int) -> str:
    """How such a program opens the file anew."""
    return f"/proc/self/fd/{descriptor}"


def program(module: ModuleType) -> list[str]:
    """The words that run a program of this release; that user may not reach an environment, nor the program's file."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    return [os.path.realpath(sys.executable), "-IS", "-c", source]


async def _logical_volumes(world: NodeWorld, descriptor: int, physical: FileSystem) -> list[FileSystem]:
    """Those of which LVM's metadata are on this disk; none where they cannot be read."""
    words = [*program(lvm_program), name_of(descriptor), str(physical.offset)]
    done = await as_nobody(world, words, descriptor)
    if done.status:
        return []
    try:
        volumes = [msgspec.json.decode(line, type=_Volume) for line in done.stdout.splitlines()]
    except UNREADABLE_JSON as err:
        raise BlockDeviceError("The logical volumes in the backup cannot be read") from err
    found = []
    for volume in volumes:
        each = msgspec.structs.replace(physical, volume=volume.name, kind="", label="", pieces=volume.pieces or [])
        if volume.pieces:
            each = msgspec.structs.replace(each, offset=volume.pieces[0][0])
            each = await _file_system(world, descriptor, each)
        found.append(each)
    return found


async def _partitions(world: NodeWorld, descriptor: int) -> list[tuple[int, int]]:
    """Number and offset of each; none on a disk without a table."""
    words = ["partx", "--raw", "--bytes", "--noheadings", "--output", "NR,START,SECTORS,TYPE", name_of(descriptor)]
    found = []
    for line in (await as_nobody(world, words, descriptor)).stdout.splitlines():
        parts = line.split()
        if len(parts) >= 3 and all(part.isdigit() for part in parts[:3]) and not _is_container(parts[3:]):
            found.append((int(parts[0]), int(parts[1]) * _SECTOR))
    return found


def _is_container(kind: list[str]) -> bool:
    """Whether a partition only holds others (an extended one of DOS)."""
    return kind[:1] in (["0x5"], ["0xf"], ["0x85"])


async def _file_system(world: NodeWorld, descriptor: int, place: FileSystem) -> FileSystem:
    """What lies at *place*."""
    words = ["blkid", "-p", "-o", "export", "-O", str(place.offset), name_of(descriptor)]
    done = await as_nobody(world, words, descriptor)
    if done.status not in (0, _NOTHING_FOUND):
        raise BlockDeviceError(f"Disk {place.disk} of the backup cannot be read: {done.output or 'blkid has failed'}")
    values = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    kind = values.get("TYPE", "")
    readable = kind == XFS or (kind in IN_ONE_PIECE and len(place.pieces) < 2)
    return msgspec.structs.replace(place, kind=kind, label=values.get("LABEL", ""), readable=readable)

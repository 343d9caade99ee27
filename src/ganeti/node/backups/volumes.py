# SPDX-License-Identifier: BSD-2-Clause
"""What lies on a backed-up disk: its partitions, and their file systems.

A guest wrote these bytes, so no code of this daemon or of the kernel reads them: programs of util-linux and e2fsprogs
and `fat_program` do, as a user that owns nothing, without capabilities, without a network, and with bounded memory and
time.
"""

import contextlib
import os
from collections.abc import Iterator

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.model.node_calls.backup_files import FileSystem
from ganeti.ports.node_world import Completed, NodeWorld

READER = 65534
"""The user that reads what guests wrote: nobody."""
FAT = "vfat"
READABLE = ("ext2", "ext3", "ext4", FAT)
_SECTOR = 512
_MEMORY_BYTES = 2 * 1024**3
_ANSWER_S = 120.0
_MOST_PARTITIONS = 128
_NOTHING_FOUND = 2
"""Status of blkid."""


async def file_systems(world: NodeWorld, disk: int, path: str) -> list[FileSystem]:
    """Those of the disk whose bytes are at *path*; raises `BlockDeviceError`."""
    with opened(path) as descriptor:
        parts = await _partitions(world, descriptor) or [(0, 0)]
        return [await _file_system(world, descriptor, disk, *part) for part in parts[:_MOST_PARTITIONS]]


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


async def _file_system(world: NodeWorld, descriptor: int, disk: int, partition: int, offset: int) -> FileSystem:
    words = ["blkid", "-p", "-o", "export", "-O", str(offset), name_of(descriptor)]
    done = await as_nobody(world, words, descriptor)
    if done.status not in (0, _NOTHING_FOUND):
        raise BlockDeviceError(f"Disk {disk} of the backup cannot be read: {done.output or 'blkid has failed'}")
    values = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    kind = values.get("TYPE", "")
    return FileSystem(
        disk=disk,
        partition=partition,
        offset=offset,
        kind=kind,
        label=values.get("LABEL", ""),
        readable=kind in READABLE,
    )

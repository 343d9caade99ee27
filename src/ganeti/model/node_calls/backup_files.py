# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about backups that are read where they are kept: files on their disks, and guests that boot from them.

A backup that is read has a *name* for that time.
"""

import msgspec

from ganeti.model.node_calls import DAY_S, SLOW_S, NodeRequest
from ganeti.model.node_calls.backups import ChainLink
from ganeti.model.node_requests import InstanceSpec


class FileSystem(msgspec.Struct, frozen=True, kw_only=True):
    """What a disk, a partition of it, or a logical volume on that, holds."""

    disk: int
    partition: int
    """0 where the disk has no partitions."""
    offset: int
    """In bytes, from the beginning of the disk."""
    kind: str = ""
    """As blkid names it; empty for what it does not know."""
    label: str = ""
    readable: bool = False
    volume: str = ""
    """Volume group and logical volume, as GROUP/NAME; empty where there is no LVM."""
    pieces: list[tuple[int, int]] = []
    """Offset and length of each piece of a logical volume, in bytes; the first one begins at *offset*."""


class GuestFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    mode: int
    """Kind and permissions, as in `stat`."""
    uid: int
    gid: int
    size: int
    problem: str = ""
    """Why nothing but its name can be read, where that is so: the numbers are 0 then."""


class FoundPath(msgspec.Struct, frozen=True, kw_only=True):
    """A path, followed to its end."""

    path: str
    file: GuestFile
    entries: list[GuestFile] | None = None
    """What a directory holds, None for anything else."""
    cut: bool = False
    """Whether a directory holds more than these."""


class BackupServe(NodeRequest[None], frozen=True, kw_only=True):
    """Have the disks of a backup readable, by a process that lives until `BackupUnserve`."""

    name: str
    instance_uuid: str
    chain: list[ChainLink]
    sizes: list[int]
    """Of the disks, in bytes."""
    key: bytes


class BackupUnserve(NodeRequest[None], frozen=True, kw_only=True):
    """End what `BackupServe` began, and all that uses it; repeating it does no harm."""

    name: str
    disks: int


class BackupRoom(NodeRequest[int], frozen=True, kw_only=True):
    """Bytes that a guest which `BackupBoot` starts may write; below zero where too few are left."""

    changes_node = False


class BackupBoot(NodeRequest[None], frozen=True, kw_only=True):
    """Start a guest on the disks of a served backup; what it writes goes when `BackupUnserve` comes."""

    name: str
    instance: InstanceSpec


class BackupFileSystems(NodeRequest[list[FileSystem]], frozen=True, kw_only=True):
    """What the disks of a served backup hold."""

    answer_within_s = SLOW_S
    name: str
    disks: list[int]


class BackupFiles(NodeRequest[FoundPath | None], frozen=True, kw_only=True):
    """What *path* is; None where there is no such file."""

    answer_within_s = SLOW_S
    name: str
    file_system: FileSystem
    path: str


class BackupTakeFile(NodeRequest[int], frozen=True, kw_only=True):
    """Copy a file out of a served backup, to be read by `BackupReadFile`; gives its size."""

    answer_within_s = DAY_S
    name: str
    file_system: FileSystem
    path: str


class BackupReadFile(NodeRequest[bytes], frozen=True, kw_only=True):
    """A piece of the file that was taken; empty at its end."""

    changes_node = False
    name: str
    offset: int


class FetchedWrite(NodeRequest[str], frozen=True, kw_only=True):
    """Add to a file that comes out of a backup, on the master; at *offset* 0 it is made anew. Gives its path."""

    name: str
    offset: int
    data: bytes
    size: int = 0
    """Of the whole file, told at *offset* 0: it is refused where there is no room, as is each piece."""


class FetchedDiscard(NodeRequest[None], frozen=True, kw_only=True):
    """Remove a file that has not come to its end, if it is there."""

    name: str

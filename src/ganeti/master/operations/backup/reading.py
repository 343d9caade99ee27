# SPDX-License-Identifier: BSD-2-Clause
"""Reading a backup where it is kept: having it served, and finding a file on its disks."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

import msgspec

from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, PrerequisiteError
from ganeti.base.names import shown
from ganeti.master.operations.backup.chains import (
    KeptBackup,
    chain_of,
    choose,
    find_backups,
    links,
    lock_of,
    require_whole,
    sealing_key,
)
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.backup_files import (
    BackupFiles,
    BackupFileSystems,
    BackupServe,
    BackupUnserve,
    FileSystem,
    FoundPath,
)
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask

InstanceOfBackup = Annotated[
    Text,
    Parameter("name of the instance that was backed up; it may be gone", subject="new name", metavar="instance-name"),
]
BackupId = Annotated[
    Text | None, Parameter("id of the backup; the newest without it", "--backup", subject="object", metavar="ID")
]
Number = Annotated[int, msgspec.Meta(ge=0)]
DiskNumber = Annotated[Number | None, Parameter("number of the disk; all without it", "--disk", metavar="N")]
PartitionNumber = Annotated[
    Number | None,
    Parameter("number of the partition, 0 for a disk without any; all without it", "--partition", metavar="N"),
]
VolumeName = Annotated[
    Text | None,
    Parameter("logical volume of LVM in the guest, as GROUP/NAME; all without it", "--volume", metavar="GROUP/NAME"),
]


@dataclass(frozen=True)
class Place:
    """Which disks, partitions and logical volumes are meant; None for all."""

    disk: int | None
    partition: int | None
    volume: str | None

    def has(self, file_system: FileSystem) -> bool:
        return (
            self.disk in (None, file_system.disk)
            and self.partition in (None, file_system.partition)
            and self.volume in (None, file_system.volume)
        )


def reading_locks(view: ConfigView, instance_name: str) -> LockPlan:
    """No backup of the instance is removed meanwhile."""
    return plan(shared=[lock_of(view, instance_name)])


async def whole_chain(
    ctx: OperationContext, view: ConfigView, instance_name: str, backup: str | None, disk: int | None
) -> list[KeptBackup]:
    """The backup and all that it builds on; raises `PrerequisiteError`."""
    found = await find_backups(ctx, view)
    chain = chain_of(found, choose(found, view, instance_name, backup))
    count = len(chain[0].backup.disks)
    if disk is not None and disk >= count:
        there = f"disks 0 to {count - 1}" if count > 1 else "disk 0"
        raise PrerequisiteError(f"Backup {chain[0].backup.id} has no disk {disk}: it has {there}", WRONG_INPUT)
    await require_whole(ctx, chain)
    return chain


@contextlib.asynccontextmanager
async def served(ctx: OperationContext, chain: list[KeptBackup]) -> AsyncIterator[str]:
    """Have the disks of a backup readable on the node that keeps it, under the name that this gives."""
    newest = chain[0]
    name = serving_name(ctx)
    await serve(ctx, chain, name)
    yield name
    await unserve(ctx, newest, name)


async def serve(ctx: OperationContext, chain: list[KeptBackup], name: str) -> None:
    newest = chain[0]
    end = BackupUnserve(name=name, disks=len(newest.backup.disks))
    sentence = f"end reading backup {newest.backup.id} on {newest.node_name}"
    await ctx.undo.push(UndoNodeCall.of(sentence, newest.node_uuid, end))
    request = BackupServe(
        name=name,
        instance_uuid=newest.backup.instance_uuid,
        chain=links(chain),
        sizes=[disk.size for disk in newest.backup.disks],
        key=sealing_key(ctx.config.view(), newest.backup.key_id),
    )
    await ask(ctx.nodes, newest.node_uuid, request)


async def unserve(ctx: OperationContext, newest: KeptBackup, name: str) -> None:
    await ask(ctx.nodes, newest.node_uuid, BackupUnserve(name=name, disks=len(newest.backup.disks)))


def serving_name(ctx: OperationContext) -> str:
    return f"job-{ctx.job.job_id}"


async def file_systems(ctx: OperationContext, newest: KeptBackup, name: str, place: Place) -> list[FileSystem]:
    """What lies at *place*; raises `PrerequisiteError` where there is no such place."""
    disks = range(len(newest.backup.disks)) if place.disk is None else [place.disk]
    request = BackupFileSystems(name=name, disks=list(disks))
    found = await ask(ctx.nodes, newest.node_uuid, request)
    meant = [each for each in found if place.has(each)]
    if found and not meant:
        there = ", ".join(where(each) for each in found)
        raise PrerequisiteError(f"Backup {newest.backup.id} has nothing at that place: it has {there}", UNKNOWN_ENTITY)
    return meant


async def find_path(
    ctx: OperationContext, newest: KeptBackup, name: str, place: Place, path: str
) -> tuple[FileSystem, FoundPath]:
    """The one place where *path* is; raises `PrerequisiteError` for none, or several."""
    all_found = await file_systems(ctx, newest, name, place)
    found = []
    for each in all_found:
        if not each.readable:
            continue
        request = BackupFiles(name=name, file_system=each, path=path)
        if (answer := await ask(ctx.nodes, newest.node_uuid, request)) is not None:
            found.append((each, answer))
    if len(found) == 1:
        return found[0]
    if found:
        places = " and on ".join(where(each) for each, _ in found)
        raise PrerequisiteError(
            f"{shown(path)} is on {places}: choose with --disk, --partition and --volume", WRONG_INPUT
        )
    what = f"Backup {newest.backup.id} has no {shown(path)}"
    if not any(each.readable for each in all_found):
        what = f"{shown(path)} cannot be read out of backup {newest.backup.id}"
    raise PrerequisiteError(f"{what}: {_looked_at(all_found)}", UNKNOWN_ENTITY)


def where(file_system: FileSystem) -> str:
    part = f" partition {file_system.partition}" if file_system.partition else ""
    volume = f" volume {shown(file_system.volume)}" if file_system.volume else ""
    return f"disk {file_system.disk}{part}{volume}"


def _looked_at(found: list[FileSystem]) -> str:
    """Where was looked, and where nobody can look."""
    readable = [where(each) for each in found if each.readable]
    other = [f"{where(each)} ({_kind(each)})" for each in found if not each.readable]
    looked = f"{' and '.join(readable)} can be read and {'does' if len(readable) == 1 else 'do'} not have it"
    remedy = "restore the backup under a new name and look from inside (gnt-backup restore --no-nics)"
    rest = f"{' and '.join(other)} cannot be read here, only ext2, ext3, ext4, FAT and XFS can: {remedy}"
    return "; ".join([*([looked] if readable else []), *([rest] if other else [])]) or "it has no file system there"


def _kind(file_system: FileSystem) -> str:
    if file_system.volume and not file_system.pieces:
        return "thin, striped, mirrored, or on another disk too"
    return file_system.kind or "unknown"

# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_FETCH (not in 3.1): copy one file out of a backup onto the master, without a restore."""

import stat
from typing import Annotated, Any, Final

from ganeti.base.command import Argument, Command, Option
from ganeti.base.errors import WRONG_INPUT, ExecutionError, PrerequisiteError
from ganeti.base.names import shown
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.backup.chains import KeptBackup
from ganeti.master.operations.backup.reading import (
    BackupId,
    DiskNumber,
    InstanceOfBackup,
    PartitionNumber,
    Place,
    VolumeName,
    find_path,
    reading_locks,
    served,
    where,
    whole_chain,
)
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.backup_files import BackupReadFile, BackupTakeFile, FetchedDiscard, FetchedWrite
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask

_MIB: Final = 1024 * 1024


@operation(
    "OP_BACKUP_FETCH",
    summary_field="instance_name",
    cli=Command(
        "gnt-backup fetch",
        "copy one file out of a backup (not in Ganeti 3.1)",
        arguments=("instance_name", Argument("path", "path")),
        options=(
            Option(
                ("-o", "--output"), "output", help="file to write, or a directory (its own name here)", metavar="FILE"
            ),
        ),
        handler="backup.files:fetch",
        is_job=False,
    ),
    not_played="guests of the simulator have no file systems",
)
class FetchFile(Operation[dict[str, Any]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Copy a regular file out of a backup into the master's directory for such files; gives where it is."""

    instance_name: InstanceOfBackup
    path: Annotated[Text, Parameter("path of the file in the guest")]
    backup: BackupId = None
    disk: DiskNumber = None
    partition: PartitionNumber = None
    volume: VolumeName = None

    def locks(self, view: ConfigView) -> LockPlan:
        return reading_locks(view, self.instance_name)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> list[KeptBackup]:
        return await whole_chain(ctx, view, self.instance_name, self.backup, self.disk)

    def check(self, view: ConfigView, facts: list[KeptBackup], ctx: OperationContext) -> list[KeptBackup]:
        return facts

    async def execute(self, checked: list[KeptBackup], ctx: OperationContext) -> dict[str, Any]:
        newest, master = checked[0], ctx.config.view().cluster.master_node
        async with served(ctx, checked) as name:
            place = Place(self.disk, self.partition, self.volume)
            file_system, found = await find_path(ctx, newest, name, place, self.path)
            if not stat.S_ISREG(found.file.mode):
                raise PrerequisiteError(
                    f"{shown(found.path)} is no regular file, and only those are copied: gnt-backup files lists what a "
                    "directory holds",
                    WRONG_INPUT,
                )
            ctx.log.info(f"Reading {shown(found.path)} on {where(file_system)} of backup {newest.backup.id}")
            kept = str(ctx.job.job_id)
            sentence = f"remove the unfinished copy of {shown(found.path)} on the master"
            await ctx.undo.push(UndoNodeCall.of(sentence, master, FetchedDiscard(name=kept)))
            at = await ask(ctx.nodes, master, FetchedWrite(name=kept, offset=0, data=b"", size=found.file.size))
            request = BackupTakeFile(name=name, file_system=file_system, path=self.path)
            size = await ask(ctx.nodes, newest.node_uuid, request)
            offset = 0
            while piece := await ask(ctx.nodes, newest.node_uuid, BackupReadFile(name=name, offset=offset)):
                await ask(ctx.nodes, master, FetchedWrite(name=kept, offset=offset, data=piece))
                offset += len(piece)
                ctx.log.progress(f"{shown(found.file.name)} is copied", offset, max(size, 1))
                ctx.stop_if_cancelled()
            if offset != size:
                raise ExecutionError(f"{shown(found.path)} has changed its size while it was copied: try again")
        return {"backup": newest.backup.id, "file": at, "size": size, "mode": stat.S_IMODE(found.file.mode)}

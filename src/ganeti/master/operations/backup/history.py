# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_HISTORY (not in 3.1): the incremental backups there are, with what is wrong with them."""

from typing import Annotated, Any

from ganeti.base.command import Argument, Command
from ganeti.base.errors import UNKNOWN_ENTITY, PrerequisiteError
from ganeti.base.names import shown
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.backup.chains import Found, KeptBackup, find_backups, of_name
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

Row = dict[str, Any]


@operation(
    "OP_BACKUP_HISTORY",
    summary_field="instance_name",
    cli=Command(
        "gnt-backup history",
        "list incremental backups, and when they were proved by booting them (not in Ganeti 3.1)",
        arguments=(Argument("instance_name", "instance-name", minimum=0),),
        handler="backup.chains:history",
        is_job=False,
    ),
    not_played="it changes nothing",
)
class ListBackups(Operation[list[Row]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """List the backups of an instance, or of all; those that cannot be used have a reason under ``fault``."""

    instance_name: Annotated[
        Text | None, Parameter("name of the instance; it may be gone", subject="new name", metavar="instance-name")
    ] = None

    def locks(self, view: ConfigView) -> LockPlan:
        return LockPlan()

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Found:
        return await find_backups(ctx, view)

    def check(self, view: ConfigView, facts: Found, ctx: OperationContext) -> Found:
        return facts

    async def execute(self, checked: Found, ctx: OperationContext) -> list[Row]:
        for sentence in checked.silent.values():
            ctx.log.warning(f"Backups may be left out: {sentence}")
        view = ctx.config.view()
        wanted = None if self.instance_name is None else self._wanted(checked, view, self.instance_name)
        rows = [_row(each) for each in checked.backups if wanted is None or each.backup.instance_uuid in wanted]
        for bad in checked.unusable:
            if wanted is None or bad.instance_uuid in wanted:
                rows.append({"node": bad.node_name, "id": bad.id, "instance": bad.instance_uuid, "fault": bad.why})
        return rows

    def _wanted(self, found: Found, view: ConfigView, name: str) -> set[str]:
        """UUIDs of instances; raises `PrerequisiteError` where none has this name, and no backup is of one."""
        uuids = of_name(found, view, name)
        if not uuids:
            raise PrerequisiteError(
                f"There is no instance {shown(name)}, nor a backup of one{found.left_out}: gnt-backup history lists "
                "all backups",
                UNKNOWN_ENTITY,
            )
        return uuids


def _row(known: KeptBackup) -> Row:
    backup, proof = known.backup, known.proof
    return {
        "node": known.node_name,
        "id": backup.id,
        "instance": backup.instance_name,
        "instance_uuid": backup.instance_uuid,
        "parent": backup.parent,
        "created": backup.created,
        "size": backup.size,
        "stored": backup.stored_bytes,
        "frozen": backup.frozen,
        "proved": None if proof is None else {"time": proof.proved, "good": proof.good, "sign": proof.sign},
        "fault": "",
    }

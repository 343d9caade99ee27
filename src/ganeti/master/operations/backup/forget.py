# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_FORGET (ours): remove backups, the oldest first; those that build on them get what they need of them."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.base.names import shown
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.backup.chains import Found, Known, choose, find_backups, of_name
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, instance_lock
from ganeti.model.node_calls.backups import BackupMerge, BackupPublish, BackupRemove
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask
from ganeti.wire.backup_file import BackupDisk, encode

MERGE_TIMEOUT_S = 24 * 3600.0
_TWO_BACKUPS: Final = ("create-on-file-stopped", "backup-key", "backup-stopped", "backup-once-more")


@operation(
    "OP_BACKUP_FORGET",
    summary_field="instance_name",
    cli=Command(
        "gnt-backup forget",
        "remove a backup, or all but the newest; what others need of it they keep (not in Ganeti 3.1)",
        arguments=("instance_name",),
        excludes=(("--backup", "--keep", "remove one, or all but the newest"),),
    ),
    examples=(Example("forget", {"instance_name": "one.example.com", "keep": 1}, before=_TWO_BACKUPS),),
)
class ForgetBackups(Operation[list[str]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Remove one backup of an instance, or all but its newest; gives the ids of those that are gone."""

    instance_name: Annotated[
        Text, Parameter("name of the instance; it may be gone", subject="new name", metavar="instance-name")
    ]
    backup: Annotated[
        Text | None, Parameter("id of the backup that is removed", "--backup", subject="object", metavar="ID")
    ] = None
    keep: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None,
        Parameter("how many of the newest stay, on each node", "--keep", metavar="NUMBER"),
    ] = None

    def locks(self, view: ConfigView) -> LockPlan:
        try:
            name = view.find_instance(self.instance_name).name
        except PrerequisiteError:
            name = self.instance_name
        return plan(exclusive=[instance_lock(name)])

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Found:
        if (self.backup is None) == (self.keep is None):
            raise PrerequisiteError("Say which backup is removed (--backup), or how many stay (--keep)", WRONG_INPUT)
        return await find_backups(ctx, view)

    def check(self, view: ConfigView, facts: Found, ctx: OperationContext) -> tuple[list[Known], list[Known]]:
        """All backups of the instance, and those that go, the oldest first."""
        uuids = of_name(facts, view, self.instance_name)
        own = [each for each in facts.backups if each.backup.instance_uuid in uuids]
        if self.backup is not None:
            return own, [choose(facts, view, self.instance_name, self.backup)]
        going: list[Known] = []
        for place in {(each.node_uuid, each.backup.instance_uuid): None for each in own}:
            there = [each for each in own if (each.node_uuid, each.backup.instance_uuid) == place]
            going += there[: max(0, len(there) - (self.keep or 0))]
        return own, going

    async def execute(self, checked: tuple[list[Known], list[Known]], ctx: OperationContext) -> list[str]:
        known, going = checked
        if not going:
            ctx.log.info(f"{shown(self.instance_name)} has no backup too many")
        for old in going:
            known = await self._forget(ctx, known, old.backup.id)
            ctx.log.info(f"Backup {old.backup.id} is removed from {old.node_name}")
        return [old.backup.id for old in going]

    async def _forget(self, ctx: OperationContext, known: Sequence[Known], backup_id: str) -> list[Known]:
        """Remove one; gives all that are left, as they are then."""
        old = next(each for each in known if each.backup.id == backup_id)
        left = []
        for each in known:
            if each.backup.parent == backup_id and each.node_uuid == old.node_uuid:
                each = await self._take_over(ctx, old, each)
            if each.backup.id != backup_id:
                left.append(each)
        request = BackupRemove(instance_uuid=old.backup.instance_uuid, id=backup_id)
        await ask(ctx.nodes, old.node_uuid, request)
        return left

    async def _take_over(self, ctx: OperationContext, old: Known, newer: Known) -> Known:
        """Give a backup the chunks that it needs of the one before, which it builds on no more."""
        uuid, generation = newer.backup.instance_uuid, newer.backup.generation + 1
        merge = BackupMerge(
            instance_uuid=uuid,
            older=old.link,
            newer=newer.link,
            generation=generation,
            keeps_zeros=bool(old.backup.parent),
        )
        stored = await ask(ctx.nodes, newer.node_uuid, merge, deadline_s=MERGE_TIMEOUT_S)
        disks = [
            BackupDisk(
                size=before.size,
                chunks=now.chunks,
                chunk_bytes=now.chunk_bytes,
                index_bytes=now.index_bytes,
                index_sha256=now.index_sha256,
            )
            for before, now in zip(newer.backup.disks, stored, strict=True)
        ]
        backup = replace(newer.backup, parent=old.backup.parent, generation=generation, disks=disks)
        manifest = encode(backup, ctx.config.view().backups.keys)
        publish = BackupPublish(instance_uuid=uuid, id=backup.id, generation=generation, manifest=manifest, boot="")
        await ask(ctx.nodes, newer.node_uuid, publish)
        return Known(newer.node_uuid, newer.node_name, backup, newer.proof)

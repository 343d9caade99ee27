# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_FORGET (not in 3.1): remove backups; those that build on them get what they need of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.base.names import shown
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.backup.chains import (
    HISTORY,
    KeptBackup,
    Unusable,
    choose,
    find_backups,
    lock_of,
    of_name,
    require_whole,
)
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.backups import BackupMerge, BackupPublish, BackupRemove
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask
from ganeti.wire.backup_file import BackupDisk, encode

MERGE_TIMEOUT_S = 24 * 3600.0
_TWO_BACKUPS: Final = ("create-on-file-stopped", "backup-key", "backup-stopped", "backup-once-more")


@dataclass(frozen=True)
class Checked:
    known: list[KeptBackup]
    """All backups of the instance that can be used."""
    going: list[KeptBackup]
    """Those that are removed, the oldest first."""
    unusable: Unusable | None = None
    """The one that is removed where it cannot be used."""


@operation(
    "OP_BACKUP_FORGET",
    summary_field="instance_name",
    cli=Command(
        "gnt-backup forget",
        "remove a backup, or all but the newest; data that other backups need is kept (not in Ganeti 3.1)",
        arguments=("instance_name",),
        handler="backup.chains:forget",
        confirm="All backups of {instance_name} will be removed. Continue?",
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
        return plan(exclusive=[lock_of(view, self.instance_name)])

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Checked:
        if (self.backup is None) == (self.keep is None):
            raise PrerequisiteError("Say which backup is removed (--backup), or how many stay (--keep)", WRONG_INPUT)
        found = await find_backups(ctx, view)
        uuids = of_name(found, view, self.instance_name)
        if not uuids:
            raise PrerequisiteError(
                f"There is no instance {shown(self.instance_name)}, nor a backup of one{found.left_out}: {HISTORY}",
                UNKNOWN_ENTITY,
            )
        own = [each for each in found.backups if each.backup.instance_uuid in uuids]
        unusable = [each for each in found.unusable if each.instance_uuid in uuids]
        for bad in unusable:
            if bad.id == self.backup:
                _require_last(bad, own, unusable)
                return Checked([], [], bad)
        going = (
            [choose(found, view, self.instance_name, self.backup)] if self.backup is not None else self._too_many(own)
        )
        self._require_readable(going, unusable)
        try:
            await require_whole(ctx, _merged(own, going))
        except PrerequisiteError as err:
            raise PrerequisiteError(
                f"{err}. No backup is removed: one that is damaged goes only with or after those that build on it",
                err.code,
            ) from err
        return Checked(own, going)

    def check(self, view: ConfigView, facts: Checked, ctx: OperationContext) -> Checked:
        return facts

    async def execute(self, checked: Checked, ctx: OperationContext) -> list[str]:
        if (bad := checked.unusable) is not None:
            await ask(ctx.nodes, bad.node_uuid, BackupRemove(instance_uuid=bad.instance_uuid, id=bad.id))
            ctx.log.info(f"Backup {bad.id}, which could not be used, is removed from {bad.node_name}")
            return [bad.id]
        if not checked.going:
            ctx.log.info(f"{shown(self.instance_name)} has no backup too many")
        known = checked.known
        for old in _children_first(checked.going):
            known = await self._forget(ctx, known, old)
            ctx.log.info(f"Backup {old.backup.id} is removed from {old.node_name}")
        return [old.backup.id for old in checked.going]

    def _too_many(self, own: Sequence[KeptBackup]) -> list[KeptBackup]:
        """The oldest of each node, but for as many as are kept there."""
        going: list[KeptBackup] = []
        for place in {_place(each): None for each in own}:
            there = [each for each in own if _place(each) == place]
            going += there[: max(0, len(there) - (self.keep or 0))]
        return going

    def _require_readable(self, going: Sequence[KeptBackup], unusable: Sequence[Unusable]) -> None:
        """Raises `PrerequisiteError` where a backup that cannot be read may build on one that goes."""
        places = {_place(each) for each in going}
        for bad in unusable:
            if (bad.node_uuid, bad.instance_uuid) in places:
                raise PrerequisiteError(
                    f"Backup {bad.id} on {bad.node_name} cannot be used ({bad.why}), and it may build on one that "
                    f"would be removed: mend it, or remove it first (gnt-backup forget --backup {bad.id} "
                    f"{shown(self.instance_name)})",
                    WRONG_STATE,
                )

    async def _forget(self, ctx: OperationContext, known: Sequence[KeptBackup], going: KeptBackup) -> list[KeptBackup]:
        """Remove one, on which none builds that goes, too; gives all that are left, as they are then."""
        old = next(each for each in known if each.backup.id == going.backup.id and _place(each) == _place(going))
        left = [await self._take_over(ctx, old, each) if _builds_on(each, old) else each for each in known]
        request = BackupRemove(instance_uuid=old.backup.instance_uuid, id=old.backup.id)
        await ask(ctx.nodes, old.node_uuid, request)
        return [each for each in left if each is not old]

    async def _take_over(self, ctx: OperationContext, old: KeptBackup, newer: KeptBackup) -> KeptBackup:
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
                uuid=before.uuid,
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
        return KeptBackup(newer.node_uuid, newer.node_name, backup, newer.proof)


def _place(known: KeptBackup) -> tuple[str, str]:
    return known.node_uuid, known.backup.instance_uuid


def _builds_on(one: KeptBackup, other: KeptBackup) -> bool:
    return one.backup.parent == other.backup.id and _place(one) == _place(other)


def _children_first(going: Sequence[KeptBackup]) -> Iterator[KeptBackup]:
    """Each after those that build on it, so that nothing is merged into what goes; a clock may have been set back."""
    left = list(reversed(going))
    while left:
        free = (each for each in left if not any(_builds_on(other, each) for other in left))
        found = next(free, left[0])
        left.remove(found)
        yield found


def _merged(own: Sequence[KeptBackup], going: Sequence[KeptBackup]) -> list[KeptBackup]:
    """The backups that are read to remove some: those that stay and build on them, and what these need."""
    read = [each for each in own if each not in going and any(_builds_on(each, old) for old in going)]
    for each in read:
        read += [old for old in going if _builds_on(each, old) and old not in read]
    return read


def _require_last(bad: Unusable, own: Sequence[KeptBackup], unusable: Sequence[Unusable]) -> None:
    """Raises `PrerequisiteError` where another backup builds on one that cannot be read, or may do so."""
    place = bad.node_uuid, bad.instance_uuid
    later = [each.backup.id for each in own if _place(each) == place and each.backup.parent == bad.id]
    later += [each.id for each in unusable if (each.node_uuid, each.instance_uuid) == place and each.id > bad.id]
    if later:
        raise PrerequisiteError(
            f"{', '.join(later)} on {bad.node_name} may build on backup {bad.id}, which cannot be used ({bad.why}): "
            "mend it, or remove them first (gnt-backup forget --backup), the newest first",
            WRONG_STATE,
        )

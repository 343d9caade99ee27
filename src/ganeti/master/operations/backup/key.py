# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_KEY (not in 3.1): make the key that encrypts new backups; older keys stay, to read older backups."""

from ganeti.base.command import Argument, Command
from ganeti.master.operation import Example, Operation, operation
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext

KEY_BYTES = 32


class AddBackupKey(Change, frozen=True, kw_only=True):
    """New backups are sealed with this key."""

    key_id: str
    key: str

    def apply(self, draft: Draft) -> None:
        from msgspec.structs import replace

        old = draft.backups
        draft.put("backups", replace(old, keys=old.keys | {self.key_id: self.key}))


@operation(
    "OP_BACKUP_KEY",
    cli=Command(
        "gnt-backup key",
        "make a key for new backups (new), list the ids of those there are, or show them (not in Ganeti 3.1)",
        arguments=(Argument("action", "new|list|show"),),
        handler="backup.chains:key",
    ),
    examples=(Example("backup-key"),),
)
class MakeBackupKey(Operation[str], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a key for new backups; gives its id. The key itself is in the configuration alone."""

    def locks(self, view: ConfigView) -> LockPlan:
        return LockPlan()

    async def execute(self, checked: None, ctx: OperationContext) -> str:
        key_id = ctx.entropy.token(4).hex()
        await ctx.config.commit(AddBackupKey(key_id=key_id, key=ctx.entropy.token(KEY_BYTES).hex()), settles=True)
        ctx.log.info(
            f"Keep a copy of key {key_id} outside the cluster (gnt-backup key show): without it the new backups cannot "
            "be read"
        )
        return key_id

# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_SCHEDULE (not in 3.1): have backups made, thinned out and proved by themselves."""

from typing import Annotated, Any, Literal

import msgspec

from ganeti.base.command import Argument, Command
from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.base.names import file_name_fault, shown
from ganeti.master import backups
from ganeti.master.backups import DropSchedule, PutSchedule
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.backup.chains import current_key
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.objects import BackupSchedule
from ganeti.model.tags import check_tag
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

SHORTEST_S = 60
Row = dict[str, Any]


_SELECTORS = ("instance", "tag", "group")


@operation(
    "OP_BACKUP_SCHEDULE",
    summary_field="action",
    cli=Command(
        "gnt-backup schedule",
        "make, thin out and prove backups regularly: add, list or remove schedules (not in Ganeti 3.1)",
        arguments=(Argument("action", "add|list|remove"), Argument("schedule_name", "name", minimum=0)),
        handler="backup.chains:schedule",
        excludes=(
            ("--instance", "--tag", "say one of them"),
            ("--instance", "--group", "say one of them"),
            ("--tag", "--group", "say one of them"),
        ),
    ),
    examples=(
        Example(
            "backup-schedule",
            {"action": "add", "schedule_name": "nightly", "node": "node3.example.com", "interval": 86400},
            before=("backup-key",),
        ),
        Example(
            "backup-schedule-removed",
            {"action": "remove", "schedule_name": "nightly"},
            before=("backup-key", "backup-schedule"),
        ),
    ),
)
class ScheduleBackups(Operation[list[Row]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Add, list or remove schedules; gives those that there are then. Without a choice it is for all instances."""

    action: Annotated[Literal["add", "list", "remove"], Parameter("add, list or remove", metavar="action")]
    schedule_name: Annotated[Text | None, Parameter("name of the schedule", subject="new name", metavar="name")] = None
    instance: Annotated[
        Text | None, Parameter("for this instance", "--instance", subject="instance", metavar="INSTANCE")
    ] = None
    tag: Annotated[Text | None, Parameter("for instances with this tag", "--tag", metavar="TAG")] = None
    group: Annotated[
        Text | None, Parameter("for instances of this node group", "--group", subject="group", metavar="GROUP")
    ] = None
    node: Annotated[
        Text | None, Parameter("node that keeps the backups", "-n", "--node", subject="node", metavar="NODE")
    ] = None
    interval: Annotated[
        Annotated[int, msgspec.Meta(ge=SHORTEST_S)],
        Parameter("time from one backup to the next, in seconds", "--interval", kind="duration"),
    ] = 86400
    keep: Annotated[
        Annotated[int, msgspec.Meta(ge=1)], Parameter("how many backups of each instance stay", "--keep")
    ] = 7
    prove: Annotated[
        Annotated[int, msgspec.Meta(ge=0)],
        Parameter("time from one proof to the next, in seconds; 0 for none", "--prove", kind="duration"),
    ] = 0

    def locks(self, view: ConfigView) -> LockPlan:
        return plan()

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> BackupSchedule | None:
        """The schedule that is added, if one is."""
        if self.action == "list":
            if self.schedule_name:
                raise PrerequisiteError(
                    f"All schedules are listed: leave '{shown(self.schedule_name)}' out", WRONG_INPUT
                )
            return None
        if not self.schedule_name or (fault := file_name_fault(self.schedule_name)):
            problem = fault if self.schedule_name else "it is missing"
            raise PrerequisiteError(
                f"'{shown(self.schedule_name or '')}' cannot name a schedule: {problem}", WRONG_INPUT
            )
        if self.action == "remove":
            if given := [name for name in _SELECTORS if getattr(self, name) is not None]:
                raise PrerequisiteError(
                    f"A schedule is removed as a whole, by its name: leave {given[0]} out", WRONG_INPUT
                )
            if self.schedule_name not in (known := [each.name for each in view.backups.schedules]):
                raise PrerequisiteError(
                    f"There is no schedule {self.schedule_name}: there are {', '.join(known) or 'none'}", UNKNOWN_ENTITY
                )
            return None
        scope, target = self._scope(view)
        if self.node is None:
            raise PrerequisiteError("Say which node keeps the backups: add -n NODE", WRONG_INPUT)
        node = view.find_node(self.node).uuid
        current_key(view)
        return BackupSchedule(
            name=self.schedule_name,
            scope=scope,
            target=target,
            node=node,
            interval_s=self.interval,
            keep=self.keep,
            prove_interval_s=self.prove,
        )

    async def execute(self, checked: BackupSchedule | None, ctx: OperationContext) -> list[Row]:
        if checked is not None:
            await ctx.config.commit(PutSchedule(schedule=checked), settles=True)
        elif self.action == "remove":
            await ctx.config.commit(DropSchedule(name=self.schedule_name or ""), settles=True)
        view = ctx.config.view()
        return [_row(view, each) for each in view.backups.schedules]

    def _scope(self, view: ConfigView) -> tuple[str, str]:
        given = [name for name in _SELECTORS if getattr(self, name) is not None]
        if len(given) > 1:
            raise PrerequisiteError(f"A schedule is for one of {' and '.join(given)}: make several", WRONG_INPUT)
        if self.instance is not None:
            return backups.INSTANCE, view.find_instance(self.instance).uuid
        if self.group is not None:
            return backups.GROUP, view.find_group(self.group).uuid
        if self.tag is not None:
            try:
                check_tag(self.tag)
            except ParameterError as err:
                raise PrerequisiteError(str(err), WRONG_INPUT) from err
            return backups.TAG, self.tag
        return backups.CLUSTER, ""


def _row(view: ConfigView, each: BackupSchedule) -> Row:
    kind = {backups.INSTANCE: "instances", backups.GROUP: "nodegroups"}.get(each.scope)
    names = {key: getattr(view.get(kind, key), "name", "?") for key in [each.target]} if kind else {}
    return {
        "name": each.name,
        "scope": each.scope,
        "target": names.get(each.target, each.target),
        "node": getattr(view.get("nodes", each.node), "name", "?"),
        "interval": each.interval_s,
        "keep": each.keep,
        "prove": each.prove_interval_s,
    }

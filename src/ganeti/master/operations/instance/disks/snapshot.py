# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_SNAPSHOT: keep the disks of an instance as they are under a name, and go back to that."""

from typing import Annotated, Literal

from ganeti.base.command import Argument, Command
from ganeti.base.errors import ALREADY_EXISTS, UNKNOWN_ENTITY, WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.base.names import file_name_fault, shown
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.instance.disks import snapshot_steps
from ganeti.master.operations.instance.disks.disk_steps import plan_of
from ganeti.master.operations.instance.disks.snapshot_steps import (
    Kept,
    kept_snapshots,
    require_all_copies,
    require_equal_copies,
)
from ganeti.master.operations.instance.existing import (
    instance_and_nodes,
    require_complete,
    require_one_moment,
    require_online,
)
from ganeti.master.operations.parameters import InstanceName, InstanceUuid, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.exports import EXPORTED
from ganeti.model.node_calls.instances import InstanceInfo
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

NAME_MAX = 64
_EXAMPLE = {"instance_name": "one.example.com", "snapshot_name": "before"}


@operation(
    "OP_INSTANCE_SNAPSHOT",
    summary_field="instance_name",
    cli=Command(
        "gnt-instance snapshot",
        "keep the disks of an instance as they are, and go back to that",
        arguments=(
            Argument("action", "create|list|revert|remove"),
            "instance_name",
            Argument("snapshot_name", "snapshot", minimum=0),
        ),
        handler="instance.snapshot:run",
    ),
    examples=(
        Example("snapshot-create", {"action": "create", **_EXAMPLE}, before=("create-stopped",)),
        Example("snapshot-revert", {"action": "revert", **_EXAMPLE}, before=("create-stopped", "snapshot-create")),
        Example("snapshot-remove", {"action": "remove", **_EXAMPLE}, before=("create-stopped", "snapshot-create")),
    ),
)
class SnapshotInstance(Operation[Kept], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Create, list, revert to or remove a snapshot of all disks of an instance."""

    action: Annotated[
        Literal["create", "list", "revert", "remove"], Parameter("create, list, revert or remove", metavar="action")
    ]
    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    snapshot_name: Annotated[Text | None, Parameter("name of the snapshot", subject="new name")] = None

    def locks(self, view: ConfigView) -> LockPlan:
        return instance_and_nodes(view, self.instance_uuid or self.instance_name)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> tuple[Kept, bool]:
        """The snapshots there are, and whether the guest runs."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "asked for snapshots", reverting=True)
        require_online(view, instance.primary_node, f"the snapshots of {instance.name} are there")
        if not instance.disks:
            raise PrerequisiteError(f"Instance {instance.name} has no disks to take snapshots of", WRONG_INPUT)
        spec = instance_spec(view, ctx.catalogue, instance)
        running = await ask(ctx.nodes, spec.primary_node_uuid, InstanceInfo(instance=spec))
        plan = plan_of(ctx, spec)
        if self.action == "create" or (self.action == "revert" and instance.reverting is None):
            require_all_copies(plan, "a snapshot" if self.action == "create" else "going back to one")
        kept = await kept_snapshots(ctx, spec)
        if self.action == "create":
            await require_equal_copies(ctx, plan)
        return kept, running is not None

    def check(self, view: ConfigView, facts: tuple[Kept, bool], ctx: OperationContext) -> tuple[InstanceSpec, Kept]:
        kept, runs = facts
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        spec = instance_spec(view, ctx.catalogue, instance)
        if self.action == "list":
            if self.snapshot_name is not None:
                raise PrerequisiteError("All snapshots are listed: leave the name out", WRONG_INPUT)
            return spec, kept
        name = self.snapshot_name
        fault = "say which one" if not name else file_name_fault(name)
        if self.action == "remove" and name == EXPORTED:  # what an export has left
            fault = None
        if fault is None and len(name or "") > NAME_MAX:
            fault = f"{NAME_MAX} characters are the most"
        if fault is not None:
            raise PrerequisiteError(f"'{shown(name or '')}' cannot be the name of a snapshot: {fault}", WRONG_INPUT)
        there = {each: disks for each, _, disks in kept}
        if self.action == "create" and name in there:
            raise PrerequisiteError(
                f"Instance {spec.name} has a snapshot {name} already: choose another name, or remove it first",
                ALREADY_EXISTS,
            )
        if self.action != "create" and name not in there:
            raise PrerequisiteError(
                f"Instance {spec.name} has no snapshot {name}: there are {', '.join(sorted(there)) or 'none'}",
                UNKNOWN_ENTITY,
            )
        if self.action == "revert" and runs:
            raise PrerequisiteError(
                f"Instance {spec.name} runs and uses its disks: shut it down first (gnt-instance shutdown {spec.name})",
                WRONG_STATE,
            )
        if self.action == "revert" and instance.disks_active and spec.secondary_nodes:
            raise PrerequisiteError(
                f"The disks of {spec.name} are active: deactivate them first "
                f"(gnt-instance deactivate-disks {spec.name})",
                WRONG_STATE,
            )
        if self.action == "create" or (self.action == "remove" and instance.reverting == name):
            require_one_moment(instance)
        if self.action == "revert" and not there[str(name)]:
            raise PrerequisiteError(
                f"Snapshot {name} of {spec.name} is kept on its secondary node alone: make that node the primary one "
                f"first (gnt-instance failover {spec.name})",
                WRONG_STATE,
            )
        if self.action == "revert" and len(there[str(name)]) < len(spec.disks):
            raise PrerequisiteError(
                f"Snapshot {name} is older than a disk of {spec.name}, which it has nothing of: detach that disk first",
                WRONG_STATE,
            )
        return spec, kept

    async def execute(self, checked: tuple[InstanceSpec, Kept], ctx: OperationContext) -> Kept:
        spec, kept = checked
        name = str(self.snapshot_name)
        match self.action:
            case "list":
                return kept
            case "create":
                frozen = await snapshot_steps.take(ctx, spec, name)
                how = ", its file systems were frozen meanwhile" if frozen else ""
                ctx.log.info(f"Snapshot {name} of {spec.name} taken{how}")
            case "revert":
                await snapshot_steps.revert(ctx, spec, name)
                ctx.log.info(f"The disks of {spec.name} are as in snapshot {name} again")
            case "remove":
                await snapshot_steps.remove(ctx, spec, name)
                ctx.log.info(f"Snapshot {name} of {spec.name} removed")
        view = ctx.config.view()
        return await snapshot_steps.kept_snapshots(ctx, instance_spec(view, ctx.catalogue, view.instance(spec.uuid)))

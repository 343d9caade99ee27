# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_REMOVE: stop an instance, remove its disks, forget it.

There is no way back once the first disk goes. From that commit on, a dead job's successor completes the removal:
its undo record removes what is left and, when the node says that nothing is, takes the instance out of the
configuration. As long as a node cannot say so, the instance stays, down, and verify names it.
"""

from dataclasses import dataclass
from typing import Annotated

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_STATE, GanetiError, NodeUnreachableError, PrerequisiteError
from ganeti.master.disk_plan import completion
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.changes import RemoveInstance, SetInstanceState
from ganeti.master.operations.instance.disks.disk_steps import plan_of, take
from ganeti.master.operations.instance.existing import instance_and_nodes
from ganeti.master.operations.instance.power.guest_power import stop_on_primary, undo_by_starting
from ganeti.master.operations.parameters import InstanceName, InstanceUuid, ShutdownTimeout
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance, Node
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    offline: list[Node]
    """Of its nodes."""

    @property
    def primary_offline(self) -> bool:
        return self.instance.primary_node in {node.uuid for node in self.offline}


_EXAMPLE = {"instance_name": "one.example.com", "ignore_failures": False}


@operation(
    "OP_INSTANCE_REMOVE",
    summary_field="instance_name",
    hooks="instance-remove",
    cli=Command(
        "gnt-instance remove",
        "delete an instance and its disks",
        arguments=("instance_name",),
        confirm="This will remove the instance {instance_name} and all data on its disks. Continue?",
    ),
    rapi="DELETE /2/instances/[instance_name]",
    examples=(
        Example("remove", _EXAMPLE, before=("create",), stops_first=True),
        Example("remove-stopped", _EXAMPLE, before=("create-stopped",)),
    ),
)
class RemoveInstanceOperation(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Remove an instance and everything on its disks."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    shutdown_timeout: ShutdownTimeout = 120
    ignore_failures: Annotated[bool, Parameter("forget it although a step failed", "--ignore-failures")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        return instance_and_nodes(view, self.instance_uuid or self.instance_name)

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        offline = [node for uuid in view.instance_nodes(instance) if (node := view.node(uuid)).offline]
        if offline and not self.ignore_failures:
            primary = offline[0].uuid == instance.primary_node
            raise PrerequisiteError(
                f"{'Primary' if primary else 'Secondary'} node {offline[0].name} of {instance.name} is offline, so its "
                f"disks cannot be removed: {'fail the instance over first' if primary else 'bring the node back'}, or "
                "add --ignore-failures to forget it",
                WRONG_STATE,
            )
        return Checked(instance, instance_spec(view, ctx.catalogue, instance), offline)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        master = [view.cluster.master_node]
        nodes = list(dict.fromkeys([*master, *view.instance_nodes(checked.instance)]))
        env = {"SHUTDOWN_TIMEOUT": str(self.shutdown_timeout)}
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, master, nodes, env)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        spec = checked.spec
        if not checked.primary_offline:
            if checked.instance.admin_state == "up" and not self.ignore_failures:
                await undo_by_starting(ctx, spec)
            await self._stop(spec, ctx)
        await ctx.config.commit(
            SetInstanceState(instance_uuid=spec.uuid, admin_state="down", disks_active=False), settles=True
        )
        remove = RemoveInstance(instance_uuid=spec.uuid)
        offline = {node.uuid for node in checked.offline}
        steps = [step for step in plan_of(ctx, spec).remove() if step.side.node_uuid not in offline]
        if steps:
            await ctx.undo.push(completion(steps, f"complete the removal of {spec.name}", remove))
            ctx.log.info("* removing instance disks...")
        for step in steps:
            try:
                await take(ctx, step)
            except GanetiError as err:
                if not self.ignore_failures:
                    raise
                ctx.log.warning(f"Disks of {spec.name} are left on {step.side.node_name}: {err}")
        await ctx.config.commit(remove, settles=True)

    async def _stop(self, spec: InstanceSpec, ctx: OperationContext) -> None:
        try:
            await stop_on_primary(ctx, spec, timeout_s=float(self.shutdown_timeout))
        except NodeUnreachableError as err:
            if not self.ignore_failures:
                raise
            ctx.log.warning(f"{spec.name} could not be stopped: {err}")

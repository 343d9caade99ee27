# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_SHUTDOWN: stop an instance and say that it should be down."""

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.changes import SetInstanceState
from ganeti.master.operations.instance.existing import instance_and_nodes, require_complete
from ganeti.master.operations.instance.power.guest_power import stop_on_primary
from ganeti.master.operations.instance.selection import SELECTED, SELECTORS
from ganeti.master.operations.parameters import IgnoreOfflineNodes, InstanceName, InstanceUuid, NoRemember
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.instances import FoundInstance, InstanceInfo
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoChange
from ganeti.ports.nodes import ask

_BY_ITS_USER = "shutdown"
"""State of a guest that its user has shut down, as hypervisors say it."""


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    only_mark: bool


@operation(
    "OP_INSTANCE_SHUTDOWN",
    summary_field="instance_name",
    hooks="instance-stop",
    cli=Command(
        "gnt-instance shutdown",
        "stop instances",
        aliases=("stop",),
        arguments=(SELECTED,),
        options=SELECTORS,
        handler="instance.power:each",
    ),
    rapi="PUT /2/instances/[instance_name]/shutdown",
    examples=(Example("shutdown", {"instance_name": "one.example.com"}, before=("create",)),),
)
class ShutdownInstance(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shut an instance down: ask the guest, wait, end it."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    force: Annotated[bool, Parameter("stop an instance that is marked offline, too", "-f", "--force")] = False
    ignore_offline_nodes: IgnoreOfflineNodes = False
    timeout: Annotated[
        int,
        msgspec.Meta(ge=0),
        Parameter("how long the guest may take, in seconds; 0 stops it hard", "--timeout", kind="duration"),
    ] = 120
    no_remember: NoRemember = False
    admin_state_source: Annotated[
        Literal["admin", "user"] | None, Parameter("whether an administrator or the guest's user wants it down")
    ] = None

    def locks(self, view: ConfigView) -> LockPlan:
        return instance_and_nodes(view, self.instance_uuid or self.instance_name)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> FoundInstance | None:
        """What its node says of the guest, where its user is said to have shut it down."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        if self.admin_state_source != "user" or view.node(instance.primary_node).offline:
            return None
        spec = instance_spec(view, ctx.catalogue, instance)
        return await ask(ctx.nodes, instance.primary_node, InstanceInfo(instance=spec))

    def check(self, view: ConfigView, facts: FoundInstance | None, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "shut down")
        if facts is not None and facts.state != _BY_ITS_USER:  # it was started again since somebody looked
            raise PrerequisiteError(
                f"Instance {instance.name} is {facts.state}: its user has not shut it down, so it is not marked so",
                WRONG_STATE,
            )
        if instance.admin_state == "offline" and not self.force:
            raise PrerequisiteError(
                f"Instance {instance.name} is marked offline: add --force to stop it anyway", WRONG_STATE
            )
        primary = view.node(instance.primary_node)
        if primary.offline and not self.ignore_offline_nodes:
            raise PrerequisiteError(
                f"Primary node {primary.name} of {instance.name} is offline: "
                "add --ignore-offline to only mark the instance as down",
                WRONG_STATE,
            )
        return Checked(instance, instance_spec(view, ctx.catalogue, instance), primary.offline)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        nodes = list(dict.fromkeys([view.cluster.master_node, *view.instance_nodes(checked.instance)]))
        return instance_hooks(
            view, self.hooks_path, checked.spec, checked.instance, nodes, nodes, {"TIMEOUT": str(self.timeout)}
        )

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        instance, spec = checked.instance, checked.spec
        if not self.no_remember and instance.admin_state != "offline":
            await ctx.undo.push(
                UndoChange(
                    f"mark {spec.name} as {instance.admin_state} again",
                    SetInstanceState(
                        instance_uuid=spec.uuid,
                        admin_state=instance.admin_state,
                        admin_state_source=instance.admin_state_source,
                        disks_active=instance.disks_active,
                    ),
                )
            )
            await ctx.config.commit(
                SetInstanceState(
                    instance_uuid=spec.uuid,
                    admin_state="down",
                    admin_state_source=self.admin_state_source or "admin",
                )
            )
        if checked.only_mark:
            ctx.log.warning(f"Primary node {spec.primary_node} is offline: {spec.name} is only marked as down")
            return
        await stop_on_primary(ctx, spec, timeout_s=float(self.timeout))
        await ctx.config.commit(SetInstanceState(instance_uuid=spec.uuid, disks_active=False), settles=True)

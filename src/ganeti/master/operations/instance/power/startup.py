# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_STARTUP: start an instance on its primary node."""

from dataclasses import dataclass, replace
from typing import Annotated

import msgspec

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_STATE, ParameterError, PrerequisiteError
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.changes import SetInstanceState
from ganeti.master.operations.instance.existing import (
    instance_and_nodes,
    require_one_moment,
    tell_needless,
    wrong_input,
)
from ganeti.master.operations.instance.power.guest_power import check_start, start_beside
from ganeti.master.operations.instance.selection import SELECTED, SELECTORS
from ganeti.master.operations.instance.wanted.modification import with_parameters
from ganeti.master.operations.parameters import IgnoreOfflineNodes, InstanceName, InstanceUuid, NoRemember, Values
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    only_mark: bool
    running: FoundInstance | None = None
    """The guest as its primary node knows it."""


@operation(
    "OP_INSTANCE_STARTUP",
    summary_field="instance_name",
    hooks="instance-start",
    cli=Command(
        "gnt-instance startup",
        "start instances",
        aliases=("start",),
        arguments=(SELECTED,),
        options=SELECTORS,
        handler="instance.power:each",
    ),
    rapi="PUT /2/instances/[instance_name]/startup",
    examples=(Example("startup", {"instance_name": "one.example.com", "force": False}, before=("create-stopped",)),),
)
class StartInstance(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Start an instance; parameters given here hold for this start only, ``default`` for what would be inherited."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    force: Annotated[bool, Parameter("start although a disk is degraded", "-f", "--force")] = False
    ignore_offline_nodes: IgnoreOfflineNodes = False
    hvparams: Annotated[
        Values, Parameter("hypervisor parameters for this start only", "-H", "--hypervisor-parameters")
    ] = {}
    beparams: Annotated[Values, Parameter("backend parameters for this start only", "-B", "--backend-parameters")] = {}
    no_remember: NoRemember = False
    startup_paused: Annotated[bool, Parameter("start it paused", "--paused")] = False
    shutdown_timeout: Annotated[
        int,
        msgspec.Meta(ge=0),
        Parameter("how long the rest of a guest that has ended by itself may take to end, in seconds"),
    ] = 120

    def locks(self, view: ConfigView) -> LockPlan:
        return instance_and_nodes(view, self.instance_uuid or self.instance_name)

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_one_moment(instance)
        if instance.forthcoming:
            raise PrerequisiteError(
                f"Instance {instance.name} is only reserved so far: it cannot be started", WRONG_STATE
            )
        if instance.admin_state == "offline":
            raise PrerequisiteError(
                f"Instance {instance.name} is marked offline: bring it back with gnt-instance modify --online",
                WRONG_STATE,
            )
        primary = view.node(instance.primary_node)
        if primary.offline and not self.ignore_offline_nodes:
            raise PrerequisiteError(
                f"Primary node {primary.name} of {instance.name} is offline: "
                "fail the instance over, or add --ignore-offline to only mark it",
                WRONG_STATE,
            )
        try:
            wanted = with_parameters(view, ctx.catalogue, instance, self.beparams, self.hvparams, {}, {})
        except ParameterError as err:
            raise wrong_input(err) from err
        spec = instance_spec(view, ctx.catalogue, wanted)
        return Checked(instance, spec, primary.offline)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        nodes = list(dict.fromkeys([view.cluster.master_node, *view.instance_nodes(checked.instance)]))
        return instance_hooks(
            view, self.hooks_path, checked.spec, checked.instance, nodes, nodes, {"FORCE": str(self.force)}
        )

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        return checked if checked.only_mark else replace(checked, running=await check_start(ctx, checked.spec))

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        spec = checked.spec
        mark = SetInstanceState(
            instance_uuid=spec.uuid, admin_state="up", admin_state_source="admin", disks_active=True
        )
        if checked.only_mark:
            ctx.log.warning(f"Primary node {spec.primary_node} is offline: {spec.name} is only marked to be started")
            await ctx.config.commit(mark, settles=True)
            return
        if self.force:
            tell_needless(ctx, spec, "--force")
        await start_beside(
            ctx,
            spec,
            checked.running,
            paused=self.startup_paused,
            shutdown_timeout_s=float(self.shutdown_timeout),
            ignore_secondaries=self.force,
        )
        # That the disks are open is no wish: jobs that do not know it close them under the guest.
        await ctx.config.commit(
            SetInstanceState(instance_uuid=spec.uuid, disks_active=True) if self.no_remember else mark, settles=True
        )

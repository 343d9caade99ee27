# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_REBOOT: restart an instance, from inside (soft, hard) or from scratch (full)."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.changes import SetInstanceState
from ganeti.master.operations.instance.existing import (
    instance_and_nodes,
    require_bridges,
    require_complete,
    require_hvparams,
    require_online,
    tell_needless,
)
from ganeti.master.operations.instance.power.guest_power import check_memory, start_guest, stop_on_primary
from ganeti.master.operations.instance.selection import SELECTED, SELECTORS
from ganeti.master.operations.parameters import InstanceName, InstanceUuid, ShutdownTimeout
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.instances import FoundInstance, InstanceInfo, InstanceReboot
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    running: FoundInstance | None = None
    """The guest as its primary node knows it."""


@operation(
    "OP_INSTANCE_REBOOT",
    summary_field="instance_name",
    hooks="instance-reboot",
    cli=Command(
        "gnt-instance reboot",
        "reboot instances",
        arguments=(SELECTED,),
        options=SELECTORS,
        handler="instance.power:each",
        sends=(("reboot_type", "hard"),),
    ),
    rapi="POST /2/instances/[instance_name]/reboot",
    examples=(
        Example("reboot", {"instance_name": "one.example.com", "reboot_type": "hard"}, before=("create",)),
        Example("reboot-full", {"instance_name": "one.example.com", "reboot_type": "full"}, before=("create",)),
    ),
)
class RebootInstance(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reboot an instance; one that is not running is started."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    reboot_type: Annotated[
        Literal["soft", "hard", "full"],
        Parameter("by the guest, by its hypervisor (as without it), or by a stop and a start", "-t", "--type"),
    ]
    shutdown_timeout: ShutdownTimeout = 120
    ignore_secondaries: Annotated[bool, Parameter("go on with a broken mirror", "--ignore-secondaries")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        return instance_and_nodes(view, self.instance_uuid or self.instance_name)

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "rebooted")
        if instance.admin_state == "offline":
            raise PrerequisiteError(f"Instance {instance.name} is marked offline: it cannot be rebooted", WRONG_STATE)
        require_online(view, instance.primary_node, f"fail {instance.name} over to another node")
        return Checked(instance, instance_spec(view, ctx.catalogue, instance))

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        nodes = list(dict.fromkeys([view.cluster.master_node, *view.instance_nodes(checked.instance)]))
        env = {
            "IGNORE_SECONDARIES": str(self.ignore_secondaries),
            "REBOOT_TYPE": self.reboot_type,
            "SHUTDOWN_TIMEOUT": str(self.shutdown_timeout),
        }
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, nodes, nodes, env)

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        """Whether the guest can start again, before it is stopped for that."""
        spec = checked.spec
        await require_bridges(ctx, spec.primary_node_uuid, spec)
        running = await ask(ctx.nodes, spec.primary_node_uuid, InstanceInfo(instance=spec))
        if running is None:
            await check_memory(ctx, spec)
        elif running.state != "running" or self.reboot_type != "soft":
            await require_hvparams(ctx, spec, starts=True)
        return replace(checked, running=running)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        spec, running = checked.spec, checked.running
        if self.ignore_secondaries:
            tell_needless(ctx, spec, "--ignore-secondaries")
        if running is not None and running.state == "running" and self.reboot_type != "full":
            await self._reboot(spec, ctx)
        else:
            if running is not None:
                await stop_on_primary(ctx, spec, timeout_s=float(self.shutdown_timeout))
                await check_memory(ctx, spec)  # the guest had some until now
            await start_guest(ctx, spec, ignore_secondaries=self.ignore_secondaries)
        await ctx.config.commit(
            SetInstanceState(instance_uuid=spec.uuid, admin_state="up", admin_state_source="admin", disks_active=True),
            settles=True,
        )

    async def _reboot(self, spec: InstanceSpec, ctx: OperationContext) -> None:
        """In place; a hard one gives the guest the same time to shut down as a full one."""
        timeout_s = float(self.shutdown_timeout)
        request = InstanceReboot(instance=spec, hard=self.reboot_type == "hard", shutdown_timeout_s=timeout_s)
        deadline_s = timeout_s + InstanceReboot.answer_within_s
        await ask(ctx.nodes, spec.primary_node_uuid, request, deadline_s=deadline_s)

# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_ACTIVATE_DISKS: open the disks of an instance on its nodes, without starting it."""

from dataclasses import dataclass
from typing import Annotated

from ganeti.base.command import Command
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.changes import SetInstanceState
from ganeti.master.operations.instance.disks.disk_steps import open_disks, plan_of, push_undo, wait_for_sync
from ganeti.master.operations.instance.existing import instance_and_nodes, require_complete, require_online
from ganeti.master.operations.parameters import InstanceName, InstanceUuid
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.disks import BlockdevFind
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

Opened = list[tuple[str, str, str | None]]
"""Node, disk as ``disk/N``, and where the node has it."""


@dataclass(frozen=True)
class Checked:
    spec: InstanceSpec
    are_open: bool


@operation(
    "OP_INSTANCE_ACTIVATE_DISKS",
    summary_field="instance_name",
    cli=Command(
        "gnt-instance activate-disks",
        "open the disks of an instance on its node",
        arguments=("instance_name",),
        handler="instance.disks:activate",
    ),
    rapi="PUT /2/instances/[instance_name]/activate-disks",
    examples=(Example("activate-disks", {"instance_name": "one.example.com"}, before=("create-stopped",)),),
)
class ActivateInstanceDisks(Operation[Opened], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Open the disks where the instance lives; those that are open stay so."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    ignore_size: Annotated[
        bool, Parameter("go on without a word where a disk has another size than is known", "--ignore-size")
    ] = False
    wait_for_sync: Annotated[bool, Parameter("wait until mirrors are in sync", "--wait-for-sync")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        return instance_and_nodes(view, self.instance_uuid or self.instance_name)

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "given its disks")
        require_online(view, instance.primary_node, f"fail {instance.name} over to open its disks elsewhere")
        return Checked(instance_spec(view, ctx.catalogue, instance), instance.disks_active)

    async def execute(self, checked: Checked, ctx: OperationContext) -> Opened:
        spec = checked.spec
        disks = plan_of(ctx, spec)
        if not checked.are_open:
            await push_undo(ctx, disks.open())
        await open_disks(ctx, disks)
        found: Opened = []
        for disk in spec.disks:
            status = await ask(ctx.nodes, spec.primary_node_uuid, BlockdevFind(disk=disk))
            found.append((spec.primary_node, f"disk/{disk.index}", status.dev_path if status else None))
            size_mib = status.size_mib if status else None
            if size_mib not in (None, disk.size_mib) and not self.ignore_size:
                ctx.log.warning(
                    f"Disk {disk.index} of {spec.name} has {size_mib} MiB, the configuration says {disk.size_mib}: "
                    "gnt-cluster repair-disk-sizes corrects it"
                )
        if self.wait_for_sync:
            await wait_for_sync(ctx, disks)
        await ctx.config.commit(SetInstanceState(instance_uuid=spec.uuid, disks_active=True), settles=True)
        return found

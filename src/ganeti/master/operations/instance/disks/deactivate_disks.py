# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_DEACTIVATE_DISKS: close the disks of an instance that is stopped."""

from dataclasses import dataclass
from typing import Annotated

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.changes import SetInstanceState
from ganeti.master.operations.instance.disks.disk_steps import close_disks
from ganeti.master.operations.instance.existing import instance_and_nodes, require_complete
from ganeti.master.operations.parameters import InstanceName, InstanceUuid
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.instances import FoundInstance, InstanceInfo
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


@dataclass(frozen=True)
class Checked:
    spec: InstanceSpec
    only_mark: bool


@operation(
    "OP_INSTANCE_DEACTIVATE_DISKS",
    summary_field="instance_name",
    cli=Command(
        "gnt-instance deactivate-disks", "close the disks of an instance that is stopped", arguments=("instance_name",)
    ),
    rapi="PUT /2/instances/[instance_name]/deactivate-disks",
    examples=(
        Example("deactivate-disks", {"instance_name": "one.example.com"}, before=("create-stopped", "activate-disks")),
    ),
)
class DeactivateInstanceDisks(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Close the disks, and say that they should be closed."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    force: Annotated[bool, Parameter("go on although the guest runs or its node is offline", "-f", "--force")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        return instance_and_nodes(view, self.instance_uuid or self.instance_name)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> FoundInstance | None:
        """What the primary node says of the guest."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        if view.node(instance.primary_node).offline:
            return None
        spec = instance_spec(view, ctx.catalogue, instance)
        return await ask(ctx.nodes, spec.primary_node_uuid, InstanceInfo(instance=spec))

    def check(self, view: ConfigView, facts: FoundInstance | None, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "parted from its disks")
        primary = view.node(instance.primary_node)
        if facts is not None and not self.force:
            raise PrerequisiteError(
                f"Instance {instance.name} runs and uses its disks: shut it down first "
                f"(gnt-instance shutdown {instance.name})",
                WRONG_STATE,
            )
        if primary.offline and not self.force:
            raise PrerequisiteError(
                f"Primary node {primary.name} of {instance.name} is offline: add --force to only mark the disks as "
                "closed",
                WRONG_STATE,
            )
        return Checked(instance_spec(view, ctx.catalogue, instance), primary.offline)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        spec = checked.spec
        if checked.only_mark:
            ctx.log.warning(f"Primary node {spec.primary_node} is offline: its disks are only marked as closed")
        else:
            await close_disks(ctx, spec)
        await ctx.config.commit(SetInstanceState(instance_uuid=spec.uuid, disks_active=False), settles=True)

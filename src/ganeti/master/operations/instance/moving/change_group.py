# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_CHANGE_GROUP: have an instance move to another node group, where the allocator says, by a job."""

from dataclasses import dataclass
from typing import Annotated, Any

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Hooks, Operation, SubmitJobs, decode, operation
from ganeti.master.operations.instance.existing import require_complete
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Allocator, InstanceName, InstanceUuid, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import ALL_GROUPS, LockPlan, group_lock, instance_lock, node_lock
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.placement_requests import ChangeGroup
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    target_groups: list[str]
    jobs: list[list[Operation[Any]]]


@operation(
    "OP_INSTANCE_CHANGE_GROUP",
    summary_field="instance_name",
    hooks="instance-change-group",
    cli=Command("gnt-instance change-group", "move an instance to another node group", arguments=("instance_name",)),
    not_played="it only asks where to, which depends on the nodes that answer; the migrations that follow are played",
)
class ChangeGroupOfInstance(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Move an instance to another node group; gives the jobs that do it."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    early_release: Annotated[
        bool, Parameter("free locks before mirrors are in sync, where disks are mirrored", "--early-release")
    ] = False
    iallocator: Allocator | None = None
    target_groups: Annotated[
        list[Text] | None,
        Parameter(
            "node groups it may go to; without it, all others",
            "--to",
            option_help="a node group it may go to",
            subject="group",
            repeatable=True,
            metavar="GROUP",
        ),
    ] = None

    def locks(self, view: ConfigView) -> LockPlan:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        own = view.node(instance.primary_node).group
        groups = [ALL_GROUPS]
        if self.target_groups:
            groups = [group_lock(uuid) for uuid in {own, *self._targets(view, instance)}]
        nodes = [node_lock(uuid) for uuid in view.instance_nodes(instance)]
        return plan(shared=[instance_lock(instance.name), *groups, *nodes])

    async def gather(self, ctx: OperationContext, view: ConfigView) -> list[list[dict[str, Any]]]:
        """The opcodes of the jobs, as the allocator says."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "moved")
        request = ChangeGroup(instances=[instance.name], target_groups=self._targets(view, instance))
        return await allocation.moving_jobs(ctx, self.iallocator, request)

    def check(self, view: ConfigView, facts: list[list[dict[str, Any]]], ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        jobs = [[decode(self._released(opcode)) for opcode in job] for job in facts]
        spec = instance_spec(view, ctx.catalogue, instance)
        return Checked(instance, spec, self._targets(view, instance), jobs)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        master = [view.cluster.master_node]
        env = {"TARGET_GROUPS": " ".join(checked.target_groups)}
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, master, master, env)

    async def execute(self, checked: Checked, ctx: OperationContext) -> SubmitJobs:
        names = [ctx.config.view().group(uuid).name for uuid in checked.target_groups]
        ctx.log.info(f"* moving {checked.spec.name} to one of the node groups {', '.join(names)}")
        return SubmitJobs(checked.jobs)

    def _targets(self, view: ConfigView, instance: Instance) -> list[str]:
        """UUIDs of the node groups it may go to; raises `PrerequisiteError` where there is none."""
        own = {view.node(uuid).group for uuid in view.instance_nodes(instance)}
        if not self.target_groups:
            if others := sorted(group.uuid for group in view.groups() if group.uuid not in own):
                return others
            raise PrerequisiteError(
                f"There is no node group that {instance.name} is not in: make one with gnt-group add", WRONG_INPUT
            )
        found = list(dict.fromkeys(view.find_group(name).uuid for name in self.target_groups))
        for uuid in found:
            if uuid in own:
                raise PrerequisiteError(
                    f"Instance {instance.name} is in node group {view.group(uuid).name}: name another one", WRONG_INPUT
                )
        return found

    def _released(self, opcode: dict[str, Any]) -> dict[str, Any]:
        return opcode | {"early_release": self.early_release} if "early_release" in opcode else opcode

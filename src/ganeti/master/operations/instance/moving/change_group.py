# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_CHANGE_GROUP: have an instance move to another node group, where the allocator says, by a job."""

from dataclasses import dataclass
from typing import Annotated, Any

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, SubmitJobs, decode, operation
from ganeti.master.operations.instance.existing import require_complete
from ganeti.master.operations.instance.moving.group_move import (
    as_step,
    check_steps,
    groups_of,
    is_split,
    joined,
    question,
    steps_to,
)
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Allocator, InstanceName, InstanceUuid, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import ALL_GROUPS, LockPlan, group_lock, instance_lock, node_lock
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance, Node
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
    examples=(
        Example(
            "change-group",
            {"instance_name": "one.example.com", "nodes": ["node3.example.com"]},
            before=("create", "group-add", "group-assign"),
        ),
    ),
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
            kind="list",
            repeatable=True,
            metavar="GROUP",
        ),
    ] = None

    nodes: Annotated[
        list[Text],
        Parameter(
            "nodes of another node group that it is to be on, the primary first; without them an allocator chooses",
            "-n",
            "--node",
            option_help="its new nodes, in another node group",
            subject="node",
            kind="nodes",
            metavar="NODE[:SECONDARY]",
        ),
    ] = []

    def locks(self, view: ConfigView) -> LockPlan:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        groups = [ALL_GROUPS]
        if self.target_groups or self.nodes:
            groups = [group_lock(uuid) for uuid in {*groups_of(view, instance), *self._targets(view, instance)}]
        nodes = dict.fromkeys([*view.instance_nodes(instance), *(node.uuid for node in self._named(view))])
        return plan(shared=[instance_lock(instance.name), *groups, *map(node_lock, nodes)])

    async def gather(self, ctx: OperationContext, view: ConfigView) -> list[list[dict[str, Any]]]:
        """The opcodes of the jobs: to the nodes that are named, or as the allocator says."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "moved")
        targets = self._targets(view, instance)
        if self.nodes:
            return [steps_to(view, ctx.catalogue, instance, self._named(view))]
        if is_split(view, instance) and targets[0] in groups_of(view, instance):
            return [joined(view, instance, targets[0], allocation.require_allocator(view, self.iallocator))]
        return await allocation.moving_jobs(ctx, self.iallocator, question(view, [instance], targets))

    def check(self, view: ConfigView, facts: list[list[dict[str, Any]]], ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        jobs = [[decode(as_step(opcode, early_release=self.early_release)) for opcode in job] for job in facts]
        check_steps(view, facts)
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

    def _named(self, view: ConfigView) -> list[Node]:
        return [view.find_node(name) for name in self.nodes]

    def _targets(self, view: ConfigView, instance: Instance) -> list[str]:
        """UUIDs of the node groups it may go to; raises `PrerequisiteError` where there is none."""
        own = groups_of(view, instance)
        groups = [view.find_group(name).uuid for name in self.target_groups or ()]
        if self.nodes and (self.target_groups or self.iallocator):
            raise PrerequisiteError("Name the nodes, or node groups and an allocator: not both", WRONG_INPUT)
        if self.nodes:
            named = list(dict.fromkeys(node.group for node in self._named(view)))
        elif groups:
            named = list(dict.fromkeys(groups))
        else:
            return self._others(view, instance, own)
        for uuid in named:
            if uuid in own and len(own) == 1:
                raise PrerequisiteError(
                    f"Instance {instance.name} is in node group {view.group(uuid).name}: name another one", WRONG_INPUT
                )
        return named

    def _others(self, view: ConfigView, instance: Instance, own: list[str]) -> list[str]:
        if len(own) > 1:
            here, there = (view.group(uuid).name for uuid in own)
            raise PrerequisiteError(
                f"The nodes of {instance.name} are in the node groups {here} and {there}, as a move left them: "
                f"complete it or take it back by --to {there} or --to {here}",
                WRONG_STATE,
            )
        if others := sorted(group.uuid for group in view.groups() if group.uuid not in own):
            return others
        raise PrerequisiteError(
            f"There is no node group that {instance.name} is not in: make one with gnt-group add", WRONG_INPUT
        )

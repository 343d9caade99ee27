# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_EVACUATE: have the instances of a node group move to other groups, where the allocator says (S1.16)."""

from dataclasses import dataclass
from typing import Annotated, Any

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.operation import Hooks, Operation, SubmitJobs, decode, operation
from ganeti.master.operations.instance.moving.group_move import (
    as_step,
    check_steps,
    groups_of,
    is_split,
    joined,
    question,
)
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Allocator, GroupName, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, group_lock, instance_lock, node_lock
from ganeti.model.objects import Instance, Node, NodeGroup
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

_ENDED = ["success", "error", "canceled"]
_MIGRATE, _FAILOVER = "OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER"
_KEPT = ("instance_name", "target_node", "iallocator")
Opcodes = list[list[dict[str, Any]]]


@dataclass(frozen=True)
class Checked:
    group: NodeGroup
    targets: list[NodeGroup]
    jobs: list[list[Operation[Any]]]


@operation(
    "OP_GROUP_EVACUATE",
    summary_field="group_name",
    hooks="group-evacuate",
    cli=Command(
        "gnt-group evacuate",
        "move all instances of a node group to other groups",
        aliases=("drain",),
        arguments=("group_name",),
        handler="group.jobs:evacuate",
    ),
    not_played="it only asks where to, which depends on the nodes that answer; the migrations that follow are played",
)
class EvacuateGroup(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Move all instances out of a node group; gives the jobs that do it. Where one cannot move, none is."""

    group_name: GroupName
    early_release: Annotated[
        bool, Parameter("free locks before mirrors are in sync, where disks are mirrored", "--early-release")
    ] = False
    iallocator: Allocator | None = None
    target_groups: Annotated[
        list[Text] | None,
        Parameter(
            "node groups they may go to; without it, all others",
            "--to",
            option_help="a node group they may go to",
            subject="group",
            kind="list",
            repeatable=True,
            metavar="GROUP",
        ),
    ] = None
    sequential: Annotated[bool, Parameter("one instance after the other", "--sequential")] = False
    force_failover: Annotated[
        bool, Parameter("stop instances and start them there, in place of live migration", "--force-failover")
    ] = False

    def locks(self, view: ConfigView) -> LockPlan:
        """Nodes of the groups that instances go to are not waited for: the jobs that follow lock those they use."""
        group = view.find_group(self.group_name)
        return plan(
            shared=[
                *(group_lock(each.uuid) for each in (group, *self._targets(view, group))),
                *(instance_lock(instance.name) for instance in _instances(view, group)),
                *(node_lock(node.uuid) for node in _members(view, group)),
            ]
        )

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Opcodes:
        """The opcodes of the jobs, as the allocator says."""
        group = view.find_group(self.group_name)
        targets = self._targets(view, group)
        instances = _instances(view, group)
        if not instances:
            return []
        halfway = {each.name: into for each in instances if (into := _halfway(view, each, targets))}
        whole = [instance for instance in instances if instance.name not in halfway]
        jobs = [
            joined(view, view.find_instance(name), into, allocation.require_allocator(view, self.iallocator))
            for name, into in halfway.items()
        ]
        if not whole:
            return jobs
        request = question(view, whole, [target.uuid for target in targets])
        return [*jobs, *await allocation.moving_jobs(ctx, self.iallocator, request)]

    def check(self, view: ConfigView, facts: Opcodes, ctx: OperationContext) -> Checked:
        group = view.find_group(self.group_name)
        jobs = [
            [
                decode(self._completed(opcode, group, follows=number > 0 and step == 0))
                for step, opcode in enumerate(job)
            ]
            for number, job in enumerate(facts)
        ]
        check_steps(view, facts)
        return Checked(group, self._targets(view, group), jobs)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        nodes = [view.cluster.master_node, *(node.uuid for node in _members(view, checked.group))]
        nodes = list(dict.fromkeys(nodes))
        env = {"GROUP_NAME": checked.group.name, "TARGET_GROUPS": " ".join(each.uuid for each in checked.targets)}
        return Hooks(self.hooks_path, "GROUP", checked.group.name, env, nodes, nodes)

    async def execute(self, checked: Checked, ctx: OperationContext) -> SubmitJobs:
        if not checked.jobs:
            ctx.log.info(f"No instance has to leave node group {checked.group.name}")
        return SubmitJobs(checked.jobs)

    def _targets(self, view: ConfigView, group: NodeGroup) -> list[NodeGroup]:
        """Raises `PrerequisiteError` where there is none, or the group itself is named."""
        if not self.target_groups:
            others = sorted((each for each in view.groups() if each.uuid != group.uuid), key=lambda each: each.name)
            if not others:
                raise PrerequisiteError(
                    f"There is no node group beside {group.name}: make one with gnt-group add", WRONG_INPUT
                )
            return others
        found = [view.find_group(name) for name in dict.fromkeys(self.target_groups)]
        if any(each.uuid == group.uuid for each in found):
            raise PrerequisiteError(f"Instances cannot leave node group {group.name} for itself", WRONG_INPUT)
        return list({each.uuid: each for each in found}.values())

    def _completed(self, opcode: dict[str, Any], group: NodeGroup, *, follows: bool) -> dict[str, Any]:
        if self.force_failover and opcode.get("OP_ID") == _MIGRATE:
            opcode = {"OP_ID": _FAILOVER, **{key: opcode[key] for key in _KEPT if key in opcode}}
        opcode = as_step(opcode, early_release=self.early_release)
        if self.sequential and follows:
            opcode = opcode | {"depends": [[-1, _ENDED]]}
        return opcode | {"comment": f"Evacuating node group {group.name}", "priority": self.priority}


def _members(view: ConfigView, group: NodeGroup) -> list[Node]:
    return [node for node in view.nodes() if node.group == group.uuid]


def _instances(view: ConfigView, group: NodeGroup) -> list[Instance]:
    """Those with a node in the group; what is only reserved has nothing to move yet."""
    members = [node.uuid for node in _members(view, group)]
    found = [each for each in view.instances_on(*members) if not each.forthcoming]
    return sorted(found, key=lambda instance: instance.name)


def _halfway(view: ConfigView, instance: Instance, targets: list[NodeGroup]) -> str | None:
    """The target group that an interrupted move has brought one node of *instance* to."""
    if not is_split(view, instance):
        return None
    reached = {target.uuid for target in targets}.intersection(groups_of(view, instance))
    return next(iter(reached), None)

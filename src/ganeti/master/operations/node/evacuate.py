# SPDX-License-Identifier: BSD-2-Clause
"""OP_NODE_EVACUATE: have the instances of a node move away, where the allocator says, each by a job."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ganeti.base.command import ASSUME_YES, PRINT_JOBID, PRIORITY, SUBMIT, Command, Option
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.operation import Operation, SubmitJobs, decode, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Allocator, NodeName, NodeUuid, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, group_lock, instance_lock, node_lock
from ganeti.model.objects import Instance, Node
from ganeti.model.placement_requests import NodeEvacuate
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

PRIMARY_ONLY, SECONDARY_ONLY, ALL = "primary-only", "secondary-only", "all"
Opcodes = list[list[dict[str, Any]]]


@dataclass(frozen=True)
class Checked:
    node: Node
    instances: list[Instance]
    jobs: list[list[Operation[Any]]]


@operation(
    "OP_NODE_EVACUATE",
    summary_field="node_name",
    cli=Command(
        "gnt-node evacuate",
        "move instances off a node",
        arguments=("node_name",),
        options=(
            ASSUME_YES,
            Option(("-p", "--primary-only"), "mode", "flag", "only instances that live there", PRIMARY_ONLY),
            Option(("-s", "--secondary-only"), "mode", "flag", "only those that have a mirror there", SECONDARY_ONLY),
            SUBMIT,
            PRINT_JOBID,
            PRIORITY,
        ),
        excludes=(("-p", "-s", "leave both out for all instances"), ("-n", "-I", "give one of them")),
        handler="node.jobs:evacuate",
        is_job=False,
    ),
    rapi="POST /2/nodes/[node_name]/evacuate",
    not_played="it only asks where to, which depends on the nodes that answer; the migrations that follow are played",
)
class EvacuateNode(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Move instances off a node; gives the jobs that do it. Where one cannot move, none is."""

    node_name: NodeName
    node_uuid: NodeUuid = None
    early_release: Annotated[
        bool, Parameter("free locks before mirrors are in sync, where disks are mirrored", "--early-release")
    ] = False
    remote_node: Annotated[
        Text | None,
        Parameter("node of the new mirrors, with -s", "-n", "--new-secondary", subject="node", metavar="NODE"),
    ] = None
    remote_node_uuid: Annotated[Text | None, Parameter("its UUID, in place of its name", subject="node")] = None
    iallocator: Allocator | None = None
    mode: Annotated[
        Literal["primary-only", "secondary-only", "all"],
        Parameter("whether those that live there, those that have a mirror there, or both"),
    ]
    ignore_soft_errors: Annotated[
        bool | None,
        Parameter("let the allocator break its rules that are not about resources", "--ignore-soft-errors"),
    ] = None

    def locks(self, view: ConfigView) -> LockPlan:
        node = view.find_node(self.node_uuid or self.node_name)
        instances = self._instances(view, node)
        nodes = dict.fromkeys([node.uuid, *(uuid for each in instances for uuid in view.instance_nodes(each))])
        members = [other.uuid for other in view.nodes() if other.group == node.group]
        return plan(
            shared=[
                group_lock(node.group),
                *(instance_lock(instance.name) for instance in instances),
                *(node_lock(uuid) for uuid in dict.fromkeys([*nodes, *members])),
            ]
        )

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Opcodes:
        """The opcodes of the jobs."""
        node = view.find_node(self.node_uuid or self.node_name)
        instances = self._instances(view, node)
        remote = self.remote_node_uuid or self.remote_node
        if remote is not None:
            return self._to(view, node, instances, remote)
        if not instances:
            return []
        request = NodeEvacuate(
            instances=sorted(instance.name for instance in instances),
            evac_mode=self.mode,
            ignore_soft_errors=self.ignore_soft_errors or False,
        )
        return await allocation.moving_jobs(ctx, self.iallocator, request)

    def check(self, view: ConfigView, facts: Opcodes, ctx: OperationContext) -> Checked:
        node = view.find_node(self.node_uuid or self.node_name)
        jobs = [[decode(self._completed(opcode, node)) for opcode in job] for job in facts]
        return Checked(node, self._instances(view, node), jobs)

    async def execute(self, checked: Checked, ctx: OperationContext) -> SubmitJobs:
        if not checked.instances:
            ctx.log.info(f"No instance has to leave node {checked.node.name}")
        return SubmitJobs(checked.jobs)

    def _instances(self, view: ConfigView, node: Node) -> list[Instance]:
        """Those that leave: what is only reserved has nothing to move yet."""
        found = {
            instance.uuid: instance
            for instance in view.instances_on(node.uuid)
            if not instance.forthcoming
            and (
                (self.mode != SECONDARY_ONLY and instance.primary_node == node.uuid)
                or (self.mode != PRIMARY_ONLY and node.uuid in view.secondary_nodes(instance))
            )
        }
        return sorted(found.values(), key=lambda instance: instance.name)

    def _to(self, view: ConfigView, node: Node, instances: list[Instance], remote: str) -> Opcodes:
        """New mirrors on the node that is named."""
        target = view.find_node(remote)
        if self.iallocator is not None:
            raise PrerequisiteError("Give either a node for the new mirrors or an allocator, not both", WRONG_INPUT)
        if self.mode != SECONDARY_ONLY:
            raise PrerequisiteError(
                "A node for new mirrors can be named with mode secondary-only (-s) only", WRONG_INPUT
            )
        if target.uuid == node.uuid:
            raise PrerequisiteError(f"Node {node.name} cannot take what leaves it: name another one", WRONG_INPUT)
        opcode = {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "mode": "replace_new_secondary", "disks": []}
        return [
            [opcode | {"instance_name": instance.name, "remote_node": target.name, "early_release": False}]
            for instance in instances
        ]

    def _completed(self, opcode: dict[str, Any], node: Node) -> dict[str, Any]:
        if "early_release" in opcode:
            opcode = opcode | {"early_release": self.early_release}
        return opcode | {"comment": f"Evacuating node {node.name}", "priority": self.priority}

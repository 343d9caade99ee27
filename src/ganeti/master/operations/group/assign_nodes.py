# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_ASSIGN_NODES: put nodes into a node group."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, ExecutionError, PrerequisiteError
from ganeti.base.natural import natural_key
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import GroupName, NodeUuids
from ganeti.master.parameter import Parameter
from ganeti.master.unsuitable_nodes import Groups, newly_unsuitable
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, group_lock, node_lock
from ganeti.model.objects import Node, NodeGroup
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext


class AssignNodes(Change, frozen=True, kw_only=True):
    """Put nodes into a group."""

    group_uuid: str
    node_uuids: list[str]

    def apply(self, draft: Draft) -> None:
        group = draft.group(self.group_uuid)
        for uuid in self.node_uuids:
            node = draft.node(uuid)
            if node.group != group.uuid:
                draft.put("nodes", replace(node, group=group.uuid))


@dataclass(frozen=True)
class Checked:
    group: NodeGroup
    nodes: list[Node]
    newly_split: list[str]
    """Names of instances whose nodes are in one group now, and would not be."""
    still_split: list[str]
    notes: list[str]


def split_instances(view: ConfigView, moved: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Give the names of instances that moving nodes (uuid: group) splits, and of those that it leaves split (S1.24)."""
    now = {node.uuid: node.group for node in view.nodes()}
    then = {**now, **moved}
    newly: list[str] = []
    still: list[str] = []
    for instance in view.instances():
        nodes = view.instance_nodes(instance)
        if _groups(then, nodes) > 1:
            (newly if _groups(now, nodes) == 1 else still).append(instance.name)
    return sorted(newly, key=natural_key), sorted(still, key=natural_key)


def _groups(of_nodes: Mapping[str, str], nodes: Collection[str]) -> int:
    return len({of_nodes[node] for node in nodes})


@operation(
    "OP_GROUP_ASSIGN_NODES",
    summary_field="group_name",
    cli=Command("gnt-group assign-nodes", "put nodes into a node group", arguments=("group_name", "nodes")),
    rapi="PUT /2/groups/[group_name]/assign-nodes",
    examples=(Example("group-assign", {"group_name": "green", "nodes": ["node3.example.com"]}, before=("group-add",)),),
)
class PutNodesIntoGroup(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Put nodes into a group; an instance whose nodes would then be in two stops it, unless *force* is given."""

    group_name: GroupName
    nodes: Annotated[list[str], Parameter("nodes to put into it", subject="node", metavar="node-name")]
    node_uuids: NodeUuids = None
    force: Annotated[bool, Parameter("go on though nodes of an instance would be in two groups", "-f", "--force")] = (
        False
    )

    def locks(self, view: ConfigView) -> LockPlan:
        group = view.find_group(self.group_name)
        nodes = self._nodes(view)
        groups = {group.uuid, *(node.group for node in nodes)}
        return plan(exclusive=[*map(group_lock, groups), *(node_lock(node.uuid) for node in nodes)])

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Checked:
        group, nodes = view.find_group(self.group_name), self._nodes(view)
        if not nodes:
            raise PrerequisiteError(f"Name the nodes to put into node group '{group.name}'", WRONG_INPUT)
        moved = {node.uuid: group.uuid for node in nodes}
        newly, still = split_instances(view, moved)
        if newly and not self.force:
            raise ExecutionError(  # as in Ganeti
                f"Nodes of these instances would be in two groups: {', '.join(newly)}; move the other node as well, or "
                "add --force"
            )
        return Checked(group, nodes, newly, still, newly_unsuitable(ctx.catalogue, Groups(view, moved=moved)))

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        if checked.newly_split:
            ctx.log.warning(f"Nodes of these instances would be in two groups: {', '.join(checked.newly_split)}")
            if checked.still_split:
                ctx.log.warning(f"Nodes of these instances stay in two groups: {', '.join(checked.still_split)}")
        for note in checked.notes:
            ctx.log.warning(note)
        node_uuids = [node.uuid for node in checked.nodes]
        await ctx.config.commit(AssignNodes(group_uuid=checked.group.uuid, node_uuids=node_uuids), settles=True)

    def _nodes(self, view: ConfigView) -> list[Node]:
        found = [view.find_node(name) for name in self.node_uuids or self.nodes]
        return list({node.uuid: node for node in found}.values())

# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_REMOVE: remove a node group that has no nodes."""

from typing import Any

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import GroupName
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, group_lock
from ganeti.model.objects import NodeGroup
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext


class RemoveGroup(Change, frozen=True, kw_only=True):
    """Take a group out, unless it has got nodes, or the others have gone."""

    group_uuid: str

    def apply(self, draft: Draft) -> None:
        group = draft.group(self.group_uuid)
        _refuse_used(draft, group)
        draft.remove("nodegroups", group.uuid)


def _refuse_used(view: ConfigView, group: NodeGroup) -> None:
    nodes = sorted(node.name for node in view.nodes() if node.group == group.uuid)
    if nodes:
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        raise PrerequisiteError(
            f"Node group '{group.name}' has nodes: {', '.join(nodes[:3])}{more}: "
            "put them into another group first (gnt-group assign-nodes)",
            WRONG_STATE,
        )
    if len(view.groups()) == 1:
        raise PrerequisiteError(
            f"Node group '{group.name}' is the only one: a cluster has at least one group", WRONG_STATE
        )


@operation(
    "OP_GROUP_REMOVE",
    summary_field="group_name",
    hooks="group-remove",
    cli=Command("gnt-group remove", "remove a node group that has no nodes", arguments=("group_name",)),
    rapi="DELETE /2/groups/[group_name]",
    examples=(Example("group-remove", {"group_name": "green"}, before=("group-add",)),),
)
class RemoveEmptyGroup(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Remove a node group; it must have no nodes, and not be the last."""

    group_name: GroupName

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[group_lock(view.find_group(self.group_name).uuid)])

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> NodeGroup:
        group = view.find_group(self.group_name)
        _refuse_used(view, group)
        return group

    def hooks(self, view: ConfigView, checked: NodeGroup) -> Hooks:
        master = [view.cluster.master_node]
        return Hooks(self.hooks_path, "GROUP", checked.name, {"GROUP_NAME": checked.name}, master, master)

    async def execute(self, checked: NodeGroup, ctx: OperationContext) -> None:
        await ctx.config.commit(RemoveGroup(group_uuid=checked.uuid), settles=True)

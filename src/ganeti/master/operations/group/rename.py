# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_RENAME: give a node group another name."""

from typing import Annotated, Any

from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.group.add import check_new_name
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, group_lock
from ganeti.model.objects import NodeGroup
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext


class RenameGroup(Change, frozen=True, kw_only=True):
    """Call a group by another name, unless another one has it."""

    group_uuid: str
    name: str

    def apply(self, draft: Draft) -> None:
        check_new_name(draft, self.name)
        draft.put("nodegroups", replace(draft.group(self.group_uuid), name=self.name))


@operation(
    "OP_GROUP_RENAME",
    hooks="group-rename",
    cli=Command("gnt-group rename", "rename a node group", arguments=("group_name", "new_name")),
    rapi="PUT /2/groups/[group_name]/rename",
    examples=(Example("group-rename", {"group_name": "default", "new_name": "first"}),),
)
class GiveGroupAnotherName(Operation[str], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rename a node group; gives the new name."""

    group_name: Annotated[Text, Parameter("its present name, or UUID", subject="group", metavar="old-name")]
    new_name: Annotated[Text, Parameter("its new name", subject="new name", metavar="new-name")]

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[group_lock(view.find_group(self.group_name).uuid)])

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> NodeGroup:
        group = view.find_group(self.group_name)
        check_new_name(view, self.new_name)
        return group

    def hooks(self, view: ConfigView, checked: NodeGroup) -> Hooks:
        members = [node.uuid for node in view.nodes() if node.group == checked.uuid]
        nodes = list(dict.fromkeys([view.cluster.master_node, *members]))
        env = {"OLD_NAME": checked.name, "NEW_NAME": self.new_name}
        return Hooks(self.hooks_path, "GROUP", checked.name, env, nodes, nodes)

    async def execute(self, checked: NodeGroup, ctx: OperationContext) -> str:
        await ctx.config.commit(RenameGroup(group_uuid=checked.uuid, name=self.new_name), settles=True)
        return self.new_name

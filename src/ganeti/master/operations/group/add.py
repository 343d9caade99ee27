# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_ADD: make a node group."""

from typing import Annotated, Any

from ganeti.base import names
from ganeti.base.command import Command
from ganeti.base.errors import ALREADY_EXISTS, WRONG_INPUT, PrerequisiteError
from ganeti.master.operation import Example, Hooks, operation
from ganeti.master.operations.cluster.communication import networks_of_new_group
from ganeti.master.operations.group.parameters import EXAMPLE, GroupParameters
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan
from ganeti.model.objects import NodeGroup
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext


class AddGroup(Change, frozen=True, kw_only=True):
    """Enter a group without nodes, unless somebody has made one of that name meanwhile."""

    group: NodeGroup

    def apply(self, draft: Draft) -> None:
        check_new_name(draft, self.group.name)
        draft.put("nodegroups", self.group)


def check_new_name(view: ConfigView, name: str) -> None:
    """Raise `PrerequisiteError` where a group cannot be called so, or another one is."""
    if fault := names.new_label_fault(name):
        raise PrerequisiteError(f"A node group cannot be called '{names.shown(name)}': {fault}", WRONG_INPUT)
    uuid = view.uuid_by_name("nodegroups", name)
    if uuid is not None:
        raise PrerequisiteError(
            f"There is a node group '{name}' already (UUID: {uuid}): choose another name", ALREADY_EXISTS
        )


@operation(
    "OP_GROUP_ADD",
    summary_field="group_name",
    hooks="group-add",
    cli=Command("gnt-group add", "make a node group", arguments=("group_name",)),
    rapi="POST /2/groups",
    examples=(Example("group-add", {"group_name": "green", **EXAMPLE}),),
)
class MakeGroup(GroupParameters[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a node group without nodes; `OP_GROUP_ASSIGN_NODES` puts some into it."""

    group_name: Annotated[Text, Parameter("name of the new node group", subject="new name", metavar="group-name")]

    def locks(self, view: ConfigView) -> LockPlan:
        return plan()

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> NodeGroup:
        check_new_name(view, self.group_name)
        networks = networks_of_new_group(view)
        group = NodeGroup(uuid=ctx.entropy.uuid(), name=self.group_name, networks=networks)
        return self.changed(group, view, ctx.catalogue)

    def hooks(self, view: ConfigView, checked: NodeGroup) -> Hooks:
        master = [view.cluster.master_node]
        return Hooks(self.hooks_path, "GROUP", checked.name, {"GROUP_NAME": checked.name}, master, master)

    async def execute(self, checked: NodeGroup, ctx: OperationContext) -> None:
        await ctx.config.commit(AddGroup(group=checked), settles=True)

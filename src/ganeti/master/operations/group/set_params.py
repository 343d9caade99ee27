# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_SET_PARAMS: change the parameters of a node group."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.operation import Example, Hooks, operation
from ganeti.master.operations.cluster.inherited_parameters import newly_outside
from ganeti.master.operations.group.parameters import EXAMPLE, GroupParameters
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import GroupName
from ganeti.master.unsuitable_nodes import Groups, newly_unsuitable
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, group_lock, instance_lock
from ganeti.model.objects import NodeGroup
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext

_ATTRIBUTES = {
    "alloc_policy": "alloc_policy",
    "ndparams": "ndparams",
    "diskparams": "diskparams",
    "hv_state_static": "hv_state",
    "disk_state_static": "disk_state",
    "ipolicy": "ipolicy",
    "capacity_params": "capacity_params",
}
"""The parameter that says what an attribute of the group becomes."""


class ChangeGroup(Change, frozen=True, kw_only=True):
    """Give attributes of a node group other values; those not named stay."""

    group_uuid: str
    values: dict[str, Any]

    def apply(self, draft: Draft) -> None:
        old = draft.group(self.group_uuid)
        new = replace(old, **self.values)
        if new != old:
            draft.put("nodegroups", new)


@dataclass(frozen=True)
class Checked:
    group: NodeGroup
    values: dict[str, Any]
    notes: list[str]


@operation(
    "OP_GROUP_SET_PARAMS",
    summary_field="group_name",
    hooks="group-modify",
    cli=Command(
        "gnt-group modify",
        "change parameters of a node group",
        arguments=("group_name",),
        modifies="node group",
        handler="group.jobs:modify",
    ),
    rapi="PUT /2/groups/[group_name]/modify",
    examples=(Example("group-policy", {"group_name": "default", "alloc_policy": "last_resort", **EXAMPLE}),),
)
class ModifyGroup(GroupParameters[list[tuple[str, Any]]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change parameters of a node group; null leaves one as it is. The *capacity_params* are replaced together."""

    group_name: GroupName

    def locks(self, view: ConfigView) -> LockPlan:
        group = view.find_group(self.group_name)
        nodes = [node.uuid for node in view.group_nodes(group.uuid)] if self.ipolicy else []
        instances = [instance_lock(instance.name) for instance in view.primary_instances(*nodes)]
        return plan(exclusive=[group_lock(group.uuid)], shared=instances)

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Checked:
        old = view.find_group(self.group_name)
        new = self.changed(old, view, ctx.catalogue)
        values = {name: getattr(new, name) for name, given in _ATTRIBUTES.items() if getattr(self, given)}
        if not values and all(getattr(self, given) is None for given in _ATTRIBUTES.values()):
            raise PrerequisiteError("Please pass at least one modification", WRONG_INPUT)
        unsuitable = newly_unsuitable(ctx.catalogue, Groups(view, changed={new.uuid: new}))
        return Checked(old, values, [*newly_outside(view, view.cluster, new), *unsuitable])

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        master = [view.cluster.master_node]
        env = {"GROUP_NAME": checked.group.name, "NEW_ALLOC_POLICY": str(self.alloc_policy)}

        def after(view: ConfigView, catalogue: Catalogue) -> dict[str, str]:
            group = view.group(checked.group.uuid)
            return {"GROUP_NAME": group.name, "NEW_ALLOC_POLICY": group.alloc_policy}

        return Hooks(self.hooks_path, "GROUP", checked.group.name, env, master, master, after)

    async def execute(self, checked: Checked, ctx: OperationContext) -> list[tuple[str, Any]]:
        if not checked.values:  # 3.1's command sends an empty diskparams where it has nothing to change
            ctx.log.info(f"No parameter was given: node group {checked.group.name} stays as it is")
            return []
        for note in checked.notes:
            ctx.log.warning(note)
        await ctx.config.commit(ChangeGroup(group_uuid=checked.group.uuid, values=checked.values), settles=True)
        return [(_ATTRIBUTES.get(name, name), value) for name, value in checked.values.items()]

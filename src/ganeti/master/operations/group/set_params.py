# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_SET_PARAMS: change the parameters of a node group."""

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.capacity import check_template
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import (
    AllocPolicy,
    CapacityOptions,
    DiskParameters,
    DiskState,
    GroupName,
    HypervisorState,
    InstancePolicy,
    NodeParameters,
)
from ganeti.master.parameter import Refused
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, group_lock
from ganeti.model.objects import NodeGroup
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext

NOT_YET = Refused("Of a node group, {name} cannot be changed yet: it keeps what it has")
"""Nodes or instances must be asked about these."""


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


@operation(
    "OP_GROUP_SET_PARAMS",
    summary_field="group_name",
    hooks="group-modify",
    cli=Command(
        "gnt-group modify", "change parameters of a node group", arguments=("group_name",), modifies="node group"
    ),
    rapi="PUT /2/groups/[group_name]/modify",
    examples=(Example("group-policy", {"group_name": "default", "alloc_policy": "last_resort"}),),
)
class ModifyGroup(Operation[list[tuple[str, Any]]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change parameters of a node group; null leaves one as it is. *capacity_params* (ours) are replaced together."""

    group_name: GroupName
    alloc_policy: AllocPolicy | None = None
    capacity_params: CapacityOptions | None = None

    ndparams: Annotated[NodeParameters | None, NOT_YET] = None
    diskparams: Annotated[DiskParameters | None, NOT_YET] = None
    hv_state: Annotated[HypervisorState | None, NOT_YET] = None
    disk_state: Annotated[DiskState | None, NOT_YET] = None
    ipolicy: Annotated[InstancePolicy | None, NOT_YET] = None

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[group_lock(view.find_group(self.group_name).uuid)])

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Checked:
        values: dict[str, Any] = {}
        if self.alloc_policy is not None:
            values["alloc_policy"] = self.alloc_policy
        if self.capacity_params is not None:
            check_template(view, self.capacity_params.default_template)
            values["capacity_params"] = self.capacity_params.plain()
        if not values:
            raise PrerequisiteError("Please pass at least one modification", WRONG_INPUT)
        return Checked(view.find_group(self.group_name), values)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        master = [view.cluster.master_node]
        env = {"GROUP_NAME": checked.group.name, "NEW_ALLOC_POLICY": str(self.alloc_policy)}

        def after(view: ConfigView, catalogue: Catalogue) -> dict[str, str]:
            group = view.group(checked.group.uuid)
            return {"GROUP_NAME": group.name, "NEW_ALLOC_POLICY": group.alloc_policy}

        return Hooks(self.hooks_path, "GROUP", checked.group.name, env, master, master, after)

    async def execute(self, checked: Checked, ctx: OperationContext) -> list[tuple[str, Any]]:
        await ctx.config.commit(ChangeGroup(group_uuid=checked.group.uuid, values=checked.values), settles=True)
        return list(checked.values.items())

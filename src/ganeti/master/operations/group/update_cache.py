# SPDX-License-Identifier: BSD-2-Clause
"""OP_UPDATE_NODE_GROUP_CACHE: have LuxiD forget a node group's state and ask its nodes anew (S1.43, S1.54)."""

from typing import Any

from ganeti.master.cache.group_state import in_order
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import GroupName
from ganeti.model.locks import LockPlan, instance_lock, node_lock
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.luxid import RenewGroupState

_Plain = dict[str, Any]


@operation(
    "OP_UPDATE_NODE_GROUP_CACHE",
    summary_field="group_name",
    examples=(Example("group-cache", {"group_name": "default"}, before=("create",)),),
)
class UpdateNodeGroupCache(Operation[_Plain], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Renew what is known of a group's nodes and instances, and give it; *group_name* may be a UUID.

    The result has ``group`` (name and uuid), ``nodes`` and ``instances``, by name: values of the query fields of these
    names, null where nothing is known (`master/cache/group_state.py`). A node that does not answer is no error, but one
    without values. Locks are shared, and held to the end: nothing changes while nodes are asked, jobs that only read go
    on, and giving them up makes nothing void. Of two such jobs at once, what was asked for later is kept.
    """

    group_name: GroupName

    def locks(self, view: ConfigView) -> LockPlan:
        members = {node.uuid for node in view.group_nodes(view.find_group(self.group_name).uuid)}
        guests = [instance_lock(each.name) for each in view.primary_instances(*members)]
        return plan(shared=[*map(node_lock, members), *guests])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> str:
        return view.find_group(self.group_name).uuid

    async def execute(self, checked: str, ctx: OperationContext) -> _Plain:
        state = in_order(await ctx.luxid.ask(RenewGroupState(checked)))
        for name, values in state["nodes"].items():
            if not values["offline"] and values["bootid"] is None:
                ctx.log.warning(f"Node {name} did not answer: nothing is known of it now")
        return state

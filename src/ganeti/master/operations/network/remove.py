# SPDX-License-Identifier: BSD-2-Clause
"""OP_NETWORK_REMOVE: remove a network that no group is connected to."""

from typing import Annotated, Any

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.network.values import NetworkName, connected_groups, users
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import ALL_GROUPS, LockPlan, network_lock
from ganeti.model.objects import Network
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext


class RemoveNetwork(Change, frozen=True, kw_only=True):
    """Take a network out, unless a group has been connected to it, or an instance has a NIC in it."""

    network_uuid: str

    def apply(self, draft: Draft) -> None:
        network = draft.network(self.network_uuid)
        _refuse_used(draft, network)
        draft.remove("networks", network.uuid)


def _refuse_used(view: ConfigView, network: Network) -> None:
    """An instance may be in it whose nodes have come into a group that is not connected."""
    if groups := connected_groups(view, network):
        raise PrerequisiteError(
            f"Network '{network.name}' is connected to the node groups {', '.join(groups)}: "
            "disconnect it first (gnt-network disconnect)",
            WRONG_STATE,
        )
    if found := [nic for group in view.groups() for nic in users(view, network, group.uuid)]:
        raise PrerequisiteError(
            f"Instances use network '{network.name}': {', '.join(found)}; remove these network interfaces, or change "
            "them, first",
            WRONG_STATE,
        )


@operation(
    "OP_NETWORK_REMOVE",
    summary_field="network_name",
    hooks="network-remove",
    cli=Command("gnt-network remove", "remove a network that no group is connected to", arguments=("network_name",)),
    rapi="DELETE /2/networks/[network_name]",
    examples=(Example("network-remove", {"network_name": "dmz"}, before=("network-add",)),),
)
class RemoveUnusedNetwork(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Remove a network that no instance is in."""

    network_name: NetworkName
    force: Annotated[bool, Parameter("do not ask", "-f", "--force")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[network_lock(view.find_network(self.network_name).uuid)], shared=[ALL_GROUPS])

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Network:
        network = view.find_network(self.network_name)
        _refuse_used(view, network)
        return network

    def hooks(self, view: ConfigView, checked: Network) -> Hooks:
        master = [view.cluster.master_node]
        return Hooks(self.hooks_path, "NETWORK", checked.name, {"NETWORK_NAME": checked.name}, master, master)

    async def execute(self, checked: Network, ctx: OperationContext) -> None:
        await ctx.config.commit(RemoveNetwork(network_uuid=checked.uuid), settles=True)

# SPDX-License-Identifier: BSD-2-Clause
"""OP_NETWORK_DISCONNECT: no instance of a node group may use a network any longer."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ganeti.base.command import PRIORITY, Argument, Command
from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.network.connect import nic_environment
from ganeti.master.operations.network.values import NetworkName, users
from ganeti.master.operations.parameters import GroupName
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, group_lock, instance_lock
from ganeti.model.objects import Network, NodeGroup
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext


class DisconnectNetwork(Change, frozen=True, kw_only=True):
    """Take a network from a group, unless an instance has begun to use it."""

    network_uuid: str
    group_uuid: str

    def apply(self, draft: Draft) -> None:
        group, network = draft.group(self.group_uuid), draft.network(self.network_uuid)
        _refuse_used(draft, network, group)
        left = {uuid: nicparams for uuid, nicparams in group.networks.items() if uuid != network.uuid}
        draft.put("nodegroups", replace(group, networks=left))


def _refuse_used(view: ConfigView, network: Network, group: NodeGroup) -> None:
    if found := users(view, network, group.uuid):
        raise PrerequisiteError(
            f"Instances of node group '{group.name}' use network '{network.name}': {', '.join(found)}; "
            "remove these network interfaces, or change them, first",
            WRONG_STATE,
        )


@dataclass(frozen=True)
class Checked:
    network: Network
    group: NodeGroup
    connected: bool


@operation(
    "OP_NETWORK_DISCONNECT",
    summary_field="network_name",
    hooks="network-disconnect",
    cli=Command(
        "gnt-network disconnect",
        "take a network from node groups",
        arguments=("network_name", Argument("groups", "group", 0, None, subject="group")),
        options=(PRIORITY,),
        handler="network.links:disconnect",
        is_job=False,
    ),
    rapi="PUT /2/networks/[network_name]/disconnect",
    examples=(
        Example(
            "network-disconnect",
            {"network_name": "dmz", "group_name": "default"},
            before=("network-add", "network-connect"),
        ),
    ),
)
class DisconnectGroup(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Disconnect a group from a network that none of its instances uses."""

    group_name: GroupName
    network_name: NetworkName

    def locks(self, view: ConfigView) -> LockPlan:
        group = view.find_group(self.group_name)
        guests = view.primary_instances(*(node.uuid for node in view.group_nodes(group.uuid)))
        return plan(exclusive=[group_lock(group.uuid)], shared=[instance_lock(guest.name) for guest in guests])

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Checked:
        group, network = view.find_group(self.group_name), view.find_network(self.network_name)
        _refuse_used(view, network, group)
        return Checked(network, group, network.uuid in group.networks)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        nicparams = checked.group.networks.get(checked.network.uuid)
        env = {"GROUP_NAME": checked.group.name} | (nic_environment(nicparams) if nicparams is not None else {})
        nodes = [node.uuid for node in view.group_nodes(checked.group.uuid)]
        return Hooks(self.hooks_path, "NETWORK", checked.network.name, env, nodes, nodes)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        network, group = checked.network, checked.group
        if not checked.connected:
            ctx.log.warning(f"Network '{network.name}' is not mapped to group '{group.name}'")
            return
        await ctx.config.commit(DisconnectNetwork(network_uuid=network.uuid, group_uuid=group.uuid), settles=True)

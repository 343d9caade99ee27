# SPDX-License-Identifier: BSD-2-Clause
"""OP_NETWORK_CONNECT: let instances of a node group use a network."""

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec.structs import replace

from ganeti.base.command import PRIORITY, Argument, Command, Option
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, ParameterError, PrerequisiteError
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.network.values import ConflictsCheck, NetworkName, NicMode, strangers
from ganeti.master.operations.parameters import GroupName, Text
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, group_lock, instance_lock, network_lock
from ganeti.model.objects import Network, NodeGroup
from ganeti.model.parameters import NIC_PARAMETERS, accept_all
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext


class ConnectNetwork(Change, frozen=True, kw_only=True):
    """Say how NICs of a group's instances are attached to a network."""

    network_uuid: str
    group_uuid: str
    nicparams: dict[str, str]

    def apply(self, draft: Draft) -> None:
        group, network = draft.group(self.group_uuid), draft.network(self.network_uuid)
        draft.put("nodegroups", replace(group, networks=group.networks | {network.uuid: self.nicparams}))


@dataclass(frozen=True)
class Checked:
    network: Network
    group: NodeGroup
    connected: bool


@operation(
    "OP_NETWORK_CONNECT",
    summary_field="network_name",
    hooks="network-connect",
    cli=Command(
        "gnt-network connect",
        "let instances of node groups use a network",
        arguments=("network_name", Argument("groups", "group", 0, None, subject="group")),
        options=(
            Option(("-N", "--nic-parameters"), "nicparams", "keyvalues", "mode, link and vlan of their NICs in it"),
            PRIORITY,
        ),
        handler="network.links:connect",
        is_job=False,
    ),
    rapi="PUT /2/networks/[network_name]/connect",
    examples=(
        Example(
            "network-connect",
            {"network_name": "dmz", "group_name": "default", "network_mode": "routed", "network_link": "lo"},
            before=("network-add",),
        ),
    ),
)
class ConnectGroup(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Connect a group to a network; one that is connected already stays as it is.

    With *conflicts_check*, an instance of the group must not have an address of the network without being in it.
    """

    group_name: GroupName
    network_name: NetworkName
    network_mode: NicMode
    network_link: Annotated[Text, Parameter("bridge, table or switch that the NICs are attached to")]
    network_vlan: Annotated[str, Parameter("VLAN of the NICs, for a switch")] = ""
    conflicts_check: ConflictsCheck = True

    def locks(self, view: ConfigView) -> LockPlan:
        group, network = view.find_group(self.group_name), view.find_network(self.network_name)
        guests = view.primary_instances(*(node.uuid for node in view.group_nodes(group.uuid)))
        shared = [instance_lock(guest.name) for guest in guests]
        if self.conflicts_check:
            shared.append(network_lock(network.uuid))
        return plan(exclusive=[group_lock(group.uuid)], shared=shared)

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Checked:
        group, network = view.find_group(self.group_name), view.find_network(self.network_name)
        try:
            accept_all(NIC_PARAMETERS, self._nicparams(), "NIC")
        except ParameterError as err:
            raise PrerequisiteError(err.message, WRONG_INPUT) from err
        connected = network.uuid in group.networks
        if self.conflicts_check and not connected and (found := strangers(view, network, group.uuid)):
            raise PrerequisiteError(
                f"Instances of node group '{group.name}' have addresses of network '{network.name}' without being "
                f"in it: {', '.join(found)}; change these, or add --no-conflicts-check",
                WRONG_STATE,
            )
        return Checked(network, group, connected)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks | None:
        env = {"GROUP_NAME": checked.group.name, **nic_environment(self._nicparams())}
        nodes = [node.uuid for node in view.group_nodes(checked.group.uuid)]
        return Hooks(self.hooks_path, "NETWORK", checked.network.name, env, nodes, nodes)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        network, group = checked.network, checked.group
        if checked.connected:
            ctx.log.warning(f"Network '{network.name}' is already mapped to group '{group.name}'")
            return
        change = ConnectNetwork(network_uuid=network.uuid, group_uuid=group.uuid, nicparams=self._nicparams())
        await ctx.config.commit(change, settles=True)

    def _nicparams(self) -> dict[str, str]:
        return {"mode": self.network_mode, "link": self.network_link, "vlan": self.network_vlan}


def nic_environment(nicparams: dict[str, Any]) -> dict[str, str]:
    """What hooks are told of how a group uses a network."""
    return {f"GROUP_NETWORK_{name.upper()}": str(nicparams.get(name, "")) for name in ("mode", "link", "vlan")}

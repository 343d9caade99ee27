# SPDX-License-Identifier: BSD-2-Clause
"""OP_NETWORK_RENAME: give a network another name."""

from typing import Annotated, Any

from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.network.values import check_new_name
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, network_lock
from ganeti.model.objects import Network
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext


class RenameNetwork(Change, frozen=True, kw_only=True):
    """Call a network by another name, unless another one has it."""

    network_uuid: str
    name: str

    def apply(self, draft: Draft) -> None:
        check_new_name(draft, self.name)
        draft.put("networks", replace(draft.network(self.network_uuid), name=self.name))


@operation(
    "OP_NETWORK_RENAME",
    hooks="network-rename",
    cli=Command("gnt-network rename", "rename a network", arguments=("network_name", "new_name")),
    rapi="PUT /2/networks/[network_name]/rename",
    examples=(Example("network-rename", {"network_name": "dmz", "new_name": "front"}, before=("network-add",)),),
)
class GiveNetworkAnotherName(Operation[str], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rename a network; gives the new name."""

    network_name: Annotated[Text, Parameter("its present name, or UUID", subject="network", metavar="old-name")]
    new_name: Annotated[Text, Parameter("its new name", subject="new name", metavar="new-name")]

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[network_lock(view.find_network(self.network_name).uuid)])

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Network:
        network = view.find_network(self.network_name)
        check_new_name(view, self.new_name)
        return network

    def hooks(self, view: ConfigView, checked: Network) -> Hooks:
        groups = {group.uuid for group in view.groups() if checked.uuid in group.networks}
        members = [node.uuid for node in view.nodes() if node.group in groups]
        nodes = list(dict.fromkeys([view.cluster.master_node, *members]))
        env = {"OLD_NAME": checked.name, "NEW_NAME": self.new_name}
        return Hooks(self.hooks_path, "NETWORK", checked.name, env, nodes, nodes)

    async def execute(self, checked: Network, ctx: OperationContext) -> str:
        await ctx.config.commit(RenameNetwork(network_uuid=checked.uuid, name=self.new_name), settles=True)
        return self.new_name

# SPDX-License-Identifier: BSD-2-Clause
"""OP_NETWORK_ADD: make a network."""

from dataclasses import dataclass
from typing import Annotated, Any

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.network.values import (
    NONE,
    ConflictsCheck,
    Gateway,
    Gateway6,
    MacPrefix,
    Network6,
    ReservedIps,
    check_addresses,
    check_new_name,
    each_once,
    hook_environment,
    mac_prefix,
    refused,
    router_notes,
)
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import ALL_NODES, LockPlan
from ganeti.model.network_pool import Pool, new_pool
from ganeti.model.objects import Network
from ganeti.model.tags import check_tag, with_tags
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext


class AddNetwork(Change, frozen=True, kw_only=True):
    """Enter a network that no group is connected to."""

    network: Network

    def apply(self, draft: Draft) -> None:
        check_new_name(draft, self.network.name)
        draft.put("networks", self.network)


@dataclass(frozen=True)
class Checked:
    network: Network
    notes: list[str]


@operation(
    "OP_NETWORK_ADD",
    summary_field="network_name",
    hooks="network-add",
    cli=Command("gnt-network add", "make a network", arguments=("network_name",)),
    rapi="POST /2/networks",
    examples=(Example("network-add", {"network_name": "dmz", "network": "192.0.2.0/28", "gateway": "192.0.2.1"}),),
)
class MakeNetwork(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a network with a pool of addresses; it keeps back its first and last one, the gateway and those named.

    With *conflicts_check*, addresses of nodes and of the cluster that lie in it are kept back as well.
    """

    network_name: Annotated[Text, Parameter("name of the new network", subject="new name", metavar="network-name")]
    network: Annotated[
        Text,
        Parameter("its addresses, in the form ADDRESS/LENGTH; must be given", "--network", subject="IPv4 network"),
    ]
    gateway: Gateway | None = None
    network6: Network6 | None = None
    gateway6: Gateway6 | None = None
    mac_prefix: MacPrefix | None = None
    add_reserved_ips: ReservedIps | None = None
    conflicts_check: ConflictsCheck = True
    tags: Annotated[
        list[str], Parameter("tags of the network", "--tags", subject="text", repeatable=True, kind="list")
    ] = []

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(shared=[ALL_NODES] if self.conflicts_check else [])

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Checked:
        check_new_name(view, self.network_name)
        for tag in self.tags:
            check_tag(tag)
        gateway, network6, gateway6 = (
            None if each == NONE else each for each in (self.gateway, self.network6, self.gateway6)
        )
        try:
            pool = new_pool(self.network)
            check_addresses(gateway, network6, gateway6, pool)
            for address in each_once([*([gateway] if gateway else []), *(self.add_reserved_ips or [])]):
                pool = pool.keep(address)
        except ParameterError as err:
            raise refused(err) from err
        except ValueError as err:
            raise PrerequisiteError(f"This is no IPv4 address: {err}", WRONG_INPUT) from err
        pool, notes = _without_our_own(view, pool) if self.conflicts_check else (pool, [])
        network = Network(
            uuid=ctx.entropy.uuid(),
            name=self.network_name,
            network=str(pool.network),
            gateway=gateway,
            network6=network6,
            gateway6=gateway6,
            mac_prefix=mac_prefix(self.mac_prefix),
            tags=with_tags([], self.tags),
        )
        return Checked(pool.put_into(network), [*notes, *router_notes(network)])

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        master = [view.cluster.master_node]
        env = hook_environment(checked.network)
        return Hooks(self.hooks_path, "NETWORK", checked.network.name, env, master, master)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        for note in checked.notes:
            ctx.log.info(note)
        await ctx.config.commit(AddNetwork(network=checked.network), settles=True)


def _without_our_own(view: ConfigView, pool: Pool) -> tuple[Pool, list[str]]:
    """Keep back what nodes and the cluster use themselves; say of what."""
    owners = {view.cluster.master_ip: "cluster master IP address"}
    for node in view.nodes():
        for address in (node.primary_ip, node.secondary_ip):
            owners.setdefault(address, f"IP address of node '{node.name}'")
    notes = []
    for address, owner in owners.items():
        if pool.contains(address) and pool.is_free(address):
            pool = pool.keep(address)
            notes.append(f"Reserved {owner} ({address})")
    return pool, notes

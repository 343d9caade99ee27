# SPDX-License-Identifier: BSD-2-Clause
"""OP_NETWORK_SET_PARAMS: change a network's gateway, IPv6 side, MAC prefix, or the addresses it keeps back."""

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, ParameterError, PrerequisiteError
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.network.values import (
    NONE,
    Gateway,
    Gateway6,
    MacPrefix,
    Network6,
    NetworkName,
    ReservedIps,
    check_addresses,
    each_once,
    hook_environment,
    mac_prefix,
    router_notes,
)
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, network_lock
from ganeti.model.network_pool import pool_of
from ganeti.model.objects import Network
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext

_ADDRESSES = ("gateway", "network6", "gateway6")


class ChangeNetwork(Change, frozen=True, kw_only=True):
    """Give attributes of a network other values; those not named stay.

    Addresses are kept back, and no longer kept back, in the pool as it is then: instances take some meanwhile.
    """

    network_uuid: str
    values: dict[str, Any] = {}
    keep: list[str] = []
    no_longer_keep: list[str] = []

    def apply(self, draft: Draft) -> None:
        network = replace(draft.network(self.network_uuid), **self.values)
        pool = pool_of(network)
        for address in self.no_longer_keep:
            pool = pool.no_longer_keep(address) if pool.is_kept(address) else pool
        for address in self.keep:
            pool = pool.keep(address) if not pool.is_kept(address) else pool
        draft.put("networks", pool.put_into(network))


@dataclass(frozen=True)
class Checked:
    network: Network
    change: ChangeNetwork
    warnings: list[str]


@operation(
    "OP_NETWORK_SET_PARAMS",
    summary_field="network_name",
    hooks="network-modify",
    cli=Command("gnt-network modify", "change a network", arguments=("network_name",), modifies="network"),
    rapi="PUT /2/networks/[network_name]/modify",
    examples=(
        Example(
            "network-modify",
            {"network_name": "dmz", "add_reserved_ips": ["192.0.2.7"]},
            before=("network-add",),
        ),
    ),
)
class ModifyNetwork(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change a network; ``none`` takes a gateway, an IPv6 network or a MAC prefix away."""

    network_name: NetworkName
    gateway: Gateway | None = None
    network6: Network6 | None = None
    gateway6: Gateway6 | None = None
    mac_prefix: MacPrefix | None = None
    add_reserved_ips: ReservedIps | None = None
    remove_reserved_ips: Annotated[
        list[str] | None,
        Parameter(
            "addresses that are no longer kept back",
            "--remove-reserved-ips",
            metavar="ADDRESS,…",
            subject="IPv4 address",
        ),
    ] = None

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[network_lock(view.find_network(self.network_name).uuid)])

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Checked:
        network = view.find_network(self.network_name)
        if self.gateway is not None and (self.add_reserved_ips or self.remove_reserved_ips):
            raise PrerequisiteError("Cannot modify gateway and reserved ips at once: do it in two steps", WRONG_INPUT)
        values = self._values(network)
        keep, no_longer, warnings = self._reservations(network)
        if self.gateway is not None:
            gateway_keep, gateway_no_longer = self._gateway(network)
            keep, no_longer = keep + gateway_keep, no_longer + gateway_no_longer
        if not (values or keep or no_longer or warnings):
            raise PrerequisiteError("Name at least one parameter of the network to change", WRONG_INPUT)
        change = ChangeNetwork(network_uuid=network.uuid, values=values, keep=keep, no_longer_keep=no_longer)
        if {"network6", "gateway6"} & set(values):
            warnings += router_notes(replace(network, **values))
        return Checked(network, change, warnings)

    def _values(self, network: Network) -> dict[str, Any]:
        """The attributes that change."""
        given = {
            name: None if value == NONE else value for name in _ADDRESSES if (value := getattr(self, name)) is not None
        }
        new = replace(network, **given)
        check_addresses(new.gateway, new.network6, new.gateway6, pool_of(network))
        if self.mac_prefix is not None:
            given["mac_prefix"] = mac_prefix(self.mac_prefix)
        return given

    def _gateway(self, network: Network) -> tuple[list[str], list[str]]:
        """What is kept back instead of the old gateway: the new one, which nobody may have."""
        new, pool = self.gateway, pool_of(network)
        if new == network.gateway:
            return [], []
        if new is not None and new != NONE and not pool.is_free(new):
            raise PrerequisiteError(
                f"Gateway IP address '{new}' is already reserved: choose a free address", WRONG_STATE
            )
        return [] if new in (None, NONE) else [str(new)], [network.gateway] if network.gateway else []

    def _reservations(self, network: Network) -> tuple[list[str], list[str], list[str]]:
        """Addresses to keep back, those no longer kept back, and warnings about those that cannot be."""
        pool = pool_of(network)
        keep: list[str] = []
        no_longer: list[str] = []
        warnings = []
        for address in each_once(self.add_reserved_ips or []):
            try:
                pool = pool.keep(address)
                keep.append(address)
            except (ParameterError, ValueError) as err:
                warnings.append(f"Cannot reserve IP address {address}: {_sentence(err)}")
        for address in each_once(self.remove_reserved_ips or []):
            try:
                if address == network.gateway:
                    raise ParameterError(f"Address {address} is the gateway")
                pool = pool.no_longer_keep(address)
                no_longer.append(address)
                if pool.is_end(address):
                    warnings.append(
                        f"Address {address} is the first or last of {pool.network}: a guest can have it only where its "
                        "NIC is routed"
                    )
            except (ParameterError, ValueError) as err:
                warnings.append(f"Cannot release IP address {address}: {_sentence(err)}")
        return keep, no_longer, warnings

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        master = [view.cluster.master_node]

        def after(view: ConfigView, catalogue: Catalogue) -> dict[str, str]:
            return hook_environment(view.network(checked.network.uuid))

        env = hook_environment(replace(checked.network, **checked.change.values))  # as it will be, as in Ganeti
        return Hooks(self.hooks_path, "NETWORK", checked.network.name, env, master, master, after)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        for warning in checked.warnings:
            ctx.log.warning(warning)
        change = checked.change
        if change.values or change.keep or change.no_longer_keep:
            await ctx.config.commit(change, settles=True)


def _sentence(error: Exception) -> str:
    return error.message if isinstance(error, ParameterError) else f"it is no IPv4 address: {error}"

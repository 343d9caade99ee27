# SPDX-License-Identifier: BSD-2-Clause
"""What operations on networks have in common: types of their parameters, checks of addresses, hooks."""

from collections.abc import Iterable
from ipaddress import IPv6Address, IPv6Network
from typing import Annotated, Literal

from ganeti.base import names
from ganeti.base.errors import ALREADY_EXISTS, WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model import cluster_values
from ganeti.model.network_pool import Pool, pool_of
from ganeti.model.network_variables import network_variables
from ganeti.model.objects import Network
from ganeti.model.view import ConfigView

NetworkName = Annotated[Text, Parameter("name or UUID of the network", subject="network", metavar="network")]
Gateway = Annotated[
    Text, Parameter("its router, an address of the network; none for none", "--gateway", subject="IPv4 router")
]
Network6 = Annotated[
    Text, Parameter("its IPv6 network, in the form ADDRESS/LENGTH", "--network6", subject="IPv6 network")
]
Gateway6 = Annotated[Text, Parameter("its IPv6 router; none for none", "--gateway6", subject="IPv6 router")]
MacPrefix = Annotated[
    Text, Parameter("how the MAC addresses of NICs in it begin", "-m", "--mac-prefix", metavar="XX:XX:XX")
]
ReservedIps = Annotated[
    list[str],
    Parameter(
        "addresses to keep back, parted by commas", "--add-reserved-ips", metavar="ADDRESS,…", subject="IPv4 address"
    ),
]
ConflictsCheck = Annotated[bool, Parameter("do not look for address conflicts", "--no-conflicts-check")]
NicMode = Annotated[
    Literal["bridged", "routed", "openvswitch", "pool"], Parameter("how NICs of the group are attached to it")
]
NONE = "none"


def check_new_name(view: ConfigView, name: str) -> None:
    """Raise `PrerequisiteError` where a network cannot be called so, or another one is."""
    if fault := names.new_label_fault(name):
        raise PrerequisiteError(f"A network cannot be called '{names.shown(name)}': {fault}", WRONG_INPUT)
    uuid = view.uuid_by_name("networks", name)
    if uuid is not None:
        raise PrerequisiteError(f"There is a network '{name}' already: choose another name", ALREADY_EXISTS)


def refused(error: ParameterError) -> PrerequisiteError:
    return PrerequisiteError(error.message, WRONG_INPUT)


def check_addresses(gateway: str | None, network6: str | None, gateway6: str | None, pool: Pool) -> None:
    """Raise `PrerequisiteError` for what is no address, or lies outside the network."""
    if gateway is not None and not pool.contains(gateway):
        raise PrerequisiteError(f"The gateway {gateway} is not an address of the network {pool.network}", WRONG_INPUT)
    try:
        inside = IPv6Network(network6) if network6 is not None else None
        router = IPv6Address(gateway6) if gateway6 is not None else None
    except ValueError as err:
        raise PrerequisiteError(f"This is no IPv6 address or network: {err}", WRONG_INPUT) from err
    if "%" in f"{network6}{gateway6}":
        raise PrerequisiteError(
            "An IPv6 address or network of a network names no interface of a node: leave out % and what follows",
            WRONG_INPUT,
        )
    if inside is not None and router is not None and router not in inside:
        raise PrerequisiteError(f"The gateway {gateway6} is not an address of the network {network6}", WRONG_INPUT)


def router_notes(network: Network) -> list[str]:
    """What may be left out for now, and has no effect alone."""
    if network.gateway6 is None or network.network6 is not None:
        return []
    return [f"The IPv6 router {network.gateway6} is of no use without an IPv6 network: add --network6 ADDRESS/LENGTH"]


def mac_prefix(given: str | None) -> str | None:
    """Give it in small letters; raises `PrerequisiteError`."""
    if given is None or given == NONE:
        return None
    try:
        return cluster_values.mac_prefix(given)
    except ParameterError as err:
        raise refused(err) from err


def hook_environment(network: Network) -> dict[str, str]:
    """What hooks are told of a network (protocols, section 10)."""
    return {name: value for name, value in network_variables(network.to_plain()).items() if name != "NETWORK_UUID"}


def connected_groups(view: ConfigView, network: Network) -> list[str]:
    """Names of the groups that the network is connected to."""
    return sorted(group.name for group in view.groups() if network.uuid in group.networks)


def users(view: ConfigView, network: Network, group_uuid: str) -> list[str]:
    """Say which NICs of a group's instances use the network: ``web1: nic0/192.0.2.7``."""
    return [
        f"{instance.name}: nic{index}/{nic.ip}"
        for instance in view.primary_instances(*(node.uuid for node in view.group_nodes(group_uuid)))
        for index, nic in enumerate(instance.nics)
        if nic.network == network.uuid
    ]


def strangers(view: ConfigView, network: Network, group_uuid: str) -> list[str]:
    """Say which NICs of a group's instances have an address of the network without being in it."""
    pool = pool_of(network)
    return [
        f"{instance.name}: nic{index}/{nic.ip}"
        for instance in view.primary_instances(*(node.uuid for node in view.group_nodes(group_uuid)))
        for index, nic in enumerate(instance.nics)
        if nic.network is None and nic.ip is not None and pool.contains(nic.ip)
    ]


def each_once(addresses: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(addresses))

# SPDX-License-Identifier: BSD-2-Clause
"""Rules for the two addresses of a node (S1.96, S1.99)."""

import ipaddress

from ganeti.base.errors import NOT_UNIQUE, WRONG_INPUT, PrerequisiteError
from ganeti.base.names import shown
from ganeti.base.paths import NODED_PORT
from ganeti.model.node_calls.verify import NodeAddress, NodeChecks, NodeVerify
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

IPV6_FAMILY = 10


def primary_address(view: ConfigView, given: str) -> str:
    """Give a primary address as the configuration has it; raises `PrerequisiteError` for one of the other family."""
    version = 6 if view.cluster.primary_ip_family == IPV6_FAMILY else 4
    try:
        address = ipaddress.ip_address(given)
    except ValueError:
        address = None
    if address is None or address.version != version or address.is_unspecified:
        raise PrerequisiteError(
            f"Primary IP ({shown(given)}) needs to be a valid IPv{version} address, as the cluster's other nodes have",
            WRONG_INPUT,
        )
    return str(address)


def secondary_address(view: ConfigView, given: str | None, primary_ip: str) -> str:
    """Give the secondary address: the one given, or the primary where nodes have one address only.

    Where primary addresses are IPv6, the secondary one is IPv4, unless the cluster was made without IPv4.
    """
    if given is None:
        master = view.node(view.cluster.master_node)
        if view.cluster.primary_ip_family == IPV6_FAMILY and master.primary_ip != master.secondary_ip:
            raise PrerequisiteError(
                "A node of a cluster with IPv6 primary addresses needs an IPv4 secondary address: give it with -s",
                WRONG_INPUT,
            )
        return primary_ip
    try:
        address = ipaddress.ip_address(given)
    except ValueError:
        address = None
    if view.cluster.primary_ip_family == IPV6_FAMILY and address == ipaddress.ip_address(primary_ip):
        return primary_ip
    if address is None or address.version != 4 or address.is_loopback or address.is_unspecified:
        without_ipv4 = ":" in view.node(view.cluster.master_node).secondary_ip
        raise PrerequisiteError(
            f"Secondary IP ({shown(given)}) needs to be a valid IPv4 address"
            + (f", or {primary_ip} again: the other nodes have IPv6 alone" if without_ipv4 else ""),
            WRONG_INPUT,
        )
    return given


def check_unused(view: ConfigView, own_uuid: str | None, *addresses: str) -> None:
    """Refuse addresses that another node has."""
    for node in view.nodes():
        taken = {node.primary_ip, node.secondary_ip} & set(addresses)
        if node.uuid != own_uuid and taken:
            raise PrerequisiteError(
                f"New node ip address(es) conflict with existing node {node.name}: {sorted(taken)[0]} is its own",
                NOT_UNIQUE,
            )


def check_homes(view: ConfigView, primary_ip: str, secondary_ip: str) -> None:
    """All nodes have one network, or all have two: as the master has."""
    master = view.node(view.cluster.master_node)
    master_single = master.primary_ip == master.secondary_ip
    if master_single and primary_ip != secondary_ip:
        raise PrerequisiteError(
            f"The master has no secondary ip but the new node has one ({secondary_ip}): leave it out", WRONG_INPUT
        )
    if not master_single and primary_ip == secondary_ip:
        raise PrerequisiteError(
            f"The master has a secondary ip ({master.secondary_ip}) but the new node doesn't have one: give its IPv4 "
            "address with -s",
            WRONG_INPUT,
        )


async def silence(ctx: OperationContext, view: ConfigView, name: str, secondary_ip: str) -> str | None:
    """Say why the master does not reach the node daemon of node *name* at *secondary_ip*, or None where it does."""
    checks = NodeChecks(node_net_test=[NodeAddress(name=name, primary_ip=secondary_ip)])
    answer = await ask(ctx.nodes, view.cluster.master_node, NodeVerify(checks=checks))
    reason = (answer.node_net_test or {}).get(name)
    if reason is None:
        return None
    return (
        f"The node daemon of {name} does not answer the master at the secondary address {secondary_ip} ({reason}): set "
        f"the address up on {name}, connect both nodes to its network and let port {NODED_PORT} through there, then "
        "repeat the command"
    )

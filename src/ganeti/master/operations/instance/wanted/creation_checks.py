# SPDX-License-Identifier: BSD-2-Clause
"""Checks and simplifications that a creation makes when asked to: addresses in use, conflicts, values to inherit."""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti.base.errors import NOT_UNIQUE, WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master.operations.instance.existing import require_one_group
from ganeti.model.node_calls.verify import NodeChecks, NodeVerify
from ganeti.model.objects import Nic, NodeGroup
from ganeti.model.traits import TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


async def refuse_used_address(ctx: OperationContext, view: ConfigView, name: str, address: str) -> None:
    """Raise `PrerequisiteError` if something answers at the address that *name* has (`ip_check`)."""
    answer = await ask(ctx.nodes, view.cluster.master_node, NodeVerify(checks=NodeChecks(used_addresses=[address])))
    if answer.used_addresses:
        raise PrerequisiteError(
            f"IP {address} of instance {name} is already in use: give {name} another address in the DNS or /etc/hosts, "
            "or leave --ip-check out",
            NOT_UNIQUE,
        )


def refuse_conflicts(
    view: ConfigView, group: NodeGroup, nics: Sequence[Nic], numbers: Sequence[int] | None = None
) -> None:
    """Raise `PrerequisiteError` for an address outside networks that lies in one the group is connected to.

    *numbers* are the positions of the NICs in the instance, where they are not all of it.
    """
    for index, nic in zip(numbers if numbers is not None else range(len(nics)), nics, strict=True):
        if nic.ip is None or nic.network is not None:
            continue
        address = ipaddress.ip_address(nic.ip)
        for uuid in group.networks:
            network = view.network(uuid)
            if any(address in ipaddress.ip_network(each) for each in (network.network, network.network6) if each):
                raise PrerequisiteError(
                    f"NIC {index}: address {nic.ip} belongs to network {network.name}, which node group {group.name} "
                    "is connected to: choose another address, or add --no-conflicts-check",
                    WRONG_INPUT,
                )


def refuse_opportunistic(allocator: str | None, built_in: str) -> None:
    """Raise `PrerequisiteError` unless nothing is waited for: only then nodes that are busy do not matter."""
    if allocator is None:
        raise PrerequisiteError(
            "Opportunistic locking is about an allocator's choice: leave --opportunistic-locking or -n out", WRONG_INPUT
        )
    if allocator != built_in:
        raise PrerequisiteError(
            f"Opportunistic locking is not possible with the allocator {allocator}, which must see all nodes at rest: "
            f"add -I {built_in}, which waits for no node",
            WRONG_INPUT,
        )


def without_inherited(values: Mapping[str, Any], inherited: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the values that would be the same without saying so (`identify_defaults`)."""
    return {key: value for key, value in values.items() if key not in inherited or inherited[key] != value}


def check_nodes(view: ConfigView, template: TemplateTraits, node_uuids: list[str]) -> None:
    """Raise `PrerequisiteError` unless the template can be on these nodes, and they may take instances."""
    if len(node_uuids) != template.node_count:
        words = "a secondary node too: write -n PRIMARY:SECONDARY" if template.node_count == 2 else "one node only"
        raise PrerequisiteError(f"Disk template {template.name} takes {words}", WRONG_INPUT)
    nodes = [view.node(uuid) for uuid in node_uuids]
    if len(set(node_uuids)) < len(nodes):
        raise PrerequisiteError(
            f"Node {nodes[0].name} is named as primary and as secondary: name two different nodes", WRONG_INPUT
        )
    for node in nodes:
        for bad, word in (
            (node.offline, "offline"),
            (node.drained, "drained"),
            (not node.vm_capable, "not vm_capable"),
        ):
            if bad:
                raise PrerequisiteError(f"Node {node.name} is {word}: choose another node", WRONG_STATE)
    require_one_group(view, node_uuids)

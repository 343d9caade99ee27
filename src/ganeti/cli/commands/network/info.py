# SPDX-License-Identifier: BSD-2-Clause
"""gnt-network info: addresses, who has them, and where the network is connected."""

from __future__ import annotations

import textwrap

from ganeti.cli.failures import Failure
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

FIELDS = [
    *("name", "uuid", "serial_no", "network", "gateway", "network6", "gateway6", "mac_prefix"),
    *("free_count", "reserved_count", "map", "external_reservations", "group_list", "inst_list"),
]
_LINE_LENGTH = 64


def info(call: Invocation) -> int:
    names = call.get("names", [])
    condition = ["|", *(["=", field, name] for name in names for field in ("name", "uuid"))] if names else None
    found = _ask(call, "network", FIELDS, condition)
    known = {values[field] for values in found for field in ("name", "uuid")}
    if missing := [name for name in names if name not in known]:
        raise Failure(f"There is no network {', '.join(missing)}: gnt-network info shows all of them.")
    for values in found:
        for line in describe(values, _addresses(call, values)):
            out(line)
    return 0


def _ask(call: Invocation, resource: str, fields: list[str], condition: Any) -> list[dict[str, Any]]:
    rows = call.client.call("Query", resource, fields, condition)["data"]
    return [dict(zip(fields, (value for _, value in row), strict=True)) for row in rows]


def _addresses(call: Invocation, network: dict[str, Any]) -> list[str]:
    """For each instance in the network its NICs there, as ``INDEX:IP``."""
    if not network["inst_list"]:
        return []
    condition = ["|", *(["=", "name", name] for name in network["inst_list"])]
    lines = []
    for instance in _ask(call, "instance", ["name", "nic.ips", "nic.networks"], condition):
        nics = enumerate(zip(instance["nic.ips"], instance["nic.networks"], strict=True))
        here = [f"{index}:{ip}" for index, (ip, uuid) in nics if uuid == network["uuid"]]
        lines.append(f"{instance['name']}: {', '.join(here)}")
    return lines


def describe(network: dict[str, Any], users: list[str]) -> list[str]:
    """Write the lines about one network, as 3.1 does (command line, section 5)."""
    size = network["free_count"] + network["reserved_count"]
    lines = [
        f"Network name: {network['name']}",
        f"UUID: {network['uuid']}",
        f"Serial number: {network['serial_no']}",
        f"  Subnet: {network['network']}",
        f"  Gateway: {network['gateway']}",
        f"  IPv6 Subnet: {network['network6']}",
        f"  IPv6 Gateway: {network['gateway6']}",
        f"  Mac Prefix: {network['mac_prefix']}",
        f"  Size: {size}",
        f"  Free: {network['free_count']} ({100 * network['free_count'] / size:.2f}%)",
        "  Usage map:",
    ]
    for start in range(0, len(network["map"]), _LINE_LENGTH):
        part = network["map"][start : start + _LINE_LENGTH]
        lines.append(f"     {start:>4} {part:<{_LINE_LENGTH}} {start + _LINE_LENGTH - 1}")
    lines.append("         (X) used    (.) free")
    if network["external_reservations"]:
        kept_back = textwrap.wrap(network["external_reservations"], _LINE_LENGTH)
        lines += ["  externally reserved IPs:", *(f"    {line}" for line in kept_back)]
    groups = [f"    {name} (mode:{mode} link:{link} vlan:{vlan})" for name, mode, link, vlan in network["group_list"]]
    lines += ["  connected to node groups:", *groups] if groups else ["  not connected to any node group"]
    used = [f"  used by {len(users)} instances:", *(f"    {user}" for user in users)]
    return lines + (used if users else ["  not used by any instances"])

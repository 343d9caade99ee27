# SPDX-License-Identifier: BSD-2-Clause
"""Fields of networks (rapi, section 4)."""

import ipaddress
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ganeti.base.natural import natural_key
from ganeti.master.query.fields import (
    CONNECTIONS,
    JOINED,
    NUMBER,
    OTHER,
    TEXT,
    Field,
    QueryWorld,
    Resource,
    StoredRows,
    or_unavailable,
    stored_fields,
    table,
)
from ganeti.model.objects import Network

_TAKEN = "X"
_FREE = "."
_SIGNS = bytes.maketrans(b"\1\0", f"{_TAKEN}{_FREE}".encode())
_IS_SET = bytes(sign == ord("1") for sign in range(256))
_SET = re.compile("1")


def _number(bits: str, size: int) -> int:
    """A byte for each bit, so that 65,536 of them are taken together at once."""
    return int.from_bytes(bits.encode(errors="replace").translate(_IS_SET).ljust(size, b"\0"))


@dataclass
class NetworkRow:
    network: Network
    world: QueryWorld

    @cached_property
    def bits(self) -> str:
        """One character per address: what the pool has given away, or was told to keep."""
        taken = self.network.reservations or ""
        kept = self.network.ext_reservations or ""
        size = max(len(taken), len(kept))
        if not size:
            return _FREE * ipaddress.ip_network(self.network.network, strict=False).num_addresses
        either = _number(taken, size) | _number(kept, size)
        return either.to_bytes(size).translate(_SIGNS).decode()

    @property
    def external(self) -> str:
        start = ipaddress.ip_network(self.network.network, strict=False).network_address
        kept = self.network.ext_reservations or ""
        return ", ".join(str(start + found.start()) for found in _SET.finditer(kept))

    @cached_property
    def groups(self) -> list[tuple[str, Any, Any, Any]]:
        found = [
            (group.name, nic.get("mode"), nic.get("link"), nic.get("vlan"))
            for group in self.world.view.groups()
            if (nic := group.networks.get(self.network.uuid)) is not None
        ]
        return sorted(found, key=lambda item: natural_key(item[0]))

    @cached_property
    def instances(self) -> list[str]:
        return sorted(self.world.users.get(self.network.uuid, ()), key=natural_key)


NETWORKS = Resource(
    "network",
    "name",
    table(
        [
            Field("name", "Network", TEXT, "Name of the network", lambda r: r.network.name),
            Field("network", "Subnet", TEXT, "IPv4 addresses, as ADDRESS/LENGTH", lambda r: r.network.network),
            Field("gateway", "Gateway", OTHER, "IPv4 router", lambda r: or_unavailable(r.network.gateway)),
            Field(
                "network6",
                "IPv6Subnet",
                OTHER,
                "IPv6 addresses, as ADDRESS/LENGTH",
                lambda r: or_unavailable(r.network.network6),
            ),
            Field("gateway6", "IPv6Gateway", OTHER, "IPv6 router", lambda r: or_unavailable(r.network.gateway6)),
            Field(
                "mac_prefix",
                "MacPrefix",
                OTHER,
                "First three bytes of new MAC addresses, if the network has its own",
                lambda r: or_unavailable(r.network.mac_prefix),
            ),
            Field("free_count", "FreeCount", NUMBER, "How many addresses are free", lambda r: r.bits.count(_FREE)),
            Field("map", "Map", TEXT, "One sign for each address: X taken, . free", lambda r: r.bits),
            Field(
                "reserved_count",
                "ReservedCount",
                NUMBER,
                "How many addresses are taken",
                lambda r: r.bits.count(_TAKEN),
            ),
            Field(
                "group_list",
                "GroupList",
                OTHER,
                "Connected node groups: name, mode, link and VLAN of each",
                lambda r: [list(item) for item in r.groups],
                shown=CONNECTIONS,
            ),
            Field("group_cnt", "NodeGroups", NUMBER, "How many node groups are connected", lambda r: len(r.groups)),
            Field(
                "inst_list",
                "InstanceList",
                OTHER,
                "Names of the instances that use it",
                lambda r: r.instances,
                shown=JOINED,
            ),
            Field("inst_cnt", "Instances", NUMBER, "How many instances use it", lambda r: len(r.instances)),
            Field(
                "external_reservations",
                "ExternalReservations",
                TEXT,
                "Addresses that an administrator keeps from being given away",
                lambda r: r.external,
            ),
            *stored_fields(lambda r: r.network, "network"),
        ]
    ),
    "Network",
    rows=StoredRows("networks", NetworkRow),
    plain_call="QueryNetworks",
    columns="name network gateway mac_prefix group_list tags",
    program="gnt-network",
    listed_as="list networks",
)

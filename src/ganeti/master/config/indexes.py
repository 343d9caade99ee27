# SPDX-License-Identifier: BSD-2-Clause
"""What each object claims for itself alone and which other objects it needs, indexed (D14).

Invariant: `holders[claim]` and `needed_by[key]` list exactly the objects put and not removed. Keeping them costs what
an object names, whatever the size of the cluster. Whether two holders of a claim are an error is decided in
`invariants`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ganeti.master.config.records import ObjectKey
from ganeti.model.configuration import name_of
from ganeti.model.inheritance import PROFILE
from ganeti.model.objects import Cluster, ConfigObject, Disk, Instance, Nic, Node, NodeGroup


class Claim(NamedTuple):
    """Something only one object may have: *what* in words, *value* as people write it."""

    what: str
    value: str


class Indexes:
    """Claims and needs of all objects of a configuration."""

    def __init__(self) -> None:
        self.holders: dict[Claim, dict[ObjectKey, int]] = {}
        self.needed_by: dict[ObjectKey, dict[ObjectKey, None]] = {}

    def put(self, key: ObjectKey, obj: ConfigObject) -> None:
        for claim in claims_of(key[0], obj):
            holders = self.holders.setdefault(claim, {})
            holders[key] = holders.get(key, 0) + 1
        for needed in needs_of(obj):
            self.needed_by.setdefault(needed, {})[key] = None

    def remove(self, key: ObjectKey, obj: ConfigObject) -> None:
        for claim in claims_of(key[0], obj):
            holders = self.holders[claim]
            holders[key] -= 1
            if not holders[key]:
                del holders[key]
            if not holders:
                del self.holders[claim]
        for needed in set(needs_of(obj)):
            needing = self.needed_by[needed]
            del needing[key]
            if not needing:
                del self.needed_by[needed]


def claims_of(kind: str, obj: ConfigObject) -> Iterator[Claim]:
    """Everything the object may not share with another one, nor have twice."""
    if kind != "cluster" and (name := name_of(obj)) is not None:
        yield Claim(f"name among {kind}", name)
    if isinstance(obj, Cluster):
        for port in obj.tcpudp_port_pool:
            yield Claim("TCP/UDP port", str(port))
    elif isinstance(obj, Node):
        yield Claim("node address", obj.primary_ip)
        if obj.secondary_ip and obj.secondary_ip != obj.primary_ip:
            yield Claim("node address", obj.secondary_ip)
    elif isinstance(obj, Instance):
        yield from _claims_of_instance(obj)
    elif isinstance(obj, Disk):
        yield from _claims_of_disk(obj)


def _claims_of_instance(instance: Instance) -> Iterator[Claim]:
    if instance.network_port is not None:
        yield Claim("TCP/UDP port", str(instance.network_port))
    for uuid in instance.disks:
        yield Claim("disk", uuid)
    for nic in instance.nics:
        if nic.mac:
            yield Claim("MAC address", nic.mac.lower())
        if nic.ip:
            yield Claim(f"IP address in {address_space(nic)}", nic.ip)


def address_space(nic: Nic) -> str:
    """Addresses are unique within a network; without one, within what the NIC itself says of mode and link."""
    if nic.network is not None:
        return f"network {nic.network}"
    return f"mode {nic.nicparams.get('mode', PROFILE)}, link {nic.nicparams.get('link', PROFILE)}"


def _claims_of_disk(disk: Disk) -> Iterator[Claim]:
    """Told by the shape of the logical id (protocols, section 14), not by the template's name."""
    match disk.logical_id:
        case [str() as first, str() as second, int() as port, int() as minor_a, int() as minor_b, *_]:
            yield Claim("TCP/UDP port", str(port))
            yield Claim(f"replication minor of node {first}", str(minor_a))
            yield Claim(f"replication minor of node {second}", str(minor_b))
        case [str() as where, str() as volume]:
            for node in disk.nodes or [""]:
                yield Claim(f"{disk.dev_type} volume{f' of node {node}' if node else ''}", f"{where}/{volume}")
    for child in disk.children:
        yield from _claims_of_disk(child)


def needs_of(obj: ConfigObject) -> Iterator[ObjectKey]:
    """The objects that must be there for as long as this one is."""
    if isinstance(obj, Cluster):
        yield "nodes", obj.master_node
    elif isinstance(obj, Node):
        yield "nodegroups", obj.group
    elif isinstance(obj, NodeGroup):
        for uuid in obj.networks:
            yield "networks", uuid
    elif isinstance(obj, Instance):
        if obj.primary_node or not obj.forthcoming:
            yield "nodes", obj.primary_node
        for uuid in obj.disks:
            yield "disks", uuid
        for nic in obj.nics:
            if nic.network is not None:
                yield "networks", nic.network
    elif isinstance(obj, Disk):
        for uuid in obj.nodes:
            yield "nodes", uuid

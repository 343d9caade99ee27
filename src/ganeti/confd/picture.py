# SPDX-License-Identifier: BSD-2-Clause
"""A `config.data` as ConfD keeps it: the file's bytes, and of each object what questions are about.

Whole objects stay bytes until somebody asks for them, so that 20,000 instances cost little more than their file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, ConfigurationError
from ganeti.wire.confd import Role


class _Nic(msgspec.Struct):
    ip: str | None = None
    nicparams: dict[str, Any] = {}


class Instance(msgspec.Struct):
    name: str
    primary_node: str | None = None
    admin_state: str = ""
    mtime: float | None = None
    nics: list[_Nic] = []
    disks: list[str] = []


class Node(msgspec.Struct):
    name: str
    primary_ip: str
    master_candidate: bool
    offline: bool
    drained: bool


class Disk(msgspec.Struct):
    dev_type: str
    logical_id: Any = None
    nodes: list[str] = []
    children: list["Disk"] = []


class Cluster(msgspec.Struct):
    master_node: str
    master_ip: str
    nicparams: dict[str, dict[str, Any]] = {}
    data_collectors: dict[str, Any] = {}


class _File(msgspec.Struct):
    version: int
    serial_no: int
    cluster: Cluster
    nodes: dict[str, Node]
    instances: dict[str, msgspec.Raw]
    disks: dict[str, msgspec.Raw] = {}


@dataclass
class Picture:
    """One state of the configuration."""

    content: bytes
    sections: Mapping[str, msgspec.Raw]
    """The parts of the file, read no further."""
    version: int
    serial: int
    """Rises with each change of anything."""
    cluster: Cluster
    nodes: dict[str, Node]
    instances: dict[str, Instance]
    raw_instances: Mapping[str, msgspec.Raw]
    raw_disks: Mapping[str, msgspec.Raw]
    node_uuids: dict[str, str] = field(default_factory=dict)
    """By name; so are the instances'."""
    instance_uuids: dict[str, str] = field(default_factory=dict)
    hosts: dict[tuple[str, str], str] = field(default_factory=dict)
    """UUID of the primary node by link and address of a NIC."""
    _holders: dict[str, tuple[list[str], list[str]]] | None = None

    def role(self, uuid: str) -> Role:
        node = self.nodes[uuid]
        if uuid == self.cluster.master_node:
            return Role.MASTER
        if node.master_candidate:
            return Role.CANDIDATE
        if node.drained:
            return Role.DRAINED
        return Role.OFFLINE if node.offline else Role.REGULAR

    @property
    def default_link(self) -> str:
        return str(self.cluster.nicparams.get("default", {}).get("link", ""))

    def addresses_of_links(self) -> Iterator[tuple[str, str]]:
        """Link and address of every NIC that has one."""
        return iter(self.hosts)

    def instances_on(self, uuid: str) -> tuple[list[str], list[str]]:
        """UUIDs of the instances that are primary and of those that are secondary on a node."""
        if self._holders is None:
            self._holders = self._find_holders()
        return self._holders.get(uuid, ([], []))

    def _find_holders(self) -> dict[str, tuple[list[str], list[str]]]:
        found: dict[str, tuple[list[str], list[str]]] = {uuid: ([], []) for uuid in self.nodes}
        for uuid, instance in self.instances.items():
            primary = instance.primary_node
            others = {node for disk in self.disks_of(instance) for node in disk.nodes} - {primary}
            if primary in found:
                found[primary][0].append(uuid)
            for node in sorted(others & found.keys()):
                found[node][1].append(uuid)
        return found

    def disks_of(self, instance: Instance) -> list[Disk]:
        return [_DISK.decode(self.raw_disks[uuid]) for uuid in instance.disks if uuid in self.raw_disks]


_FILE = msgspec.json.Decoder(_File)
_SECTIONS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_INSTANCE = msgspec.json.Decoder(Instance)
_DISK = msgspec.json.Decoder(Disk)


def read(content: bytes) -> Picture:
    """Raises `ConfigurationError` for what is no configuration."""
    try:
        sections = _SECTIONS.decode(content)
        file = _FILE.decode(content)
        instances = {uuid: _INSTANCE.decode(raw) for uuid, raw in file.instances.items()}
    except UNREADABLE_JSON as err:
        raise ConfigurationError(f"The configuration cannot be read: {err}") from err
    whole = (content, sections, file.version, file.serial_no)
    picture = Picture(*whole, file.cluster, file.nodes, instances, file.instances, file.disks)
    picture.node_uuids = {node.name: uuid for uuid, node in file.nodes.items()}
    picture.instance_uuids = {instance.name: uuid for uuid, instance in instances.items()}
    for instance in instances.values():
        for nic in instance.nics:
            if nic.ip and instance.primary_node in file.nodes:
                link = str(nic.nicparams.get("link", picture.default_link))
                picture.hosts[link, nic.ip] = instance.primary_node
    return picture

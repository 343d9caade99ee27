# SPDX-License-Identifier: BSD-2-Clause
"""Fields of instances (rapi, section 4); those of hypervisor parameters come from the drivers' declarations."""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any

from ganeti.master.backups import CREATE, PROVE
from ganeti.master.query.collecting import ask_for_consoles, ask_for_guests, ask_for_mirrors
from ganeti.master.query.fields import (
    BOOL,
    JOINED,
    NUMBER,
    OTHER,
    TEXT,
    TIMESTAMP,
    UNAVAILABLE,
    UNIT,
    Field,
    MadeOf,
    Resource,
    StoredRows,
    or_unavailable,
    stored_fields,
    table,
)
from ganeti.master.query.instance_rows import InstanceRow, nic_value
from ganeti.master.query.parameter_fields import backend_parameters, hypervisor_parameters
from ganeti.model.objects import BACKUPS_KEY, Instance, Node, NodeGroup
from ganeti.model.view import ConfigView

MAX_DISKS = 16
MAX_NICS = 8


def _stored(name: str) -> Callable[[InstanceRow], Any]:
    return attrgetter(f"instance.{name}")


def _primary(get: Callable[[Node, NodeGroup], Any]) -> Callable[[InstanceRow], Any]:
    """A forthcoming instance may have no node yet."""

    def value(row: InstanceRow) -> Any:
        node, group = row.primary, row.group
        return UNAVAILABLE if node is None or group is None else get(node, group)

    return value


def _of_backups(kind: str) -> Callable[[InstanceRow], Any]:
    """When the newest backup was made, or one was proved last."""
    return lambda row: or_unavailable(row.world.view.backups.done.get(f"{kind} {row.instance.uuid}"))


def _config_fields() -> list[Field]:
    return [
        Field("backup.made", "Backup", TIMESTAMP, "When its newest backup was made", _of_backups(CREATE)),
        Field(
            "backup.proved",
            "Proved",
            TIMESTAMP,
            "When a backup of it was last proved by booting it",
            _of_backups(PROVE),
        ),
        Field(
            "admin_state",
            "InstanceState",
            TEXT,
            "What the administrator wants: up, down or offline",
            _stored("admin_state"),
        ),
        Field(
            "admin_state_source",
            "InstanceStateSource",
            TEXT,
            "Who set admin_state last: admin or user",
            _stored("admin_state_source"),
        ),
        Field(
            "admin_up",
            "Autostart",
            BOOL,
            "Should be running",
            lambda row: row.instance.admin_state == "up",
        ),
        Field("disks_active", "DisksActive", BOOL, "Disks should be ready for use", _stored("disks_active")),
        Field("name", "Instance", TEXT, "Full host name", _stored("name"), host_name=True),
        Field("hypervisor", "Hypervisor", TEXT, "Hypervisor it runs on", _stored("hypervisor")),
        Field(
            "network_port",
            "Network_port",
            OTHER,
            "Port of its console, if it has one (VNC)",
            lambda row: or_unavailable(row.instance.network_port),
        ),
        Field("os", "OS", TEXT, "Operating system and variant", _stored("os")),
    ]


def _node_fields() -> list[Field]:
    return [
        Field(
            "pnode", "Primary_node", TEXT, "Node it runs on", _primary(lambda node, group: node.name), host_name=True
        ),
        Field(
            "pnode.group",
            "PrimaryNodeGroup",
            TEXT,
            "Node group of the primary node",
            _primary(lambda node, group: group.name),
        ),
        Field(
            "pnode.group.uuid",
            "PrimaryNodeGroupUUID",
            TEXT,
            "UUID of the primary node's group",
            _primary(lambda node, group: group.uuid),
        ),
        Field(
            "snodes",
            "Secondary_Nodes",
            OTHER,
            "Nodes with a second copy of its disks",
            lambda row: [node.name for node in row.secondaries],
            shown=JOINED,
        ),
        Field(
            "snodes.group",
            "SecondaryNodesGroups",
            OTHER,
            "Node groups of the secondary nodes",
            lambda row: [row.world.view.group(node.group).name for node in row.secondaries],
            shown=JOINED,
        ),
        Field(
            "snodes.group.uuid",
            "SecondaryNodesGroupsUUID",
            OTHER,
            "UUIDs of the secondary nodes' groups",
            lambda row: [node.group for node in row.secondaries],
            shown=JOINED,
        ),
    ]


def _parameter_fields() -> list[Field]:
    return [
        Field("hvparams", "HypervisorParameters", OTHER, "Hypervisor parameters in effect", lambda row: row.hvparams),
        Field(
            "beparams",
            "BackendParameters",
            OTHER,
            "Memory, processors and other backend parameters in effect",
            lambda row: row.beparams,
        ),
        Field(
            "osparams",
            "OpSysParameters",
            OTHER,
            "Parameters of the operating system in effect",
            lambda row: row.osparams,
        ),
        Field(
            "custom_hvparams",
            "CustomHypervisorParameters",
            OTHER,
            "Hypervisor parameters set on the instance itself",
            _stored("hvparams"),
        ),
        Field(
            "custom_beparams",
            "CustomBackendParameters",
            OTHER,
            "Backend parameters set on the instance itself",
            _stored("beparams"),
        ),
        Field(
            "custom_osparams",
            "CustomOpSysParameters",
            OTHER,
            "Parameters of the operating system set on the instance itself",
            _stored("osparams"),
        ),
        Field(
            "custom_nicparams",
            "CustomNicParameters",
            OTHER,
            "For each network interface, the parameters set on it",
            lambda row: [nic.nicparams for nic in row.instance.nics],
        ),
        Field(
            "forthcoming",
            "Forthcoming",
            BOOL,
            "Planned only: its resources are reserved",
            lambda row: bool(row.instance.forthcoming),
        ),
    ]


def _disk_fields() -> list[Field]:
    return [
        Field(
            "disk_usage",
            "DiskUsage",
            UNIT,
            "Disk space taken on each of its nodes, with what mirroring needs",
            lambda row: row.disk_usage_mib,
        ),
        Field("disk.count", "Disks", NUMBER, "How many disks", lambda row: len(row.disks)),
        Field(
            "disk.sizes",
            "Disk_sizes",
            OTHER,
            "Size of each disk",
            lambda row: [disk.size for disk in row.disks],
            shown=JOINED,
        ),
        Field(
            "disk.spindles",
            "Disk_spindles",
            OTHER,
            "Spindles of each disk",
            lambda row: [disk.spindles for disk in row.disks],
        ),
        Field("disk.names", "Disk_names", OTHER, "Name of each disk", lambda row: [disk.name for disk in row.disks]),
        Field("disk.uuids", "Disk_UUIDs", OTHER, "UUID of each disk", lambda row: [disk.uuid for disk in row.disks]),
        Field(
            "disk.modes",
            "Disk_modes",
            OTHER,
            "Access mode of each disk (rw or ro)",
            lambda row: [disk.mode for disk in row.disks],
            shown=JOINED,
        ),
        Field("disk_template", "Disk_template", TEXT, "How the disks are stored", lambda row: row.disk_template),
        *[field for number in range(MAX_DISKS) for field in _one_disk(number)],
    ]


def _one_disk(number: int) -> list[Field]:
    def of(attribute: str) -> Callable[[InstanceRow], Any]:
        def get(row: InstanceRow) -> Any:
            return or_unavailable(getattr(row.disks[number], attribute)) if number < len(row.disks) else UNAVAILABLE

        return get

    return [
        Field(f"disk.size/{number}", f"Disk/{number}", UNIT, f"Size of disk {number}", of("size")),
        Field(
            f"disk.spindles/{number}",
            f"DiskSpindles/{number}",
            NUMBER,
            f"Spindles of disk {number}",
            of("spindles"),
        ),
        Field(f"disk.name/{number}", f"DiskName/{number}", TEXT, f"Name of disk {number}", of("name")),
        Field(f"disk.uuid/{number}", f"DiskUUID/{number}", TEXT, f"UUID of disk {number}", of("uuid")),
    ]


_NIC_LISTS = (
    ("macs", "NIC_MACs", "mac", "MAC address"),
    ("ips", "NIC_IPs", "ip", "IP address"),
    ("names", "NIC_Names", "name", "Name"),
    ("uuids", "NIC_UUIDs", "uuid", "UUID"),
    ("modes", "NIC_modes", "mode", "Mode"),
    ("vlans", "NIC_VLANs", "vlan", "VLAN (Open vSwitch)"),
    ("bridges", "NIC_bridges", "bridge", "Bridge"),
    ("links", "NIC_links", "link", "Link"),
    ("networks", "NIC_networks", "network", "UUID of the network"),
    ("networks.names", "NIC_networks_names", "network.name", "Name of the network"),
)
_JOINED_NIC_LISTS = frozenset({"bridges", "ips", "links", "macs", "modes", "networks"})
_NIC_SINGLES = (
    ("ip", "NicIP", "IP address"),
    ("uuid", "NicUUID", "UUID"),
    ("mac", "NicMAC", "MAC address"),
    ("name", "NicName", "Name"),
    ("network", "NicNetwork", "UUID of the network"),
    ("mode", "NicMode", "Mode"),
    ("link", "NicLink", "Link"),
    ("vlan", "NicVLAN", "VLAN (Open vSwitch)"),
    ("network.name", "NicNetworkName", "Name of the network"),
    ("bridge", "NicBridge", "Bridge"),
)


def _nic_fields() -> list[Field]:
    fields = [Field("nic.count", "NICs", NUMBER, "How many network interfaces", lambda row: len(row.instance.nics))]
    for plural, title, name, words in _NIC_LISTS:
        doc = f"{words} of each network interface"
        shown = JOINED if plural in _JOINED_NIC_LISTS else ""
        fields.append(Field(f"nic.{plural}", title, OTHER, doc, _all_nics(name), shown=shown))
    for number in range(MAX_NICS):
        for name, title, words in _NIC_SINGLES:
            doc = f"{words} of network interface {number}"
            fields.append(Field(f"nic.{name}/{number}", f"{title}/{number}", TEXT, doc, _one_nic(name, number)))
    return fields


def _all_nics(name: str) -> Callable[[InstanceRow], Any]:
    return lambda row: row.nic_values(name)


def _one_nic(name: str, number: int) -> Callable[[InstanceRow], Any]:
    def get(row: InstanceRow) -> Any:
        if number >= len(row.instance.nics):
            return UNAVAILABLE
        return or_unavailable(nic_value(row, row.instance.nics[number], name))

    return get


def _live_fields() -> list[Field]:
    return [
        Field(
            "status",
            "Status",
            TEXT,
            "What is wanted of the instance, compared with what the nodes say",
            lambda row: row.status,
            live=(ask_for_guests,),
        ),
        Field("oper_state", "Running", BOOL, "Runs now", lambda row: row.running, live=(ask_for_guests,)),
        Field(
            "console",
            "Console",
            OTHER,
            "How to reach its console",
            lambda row: row.console_info,
            live=(ask_for_guests, ask_for_consoles),
        ),
        Field(
            "disk.sync_percents",
            "Disk_sync",
            OTHER,
            "How much of each open disk its second copy has, in percent",
            lambda row: row.sync_percents,
            live=(ask_for_mirrors,),
            shown=JOINED,
        ),
        Field(
            "disk.degraded",
            "Disk_degraded",
            BOOL,
            "A second copy of its open disks lacks something",
            lambda row: row.degraded,
            live=(ask_for_mirrors,),
        ),
        Field(
            "oper_ram",
            "Memory",
            UNIT,
            "Memory it has now, as the hypervisor says",
            lambda row: row.live_value("memory_mib"),
            live=(ask_for_guests,),
        ),
        Field(
            "oper_vcpus",
            "VCPUs",
            NUMBER,
            "Virtual processors it has now, as the hypervisor says",
            lambda row: row.live_value("vcpus"),
            live=(ask_for_guests,),
        ),
    ]


_ALIASES = {
    "vcpus": "be/vcpus",
    "be/memory": "be/maxmem",
    "sda_size": "disk.size/0",
    "sdb_size": "disk.size/1",
    "ip": "nic.ip/0",
    "mac": "nic.mac/0",
    "bridge": "nic.bridge/0",
    "nic_mode": "nic.mode/0",
    "nic_link": "nic.link/0",
    "nic_network": "nic.network/0",
}


def _fields() -> dict[str, Field]:
    fields = table(
        [
            *_config_fields(),
            *_node_fields(),
            *_parameter_fields(),
            *_disk_fields(),
            *_nic_fields(),
            *_live_fields(),
            *backend_parameters(),
            *stored_fields(lambda row: row.instance, "instance"),
        ]
    )
    for alias, name in _ALIASES.items():
        fields[alias] = replace(fields[name], name=alias)
    return fields


def _own(instance: Instance, view: ConfigView) -> tuple[Any, ...]:
    """The instance, its disks, and what is told of its backups."""
    disks = view.instance_disks(instance)
    if view.get("backups", BACKUPS_KEY) is None:
        return (instance, *disks)
    return (instance, *disks, *[view.backups.done.get(f"{kind} {instance.uuid}") for kind in (CREATE, PROVE)])


def _shared(view: ConfigView) -> tuple[Any, ...]:
    """Only what a row shows of the cluster, nodes, groups and networks: their other values change with every job."""
    cluster = view.cluster
    return (
        (cluster.beparams, cluster.nicparams, cluster.hvparams, cluster.os_hvp, cluster.osparams),
        [(node.uuid, node.name, node.group) for node in view.nodes()],
        [(group.uuid, group.name, group.networks) for group in view.groups()],
        [(network.uuid, network.name) for network in view.networks()],
    )


INSTANCES = Resource(
    "instance",
    "name",
    _fields(),
    "Instance",
    of_drivers=hypervisor_parameters,
    rows=StoredRows("instances", InstanceRow, host_names=True),
    made_of=MadeOf("instances", InstanceRow, _own, _shared),
    plain_call="QueryInstances",
    columns="name hypervisor os pnode status oper_ram",
    program="gnt-instance",
)

# SPDX-License-Identifier: BSD-2-Clause
"""Fields of instances (rapi, section 4); those of hypervisor parameters come from the drivers' declarations."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ganeti.master.query.collecting import ask_for_consoles, ask_for_guests
from ganeti.master.query.fields import (
    BOOL,
    JOINED,
    NUMBER,
    OTHER,
    TEXT,
    UNAVAILABLE,
    UNIT,
    Field,
    Resource,
    or_unavailable,
    stored_fields,
    stored_rows,
    table,
)
from ganeti.master.query.instance_rows import InstanceRow, nic_value
from ganeti.master.query.nodes import KINDS_OF_PARAMETERS
from ganeti.model.objects import Node, NodeGroup
from ganeti.model.parameters import BACKEND_PARAMETERS, Parameter
from ganeti.model.traits import Catalogue

MAX_DISKS = 16
MAX_NICS = 8


def _stored(name: str) -> Callable[[InstanceRow], Any]:
    return lambda row: getattr(row.instance, name)


def _primary(get: Callable[[Node, NodeGroup], Any]) -> Callable[[InstanceRow], Any]:
    """A forthcoming instance may have no node yet."""

    def value(row: InstanceRow) -> Any:
        node, group = row.primary, row.group
        return UNAVAILABLE if node is None or group is None else get(node, group)

    return value


def _config_fields() -> list[Field]:
    return [
        Field("admin_state", "InstanceState", TEXT, "Desired state of instance", _stored("admin_state")),
        Field(
            "admin_state_source",
            "InstanceStateSource",
            TEXT,
            "Who last changed the desired state",
            _stored("admin_state_source"),
        ),
        Field(
            "admin_up",
            "Autostart",
            BOOL,
            "Desired state of instance",
            lambda row: row.instance.admin_state == "up",
        ),
        Field("disks_active", "DisksActive", BOOL, "Desired state of instance disks", _stored("disks_active")),
        Field("name", "Instance", TEXT, "Instance name", _stored("name"), host_name=True),
        Field("hypervisor", "Hypervisor", TEXT, "Hypervisor name", _stored("hypervisor")),
        Field(
            "network_port",
            "Network_port",
            OTHER,
            "Instance network port if available (e.g. for VNC console)",
            lambda row: or_unavailable(row.instance.network_port),
        ),
        Field("os", "OS", TEXT, "Operating system", _stored("os")),
        Field("pnode", "Primary_node", TEXT, "Primary node", _primary(lambda node, group: node.name), host_name=True),
        Field(
            "pnode.group", "PrimaryNodeGroup", TEXT, "Group of the primary", _primary(lambda node, group: group.name)
        ),
        Field(
            "pnode.group.uuid",
            "PrimaryNodeGroupUUID",
            TEXT,
            "Primary node's group UUID",
            _primary(lambda node, group: group.uuid),
        ),
        Field(
            "snodes",
            "Secondary_Nodes",
            OTHER,
            "Secondary nodes; usually this will just be one node",
            lambda row: [node.name for node in row.secondaries],
            shown=JOINED,
        ),
        Field(
            "snodes.group",
            "SecondaryNodesGroups",
            OTHER,
            "Node groups of secondary nodes",
            lambda row: [row.world.view.group(node.group).name for node in row.secondaries],
            shown=JOINED,
        ),
        Field(
            "snodes.group.uuid",
            "SecondaryNodesGroupsUUID",
            OTHER,
            "Node group UUIDs of secondary nodes",
            lambda row: [node.group for node in row.secondaries],
            shown=JOINED,
        ),
    ]


def _parameter_fields() -> list[Field]:
    return [
        Field("hvparams", "HypervisorParameters", OTHER, "Hypervisor parameters (merged)", lambda row: row.hvparams),
        Field("beparams", "BackendParameters", OTHER, "Backend parameters (merged)", lambda row: row.beparams),
        Field("osparams", "OpSysParameters", OTHER, "Operating system parameters (merged)", lambda row: row.osparams),
        Field(
            "custom_hvparams", "CustomHypervisorParameters", OTHER, "Custom hypervisor parameters", _stored("hvparams")
        ),
        Field("custom_beparams", "CustomBackendParameters", OTHER, "Custom backend parameters", _stored("beparams")),
        Field(
            "custom_osparams", "CustomOpSysParameters", OTHER, "Custom operating system parameters", _stored("osparams")
        ),
        Field(
            "custom_nicparams",
            "CustomNicParameters",
            OTHER,
            "Custom network interface parameters",
            lambda row: [nic.nicparams for nic in row.instance.nics],
        ),
        Field(
            "forthcoming",
            "Forthcoming",
            BOOL,
            "Whether the instance is forthcoming",
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
        Field("disk.count", "Disks", NUMBER, "Number of disks", lambda row: len(row.disks)),
        Field(
            "disk.sizes",
            "Disk_sizes",
            OTHER,
            "List of disk sizes",
            lambda row: [disk.size for disk in row.disks],
            shown=JOINED,
        ),
        Field(
            "disk.spindles",
            "Disk_spindles",
            OTHER,
            "List of disk spindles",
            lambda row: [disk.spindles for disk in row.disks],
        ),
        Field("disk.names", "Disk_names", OTHER, "List of disk names", lambda row: [disk.name for disk in row.disks]),
        Field("disk.uuids", "Disk_UUIDs", OTHER, "List of disk UUIDs", lambda row: [disk.uuid for disk in row.disks]),
        Field(
            "disk_template",
            "Disk_template",
            TEXT,
            "Instance disk template",
            lambda row: row.world.view.disk_template(row.instance),
        ),
        *[field for number in range(MAX_DISKS) for field in _one_disk(number)],
    ]


def _one_disk(number: int) -> list[Field]:
    def of(attribute: str) -> Callable[[InstanceRow], Any]:
        def get(row: InstanceRow) -> Any:
            return or_unavailable(getattr(row.disks[number], attribute)) if number < len(row.disks) else UNAVAILABLE

        return get

    return [
        Field(f"disk.size/{number}", f"Disk/{number}", UNIT, f"Disk size of {_ordinal(number)} disk", of("size")),
        Field(
            f"disk.spindles/{number}",
            f"DiskSpindles/{number}",
            NUMBER,
            f"Spindles of {_ordinal(number)} disk",
            of("spindles"),
        ),
        Field(f"disk.name/{number}", f"DiskName/{number}", TEXT, f"Name of {_ordinal(number)} disk", of("name")),
        Field(f"disk.uuid/{number}", f"DiskUUID/{number}", TEXT, f"UUID of {_ordinal(number)} disk", of("uuid")),
    ]


_NIC_LISTS = (
    ("macs", "NIC_MACs", "mac", "MAC address"),
    ("ips", "NIC_IPs", "ip", "IP address"),
    ("names", "NIC_Names", "name", "name"),
    ("uuids", "NIC_UUIDs", "uuid", "UUID"),
    ("modes", "NIC_modes", "mode", "mode"),
    ("vlans", "NIC_VLANs", "vlan", "VLAN"),
    ("bridges", "NIC_bridges", "bridge", "bridge"),
    ("links", "NIC_links", "link", "link"),
    ("networks", "NIC_networks", "network", "network"),
    ("networks.names", "NIC_networks_names", "network.name", "network name"),
)
_JOINED_NIC_LISTS = frozenset({"bridges", "ips", "links", "macs", "modes", "networks"})
_NIC_SINGLES = (
    ("ip", "NicIP", "IP address"),
    ("uuid", "NicUUID", "UUID"),
    ("mac", "NicMAC", "MAC address"),
    ("name", "NicName", "Name"),
    ("network", "NicNetwork", "Network"),
    ("mode", "NicMode", "Mode"),
    ("link", "NicLink", "Link"),
    ("vlan", "NicVLAN", "VLAN"),
    ("network.name", "NicNetworkName", "Network name"),
    ("bridge", "NicBridge", "Bridge"),
)


def _nic_fields() -> list[Field]:
    fields = [Field("nic.count", "NICs", NUMBER, "Number of network interfaces", lambda row: len(row.instance.nics))]
    for plural, title, name, words in _NIC_LISTS:
        doc = f"List containing each network interface's {words}"
        shown = JOINED if plural in _JOINED_NIC_LISTS else ""
        fields.append(Field(f"nic.{plural}", title, OTHER, doc, _all_nics(name), shown=shown))
    for number in range(MAX_NICS):
        for name, title, words in _NIC_SINGLES:
            doc = f"{words} of {_ordinal(number)} network interface"
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
            "What is wanted of the instance, held against what the nodes say of it",
            lambda row: row.status,
            live=(ask_for_guests,),
        ),
        Field(
            "oper_state", "Running", BOOL, "Actual state of instance", lambda row: row.running, live=(ask_for_guests,)
        ),
        Field(
            "console",
            "Console",
            OTHER,
            "Instance console information",
            lambda row: row.console_info,
            live=(ask_for_guests, ask_for_consoles),
        ),
        Field(
            "oper_ram",
            "Memory",
            UNIT,
            "Actual memory usage as seen by hypervisor",
            lambda row: row.live_value("memory_mib"),
            live=(ask_for_guests,),
        ),
        Field(
            "oper_vcpus",
            "VCPUs",
            NUMBER,
            "Actual number of VCPUs as seen by hypervisor",
            lambda row: row.live_value("vcpus"),
            live=(ask_for_guests,),
        ),
    ]


_BACKEND_TITLES = {
    "auto_balance": "Auto_balance",
    "minmem": "ConfigMinMem",
    "maxmem": "ConfigMaxMem",
    "vcpus": "ConfigVCPUs",
}
_HYPERVISOR_TITLES = {
    "acpi": "ACPI",
    "boot_order": "Boot_order",
    "cdrom_image_path": "CDROM_image_path",
    "cpu_type": "cpu_type",
    "disk_type": "Disk_type",
    "initrd_path": "Initrd_path",
    "kernel_path": "Kernel_path",
    "nic_type": "NIC_type",
    "pae": "PAE",
    "pci_pass": "pci_pass",
    "vnc_bind_address": "VNC_bind_address",
}


def _backend_field(parameter: Parameter) -> Field:
    name = parameter.name
    title = _BACKEND_TITLES.get(name, f"be/{name}")
    kind = KINDS_OF_PARAMETERS.get(parameter.kind, TEXT)
    return Field(f"be/{name}", title, kind, f'The "{name}" backend parameter', lambda row: row.beparams[name])


def _hypervisor_field(parameter: Parameter) -> Field:
    name = parameter.name
    title = _HYPERVISOR_TITLES.get(name, f"hv/{name}")
    kind = KINDS_OF_PARAMETERS.get(parameter.kind, TEXT)

    def get(row: InstanceRow) -> Any:
        return row.hvparams.get(name, UNAVAILABLE)

    return Field(f"hv/{name}", title, kind, f'The "{name}" hypervisor parameter', get)


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


def _of_hypervisors(catalogue: Catalogue) -> list[Field]:
    """A field for each parameter of each hypervisor installed."""
    parameters = {
        parameter.name: parameter
        for traits in catalogue.hypervisors.values()
        for parameter in traits.parameters
        if not parameter.cluster_only
    }
    return [_hypervisor_field(parameter) for parameter in parameters.values()]


def _fields() -> dict[str, Field]:
    fields = table(
        [
            *_config_fields(),
            *_parameter_fields(),
            *_disk_fields(),
            *_nic_fields(),
            *_live_fields(),
            *[_backend_field(parameter) for parameter in BACKEND_PARAMETERS],
            *stored_fields(lambda row: row.instance, "Instance"),
        ]
    )
    for alias, name in _ALIASES.items():
        fields[alias] = replace(fields[name], name=alias)
    return fields


def _ordinal(number: int) -> str:
    words = ("first", "second", "third")
    return words[number] if number < len(words) else f"{number + 1}th"


INSTANCES = Resource(
    "instance",
    "name",
    _fields(),
    "Instance",
    of_drivers=_of_hypervisors,
    rows=stored_rows(lambda view: view.instances(), InstanceRow),
    plain_call="QueryInstances",
    columns="name hypervisor os pnode status oper_ram",
    program="gnt-instance",
)

# SPDX-License-Identifier: BSD-2-Clause
"""Fields of single parameters: ``ndp/…`` of nodes and groups, ``be/…`` and ``hv/…`` of instances (rapi, section 4).

Text is of the kind "other", as in 3.1, whose parameters have the types of JSON alone.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ganeti.master.query.fields import BOOL, FLOAT, NUMBER, OTHER, UNAVAILABLE, UNIT, Field
from ganeti.model.parameters import BACKEND_PARAMETERS, NODE_PARAMETERS, Parameter
from ganeti.model.traits import Catalogue

_KINDS = {"bool": BOOL, "int": NUMBER, "float": FLOAT, "size": UNIT}
_NODE_TITLES = {
    "exclusive_storage": "ExclusiveStorage",
    "oob_program": "OutOfBandProgram",
    "ovs": "OpenvSwitch",
    "ovs_link": "OpenvSwitchLink",
    "ovs_name": "OpenvSwitchName",
    "spindle_count": "SpindleCount",
}
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


def node_parameters(filled: Callable[[Any], dict[str, Any]]) -> list[Field]:
    """A field for each node parameter; *filled* gives the values in effect of a row."""

    def of(parameter: Parameter) -> Field:
        name = parameter.name
        title = _NODE_TITLES.get(name, f"ndp/{name}")
        kind = _KINDS.get(parameter.kind, OTHER)
        return Field(f"ndp/{name}", title, kind, f"Node parameter {name} in effect", lambda row: filled(row)[name])

    return [of(parameter) for parameter in NODE_PARAMETERS]


def backend_parameters() -> list[Field]:
    return [_backend_field(parameter) for parameter in BACKEND_PARAMETERS]


def _backend_field(parameter: Parameter) -> Field:
    name = parameter.name
    title = _BACKEND_TITLES.get(name, f"be/{name}")
    kind = _KINDS.get(parameter.kind, OTHER)
    return Field(f"be/{name}", title, kind, f"Backend parameter {name} in effect", lambda row: row.beparams[name])


def hypervisor_parameters(catalogue: Catalogue) -> Iterable[Field]:
    """A field for each parameter of any hypervisor; an instance without it has no value."""
    kinds = {
        parameter.name: parameter.kind
        for traits in catalogue.hypervisors.values()
        for parameter in traits.parameters
        if not parameter.cluster_only
    }
    return [_hypervisor_field(name, kind) for name, kind in kinds.items()]


def _hypervisor_field(name: str, kind: str) -> Field:
    title = _HYPERVISOR_TITLES.get(name, f"hv/{name}")

    def get(row: Any) -> Any:
        return row.hvparams.get(name, UNAVAILABLE)

    return Field(f"hv/{name}", title, _KINDS.get(kind, OTHER), f"Hypervisor parameter {name} in effect", get)

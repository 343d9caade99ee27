# SPDX-License-Identifier: BSD-2-Clause
"""The environment of OS scripts: exactly the variables of protocols, section 8."""

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti.model.network_variables import network_variables
from ganeti.model.node_calls.operating_systems import OsStatus
from ganeti.model.node_requests import AttachedDisk, InstanceSpec, NicSpec
from ganeti.node.storage.interface import DiskTemplate

_ACCESS = {"rw": "rw", "w": "rw", "ro": "ro", "r": "ro"}
_NETWORK_FAMILY = "4"
"""A network always has a subnet of IPv4."""


def base_environment(
    status: OsStatus, name: str, variant: str, params: Mapping[str, Any], debug: int
) -> dict[str, str]:
    """What scripts get that know no instance (`verify`)."""
    env = {
        "OS_API_VERSION": str(status.api_version),
        "OS_NAME": status.name,
        "OS_VARIANT": variant,
        "DEBUG_LEVEL": str(debug),
    }
    for parameter, value in params.items():
        env[f"OSP_{parameter.upper()}"] = str(value)
    return env


def instance_environment(
    status: OsStatus, instance: InstanceSpec, disks: Sequence[AttachedDisk], variant: str, debug: int
) -> dict[str, str]:
    env = base_environment(status, instance.os, variant, instance.osparams | instance.osparams_private, debug)
    env |= {
        "INSTANCE_NAME": instance.name,
        "INSTANCE_OS": instance.os,
        "INSTANCE_UUID": instance.uuid,
        "INSTANCE_CTIME": f"{instance.ctime:f}",
        "INSTANCE_MTIME": f"{instance.mtime:f}",
        "INSTANCE_PRIMARY_NODE": instance.primary_node_uuid,
        "INSTANCE_SECONDARY_NODES": " ".join(instance.secondary_nodes),
        "HYPERVISOR": instance.hypervisor,
        "DISK_COUNT": str(len(disks)),
        "NIC_COUNT": str(len(instance.nics)),
    }
    for index, disk in enumerate(disks):
        env |= _disk(f"DISK_{index}", instance, disk)
    for index, nic in enumerate(instance.nics):
        env |= _nic(f"NIC_{index}", instance, nic)
    for prefix, values in (("INSTANCE_BE_", instance.beparams), ("INSTANCE_HV_", instance.hvparams)):
        env |= {f"{prefix}{name}": str(value) for name, value in values.items()}
    return env


def import_environment(disk: AttachedDisk, index: int) -> dict[str, str]:
    return {
        "IMPORT_DEVICE": disk.path,
        "IMPORT_DISK_PATH": disk.path,
        "IMPORT_DISK_URI": disk.uri,
        "IMPORT_INDEX": str(index),
    }


def export_environment(disk: AttachedDisk, index: int) -> dict[str, str]:
    return {
        "EXPORT_DEVICE": disk.path,
        "EXPORT_DISK_PATH": disk.path,
        "EXPORT_DISK_URI": disk.uri,
        "EXPORT_INDEX": str(index),
    }


def _disk(prefix: str, instance: InstanceSpec, disk: AttachedDisk) -> dict[str, str]:
    env = {
        f"{prefix}_PATH": disk.path,
        f"{prefix}_SIZE": str(disk.spec.size_mib),
        f"{prefix}_URI": disk.uri,
        f"{prefix}_ACCESS": _ACCESS.get(disk.spec.mode, "rw"),
        f"{prefix}_UUID": disk.spec.uuid,
        f"{prefix}_BACKEND_TYPE": _backend(disk),
    }
    if disk.spec.name:
        env[f"{prefix}_NAME"] = disk.spec.name
    if "disk_type" in instance.hvparams:
        env[f"{prefix}_FRONTEND_TYPE"] = str(instance.hvparams["disk_type"])
    return env


def _backend(disk: AttachedDisk) -> str:
    template = DiskTemplate.registry.get(disk.spec.template)
    if template is not None and template.traits.directory_based:
        return f"file:{disk.spec.logical_id[0]}"
    return "block"


def _nic(prefix: str, instance: InstanceSpec, nic: NicSpec) -> dict[str, str]:
    env = {
        f"{prefix}_MAC": nic.mac,
        f"{prefix}_UUID": nic.uuid,
        f"{prefix}_MODE": nic.mode,
        f"{prefix}_LINK": nic.link,
    }
    if nic.ip:
        env[f"{prefix}_IP"] = nic.ip
    if nic.name:
        env[f"{prefix}_NAME"] = nic.name
    if nic.mode == "bridged":
        env[f"{prefix}_BRIDGE"] = nic.link
    if "nic_type" in instance.hvparams:
        env[f"{prefix}_FRONTEND_TYPE"] = str(instance.hvparams["nic_type"])
    if nic.network:
        values = network_variables(nic.network) | {"NETWORK_FAMILY": _NETWORK_FAMILY}
        env |= {f"{prefix}_{name}": value for name, value in values.items()}
    return env

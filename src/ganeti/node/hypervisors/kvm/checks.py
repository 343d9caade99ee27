# SPDX-License-Identifier: BSD-2-Clause
"""What parameters of ``kvm`` must not contradict, and what this node must have for them.

Each check raises `HypervisorError` with one sentence. What QEMU itself knows (machines, processors, migration
capabilities) is asked of the QEMU of this node.
"""

import os
import pwd
import re
import shlex
from collections.abc import Sequence
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import AttachedDisk
from ganeti.model.uid_pool import Ranges
from ganeti.node.hypervisors import affinity, connections
from ganeti.node.hypervisors.kvm import command_line, display, users
from ganeti.node.hypervisors.kvm.emulator import KVM, Emulator
from ganeti.node.hypervisors.kvm.parameters import PARAMETERS
from ganeti.node.hypervisors.kvm.places import Places

_SPICE_DETAILS = (
    *("spice_ip_version", "spice_password_file", "spice_image_compression", "spice_jpeg_wan_compression"),
    *("spice_zlib_glz_wan_compression", "spice_streaming_video", "spice_use_tls"),
)
_UNUSABLE_DISK_TYPES = {
    "mtd": "x86 machines have no such device",
    "pflash": "it would replace the firmware of the guest",
}
_OWN_CAPABILITIES = ("events", "pause-before-switchover")
"""Always switched on."""
_UNUSABLE_CAPABILITIES = {
    "return-path": "with it both nodes could run the guest after a broken connection",
    "x-colo": "it needs a proxy this cluster does not have",
    "background-snapshot": "it is no migration",
    "zero-copy-send": "it cannot be encrypted",
    "rdma-pin-all": "migration goes over TCP",
    "block": "disks move by their templates",
    "late-block-activate": "the guest would not start on the target",
}


def filled(hvparams: dict[str, Any]) -> dict[str, Any]:
    """Add what is missing at its built-in default."""
    return {parameter.name: parameter.default for parameter in PARAMETERS} | hvparams


def check_values(hvparams: dict[str, Any]) -> None:
    """Contradictions that hold on every node."""
    _check_display(hvparams)
    _check_disks(hvparams)
    if {"multifd", "postcopy-ram"} <= set(capabilities_of(hvparams)):
        raise HypervisorError("migration_caps cannot have multifd and postcopy-ram: the migrations would fail; use one")
    if hvparams["security_model"] == "user" and not hvparams["security_domain"]:
        raise HypervisorError("security_model=user needs the name of the user in security_domain")
    if hvparams["security_model"] != "user" and hvparams["security_domain"]:
        raise HypervisorError(
            f"security_domain is set, but security_model is {hvparams['security_model']}: set security_model=user, or "
            "empty it"
        )
    if hvparams["initrd_path"] and not hvparams["kernel_path"]:
        raise HypervisorError("initrd_path is set, but kernel_path is empty: a guest that boots from disk has its own")
    if hvparams["virtio_net_queues"] > 1 and not hvparams["vhost_net"]:
        raise HypervisorError("virtio_net_queues above 1 needs vhost_net=true")
    if hvparams["virtio_net_queues"] > 1 and hvparams["nic_type"] != "paravirtual":
        raise HypervisorError("virtio_net_queues above 1 needs nic_type=paravirtual")
    if hvparams["boot_order"] == "floppy" and not hvparams["floppy_image_path"]:
        raise HypervisorError("boot_order=floppy needs floppy_image_path")
    if hvparams["boot_order"] == "cdrom" and not hvparams["cdrom_image_path"]:
        raise HypervisorError("boot_order=cdrom needs cdrom_image_path")
    command_line.usb_devices(hvparams["usb_devices"])
    command_line.sound_cards(hvparams["soundhw"])
    try:
        shlex.split(hvparams["kvm_extra"])
    except ValueError as err:
        raise HypervisorError(f"kvm_extra cannot be read as in a shell: {err}") from err


def _check_display(hvparams: dict[str, Any]) -> None:
    if hvparams["vnc_bind_address"] and hvparams["spice_bind"]:
        raise HypervisorError(
            "vnc_bind_address and spice_bind are both set: an instance has one display, empty one of them"
        )
    if hvparams["vnc_tls"] and not hvparams["vnc_x509_path"]:
        raise HypervisorError("vnc_tls needs vnc_x509_path, the directory of the certificates")
    if hvparams["vnc_x509_verify"] and not hvparams["vnc_tls"]:
        raise HypervisorError("vnc_x509_verify needs vnc_tls=true")
    if not hvparams["spice_bind"]:
        spare = [name for name in _SPICE_DETAILS if hvparams[name]]
        if spare:
            raise HypervisorError(f"{', '.join(spare)} cannot be used without spice_bind")
    elif hvparams["spice_ip_version"] and re.fullmatch(r"[0-9.]+|.*:.*", hvparams["spice_bind"]):
        given = 6 if ":" in hvparams["spice_bind"] else 4
        if given != hvparams["spice_ip_version"]:
            raise HypervisorError(
                f"spice_bind={hvparams['spice_bind']} is an IPv{given} address, but spice_ip_version is "
                f"{hvparams['spice_ip_version']}"
            )


def _check_disks(hvparams: dict[str, Any]) -> None:
    for name in ("disk_type", "cdrom_disk_type"):
        reason = _UNUSABLE_DISK_TYPES.get(hvparams[name])
        if reason:
            raise HypervisorError(f"{name}={hvparams[name]} cannot be used: {reason}; use paravirtual, ide or scsi-hd")
    if hvparams["disk_type"] == "scsi-cd":
        raise HypervisorError("disk_type=scsi-cd makes disks that cannot be written; use scsi-hd")
    if hvparams["disk_aio"] == "native" and hvparams["disk_cache"] in ("writeback", "writethrough"):
        raise HypervisorError(
            f"disk_aio=native needs disk_cache=none, disk_cache={hvparams['disk_cache']} goes through the page cache"
        )
    if hvparams["cdrom_disk_type"] == "sd":
        raise HypervisorError("cdrom_disk_type=sd cannot be used: a CD is on ide or scsi-cd")


def check_files(hvparams: dict[str, Any]) -> None:
    """Files and directories that must be on this node."""
    for parameter in PARAMETERS:
        value = hvparams[parameter.name]
        if not value or parameter.name == "kvm_path":
            continue
        if parameter.is_file and not os.path.isfile(value):
            hint = "; empty it to boot from the disk" if parameter.name == "kernel_path" else ""
            raise HypervisorError(f"The file of {parameter.name}, {value}, is not on this node{hint}")
        if parameter.is_directory and not os.path.isdir(value):
            raise HypervisorError(f"The directory of {parameter.name}, {value}, is not on this node")
    for name in ("cdrom_image_path", "cdrom2_image_path"):
        if hvparams[name].startswith("/") and not os.path.exists(hvparams[name]):
            raise HypervisorError(f"The image of {name}, {hvparams[name]}, is not on this node")
    for name in ("vnc_password_file", "spice_password_file"):
        if hvparams[name]:
            display.read_password(hvparams[name], name)


async def check_node(hvparams: dict[str, Any], qemu: Emulator, places: Places, user_ids: Ranges | None = None) -> None:
    """What this node's QEMU, users and interfaces must have; *user_ids* is a pool that this node does not know yet."""
    machine = qemu.machine(hvparams["machine_version"])
    if "q35" not in machine and "i440fx" not in machine:
        raise HypervisorError(f"machine_version={hvparams['machine_version']} cannot be used: use a q35 or pc machine")
    _check_cpu(hvparams, qemu)
    _check_capabilities(hvparams, qemu)
    pool = users.pool_of(places.paths) if user_ids is None else user_ids
    if hvparams["security_model"] == "pool" and not pool:
        raise HypervisorError(
            "security_model=pool needs a pool of user ids: make one (gnt-cluster modify --uid-pool=FIRST-LAST)"
        )
    if hvparams["security_model"] == "user":
        try:
            pwd.getpwnam(hvparams["security_domain"])
        except KeyError as err:
            raise HypervisorError(
                f"The user of security_domain, {hvparams['security_domain']}, is not on this node"
            ) from err
    affinity.check(hvparams["cpu_mask"], len(affinity.parse(hvparams["cpu_mask"])))
    vnc = hvparams["vnc_bind_address"]
    if vnc.startswith("/"):
        if not os.path.isdir(vnc):
            raise HypervisorError(f"The directory of vnc_bind_address, {vnc}, is not on this node")
    elif vnc and not _is_address(vnc):
        await connections.address_of(vnc, places.paths)
    if hvparams["spice_bind"]:
        await _check_spice(hvparams, qemu, places)


async def _check_spice(hvparams: dict[str, Any], qemu: Emulator, places: Places) -> None:
    if not qemu.spice:
        raise HypervisorError(
            "The QEMU of this node has no SPICE: install the package qemu-system-modules-spice, or use VNC"
        )
    if not _is_address(hvparams["spice_bind"]):
        await connections.address_of(hvparams["spice_bind"], places.paths, hvparams["spice_ip_version"])
    if hvparams["spice_use_tls"]:
        for name in ("spice.pem", "spice-ca.pem"):
            if not os.path.exists(f"{places.paths.data_dir}/{name}"):
                raise HypervisorError(f"spice_use_tls needs {places.paths.data_dir}/{name}, which is not on this node")


def _check_cpu(hvparams: dict[str, Any], qemu: Emulator) -> None:
    model = hvparams["cpu_type"].partition(",")[0]
    if model == "host" and hvparams["kvm_flag"] == "disabled":
        raise HypervisorError("cpu_type=host needs hardware virtualisation, but kvm_flag is disabled; use max")
    if model and model not in qemu.cpu_models:
        raise HypervisorError(
            f"QEMU {qemu.version_text} on this node has no cpu_type '{model}': '{qemu.path} -cpu help' lists them"
        )


def _check_capabilities(hvparams: dict[str, Any], qemu: Emulator) -> None:
    for name in capabilities_of(hvparams):
        if name in _UNUSABLE_CAPABILITIES:
            raise HypervisorError(f"migration_caps cannot have '{name}': {_UNUSABLE_CAPABILITIES[name]}")
        if name not in qemu.capabilities:
            raise HypervisorError(
                f"migration_caps cannot have '{name}': QEMU {qemu.version_text} on this node knows "
                + ", ".join(one for one in qemu.capabilities if one not in _UNUSABLE_CAPABILITIES)
            )


def capabilities_of(hvparams: dict[str, Any]) -> list[str]:
    """The migration capabilities an administrator asks for, ours left out."""
    return [name for name in hvparams["migration_caps"].split(":") if name and name not in _OWN_CAPABILITIES]


def check_instance(vcpus: int, hvparams: dict[str, Any], accelerator: str) -> None:
    """What only holds together with the rest of the instance; *accelerator* is empty where it does not matter yet."""
    check_topology(hvparams, max(vcpus, hvparams["hotplug_vcpus"]))
    if max(hvparams["hotplug_vcpus"], hvparams["hotplug_memory"]) and not hvparams["acpi"]:
        raise HypervisorError("hotplug_vcpus and hotplug_memory need acpi=true: a guest hears of them by ACPI")
    affinity.check(hvparams["cpu_mask"], vcpus)
    if hvparams["cpu_type"].partition(",")[0] == "host" and accelerator not in ("", KVM):
        raise HypervisorError("cpu_type=host needs hardware virtualisation; use max")


def check_chroot(name: str, hvparams: dict[str, Any], disks: Sequence[AttachedDisk]) -> None:
    """From its empty directory QEMU cannot connect again to a disk that grows, or whose server was restarted."""
    if not hvparams["use_chroot"]:
        return
    for disk in disks:
        if ((disk.blockdev or {}).get("server") or {}).get("type") == "unix":
            raise HypervisorError(
                f"use_chroot=true would cut {name} off from disk {disk.spec.index} for ever as soon as its connection "
                f"breaks: gnt-instance modify -H use_chroot=false {name}, where security_model=pool protects as well"
            )


def check_topology(hvparams: dict[str, Any], vcpus: int) -> None:
    """Sockets, cores and threads must multiply to the number of virtual CPUs."""
    product = 1
    given = []
    for name in ("cpu_sockets", "cpu_cores", "cpu_threads"):
        if hvparams[name]:
            product *= hvparams[name]
            given.append(f"{name}={hvparams[name]}")
    if not given:
        return
    if len(given) == 3 and product != vcpus:
        raise HypervisorError(f"{' × '.join(given)} is {product}, but the instance has {vcpus} virtual CPUs")
    if vcpus % product:
        raise HypervisorError(f"{vcpus} virtual CPUs cannot be divided into {' × '.join(given)}")


def _is_address(text: str) -> bool:
    return re.fullmatch(r"[0-9]+(\.[0-9]+){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", text) is not None

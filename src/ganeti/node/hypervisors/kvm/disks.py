# SPDX-License-Identifier: BSD-2-Clause
"""Disks of a QEMU machine: where they are, and their block nodes and devices, for the command line and for QMP."""

import errno
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.node.hypervisors.kvm import devices
from ganeti.node.hypervisors.kvm.devices import CHOSEN_BOOT_INDEX, SECOND_BOOT_INDEX, Machine, Slots, words
from ganeti.node.hypervisors.kvm.record import DiskPlace, RuntimeRecord
from ganeti.node.storage.interface import DiskTemplate

SCSI_TYPES = ("scsi", "scsi-hd", "scsi-cd", "scsi-block", "scsi-generic")
SCSI_BUS = "scsi0.0"
SCSI_WITH_HOTPLUG = "virtio-scsi-pci"
"""The controller that tells a guest of disks that come and go."""
_SCSI_CONTROLLERS = {"lsi": "lsi53c895a", "virtio-scsi-pci": "virtio-scsi-pci", "megasas": "megasas"}
_SCSI_UNITS = {"lsi": 7, "virtio-scsi-pci": 255, "megasas": 64}
_WITH_WRITE_CACHE = ("paravirtual", "ide", "scsi", "scsi-hd")


def start_places(record: RuntimeRecord, disks: Sequence[DiskSpec]) -> list[DiskPlace]:
    """Where a start puts *disks*; raises `HypervisorError` when there is no room for all."""
    kind = record.hvparams["disk_type"]
    slots = Slots(record)
    found: list[DiskPlace] = []
    for position, disk in enumerate(disks):
        boot = None
        if position == 0 and kind != "sd":
            boot = CHOSEN_BOOT_INDEX if record.hvparams["boot_order"] == "disk" else SECOND_BOOT_INDEX
        options = _start_place(record, kind, position, slots)
        found.append(DiskPlace(uuid=disk.uuid, identity=f"disk{position}", options=options, boot_index=boot))
    return found


def _start_place(record: RuntimeRecord, kind: str, position: int, slots: Slots) -> dict[str, Any]:
    if kind == "paravirtual" and record.disk_ports:
        return port_place(record, position)
    if kind == "paravirtual":
        return {"bus": Machine(record.machine).pci_bus, "addr": slots.take()}
    if kind == "ide":
        return Machine(record.machine).ide_place(position)
    if kind == "sd":
        return {}
    return scsi_place(record, position)


def port_place(record: RuntimeRecord, number: int) -> dict[str, Any]:
    if number >= record.disk_ports:
        raise HypervisorError(f"The machine has room for {record.disk_ports} disks: remove one first")
    return {"bus": devices.disk_port(number), "addr": "0x0"}


def scsi_place(record: RuntimeRecord, unit: int) -> dict[str, Any]:
    controller = record.hvparams["scsi_controller_type"]
    if unit >= _SCSI_UNITS[controller]:
        raise HypervisorError(f"The controller {controller} takes {_SCSI_UNITS[controller]} devices and not one more")
    return {"bus": SCSI_BUS, "scsi-id": unit}


def free_scsi_place(record: RuntimeRecord) -> dict[str, Any]:
    """The first place that neither a disk nor a CD has; raises `HypervisorError` when there is none."""
    taken = [*(place.options for place in record.disks), *record.cd_places.values()]
    units = {options.get("scsi-id") for options in taken}
    return scsi_place(record, next(unit for unit in range(len(taken) + 1) if unit not in units))


def arguments(record: RuntimeRecord, attached: Sequence[AttachedDisk], remarks: list[str]) -> list[str]:
    """Disks in their order; *remarks* collects what had to be done otherwise than asked for."""
    by_uuid = {disk.spec.uuid: disk for disk in attached}
    kind = record.hvparams["disk_type"]
    found: list[str] = scsi_controller(record) if kind in SCSI_TYPES else []
    for place in record.disks:
        disk = by_uuid[place.uuid]
        cache = cache_of(record, disk, remarks)
        found += ["-blockdev", json.dumps(block_node(record, disk, cache, place.node_name))]
        if kind == "sd":
            found += ["-device", f"sdhci-pci,id=sdhci{place.identity.removeprefix('disk')}"]
        found += ["-device", words(device(record, place, cache))]
    return found


def scsi_controller(record: RuntimeRecord) -> list[str]:
    return ["-device", f"{_SCSI_CONTROLLERS[record.hvparams['scsi_controller_type']]},id=scsi0"]


def device(record: RuntimeRecord, place: DiskPlace, cache: "Cache") -> dict[str, Any]:
    """Options of a disk's device."""
    kind = record.hvparams["disk_type"]
    models = {"paravirtual": "virtio-blk-pci", "ide": "ide-hd", "scsi": "scsi-hd", "sd": "sd-card"}
    found: dict[str, Any] = {"driver": models.get(kind, kind), "drive": place.node_name, "id": place.identity}
    found |= place.options
    if kind in _WITH_WRITE_CACHE:
        found["write-cache"] = "off" if cache.through else "on"
    if place.boot_index is not None:
        found["bootindex"] = place.boot_index
    return found


@dataclass(frozen=True)
class Cache:
    direct: bool
    through: bool = False
    """Each write is on the disk before the guest goes on."""


def cache_of(record: RuntimeRecord, disk: AttachedDisk, remarks: list[str]) -> Cache:
    """A disk that other nodes may use too never goes through this node's page cache."""
    wanted = record.hvparams["disk_cache"]
    template = DiskTemplate.registry.get(disk.spec.template)
    elsewhere = template is None or template.traits.mirrored
    if wanted in ("writeback", "writethrough") and elsewhere:
        remarks.append(
            f"disk {disk.spec.index}: disk_cache={wanted} would break migration of this template, none is used"
        )
        wanted = "none"
    direct = wanted == "none" or (wanted == "default" and elsewhere)
    if direct and not _takes_direct(disk):
        remarks.append(f"disk {disk.spec.index}: {disk.path} cannot be opened past the page cache, writeback is used")
        return Cache(direct=False)
    return Cache(direct=direct, through=wanted == "writethrough")


def open_flags(modes: Sequence[int], cache: Cache) -> list[int]:
    """Flags to open a file with that QEMU gets open: QEMU 9.1 and later looks for a descriptor with just its own."""
    return [mode | os.O_DIRECT if cache.direct else mode for mode in modes]


def _takes_direct(disk: AttachedDisk) -> bool:
    if not disk.path or disk.blockdev is not None:
        return True
    try:
        os.close(os.open(disk.path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC))
    except OSError as err:
        return err.errno != errno.EINVAL
    return True


def block_node(record: RuntimeRecord, disk: AttachedDisk, cache: Cache, name: str) -> dict[str, Any]:
    """A format over the protocol that reaches the data."""
    common = {
        "cache": {"direct": cache.direct, "no-flush": False},
        "discard": "unmap" if record.hvparams["disk_discard"] == "unmap" else "ignore",
        "read-only": disk.spec.mode == "ro",
    }
    return {"driver": disk.image_format, "node-name": name, "file": _protocol(record, disk, cache) | common} | common


def _protocol(record: RuntimeRecord, disk: AttachedDisk, cache: Cache) -> dict[str, Any]:
    if disk.blockdev is not None:
        return dict(disk.blockdev)
    aio = record.hvparams["disk_aio"] or "threads"
    if aio == "native" and not cache.direct:
        raise HypervisorError(
            f"disk_aio=native needs a disk past the page cache: set disk_cache=none (disk {disk.spec.index})"
        )
    try:
        mode = os.stat(disk.path).st_mode
    except OSError as err:
        raise HypervisorError(f"Disk {disk.spec.index} is not at {disk.path}: {err.strerror}") from err
    is_device = stat.S_ISBLK(mode) or stat.S_ISCHR(mode)
    return {"driver": "host_device" if is_device else "file", "filename": disk.path, "aio": aio}

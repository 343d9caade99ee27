# SPDX-License-Identifier: BSD-2-Clause
"""QEMU's arguments for disks, CDs, floppies and NICs.

Device order and PCI addresses depend on the runtime record alone, so that a migration target makes the same machine.
"""

import errno
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import AttachedDisk, NicSpec
from ganeti.node.hypervisors.kvm.record import NicPlace, RuntimeRecord
from ganeti.node.storage.interface import DiskTemplate

SCSI_TYPES = ("scsi", "scsi-hd", "scsi-cd", "scsi-block", "scsi-generic")
_SCSI_CONTROLLERS = {"lsi": "lsi53c895a", "virtio-scsi-pci": "virtio-scsi-pci", "megasas": "megasas"}
_SCSI_UNITS = {"lsi": 7, "virtio-scsi-pci": 255, "megasas": 64}
_IDE_UNITS_Q35 = 6
_IDE_UNITS_PC = 4
_NIC_MODELS = {"paravirtual": "virtio-net-pci"}
NIC_WITHOUT_PCI = ("ne2k_isa",)
_FIRST_FREE_SLOT = 4
ROOT_PORTS = 8
"""As many as an instance has NICs at most; they are the functions of one slot."""
_ROOT_PORT_SLOT = 30
_LAST_SLOT_Q35 = 29
_LAST_SLOT_PC = 31
CHOSEN_BOOT_INDEX = 1
SECOND_BOOT_INDEX = 2
"""Index 0 is that of QEMU's own option ROM for direct kernel boot."""


@dataclass(frozen=True)
class Machine:
    """What of the machine type decides where devices go."""

    name: str

    @property
    def is_q35(self) -> bool:
        return "q35" in self.name

    @property
    def pci_bus(self) -> str:
        return "pcie.0" if self.is_q35 else "pci.0"

    @property
    def last_slot(self) -> int:
        return _LAST_SLOT_Q35 if self.is_q35 else _LAST_SLOT_PC

    def ide_place(self, unit: int) -> str:
        """Options that put an IDE device at its place; raises `HypervisorError` when there is none."""
        most = _IDE_UNITS_Q35 if self.is_q35 else _IDE_UNITS_PC
        if unit >= most:
            raise HypervisorError(f"The machine {self.name} has {most} IDE places, for disks and CDs together")
        return f"bus=ide.{unit}" if self.is_q35 else f"bus=ide.{unit // 2},unit={unit % 2}"


class Slots:
    """Hands out PCI slots for disks and NICs, from the first that is not reserved upwards."""

    def __init__(self, record: RuntimeRecord) -> None:
        self._machine = Machine(record.machine)
        self._reserved = int(record.hvparams["kvm_pci_reservations"])
        self._next = self.first

    @property
    def first(self) -> int:
        return max(self._reserved, _FIRST_FREE_SLOT)

    @property
    def last(self) -> int:
        return self._machine.last_slot

    def take(self) -> str:
        """Give the address of the next one."""
        if self._next > self._machine.last_slot:
            raise HypervisorError(
                f"There are more disks and NICs than PCI slots: kvm_pci_reservations={self._reserved} leaves "
                f"{max(0, self.last + 1 - self.first)}; lower it"
            )
        self._next += 1
        return f"{self._next - 1:#x}"


def disk_arguments(record: RuntimeRecord, disks: Sequence[AttachedDisk], slots: Slots, remarks: list[str]) -> list[str]:
    """Disks in their order; *remarks* collects what had to be done otherwise than asked for."""
    hvparams = record.hvparams
    kind = hvparams["disk_type"]
    arguments: list[str] = []
    if disks and kind in SCSI_TYPES:
        controller = hvparams["scsi_controller_type"]
        if len(disks) > _SCSI_UNITS[controller]:
            raise HypervisorError(
                f"The controller {controller} takes {_SCSI_UNITS[controller]} disks, not {len(disks)}"
            )
        arguments += ["-device", f"{_SCSI_CONTROLLERS[controller]},id=scsi0"]
    for position, disk in enumerate(disks):
        cache = _cache(hvparams["disk_cache"], disk, remarks)
        node = _block_node(record, disk, cache, f"disk{position}")
        arguments += ["-blockdev", json.dumps(node)]
        if kind == "sd":
            arguments += ["-device", f"sdhci-pci,id=sdhci{position}"]
        options = [_disk_model(kind), f"drive=disk{position}", f"id=disk{position}"]
        options += _disk_place(record, kind, position, slots)
        if kind in ("paravirtual", "ide", "scsi", "scsi-hd"):
            options.append(f"write-cache={'off' if cache.through else 'on'}")
        if position == 0 and kind != "sd":
            chosen = hvparams["boot_order"] == "disk"
            options.append(f"bootindex={CHOSEN_BOOT_INDEX if chosen else SECOND_BOOT_INDEX}")
        arguments += ["-device", ",".join(options)]
    return arguments


def removable_arguments(record: RuntimeRecord, disk_count: int) -> list[str]:
    """CDs and the floppy."""
    hvparams = record.hvparams
    kind = hvparams["cdrom_disk_type"] or hvparams["disk_type"]
    images = [image for image in (hvparams["cdrom_image_path"], hvparams["cdrom2_image_path"]) if image]
    arguments: list[str] = []
    on_scsi = kind in SCSI_TYPES
    if images and on_scsi and not (disk_count and hvparams["disk_type"] in SCSI_TYPES):
        arguments += ["-device", f"{_SCSI_CONTROLLERS[hvparams['scsi_controller_type']]},id=scsi0"]
    ide_before = disk_count if hvparams["disk_type"] == "ide" else 0
    for index, image in enumerate(images):
        node = f"cdrom{index}"
        arguments += ["-blockdev", json.dumps(_image_node(image, node))]
        place = "bus=scsi0.0" if on_scsi else Machine(record.machine).ide_place(ide_before + index)
        device = f"{'scsi-cd' if on_scsi else 'ide-cd'},drive={node},id={node},{place}"
        if index == 0 and hvparams["boot_order"] == "cdrom":
            device += f",bootindex={CHOSEN_BOOT_INDEX}"
        arguments += ["-device", device]
    if hvparams["floppy_image_path"]:
        node_options = _image_node(hvparams["floppy_image_path"], "floppy0") | {"read-only": False}
        arguments += ["-blockdev", json.dumps(node_options), "-device", "isa-fdc,id=fdc0"]
        boot = f",bootindex={CHOSEN_BOOT_INDEX}" if hvparams["boot_order"] == "floppy" else ""
        arguments += ["-device", f"floppy,drive=floppy0,id=floppy0,bus=fdc0.0{boot}"]
    return arguments


def root_port_arguments(record: RuntimeRecord) -> list[str]:
    """Ports of PCI Express: a device on the root bus itself can neither come nor go while the guest runs."""
    arguments: list[str] = []
    for function in range(record.root_ports):
        several = ",multifunction=on" if function == 0 else ""
        place = f"bus=pcie.0,addr={_ROOT_PORT_SLOT:#x}.{function}"
        arguments += ["-device", f"pcie-root-port,id=port{function},chassis={function + 1},{place}{several}"]
    return arguments


def nic_places(record: RuntimeRecord) -> dict[str, NicPlace]:
    """Where each NIC is, by its UUID: behind a port of its own, else in the slots after those of the disks."""
    if record.nic_places:
        return record.nic_places
    slots = Slots(record)
    if record.hvparams["disk_type"] == "paravirtual":
        for _ in range(record.disk_count):
            slots.take()
    bus = Machine(record.machine).pci_bus
    places = {}
    for position, nic in enumerate(record.nics):
        identity = f"nic{nic.index}"
        if record.hvparams["nic_type"] in NIC_WITHOUT_PCI:
            places[nic.uuid] = NicPlace(identity=identity)
        elif record.root_ports:
            places[nic.uuid] = NicPlace(identity=identity, bus=root_port(record, position), addr="0x0")
        else:
            places[nic.uuid] = NicPlace(identity=identity, bus=bus, addr=slots.take())
    return places


def root_port(record: RuntimeRecord, position: int) -> str:
    """Name of a port; raises `HypervisorError` when there are not as many."""
    if position >= record.root_ports:
        raise HypervisorError(f"The machine has room for {record.root_ports} NICs: remove one first")
    return f"port{position}"


def nic_arguments(record: RuntimeRecord, descriptors: Sequence[Sequence[int]]) -> list[str]:
    """NICs over taps that are open already: *descriptors* holds those of each NIC, one a queue."""
    arguments: list[str] = []
    places = nic_places(record)
    for nic, queues in zip(record.nics, descriptors, strict=True):
        place = places[nic.uuid]
        backend = nic_backend(record, place, [str(one) for one in queues])
        arguments += [
            "-netdev",
            _words(backend, "type"),
            "-device",
            _words(nic_device(record, nic, place, len(queues))),
        ]
    return arguments


def nic_backend(record: RuntimeRecord, place: NicPlace, descriptors: Sequence[str]) -> dict[str, Any]:
    """Options of a NIC's tap; *descriptors* are numbers, or the names under which QEMU has them."""
    backend: dict[str, Any] = {"type": "tap", "id": place.identity}
    backend["fd" if len(descriptors) == 1 else "fds"] = ":".join(descriptors)
    if uses_vhost(record):
        backend["vhost"] = True
    return backend


def nic_device(record: RuntimeRecord, nic: NicSpec, place: NicPlace, queues: int) -> dict[str, Any]:
    """Options of a NIC's device."""
    kind = record.hvparams["nic_type"]
    device: dict[str, Any] = {"driver": _NIC_MODELS.get(kind, kind), "id": place.identity}
    device |= {"netdev": place.identity, "mac": nic.mac}
    if place.bus:
        device |= {"bus": place.bus, "addr": place.addr}
        boots = record.hvparams["boot_order"] == "network"
        if boots and nic.index == 0:
            device["bootindex"] = CHOSEN_BOOT_INDEX
        elif not boots:
            device["romfile"] = ""
    if queues > 1:
        device |= {"mq": True, "vectors": 2 * queues + 2}
    return device


def _words(options: dict[str, Any], first: str = "driver") -> str:
    """Options as the command line has them."""
    rest = {key: ("on" if value else "off") if isinstance(value, bool) else value for key, value in options.items()}
    return ",".join([rest.pop(first), *(f"{key}={value}" for key, value in rest.items())])


def uses_vhost(record: RuntimeRecord) -> bool:
    """The kernel serves paravirtual NICs of guests in hardware virtualisation, where it has the module."""
    wanted = record.hvparams["vhost_net"] and record.hvparams["nic_type"] == "paravirtual"
    return bool(wanted) and record.accelerator == "kvm" and os.path.exists("/dev/vhost-net")


@dataclass(frozen=True)
class _Cache:
    direct: bool
    through: bool = False
    """Each write is on the disk before the guest goes on."""


def _cache(wanted: str, disk: AttachedDisk, remarks: list[str]) -> _Cache:
    """A disk that other nodes may use too never goes through this node's page cache."""
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
        return _Cache(direct=False)
    return _Cache(direct=direct, through=wanted == "writethrough")


def _takes_direct(disk: AttachedDisk) -> bool:
    if not disk.path or disk.blockdev is not None:
        return True
    try:
        os.close(os.open(disk.path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC))
    except OSError as err:
        return err.errno != errno.EINVAL
    return True


def _block_node(record: RuntimeRecord, disk: AttachedDisk, cache: _Cache, name: str) -> dict[str, Any]:
    """A format over the protocol that reaches the data."""
    common = {
        "cache": {"direct": cache.direct, "no-flush": False},
        "discard": "unmap" if record.hvparams["disk_discard"] == "unmap" else "ignore",
        "read-only": disk.spec.mode == "ro",
    }
    return {"driver": disk.image_format, "node-name": name, "file": _protocol(record, disk, cache) | common} | common


def _protocol(record: RuntimeRecord, disk: AttachedDisk, cache: _Cache) -> dict[str, Any]:
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
    device = stat.S_ISBLK(mode) or stat.S_ISCHR(mode)
    return {"driver": "host_device" if device else "file", "filename": disk.path, "aio": aio}


def _image_node(image: str, name: str) -> dict[str, Any]:
    scheme, separator, _ = image.partition("://")
    if separator:
        protocol: dict[str, Any] = {"driver": scheme, "url": image}
    else:
        protocol = {"driver": "file", "filename": image}
    return {"driver": "raw", "node-name": name, "read-only": True, "file": protocol}


def _disk_model(kind: str) -> str:
    models = {"paravirtual": "virtio-blk-pci", "ide": "ide-hd", "scsi": "scsi-hd", "sd": "sd-card"}
    return models.get(kind, kind)


def _disk_place(record: RuntimeRecord, kind: str, position: int, slots: Slots) -> list[str]:
    if kind == "paravirtual":
        return [f"bus={Machine(record.machine).pci_bus}", f"addr={slots.take()}"]
    if kind == "ide":
        return [Machine(record.machine).ide_place(position)]
    if kind == "sd":
        return []
    return ["bus=scsi0.0", f"scsi-id={position}"]

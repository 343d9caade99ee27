# SPDX-License-Identifier: BSD-2-Clause
"""Where devices are in a QEMU machine, and QEMU's arguments for its ports and NICs.

Disks are in `disks`, CDs and floppies in `removable`. Device order and PCI addresses depend on the runtime record
alone, so that a migration target makes the same machine.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import NicSpec
from ganeti.node.hypervisors.kvm.record import NicPlace, RuntimeRecord

_IDE_UNITS_Q35 = 6
_IDE_UNITS_PC = 4
_NIC_MODELS = {"paravirtual": "virtio-net-pci"}
NIC_WITHOUT_PCI = ("ne2k_isa",)
_FIRST_FREE_SLOT = 4
ROOT_PORTS = 8
"""As many as an instance has NICs at most; they are the functions of one slot."""
DISK_PORTS = 16
"""As many as an instance has disks at most; they are the functions of two slots. Slot 29 is that of USB."""
_ROOT_PORT_SLOT = 30
_DISK_PORT_SLOT = 27
_PORTS_OF_A_SLOT = 8
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

    def ide_place(self, unit: int) -> dict[str, Any]:
        """Options that put an IDE device at its place; raises `HypervisorError` when there is none."""
        most = _IDE_UNITS_Q35 if self.is_q35 else _IDE_UNITS_PC
        if unit >= most:
            raise HypervisorError(f"The machine {self.name} has {most} IDE places, for disks and CDs together")
        return {"bus": f"ide.{unit}"} if self.is_q35 else {"bus": f"ide.{unit // 2}", "unit": unit % 2}


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


def root_port_arguments(record: RuntimeRecord) -> list[str]:
    """Ports of PCI Express: a device on the root bus itself can neither come nor go while the guest runs."""
    ports = [(root_port(record, number), _ROOT_PORT_SLOT, number, "") for number in range(record.root_ports)]
    # A paravirtual disk needs no I/O ports, of which a machine has too few for all.
    ports += [(disk_port(number), _DISK_PORT_SLOT, number, ",io-reserve=0") for number in range(record.disk_ports)]
    arguments: list[str] = []
    for chassis, (name, slot, number, more) in enumerate(ports, 1):
        slot, function = slot + number // _PORTS_OF_A_SLOT, number % _PORTS_OF_A_SLOT
        several = ",multifunction=on" if function == 0 else ""
        place = f"bus=pcie.0,addr={slot:#x}.{function}"
        arguments += ["-device", f"pcie-root-port,id={name},chassis={chassis},{place}{several}{more}"]
    return arguments


def disk_port(number: int) -> str:
    return f"disk-port{number}"


def nic_places(record: RuntimeRecord) -> dict[str, NicPlace]:
    """Where each NIC is, by its UUID: behind a port of its own, else in the slots after those of the disks."""
    if record.nic_places:
        return record.nic_places
    slots = Slots(record)
    for place in record.disks:
        if "addr" in place.options and not record.disk_ports:
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
            words(backend, "type"),
            "-device",
            words(nic_device(record, nic, place, len(queues))),
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


def words(options: dict[str, Any], first: str = "driver") -> str:
    """Options as the command line has them."""
    rest = {key: ("on" if value else "off") if isinstance(value, bool) else value for key, value in options.items()}
    return ",".join([rest.pop(first), *(f"{key}={value}" for key, value in rest.items())])


def uses_vhost(record: RuntimeRecord) -> bool:
    """The kernel serves paravirtual NICs of guests in hardware virtualisation, where it has the module."""
    wanted = record.hvparams["vhost_net"] and record.hvparams["nic_type"] == "paravirtual"
    return bool(wanted) and record.accelerator == "kvm" and os.path.exists("/dev/vhost-net")

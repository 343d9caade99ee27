# SPDX-License-Identifier: BSD-2-Clause
"""The runtime record: everything a guest was started with, enough to make the very same machine on a migration target.

It holds no secret: private OS parameters are left out, passwords stay in their files.
"""

import os
from typing import Any, TypeVar

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, HypervisorError
from ganeti.model.node_requests import InstanceSpec, NicSpec
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.system.files import write_atomically

FORMAT = 1
T = TypeVar("T")


class NicPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a NIC is in the machine, and its name there."""

    identity: str
    bus: str = ""
    """Empty for a NIC that is not on PCI."""
    addr: str = ""


class DiskPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A disk that the guest has: its name in QEMU, and where it is in the machine."""

    uuid: str
    identity: str
    """Of the device."""
    node: str = ""
    """Of its block node, where that has another name."""
    options: dict[str, Any] = {}
    """QEMU's options that say where the device is: bus, address, unit."""
    boot_index: int | None = None

    @property
    def node_name(self) -> str:
        return self.node or self.identity


class MemoryModule(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that the guest was given while it ran."""

    identity: str
    size_mib: int
    slot: int = 0
    address: int = 0
    """Where it is in the guest's memory, in bytes."""


class RuntimeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is fixed as long as the guest runs, here or wherever it moves."""

    format: int = FORMAT
    name: str
    uuid: str
    hvparams: dict[str, Any]
    vcpus: int
    """What the guest has now; those of `added_cpus` are among them."""
    memory_mib: int
    """What the guest has been given: smaller than the RAM size after ballooning."""
    ram_kib: int
    """The size really used at the start (`emulation`: not always what was asked for)."""
    machine: str
    """With its version: `pc-q35-7.2`, never `q35`."""
    accelerator: str
    """``kvm`` or ``tcg``."""
    qemu_version: list[int]
    has_rng: bool
    nics: list[NicSpec]
    nic_places: dict[str, NicPlace] = {}
    """By the NIC's UUID; empty as long as they are where a start puts them (`devices.nic_places`)."""
    root_ports: int = 0
    """PCI Express ports that NICs are plugged into."""
    disks: list[DiskPlace] = []
    """In the order of the instance's disks. A disk that it is given without hot-plug is not among them."""
    disk_ports: int = 0
    """PCI Express ports that paravirtual disks are plugged into."""
    cd_drives: list[str] = []
    """Parameters whose CD drives the machine has, with an image or without."""
    cd_places: dict[str, dict[str, Any]] = {}
    """QEMU's options that say where each of these drives is."""
    cd_controller: bool = False
    """It has a SCSI controller for CDs alone."""
    added_cpus: list[dict[str, Any]] = []
    """Virtual CPUs that were added while it ran: QEMU's options of each."""
    added_memory: list[MemoryModule] = []
    leaving: dict[str, dict[str, Any]] = {}
    """QEMU's options of the devices that the guest has been asked to let go of, by their names (`released`)."""
    network_port: int | None = None
    tags: list[str] = []
    started: bool = False
    """Whether the start came to its end; a process with a record that says no is half-made."""
    was_running: bool = True
    """Only in what a migration carries: whether the guest ran when the migration was prepared."""
    is_adopted: bool = False
    """Started by an earlier Ganeti, which finds devices by names made of their UUIDs."""
    live_obstacle: str = ""
    """Why this guest must not be migrated live."""

    @property
    def most_memory_mib(self) -> int:
        """What the guest can use: its memory at the start and what was added."""
        return self.ram_kib // 1024 + sum(module.size_mib for module in self.added_memory)


class MigrationNote(msgspec.Struct, frozen=True, kw_only=True):
    """What a source keeps while it migrates, so that it can be ended after a restart of the daemon."""

    was_running: bool
    live: bool


def nics_of(spec: InstanceSpec) -> list[NicSpec]:
    return sorted(spec.nics, key=lambda nic: nic.index)


def write(places: Places, record: RuntimeRecord) -> None:
    _write(places.record(record.name), msgspec.json.encode(record))


def read(places: Places, name: str) -> RuntimeRecord | None:
    """Give a guest's record, or None; raises `HypervisorError` if there is one that cannot be read."""
    return _read(places.record(name), RuntimeRecord)


def write_note(places: Places, name: str, note: MigrationNote) -> None:
    _write(places.migration(name), msgspec.json.encode(note))


def read_note(places: Places, name: str) -> MigrationNote | None:
    return _read(places.migration(name), MigrationNote)


def remove_note(places: Places, name: str) -> None:
    if os.path.exists(places.migration(name)):
        os.unlink(places.migration(name))


def from_wire(data: dict[str, Any]) -> RuntimeRecord:
    """Read the record a migration source sent; raises `HypervisorError`."""
    try:
        record = msgspec.convert(data, RuntimeRecord)
    except msgspec.ValidationError as err:
        raise HypervisorError(f"The migration source sent a runtime record that cannot be read: {err}") from err
    if record.format != FORMAT:
        raise HypervisorError(
            f"The migration source sent a runtime record of format {record.format}, this node reads {FORMAT}: "
            "bring both nodes to the same release"
        )
    return record


def _write(path: str, data: bytes) -> None:
    try:
        write_atomically(path, data, mode=0o600, durable=False)
    except OSError as err:
        raise HypervisorError(f"Cannot write {path}: {err.strerror}") from err


def _read(path: str, kind: type[T]) -> T | None:
    try:
        with open(path, "rb") as source:
            return msgspec.json.decode(source.read(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, *UNREADABLE_JSON) as err:
        raise HypervisorError(f"The file {path} cannot be read: {err}") from err

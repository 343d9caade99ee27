# SPDX-License-Identifier: BSD-2-Clause
"""What stands for DRBD's kernel module on simulated machines: devices, their own data, and how copies become equal.

What the kernel knows is gone with the power; DRBD's own data are a line in their volume, and stay. Bytes are one word,
as for `mirrored_disks`: a copy that was made equal has it. Making equal takes a second, and ends when somebody looks.
"""

import json
import os
from dataclasses import dataclass, field
from typing import Any, Final

from ganeti_simulation.disk.disk import Disk
from ganeti_simulation.facades.mirrored_disks import WORD, has_word
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.machine import Machine

UP, INCONSISTENT, DISKLESS, UNKNOWN = "UpToDate", "Inconsistent", "Diskless", "DUnknown"
PRIMARY: Final = "Primary"
NEW: Final = "4"
_COPYING_S: Final = 1.0


class Refused(Exception):
    """What a tool prints before it fails."""


@dataclass
class Device:
    """One resource of a machine's kernel, with its one volume."""

    resource: str
    minor: int | None = None
    role: str = "Secondary"
    data: str = ""
    meta: str = ""
    state: str = DISKLESS
    local: str = ""
    remote: str = ""
    secret: str = ""
    two: bool = False
    connecting: bool = False
    alone: bool = False
    """Whether it has given the connection up: both copies were written apart."""
    linked: bool = False
    """Whether it was connected when somebody last looked."""
    copying_s: float | None = None
    """When the other copy began to be made equal to this one."""


@dataclass
class Kernel:
    """What the kernel of one machine knows; a new one begins with each boot."""

    boots: int
    devices: dict[str, Device] = field(default_factory=dict)


def kernel_of(machine: Machine) -> Kernel:
    found: dict[str, Kernel] = machine.kernel.local.setdefault("modules of drbd", {})
    kernel = found.get(machine.name)
    if kernel is None or kernel.boots != machine.boots or not machine.powered:
        kernel = found[machine.name] = Kernel(machine.boots)
    return kernel


class Resources:
    """The kernel module of one machine: what becomes of its devices, and of their connections."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.devices = kernel_of(machine).devices

    def find(self, key: str) -> Device:
        for device in self.devices.values():
            if key in (device.resource, str(device.minor)):
                return device
        raise Refused(f"{key}: No such resource")

    # DRBD's own data

    def kept(self, device: Device) -> dict[str, Any]:
        kept = kept_in(self.machine.disk, device.meta)
        if kept is None:
            raise Refused(f"{device.resource}: its own data cannot be read")
        return kept

    def set_state(self, device: Device, state: str) -> None:
        device.state = state
        keep(self.machine.disk, device.meta, self.kept(device) | {"state": state})

    def begin_anew(self, device: Device) -> None:
        """A primary without the other copy begins another generation."""
        if device.role == PRIMARY and device.state == UP:
            kept = self.kept(device)
            history = [*kept["history"], kept["uuid"]]
            number = Running.kernel.random.getrandbits(64)
            keep(self.machine.disk, device.meta, kept | {"uuid": f"{number:016x}", "history": history})

    # The connection

    def other_end(self, device: Device) -> "tuple[Resources, Device] | None":
        """The other end, where it answers and wants the same."""
        network, address = self.machine.network, device.remote.partition(":")[2].rpartition(":")[0]
        there, own = network.machines.get(address), self.machine.address
        passes = network.passes(own, address) and network.passes(address, own)
        if not isinstance(there, Machine) or not device.connecting or device.alone or not passes:
            return None
        module = Resources(there)
        for other in module.devices.values():
            ends = (other.local, other.remote, other.secret) == (device.remote, device.local, device.secret)
            if ends and other.connecting and not other.alone:
                return module, other
        return None

    def look(self, device: Device) -> None:
        """Find out whether both ends are connected by now, and go on with what is being made equal."""
        found = self.other_end(device)
        if found is None:
            if device.linked:
                device.linked, device.copying_s = False, None
                self.begin_anew(device)
            return
        module, other = found
        if not (device.linked and other.linked):
            for each, end in ((self, device), (module, other)):
                if end.linked:  # the other end was away meanwhile
                    each.begin_anew(end)
                end.linked, end.copying_s = True, None
            self._meet(device, module, other)
        for source, target, there in ((device, other, module), (other, device, self)):
            if source.copying_s is not None and Running.kernel.now_s - source.copying_s >= _COPYING_S:
                here_ = self if source is device else module
                if has_word(here_.machine.disk, source.data):
                    write_word(there.machine.disk, target.data)
                keep(there.machine.disk, target.meta, here_.kept(source) | {"state": UP})
                target.state, source.copying_s = UP, None

    def _meet(self, device: Device, module: "Resources", other: Device) -> None:
        if DISKLESS in (device.state, other.state):
            return
        mine, its = self.kept(device), module.kept(other)
        if mine["uuid"] == its["uuid"]:
            if device.state == UP and other.state != UP:
                self._copy_to(device, module, other)
            elif other.state == UP and device.state != UP:
                module._copy_to(other, self, device)
        elif its["uuid"] == NEW or its["uuid"] in mine["history"]:
            self._copy_to(device, module, other)
        elif mine["uuid"] == NEW or mine["uuid"] in its["history"]:
            module._copy_to(other, self, device)
        else:
            for end in (device, other):
                end.alone, end.linked = True, False

    def _copy_to(self, device: Device, module: "Resources", other: Device) -> None:
        device.copying_s, other.copying_s = Running.kernel.now_s, None
        module.set_state(other, INCONSISTENT)


def kept_in(disk: Disk, volume: str) -> dict[str, Any] | None:
    """DRBD's own data in a volume; None where there are none."""
    if not disk.exists(volume):
        return None
    file = disk.open(volume, os.O_RDONLY, 0)
    line = file.read(4096).partition(b"\n")[0]
    file.close()
    return json.loads(line) if line.startswith(b"{") else None


def keep(disk: Disk, volume: str, kept: dict[str, Any]) -> None:
    _write(disk, volume, json.dumps(kept).encode().ljust(4095) + b"\n")


def write_word(disk: Disk, volume: str) -> None:
    _write(disk, volume, WORD)


def _write(disk: Disk, volume: str, content: bytes) -> None:
    file = disk.open(volume, os.O_WRONLY, 0)
    file.write(content)
    file.fsync()
    file.close()

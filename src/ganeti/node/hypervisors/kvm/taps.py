# SPDX-License-Identifier: BSD-2-Clause
"""Taps of guests, made here and handed to QEMU open: it needs no right to make them, and they vanish with it.

A tap is never persistent: whatever fails, closing its descriptor removes it with its place in a bridge and its routes.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import struct
from dataclasses import dataclass, field

from ganeti.base.errors import HypervisorError
from ganeti.model.communication import is_communication
from ganeti.model.node_requests import NicSpec
from ganeti.node.hypervisors import connections, switch
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.record import RuntimeRecord
from ganeti.ports.node_world import NodeWorld

TUN_DEVICE = "/dev/net/tun"
_TUNSETIFF = 0x400454CA
_IFF_TAP = 0x0002
_IFF_NO_PI = 0x1000
_IFF_VNET_HDR = 0x4000
_IFF_MULTI_QUEUE = 0x0100
_IFREQ = struct.Struct("16sH22x")
_NAME_BYTES = 16
_IN_SWITCH = "ovs:"


@dataclass
class Tap:
    """One tap with a descriptor for each queue."""

    name: str
    descriptors: list[int] = field(default_factory=list)

    def close(self) -> None:
        for descriptor in self.descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self.descriptors = []


def open_tap(nic: NicSpec, *, queues: int = 1, vnet_hdr: bool = True) -> Tap:
    """Make a tap of a free name; raises `HypervisorError`."""
    pattern = "gnt.com.%d" if is_communication(nic) else "tap%d"
    flags = _IFF_TAP | _IFF_NO_PI | (_IFF_VNET_HDR if vnet_hdr else 0) | (_IFF_MULTI_QUEUE if queues > 1 else 0)
    tap = Tap(pattern)
    try:
        for _ in range(queues):
            descriptor = os.open(TUN_DEVICE, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
            tap.descriptors.append(descriptor)
            answer = fcntl.ioctl(descriptor, _TUNSETIFF, _IFREQ.pack(tap.name.encode(), flags))
            tap.name = answer[:_NAME_BYTES].rstrip(b"\0").decode()
    except OSError as err:
        tap.close()
        hint = "; load the module tun" if err.errno in (errno.ENOENT, errno.ENODEV) else ""
        raise HypervisorError(f"Cannot make a tap for NIC {nic.index}: {err.strerror}{hint}") from err
    return tap


async def make(world: NodeWorld, places: Places, record: RuntimeRecord, nic: NicSpec) -> Tap:
    """Make the tap of a guest's NIC, note it, and connect it; raises `HypervisorError`."""
    vnet_hdr = bool(record.hvparams["vnet_hdr"]) and _is_paravirtual(record)
    tap = open_tap(nic, queues=queues(record), vnet_hdr=vnet_hdr)
    try:
        note(places, record.name, nic, tap)
        await connections.connect(world, places.interface_script, record.name, record.tags, nic, tap.name)
    except BaseException:
        tap.close()
        raise
    return tap


def queues(record: RuntimeRecord) -> int:
    """How many queues each NIC of a guest has."""
    return int(record.hvparams["virtio_net_queues"]) if _is_paravirtual(record) else 1


def _is_paravirtual(record: RuntimeRecord) -> bool:
    return bool(record.hvparams["nic_type"] == "paravirtual")


async def forget(world: NodeWorld, places: Places, name: str, index: int | None = None) -> None:
    """Undo what a tap leaves behind although it is gone: its port in a switch. Of one NIC, or of all.

    A guest that was started since the tap went may have one of the same name: the port is that guest's then.
    """
    for position, tap in recorded(places, name).items():
        is_port = index in (None, position) and tap.startswith(_IN_SWITCH)
        if is_port and tap.removeprefix(_IN_SWITCH) not in _taps_of_others(places, name):
            await switch.leave(world, tap.removeprefix(_IN_SWITCH))


def note(places: Places, instance: str, nic: NicSpec, tap: Tap) -> None:
    """Write down the tap of a NIC (``nic/NAME/N``)."""
    os.makedirs(places.nic_dir(instance), mode=0o700, exist_ok=True)
    text = f"{_IN_SWITCH}{tap.name}" if nic.mode == "openvswitch" else tap.name
    with open(f"{places.nic_dir(instance)}/{nic.index}", "w", encoding="ascii") as target:
        target.write(text)


def renumber(places: Places, instance: str, indexes: dict[int, int]) -> None:
    """Keep the notes of the NICs that stay, from their old index to the new one."""
    noted = recorded(places, instance)
    shutil.rmtree(places.nic_dir(instance), ignore_errors=True)
    os.makedirs(places.nic_dir(instance), mode=0o700)
    for old, text in noted.items():
        if old in indexes:
            with open(f"{places.nic_dir(instance)}/{indexes[old]}", "w", encoding="ascii") as target:
                target.write(text)


def _taps_of_others(places: Places, name: str) -> set[str]:
    try:
        guests = os.listdir(os.path.dirname(places.nic_dir(name)))
    except FileNotFoundError:
        return set()
    noted = (recorded(places, guest) for guest in guests if guest != name)
    return {tap.removeprefix(_IN_SWITCH) for taps in noted for tap in taps.values()}


def recorded(places: Places, instance: str) -> dict[int, str]:
    """The tap of each NIC, by the NIC's index."""
    names: dict[int, str] = {}
    with contextlib.suppress(FileNotFoundError):
        for entry in sorted(os.listdir(places.nic_dir(instance))):
            with open(f"{places.nic_dir(instance)}/{entry}", encoding="ascii") as source:
                names[int(entry)] = source.read().strip()
    return names

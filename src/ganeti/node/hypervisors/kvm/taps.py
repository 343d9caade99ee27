# SPDX-License-Identifier: BSD-2-Clause
"""Taps of guests, made here and handed to QEMU open: it needs no right to make them, and they vanish with it.

A tap is never persistent: whatever fails, closing its descriptor removes it with its place in a bridge and its routes.
"""

import contextlib
import errno
import fcntl
import ipaddress
import os
import shutil
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ganeti.base.errors import CommandError, HypervisorError
from ganeti.model.communication import METADATA_ADDRESS, is_communication
from ganeti.model.node_requests import NicSpec
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.record import RuntimeRecord
from ganeti.ports.node_world import NodeWorld

if TYPE_CHECKING:
    from pyroute2 import AsyncIPRoute

TUN_DEVICE = "/dev/net/tun"
_TUNSETIFF = 0x400454CA
_IFF_TAP = 0x0002
_IFF_NO_PI = 0x1000
_IFF_VNET_HDR = 0x4000
_IFF_MULTI_QUEUE = 0x0100
_IFREQ = struct.Struct("16sH22x")
_NAME_BYTES = 16
_OVS = "/usr/bin/ovs-vsctl"
_IN_SWITCH = "ovs:"
_MAIN_TABLE = 254


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
    hvparams = record.hvparams
    paravirtual = hvparams["nic_type"] == "paravirtual"
    tap = open_tap(
        nic,
        queues=hvparams["virtio_net_queues"] if paravirtual else 1,
        vnet_hdr=bool(hvparams["vnet_hdr"]) and paravirtual,
    )
    try:
        note(places, record.name, nic, tap)
        await connect(world, places, record.name, record.tags, nic, tap)
    except BaseException:
        tap.close()
        raise
    return tap


async def connect(world: NodeWorld, places: Places, instance: str, tags: Sequence[str], nic: NicSpec, tap: Tap) -> None:
    """Bring a tap up where its NIC belongs; raises `HypervisorError` naming what is missing."""
    script = places.interface_script
    if is_communication(nic):
        await _serve_metadata(nic, tap)
    elif os.access(script, os.X_OK):
        await _run_script(world, script, instance, tags, nic, tap)
    elif nic.mode == "bridged":
        await _join_bridge(nic, tap)
    elif nic.mode == "routed":
        await _route(nic, tap)
    elif nic.mode == "openvswitch":
        await _join_switch(world, nic, tap)
    else:
        raise HypervisorError(f"NIC {nic.index} has mode '{nic.mode}': there are bridged, routed and openvswitch")


async def forget(world: NodeWorld, places: Places, name: str, index: int | None = None) -> None:
    """Undo what a tap leaves behind although it is gone: its port in a switch. Of one NIC, or of all."""
    for position, tap in recorded(places, name).items():
        if index in (None, position) and tap.startswith(_IN_SWITCH) and os.access(_OVS, os.X_OK):
            with contextlib.suppress(CommandError):
                await world.run([_OVS, "--if-exists", "del-port", tap.removeprefix(_IN_SWITCH)], timeout_s=20)


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


def recorded(places: Places, instance: str) -> dict[int, str]:
    """The tap of each NIC, by the NIC's index."""
    names: dict[int, str] = {}
    with contextlib.suppress(FileNotFoundError):
        for entry in sorted(os.listdir(places.nic_dir(instance))):
            with open(f"{places.nic_dir(instance)}/{entry}", encoding="ascii") as source:
                names[int(entry)] = source.read().strip()
    return names


def _open_links() -> "AsyncIPRoute":
    """The interfaces of this node. Imported late: LuxiD and the spawner only read what drivers can do, and each job
    would be a fork of eight megabytes more."""
    from pyroute2 import AsyncIPRoute

    return AsyncIPRoute()


async def address_of(interface: str, version: int = 4) -> str:
    """Give an address of an interface; raises `HypervisorError`."""
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    async with _open_links() as links:
        index = await _index(links, interface)
        if index is not None:
            async for message in await links.get_addr(family=family, index=index):
                return str(message.get_attr("IFA_ADDRESS"))
    raise HypervisorError(f"'{interface}' is neither an IP address nor an interface of this node that has one")


async def interface_exists(name: str) -> bool:
    async with _open_links() as links:
        return await _index(links, name) is not None


async def _index(links: "AsyncIPRoute", name: str) -> int | None:
    found = await links.link_lookup(ifname=name)
    return int(found[0]) if found else None


async def _attribute(links: "AsyncIPRoute", index: int, name: str) -> Any:
    async for message in await links.get_links(index):
        return message.get_attr(name)
    return None


async def _required(links: "AsyncIPRoute", name: str, what: str) -> int:
    index = await _index(links, name)
    if index is None:
        raise HypervisorError(f"{what} '{name}' does not exist on this node: make it, or give the NIC another link")
    return index


async def _join_bridge(nic: NicSpec, tap: Tap) -> None:
    from pyroute2 import NetlinkError

    async with _open_links() as links:
        bridge = await _required(links, nic.link, "The bridge")
        if not await _is_bridge(links, bridge):
            raise HypervisorError(f"The link '{nic.link}' of NIC {nic.index} is not a bridge")
        index = await _required(links, tap.name, "The tap")
        try:
            mtu = await _attribute(links, bridge, "IFLA_MTU")
            await links.link("set", index=index, mtu=mtu, address=outer_mac(nic.mac))
            await links.link("set", index=index, master=bridge)
            await links.link("set", index=index, state="up")
        except NetlinkError as err:
            raise HypervisorError(f"Cannot put {tap.name} into the bridge '{nic.link}': {err}") from err
        if nic.vlan:
            await _join_vlans(links, index, nic)


def outer_mac(mac: str) -> str:
    """An address for the node's end of a tap, above all others.

    A bridge takes the lowest address of its ports: a tap that came and went would change that of the node itself.
    """
    return "fe" + mac[2:]


async def _is_bridge(links: "AsyncIPRoute", index: int) -> bool:
    info = await _attribute(links, index, "IFLA_LINKINFO")
    return info is not None and info.get_attr("IFLA_INFO_KIND") == "bridge"


async def _join_vlans(links: "AsyncIPRoute", index: int, nic: NicSpec) -> None:
    """``.N`` access port, ``:N:M`` trunk, ``.N:M`` both; the bridge must filter VLANs."""
    from pyroute2 import NetlinkError

    access, trunks = vlans_of(nic.vlan)
    try:
        await links.vlan_filter("del", index=index, vlan_info={"vid": 1})
        if access is not None:
            await links.vlan_filter("add", index=index, vlan_info={"vid": access, "flags": ["pvid", "untagged"]})
        for trunk in trunks:
            await links.vlan_filter("add", index=index, vlan_info={"vid": trunk})
    except (NetlinkError, ValueError) as err:
        raise HypervisorError(
            f"The bridge '{nic.link}' does not take VLAN '{nic.vlan}' of NIC {nic.index} ({err}): "
            "switch vlan_filtering on for it"
        ) from err


def vlans_of(text: str) -> tuple[int | None, list[int]]:
    """Read ``.N``, ``N``, ``:N:M`` or ``.N:M``: the access VLAN and the trunked ones."""
    first, *trunks = text.split(":")
    number = first.lstrip(".")
    return (int(number) if number else None), [int(trunk) for trunk in trunks]


async def _route(nic: NicSpec, tap: Tap) -> None:
    """The guest's address points to its tap in table *link*; the node answers ARP for everybody else.

    Which packets look into that table is the administrator's rule.
    """
    from pyroute2 import NetlinkError

    if not nic.ip:
        raise HypervisorError(f"NIC {nic.index} is routed and needs an IP address")
    address = ipaddress.ip_address(nic.ip)
    table = _table(nic)
    async with _open_links() as links:
        index = await _required(links, tap.name, "The tap")
        try:
            await links.link("set", index=index, state="up")
            family = socket.AF_INET if address.version == 4 else socket.AF_INET6
            length = 32 if address.version == 4 else 128
            await links.route(
                "replace", family=family, dst=f"{address}/{length}", oif=index, table=table, proto="static"
            )
        except NetlinkError as err:
            raise HypervisorError(f"Cannot route {address} to {tap.name} in table '{nic.link}': {err}") from err
    if address.version == 4:
        _set_kernel(f"/proc/sys/net/ipv4/conf/{tap.name}", ("proxy_arp", "forwarding"))
    else:
        _set_kernel(f"/proc/sys/net/ipv6/conf/{tap.name}", ("proxy_ndp", "forwarding"))


async def _serve_metadata(nic: NicSpec, tap: Tap) -> None:
    """The node has the metadata's address on this tap, and reaches the guest's only there; nothing is passed on.

    A guest that takes another one's address gets no answer: that goes to the other's tap.
    """
    from pyroute2 import NetlinkError

    if not nic.ip:
        raise HypervisorError(f"NIC {nic.index} is for communication and has no address: give it ip=pool")
    async with _open_links() as links:
        index = await _required(links, tap.name, "The tap")
        try:
            await links.addr("add", index=index, address=METADATA_ADDRESS, prefixlen=32)
            await links.link("set", index=index, state="up")
            await links.route(
                "replace", family=socket.AF_INET, dst=f"{nic.ip}/32", oif=index, table=_MAIN_TABLE, proto="static"
            )
        except NetlinkError as err:
            raise HypervisorError(f"Cannot give {tap.name} the address {METADATA_ADDRESS}: {err}") from err
    _set_kernel(f"/proc/sys/net/ipv4/conf/{tap.name}", ("rp_filter",))
    _set_kernel(f"/proc/sys/net/ipv4/conf/{tap.name}", ("forwarding",), "0")


def _table(nic: NicSpec) -> int:
    """Number of a routing table given by number or name."""
    if nic.link in ("", "main"):
        return _MAIN_TABLE
    if nic.link.isdecimal():
        return int(nic.link)
    for path in ("/etc/iproute2/rt_tables", "/usr/share/iproute2/rt_tables"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as source:
            for line in source:
                words = line.partition("#")[0].split()
                if len(words) == 2 and words[1] == nic.link:
                    return int(words[0], 0)
    raise HypervisorError(
        f"The link '{nic.link}' of NIC {nic.index} is no routing table: give a number, or a name of "
        "/etc/iproute2/rt_tables"
    )


def _set_kernel(directory: str, switches: Sequence[str], value: str = "1") -> None:
    for switch in switches:
        try:
            with open(f"{directory}/{switch}", "w", encoding="ascii") as target:
                target.write(value)
        except OSError as err:
            raise HypervisorError(f"Cannot write {value} to {directory}/{switch}: {err.strerror}") from err


async def _join_switch(world: NodeWorld, nic: NicSpec, tap: Tap) -> None:
    if not os.access(_OVS, os.X_OK):
        raise HypervisorError(
            f"NIC {nic.index} has mode openvswitch, but {_OVS} is missing: install the package openvswitch-switch"
        )
    argv = [_OVS, "--may-exist", "add-port", nic.link, tap.name]
    if nic.vlan:
        access, trunks = vlans_of(nic.vlan)
        if access is not None:
            argv.append(f"tag={access}")
        if trunks:
            argv.append("trunks=" + ",".join(str(trunk) for trunk in trunks))
            argv.append("vlan_mode=" + ("native-untagged" if access is not None else "trunk"))
    try:
        await world.run(argv, timeout_s=30)
    except CommandError as err:
        raise HypervisorError(f"Cannot put {tap.name} into the switch '{nic.link}': {err}") from err
    async with _open_links() as links:
        await links.link("set", index=await _required(links, tap.name, "The tap"), state="up")


async def _run_script(
    world: NodeWorld, script: str, instance: str, tags: Sequence[str], nic: NicSpec, tap: Tap
) -> None:
    """Run the administrator's script with the environment 3.1 gives it."""
    env = {
        "INSTANCE": instance,
        "INTERFACE": tap.name,
        "INTERFACE_INDEX": str(nic.index),
        "INTERFACE_NAME": nic.name or "",
        "INTERFACE_UUID": nic.uuid,
        "MAC": nic.mac,
        "IP": nic.ip or "",
        "MODE": nic.mode,
        "LINK": nic.link,
        "VLAN": nic.vlan,
        "TAGS": " ".join(tags),
    }
    if nic.mode == "bridged":
        env["BRIDGE"] = nic.link
    for key, value in (nic.network or {}).items():
        text = " ".join(str(part) for part in value) if isinstance(value, list) else value
        env[f"NETWORK_{key.upper()}"] = "" if text is None else str(text)
    try:
        await world.run([script], env=env, timeout_s=60)
    except CommandError as err:
        raise HypervisorError(f"The script {script} failed for {tap.name} of NIC {nic.index}: {err}") from err

# SPDX-License-Identifier: BSD-2-Clause
"""Where the node's end of a guest's NIC belongs: bridge, routing table, switch, or the administrator's script.

The device is there already: a tap, or one end of a pair.
"""

import contextlib
import ipaddress
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ganeti.base.errors import CommandError, HypervisorError
from ganeti.base.paths import Paths
from ganeti.model.communication import METADATA_ADDRESS, is_communication
from ganeti.model.network_variables import network_variables
from ganeti.model.node_requests import NicSpec
from ganeti.node.hypervisors import switch
from ganeti.ports.node_world import NodeWorld
from ganeti.system.ssconf import ssconf

if TYPE_CHECKING:
    from pyroute2 import AsyncIPRoute

_MAIN_TABLE = 254
_SCOPE_LINK = 253
_DUPLICATE, _TENTATIVE = 0x08, 0x40


async def connect(world: NodeWorld, script: str, instance: str, tags: Sequence[str], nic: NicSpec, device: str) -> None:
    """Bring a device up where its NIC belongs, or have *script* do it where that is executable.

    Raises `HypervisorError` naming what is missing.
    """
    scripted = os.access(script, os.X_OK) and not is_communication(nic)
    if scripted or nic.mode != "openvswitch":
        await switch.leave(world, device)  # a port that an earlier device of this name has left
    if is_communication(nic):
        await _serve_metadata(nic, device)
    elif scripted:
        await _run_script(world, script, instance, tags, nic, device)
    elif nic.mode == "bridged":
        await _join_bridge(nic, device)
    elif nic.mode == "routed":
        await _route(nic, device)
    elif nic.mode == "openvswitch":
        await switch.join(world, nic, device)
        await _bring_up(device)
    else:
        raise HypervisorError(f"NIC {nic.index} has mode '{nic.mode}': there are bridged, routed and openvswitch")


def _open_links() -> "AsyncIPRoute":
    """The interfaces of this node. Imported late: LuxiD and the spawner only read what drivers can do, and each job
    would be a fork of eight megabytes more."""
    from pyroute2 import AsyncIPRoute

    return AsyncIPRoute()


async def address_of(interface: str, paths: Paths, version: int = 0) -> str:
    """Give an address of an interface, of IPv4 or IPv6 as *version* says; raises `HypervisorError`.

    With version 0 it is one of the cluster's primary kind, or where the interface has none, of the other kind. It is
    never the cluster's own, which leaves the node when another one becomes the master.
    """
    clusters = ssconf(paths, "master_ip")
    async with _open_links() as links:
        index = await _index(links, interface)
        if index is None:
            raise HypervisorError(f"'{interface}' is neither an IP address nor an interface of this node")
        for family in _families(paths, version):
            async for message in await links.get_addr(family=family, index=index):
                address = str(message.get_attr("IFA_ADDRESS"))
                if address != clusters and _can_be_bound(message):
                    return address
    kind = f" IPv{version}" if version else ""
    raise HypervisorError(
        f"The interface '{interface}' of this node has no{kind} address that others reach: give it one, or name another"
    )


def _families(paths: Paths, version: int) -> list[socket.AddressFamily]:
    if version:
        return [socket.AF_INET6 if version == 6 else socket.AF_INET]
    is_6 = ssconf(paths, "primary_ip_family") == str(int(socket.AF_INET6))
    return [socket.AF_INET6, socket.AF_INET] if is_6 else [socket.AF_INET, socket.AF_INET6]


def _can_be_bound(message: Any) -> bool:
    """Not one of IPv6 that means another machine on each link, nor one that may turn out to be another's."""
    is_local = message["family"] == socket.AF_INET6 and message["scope"] == _SCOPE_LINK
    return not is_local and not message["flags"] & (_TENTATIVE | _DUPLICATE)


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


async def _join_bridge(nic: NicSpec, device: str) -> None:
    from pyroute2 import NetlinkError

    async with _open_links() as links:
        bridge = await _required(links, nic.link, "The bridge")
        info = await _attribute(links, bridge, "IFLA_LINKINFO")
        if info is None or info.get_attr("IFLA_INFO_KIND") != "bridge":
            raise HypervisorError(f"The link '{nic.link}' of NIC {nic.index} is not a bridge")
        index = await _required(links, device, "The device")
        try:
            mtu = await _attribute(links, bridge, "IFLA_MTU")
            await links.link("set", index=index, mtu=mtu, address=outer_mac(nic.mac))
            await links.link("set", index=index, master=bridge)
            await links.link("set", index=index, state="up")
        except NetlinkError as err:
            raise HypervisorError(f"Cannot put {device} into the bridge '{nic.link}': {err}") from err
        if nic.vlan:
            await _join_vlans(links, index, nic, info.get_attr("IFLA_INFO_DATA"))


def outer_mac(mac: str) -> str:
    """An address for the node's end of a tap, above all others.

    A bridge takes the lowest address of its ports: a tap that came and went would change that of the node itself.
    """
    return "fe" + mac[2:]


async def _join_vlans(links: "AsyncIPRoute", index: int, nic: NicSpec, bridge: Any) -> None:
    """``.N`` access port, ``:N:M`` trunk, ``.N:M`` both.

    *bridge* has the bridge's attributes. One that does not filter VLANs takes them all the same, and passes everything.
    """
    from pyroute2 import NetlinkError

    if not bridge.get_attr("IFLA_BR_VLAN_FILTERING"):
        raise HypervisorError(
            f"The bridge '{nic.link}' does not filter VLANs, so VLAN '{nic.vlan}' of NIC {nic.index} would be open to "
            f"all its ports: ip link set {nic.link} type bridge vlan_filtering 1"
        )
    access, trunks = switch.vlans_of(nic.vlan)
    try:
        if default := bridge.get_attr("IFLA_BR_VLAN_DEFAULT_PVID"):  # each new port is in it
            await links.vlan_filter("del", index=index, vlan_info={"vid": default})
        if access is not None:
            await links.vlan_filter("add", index=index, vlan_info={"vid": access, "flags": ["pvid", "untagged"]})
        for trunk in trunks:
            await links.vlan_filter("add", index=index, vlan_info={"vid": trunk})
    except (NetlinkError, ValueError) as err:
        raise HypervisorError(
            f"The bridge '{nic.link}' does not take VLAN '{nic.vlan}' of NIC {nic.index} ({err})"
        ) from err


async def _route(nic: NicSpec, device: str) -> None:
    """The guest's address points to its tap in table *link*; the node answers ARP for everybody else.

    Which packets look into that table is the administrator's rule.
    """
    from pyroute2 import NetlinkError

    if not nic.ip:
        raise HypervisorError(f"NIC {nic.index} is routed and needs an IP address")
    address = ipaddress.ip_address(nic.ip)
    table = _table(nic)
    async with _open_links() as links:
        index = await _required(links, device, "The device")
        try:
            await links.link("set", index=index, state="up")
            family = socket.AF_INET if address.version == 4 else socket.AF_INET6
            length = 32 if address.version == 4 else 128
            await links.route(
                "replace", family=family, dst=f"{address}/{length}", oif=index, table=table, proto="static"
            )
        except NetlinkError as err:
            raise HypervisorError(f"Cannot route {address} to {device} in table '{nic.link}': {err}") from err
    if address.version == 4:
        _set_kernel(f"/proc/sys/net/ipv4/conf/{device}", ("proxy_arp", "forwarding"))
    else:
        _set_kernel(f"/proc/sys/net/ipv6/conf/{device}", ("proxy_ndp", "forwarding"))


async def _serve_metadata(nic: NicSpec, device: str) -> None:
    """The node has the metadata's address on this tap, and reaches the guest's only there; nothing is passed on.

    A guest that takes another one's address gets no answer: that goes to the other's tap.
    """
    from pyroute2 import NetlinkError

    if not nic.ip:
        raise HypervisorError(f"NIC {nic.index} is for communication and has no address: give it ip=pool")
    async with _open_links() as links:
        index = await _required(links, device, "The device")
        try:
            await links.addr("add", index=index, address=METADATA_ADDRESS, prefixlen=32)
            await links.link("set", index=index, state="up")
            await links.route(
                "replace", family=socket.AF_INET, dst=f"{nic.ip}/32", oif=index, table=_MAIN_TABLE, proto="static"
            )
        except NetlinkError as err:
            raise HypervisorError(f"Cannot give {device} the address {METADATA_ADDRESS}: {err}") from err
    _set_kernel(f"/proc/sys/net/ipv4/conf/{device}", ("rp_filter",))
    _set_kernel(f"/proc/sys/net/ipv4/conf/{device}", ("forwarding",), "0")


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
    for name in switches:
        try:
            with open(f"{directory}/{name}", "w", encoding="ascii") as target:
                target.write(value)
        except OSError as err:
            raise HypervisorError(f"Cannot write {value} to {directory}/{name}: {err.strerror}") from err


async def _bring_up(device: str) -> None:
    from pyroute2 import NetlinkError

    async with _open_links() as links:
        try:
            await links.link("set", index=await _required(links, device, "The device"), state="up")
        except NetlinkError as err:
            raise HypervisorError(f"Cannot bring {device} up: {err}") from err


async def _run_script(
    world: NodeWorld, script: str, instance: str, tags: Sequence[str], nic: NicSpec, device: str
) -> None:
    """Run the administrator's script with the environment 3.1 gives it."""
    env = {
        "INSTANCE": instance,
        "INTERFACE": device,
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
    if nic.network is not None:
        env |= network_variables(nic.network)
    try:
        await world.run([script], env=env, timeout_s=60, leaves_background=True)
    except CommandError as err:
        raise HypervisorError(f"The script {script} failed for {device} of NIC {nic.index}: {err}") from err

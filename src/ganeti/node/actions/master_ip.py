# SPDX-License-Identifier: BSD-2-Clause
"""The cluster's own address, which is where the master is."""

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
import struct

from ganeti.base.errors import ExecutionError, ParameterError
from ganeti.base.paths import NODED_PORT
from ganeti.model.node_calls.mastership import MasterAddress, NodeActivateMasterIp, NodeDeactivateMasterIp
from ganeti.node.actions.node import owns_address
from ganeti.node.actions.registry import answers
from ganeti.node.local_hooks import SCRIPT_TIMEOUT_S, OwnHooks
from ganeti.node.state import NodeState

SCRIPT = "scripts/master-ip-setup"
_PROBE_S = 1.0
_SCRIPT_OF_FORMER_MASTER_S = 10.0
_ANNOUNCEMENTS = 2
_ETHERTYPE_ARP = 0x0806
_UP, _LOOPBACK = 0x1, 0x8
_HOW_6 = {"flags": 0x02, "preferred_lft": 0, "valid_lft": 0xFFFFFFFF}
"""Used at once, the question whether somebody else has it was asked (0x02, nodad); and no source of connections, or
answers to this node would go to the former master until everybody knows the new one."""
_ALL_NODES_6 = "ff02::1"
_NEIGHBOUR_ADVERTISEMENT, _OVERRIDE, _LINK_ADDRESS_OPTION = 136, 0x20000000, 2


@answers(NodeActivateMasterIp)
async def node_activate_master_ip(node: NodeState, asked: NodeActivateMasterIp) -> None:
    master = asked.master
    with contextlib.suppress(OSError):
        os.unlink(node.paths.given_up_address_file)
    if not asked.use_external_mip_script:
        if owns_address(master.ip):
            return
        if await _answers(master.ip):
            raise ExecutionError(f"The master IP {master.ip} cannot be taken: another machine answers there")
    hooks = OwnHooks(node.world, "master-ip-turnup", "OP_CLUSTER_IP_TURNUP", _variables(master))
    await hooks.run_pre()
    if asked.use_external_mip_script:
        await _external(node, master, "start")
    elif not node.paths.root:
        await asyncio.to_thread(_change, master, "add")
    node.world.log(f"master IP {master.ip} is on {master.netdev} now")
    await hooks.run_post()


@answers(NodeDeactivateMasterIp)
async def node_deactivate_master_ip(node: NodeState, asked: NodeDeactivateMasterIp) -> None:
    master = asked.master
    on_purpose = asked.on_purpose
    if on_purpose:  # first, or the watcher takes it again at the same moment
        os.close(os.open(node.paths.given_up_address_file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640))
    try:
        if not asked.use_external_mip_script and (node.paths.root or not owns_address(master.ip)):
            return
        hooks = OwnHooks(
            node.world,
            "master-ip-turndown",
            "OP_CLUSTER_IP_TURNDOWN",
            _variables(master),
            may_refuse=on_purpose,
            timeout_s=SCRIPT_TIMEOUT_S if on_purpose else _SCRIPT_OF_FORMER_MASTER_S,
        )
        await hooks.run_pre()
        if asked.use_external_mip_script:
            await _external(node, master, "stop")
        else:
            await asyncio.to_thread(_change, master, "del")
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(node.paths.given_up_address_file)
        raise
    node.world.log(f"master IP {master.ip} is off {master.netdev} now")
    await hooks.run_post()


async def _external(node: NodeState, master: MasterAddress, word: str) -> None:
    program = f"{node.paths.sysconf_dir}/{SCRIPT}"
    await node.world.run([program, word], env=_variables(master), leaves_background=True)


def _variables(master: MasterAddress) -> dict[str, str]:
    return {
        "MASTER_IP": master.ip,
        "MASTER_NETDEV": master.netdev,
        "MASTER_NETMASK": str(master.netmask),
        "CLUSTER_IP_VERSION": "4" if master.ip_family == socket.AF_INET else "6",
    }


async def _answers(ip: str) -> bool:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(ip, NODED_PORT)
        writer.close()
        return True
    return False


def _change(master: MasterAddress, action: str) -> None:
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    address = ipaddress.ip_address(master.ip)
    if not 0 < master.netmask <= address.max_prefixlen:
        raise ParameterError(f"Prefix length {master.netmask} is not between 1 and {address.max_prefixlen}")
    with IPRoute() as route:
        indexes = route.link_lookup(ifname=master.netdev)
        if not indexes:
            raise ExecutionError(f"The master IP {master.ip} needs the interface {master.netdev}, which is not there")
        try:
            how = _HOW_6 if action == "add" and address.version == 6 else {}
            route.addr(action, index=indexes[0], address=master.ip, prefixlen=master.netmask, **how)
        except NetlinkError as err:
            if err.code in (errno.EEXIST, errno.EADDRNOTAVAIL):
                return  # another has done the same at the same moment
            raise ExecutionError(f"The master IP {master.ip} cannot be changed on {master.netdev}: {err}") from err
    if action == "add":
        (_announce if address.version == 4 else _announce_6)(master.netdev, address.packed)


def fault_of_place(master: MasterAddress) -> str:
    """Say why the address could not serve on that device of this node, with a prefix so long; empty where it could."""
    from pyroute2 import IPRoute

    wanted = ipaddress.ip_interface(f"{master.ip}/{master.netmask}")
    with IPRoute() as route:
        links = {link["index"]: link for link in route.get_links()}
        names = {index: link.get_attr("IFLA_IFNAME") for index, link in links.items()}
        own = next((index for index, name in names.items() if name == master.netdev), None)
        if own is None:
            return f"there is no network device {master.netdev}"
        if links[own]["flags"] & _LOOPBACK:
            return f"{master.netdev} is the node's own device: no other machine reaches it"
        if not links[own]["flags"] & _UP:
            return f"{master.netdev} is down"
        if wanted.network.prefixlen == wanted.max_prefixlen:
            return ""
        found = route.get_addr(family=socket.AF_INET if wanted.version == 4 else socket.AF_INET6)
    for each in found:
        there = ipaddress.ip_interface(f"{each.get_attr('IFA_ADDRESS')}/{each['prefixlen']}")
        leads = wanted.ip in there.network and there.network.prefixlen <= wanted.network.prefixlen
        if leads and each["index"] != own and there.ip != wanted.ip:
            return (
                f"{names.get(each['index'])} leads to {wanted.network}, which would go to {master.netdev}: take that "
                f"device, or the netmask {wanted.max_prefixlen}"
            )
    return ""


def _announce(interface: str, address: bytes) -> None:
    """Tell the neighbours (gratuitous ARP), who may still think of the former master."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((interface, _ETHERTYPE_ARP))
        mac = raw.getsockname()[4]
        if len(mac) != 6:
            return
        broadcast = b"\xff" * 6
        head = broadcast + mac + struct.pack("!H", _ETHERTYPE_ARP)
        body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + address + broadcast + address
        for _ in range(_ANNOUNCEMENTS):
            raw.send(head + body)


def _announce_6(interface: str, address: bytes) -> None:
    """Tell the neighbours, as `_announce`, by an unsolicited neighbour advertisement; the kernel adds the checksum."""
    with (
        contextlib.suppress(OSError, ValueError),
        socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as raw,
    ):
        with open(f"/sys/class/net/{interface}/address", encoding="ascii") as file:
            mac = bytes.fromhex(file.read().strip().replace(":", ""))
        index = socket.if_nametoindex(interface)
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        head = struct.pack("!BBHI", _NEIGHBOUR_ADVERTISEMENT, 0, 0, _OVERRIDE)
        message = head + address + struct.pack("!BB", _LINK_ADDRESS_OPTION, 1) + mac
        for _ in range(_ANNOUNCEMENTS):
            raw.sendto(message, (_ALL_NODES_6, 0, 0, index))

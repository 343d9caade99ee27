# SPDX-License-Identifier: BSD-2-Clause
"""The wires: a hub namespace with two bridges (cluster LAN, guest LAN) and two cables to every node.

Guests of different nodes share the guest LAN, so a migrated guest keeps its address. The hub is held by a mount in the
testbed's directory and appears in no list of named namespaces.
"""

import json
import re

from ganeti.tools.testbed import layout, processes
from ganeti.tools.testbed.layout import Layout, Node

LAN = "br-lan"
GUEST = "br-guest"


def in_hub(bed: Layout) -> tuple[str, ...]:
    """Give the words before a command that is to run at the hub."""
    return ("nsenter", f"--net={bed.hub_namespace}", "--")


def lay_hub(bed: Layout) -> None:
    bed.hub_namespace.parent.mkdir()
    bed.hub_namespace.touch()
    processes.run("unshare", f"--net={bed.hub_namespace}", "true")
    _batch(
        in_hub(bed),
        "link set lo up",
        f"link add {LAN} type bridge",
        f"link add {GUEST} type bridge",
        f"addr add {layout.HUB_LAN_ADDRESS}/24 dev {LAN}",
        _add_address(bed.hub_guest_address, GUEST),
        f"link set {LAN} up",
        f"link set {GUEST} up",
    )


def remove_hub(bed: Layout) -> None:
    """Unmount the hub's namespace, after ending who still runs in it."""
    held = bed.hub_namespace
    if not _is_mounted(str(held)):
        return
    for pid in processes.in_namespace("net", held):
        processes.end(pid)
    processes.run("umount", str(held))


def _is_mounted(path: str) -> bool:
    with open("/proc/self/mountinfo") as table:
        return any(line.split()[4] == path for line in table)


def plug_in(bed: Layout, node: Node, pid: int) -> None:
    """Lay the two cables to the node whose namespaces process *pid* has, and give it its address."""
    lan, guest = _cables(node)
    _batch(
        in_hub(bed),
        f"link add {lan} type veth peer name eth0 address {_hardware_address(node, 0)} netns {pid}",
        f"link add {guest} type veth peer name eth1 address {_hardware_address(node, 1)} netns {pid}",
        f"link set {lan} master {LAN} up",
        f"link set {guest} master {GUEST} up",
    )
    _batch(
        ("nsenter", "--target", str(pid), "--net", "--"),
        "link set lo up",
        *(_add_address(address, "eth0") for address in node.addresses),
        "link set eth0 up",
        f"link add {layout.GUEST_BRIDGE} type bridge",
        f"link set eth1 master {layout.GUEST_BRIDGE} up",
        f"link set {layout.GUEST_BRIDGE} up",
    )


def _add_address(address: str, device: str) -> str:
    """Nobody else has it: it is used at once, without asking the others first."""
    return f"addr add {address}/64 dev {device} nodad" if ":" in address else f"addr add {address}/24 dev {device}"


def unplug(bed: Layout, node: Node) -> None:
    """Cut both cables, as when power goes: the node says no goodbye to anybody."""
    present = _links(bed)
    _batch(in_hub(bed), *(f"link del {cable}" for cable in _cables(node) if cable in present))


def set_lan(bed: Layout, node: Node, up: bool) -> None:
    """Open or close the node's port on the cluster LAN; its guests keep theirs."""
    _batch(in_hub(bed), f"link set {_cables(node)[0]} {'up' if up else 'down'}")


def partitioned(bed: Layout) -> set[str]:
    """Give the names of the running nodes whose port on the cluster LAN is closed."""
    flags = _links(bed)
    return {node.name for node in bed.nodes if "UP" not in flags.get(_cables(node)[0], ["UP"])}


def _cables(node: Node) -> tuple[str, str]:
    return f"lan{node.index}", f"gst{node.index}"


def _hardware_address(node: Node, card: int) -> str:
    """Give the same address at every power-on: the neighbours remember it, as those of a real machine do."""
    return f"02:67:6e:74:{card:02x}:{node.index:02x}"


def _links(bed: Layout) -> dict[str, list[str]]:
    listed = json.loads(processes.run(*in_hub(bed), "ip", "-json", "link", "show"))
    return {re.sub(r"@.*", "", link["ifname"]): link["flags"] for link in listed}


def _batch(where: tuple[str, ...], *commands: str) -> None:
    if commands:
        processes.run(*where, "ip", "-batch", "-", text="\n".join(commands) + "\n")

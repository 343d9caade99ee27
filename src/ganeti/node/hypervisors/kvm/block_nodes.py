# SPDX-License-Identifier: BSD-2-Clause
"""Block nodes of disks in QEMU, which are named after the disk, and the sets of open files that belong to them."""

import re

from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpError
from ganeti.ports.node_world import NodeWorld

_FREE_S = 5.0
"""QEMU lets a block node go a moment after it has told that the device is gone."""
_POLL_S = 0.05
_COPIES = 500
"""Sets from that number on are of nodes whose names end in a letter."""


def set_number(node: str) -> int:
    """Number of the set of open files for a node such as ``disk3`` or ``disk3m``."""
    number = int(re.sub(r"\D", "", node))
    return number if node[-1].isdigit() else _COPIES + number


async def drop_node(world: NodeWorld, qmp: Qmp, node: str) -> None:
    """Close a disk in QEMU, with its open files; one that is not there is no error."""
    await close_node(world, qmp, node)
    for entry in await qmp.execute("query-fdsets"):
        if entry["fdset-id"] == set_number(node):
            await qmp.execute("remove-fd", {"fdset-id": entry["fdset-id"]})


async def close_node(world: NodeWorld, qmp: Qmp, node: str) -> None:
    """The same for a node without open files of its own."""
    deadline = world.now_s() + _FREE_S
    while True:
        try:
            await qmp.execute("blockdev-del", {"node-name": node})
            break
        except QmpError as err:
            if "Failed to find node" in str(err):
                break
            if "in use" not in str(err) or world.now_s() > deadline:
                raise
            await world.sleep(_POLL_S)

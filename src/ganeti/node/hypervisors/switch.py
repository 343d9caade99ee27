# SPDX-License-Identifier: BSD-2-Clause
"""Ports of Open vSwitch, whose database keeps a port after its device is gone, even over a restart of the node.

A new tap may have the name of an old one: the old port would put it into the switch and the VLAN of another guest.
"""

import contextlib
import os

from ganeti.base.errors import CommandError, HypervisorError
from ganeti.model.node_requests import NicSpec
from ganeti.ports.node_world import NodeWorld

VSCTL = "/usr/bin/ovs-vsctl"


async def join(world: NodeWorld, nic: NicSpec, device: str) -> None:
    """Put *device* into the switch of its NIC as a new port; raises `HypervisorError`."""
    if not os.access(VSCTL, os.X_OK):
        raise HypervisorError(
            f"NIC {nic.index} has mode openvswitch, but {VSCTL} is missing: install the package openvswitch-switch"
        )
    argv = [VSCTL, "--if-exists", "del-port", device, "--", "add-port", nic.link, device, *_vlan_options(nic.vlan)]
    try:
        await world.run(argv, timeout_s=30)
    except CommandError as err:
        raise HypervisorError(f"Cannot put {device} into the switch '{nic.link}': {err}") from err


async def leave(world: NodeWorld, device: str) -> None:
    """Remove the port of a device, which may be gone or new; no port, or no switch on this node, is no error."""
    if os.access(VSCTL, os.X_OK):
        with contextlib.suppress(CommandError):
            await world.run([VSCTL, "--if-exists", "del-port", device], timeout_s=20)


def vlans_of(text: str) -> tuple[int | None, list[int]]:
    """Read ``.N``, ``N``, ``:N:M`` or ``.N:M``: the access VLAN and the trunked ones."""
    first, *trunks = text.split(":")
    number = first.lstrip(".")
    return (int(number) if number else None), [int(trunk) for trunk in trunks]


def _vlan_options(text: str) -> list[str]:
    if not text:
        return []
    access, trunks = vlans_of(text)
    options = [] if access is None else [f"tag={access}"]
    if trunks:
        options.append("trunks=" + ",".join(str(trunk) for trunk in trunks))
        options.append("vlan_mode=" + ("native-untagged" if access is not None else "trunk"))
    return options

# SPDX-License-Identifier: BSD-2-Clause
"""Steps of plans about disks that DRBD keeps on two nodes."""

import re

from ganeti_simulation.facades.replicated_volumes import GROUP, fill
from ganeti_simulation.plans.player import DISK_MIB, Player, step

_TEMPLATES = ["diskless", "sharedfile", "file", "plain", "drbd"]
_MODES = {"primary": "replace_on_primary", "secondary": "replace_on_secondary"}


@step("user enables volumes")
def _(player: Player, match: re.Match[str]) -> None:
    settings = {"enabled_disk_templates": _TEMPLATES, "vg_name": GROUP}
    player.user(match[0], {"OP_ID": "OP_CLUSTER_SET_PARAMS", **settings})


@step("user adds NAME replicated on NODE and NODE2")
def _(player: Player, match: re.Match[str]) -> None:
    player.user(
        match[0],
        {
            "OP_ID": "OP_INSTANCE_CREATE",
            "instance_name": f"{match['name']}.example.com",
            "mode": "create",
            "disk_template": "drbd",
            "disks": [{"size": DISK_MIB}],
            "nics": [{}],
            "os_type": "noop",
            "beparams": {"maxmem": 128, "minmem": 128, "vcpus": 1},
            "pnode": f"{match['node']}.example.com",
            "snode": f"{match['other']}.example.com",
        },
    )


@step("guests write")
def _(player: Player, match: re.Match[str]) -> None:
    """Into every complete copy; from now on one of them must be there."""
    fill(machine.disk for machine in player.world.machines)


@step("user renews NAME on its (?P<side>primary|secondary)")
def _(player: Player, match: re.Match[str]) -> None:
    _replace(player, match, mode=_MODES[match["side"]])


@step("user gives NAME the secondary NODE")
def _(player: Player, match: re.Match[str]) -> None:
    _replace(player, match, mode="replace_new_secondary", remote_node=f"{match['node']}.example.com")


@step("user fails NAME over")
def _(player: Player, match: re.Match[str]) -> None:
    player.user(match[0], {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": f"{match['name']}.example.com"})


@step("user says that NODE is (?P<state>offline|online)")
def _(player: Player, match: re.Match[str]) -> None:
    node = f"{match['node']}.example.com"
    opcode = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node, "offline": match["state"] == "offline", "force": True}
    player.user(match[0], opcode)


def _replace(player: Player, match: re.Match[str], **fields: str) -> None:
    opcode = {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": f"{match['name']}.example.com"}
    player.user(match[0], opcode | fields)

# SPDX-License-Identifier: BSD-2-Clause
"""Steps of plans about nodes with defects, and the maintenance daemon that looks after them."""

import json
import re

from ganeti_simulation.disk.preparing import put_file
from ganeti_simulation.plans.player import Player, step

_KEY = b"0123456789abcdef0123456789abcdef\n"


@step("maintenance begins")
def _(player: Player, match: re.Match[str]) -> None:
    """The nodes get a diagnose command and the cluster's key, the master its daemon; a round every five seconds."""
    for machine in player.world.machines:
        put_file(machine.disk, "/var/lib/ganeti/hmac.key", _KEY, 0o440)
        put_file(machine.disk, "/etc/ganeti/node-diagnose-commands/check", b"", 0o755)
        machine.disk.sync_all()
        player.world.supervision[machine.name].maintains = True
    settings = {"diagnose_data_collector_filename": "check", "maint_round_delay": 5, "maint_keep_redundancy": False}
    player.user(match[0], {"OP_ID": "OP_CLUSTER_SET_PARAMS", **settings})


@step("NODE asks for (?P<status>live-repair|evacuate|evacuate-failover)")
def _(player: Player, match: re.Match[str]) -> None:
    player.machine(match["node"]).diagnosis = {"status": match["status"], "command": "fix", "details": "sda"}


@step("NODE forges a report that asks for (?P<status>live-repair|evacuate|evacuate-failover)")
def _(player: Player, match: re.Match[str]) -> None:
    """As somebody does who answers in place of its MonD and does not have the cluster's key."""
    machine = player.machine(match["node"])
    machine.diagnosis = {"status": match["status"], "command": "fix", "details": "sda"}
    machine.forged_key = b"guessed"


@step("NODE is well")
def _(player: Player, match: re.Match[str]) -> None:
    machine = player.machine(match["node"])
    machine.diagnosis, machine.forged_key = {"status": "Ok"}, b""


@step("user lifts the tags of NODE")
def _(player: Player, match: re.Match[str]) -> None:
    """As whoever has mended it does: the node goes back into service."""
    node = f"{match['node']}.example.com"
    tags = [tag for tag in _tags(player, node) if tag.startswith("maintd:")]
    back = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node, "offline": False}
    player.user(match[0], {"OP_ID": "OP_TAGS_DEL", "kind": "node", "name": node, "tags": tags}, back)


def _tags(player: Player, node: str) -> list[str]:
    master = player.world.master()
    if master is None:
        return []
    config = json.loads(master.disk.content("/var/lib/ganeti/config.data"))
    return [tag for each in config["nodes"].values() if each["name"] == node for tag in each["tags"]]

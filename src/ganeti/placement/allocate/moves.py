# SPDX-License-Identifier: BSD-2-Clause
"""Moving an instance that exists: the best target of a hop, and its texts and opcodes (spec: htools, 4, 6 and 10).

"Forced" skips the soft limits; an instance that leaves an offline node is always forced. Migration tags bind failovers
and moves to any node, and cannot be forced.
"""

from typing import Any

from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.picture import Instance, Status
from ganeti.placement.kernel.searches import Hop
from ganeti.placement.kernel.state import ClusterState

Opcode = dict[str, Any]

_MOVE_DEFAULTS = {"allow_runtime_changes": False, "ignore_ipolicy": False}
_SHUTDOWN_TIMEOUT_S = 120


def online_targets(state: ClusterState, group: int) -> list[int]:
    """Nodes of a group that can take instances, ascending."""
    return [node for node in state.group_members(group) if state.online[node]]


def describe_failures(state: ClusterState, hop: Hop) -> str:
    """The words of 3.1 when no target passed."""
    parts = [
        f" Node {state.nodes[target].name} failed: {FailMode(failure).name};"
        for target, failure in hop.failures.items()
        if failure
    ]
    return "Can't find any good node: " + "".join(parts)


def move(instance: Instance, target: str = "") -> Opcode:
    """Run *instance* on its secondary, or with shared storage on *target*."""
    where = {"target_node": target} if target else {}
    if instance.forthcoming:
        rest: Opcode = {"shutdown_timeout": _SHUTDOWN_TIMEOUT_S, "ignore_consistency": False, "ignore_ipolicy": False}
        return {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": instance.name, **rest, **where}
    rest = {**_MOVE_DEFAULTS, "cleanup": False, "allow_failover": True, "ignore_hvversions": True}
    return {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": instance.name, **where, **rest}


def unasked(opcode: Opcode, instance: Instance) -> Opcode:
    """*opcode* as maintenance moves a guest without being asked to: one that runs is not stopped for it."""
    if "allow_failover" in opcode and instance.status == Status.RUNNING:
        return opcode | {"allow_failover": False}
    return opcode


def replace_secondary(instance: Instance, target: str) -> Opcode:
    """Copy the disks of *instance* to *target* as its new secondary."""
    return {
        "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
        "instance_name": instance.name,
        "early_release": False,
        "ignore_ipolicy": False,
        "mode": "replace_new_secondary",
        "disks": [],
        "remote_node": target,
    }

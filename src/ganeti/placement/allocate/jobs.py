# SPDX-License-Identifier: BSD-2-Clause
"""The opcodes that carry out a hop, as the dictionaries of the iallocator result (spec: htools, 6)."""

from typing import Any

from ganeti.placement.cluster.picture import Instance

Opcode = dict[str, Any]

_MOVE_DEFAULTS = {"allow_runtime_changes": False, "ignore_ipolicy": False}
_SHUTDOWN_TIMEOUT_S = 120


def move(instance: Instance, target: str = "") -> Opcode:
    """Run *instance* on its secondary, or with shared storage on *target*."""
    where = {"target_node": target} if target else {}
    if instance.forthcoming:
        rest: Opcode = {"shutdown_timeout": _SHUTDOWN_TIMEOUT_S, "ignore_consistency": False, "ignore_ipolicy": False}
        return {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": instance.name, **rest, **where}
    rest = {**_MOVE_DEFAULTS, "cleanup": False, "allow_failover": True, "ignore_hvversions": True}
    return {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": instance.name, **where, **rest}


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

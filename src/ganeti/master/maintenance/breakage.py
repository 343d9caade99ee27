# SPDX-License-Identifier: BSD-2-Clause
"""What an instance needs whose nodes are offline (spec: htools, 14)."""

from collections.abc import Collection
from typing import Any

from ganeti.master.maintenance import repair_tags
from ganeti.master.maintenance.task import Opcode
from ganeti.model.templates import traits_of

_ALLOCATOR = "hail"
_SHUTDOWN_TIMEOUT_S = 120


def broken(
    instance: str, template: str, primary: str, secondary: str, offline: Collection[str]
) -> tuple[str, list[Opcode]] | None:
    """The kind of repair an instance needs and its opcodes; None if it is not broken, or cannot be helped.

    *primary* and *secondary* (empty for none) are names of nodes, as those that are *offline*.
    """
    name: dict[str, Any] = {"instance_name": instance}
    again: list[Opcode] = [
        {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", **name, "disks": [], "nodes": [], "iallocator": _ALLOCATOR},
        {"OP_ID": "OP_INSTANCE_REINSTALL", **name, "force_variant": False},
    ]
    traits = traits_of(template)
    if traits is None or not (traits.uses_node_disk or traits.has_secondary):
        return None
    if primary in offline:
        if not traits.has_secondary or secondary in offline:
            return repair_tags.REINSTALL, again
        rest = {"ignore_consistency": False, "ignore_ipolicy": False, "cleanup": False}
        failover = {"OP_ID": "OP_INSTANCE_FAILOVER", **name, "shutdown_timeout": _SHUTDOWN_TIMEOUT_S, **rest}
        return repair_tags.FAILOVER, [failover]
    if traits.has_secondary and secondary in offline:
        checks = {"early_release": False, "ignore_ipolicy": False}
        how: dict[str, Any] = {"mode": "replace_new_secondary", "disks": [], "iallocator": _ALLOCATOR}
        return repair_tags.FIX_STORAGE, [{"OP_ID": "OP_INSTANCE_REPLACE_DISKS", **name, **checks, **how}]
    return None

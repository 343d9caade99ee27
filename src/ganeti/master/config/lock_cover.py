# SPDX-License-Identifier: BSD-2-Clause
"""Whether a job has the locks of what it changes (S2.58). Pure.

Instances, nodes, node groups and networks have a lock each. The cluster object and job filters have none, and a disk
goes with its instance. An owner of the big lock, or of the lock of all objects of a kind, needs no other.
"""

from collections.abc import Mapping
from typing import Any

from ganeti.master.config.head import Staged
from ganeti.model.locks import (
    ALL_GROUPS,
    ALL_INSTANCES,
    ALL_NETWORKS,
    ALL_NODE_RES,
    ALL_NODES,
    BGL,
    EXCLUSIVE,
    group_lock,
    instance_lock,
    network_lock,
    node_lock,
    node_res_lock,
)

_WORDS = {"instances": "instance", "nodes": "node", "nodegroups": "node group", "networks": "network"}
_POOLS = {"reservations", "ext_reservations", "serial_no", "mtime"}
"""What a network keeps of its addresses: instances take and give them back under locks of their own."""
_STAMPS = {"serial_no", "mtime"}


def missing(staged: Staged, held: Mapping[str, str]) -> list[str]:
    """Name the objects that a change touches and whose lock its job does not hold exclusively."""
    mine = {lock for lock, state in held.items() if state == EXCLUSIVE}
    if BGL in mine:
        return []
    after = {(put.kind, put.uuid): put.obj for put in staged.puts}
    found = []
    for key, before in staged.before:
        kind, uuid = key
        now = after.get(key)
        if kind in _WORDS and not _is_free(kind, before, now) and not mine & _locks(kind, uuid, before, now):
            name = getattr(before or now, "name", uuid)
            found.append(f"{_WORDS[kind]} {name}")
    return found


def _locks(kind: str, uuid: str, before: Any, now: Any) -> set[str]:
    """Any of these will do."""
    if kind == "instances":
        return {ALL_INSTANCES, *(instance_lock(each.name) for each in (before, now) if each is not None)}
    if kind == "nodes":
        return {ALL_NODES, ALL_NODE_RES, node_lock(uuid), node_res_lock(uuid)}
    if kind == "nodegroups":
        return {ALL_GROUPS, group_lock(uuid)}
    return {ALL_NETWORKS, network_lock(uuid)}


def _is_free(kind: str, before: Any, now: Any) -> bool:
    """Whether nothing changes that a lock is about."""
    if before is None:
        return kind != "instances"  # what is new has a UUID that nobody else knows; an instance has a name before
    if now is None:
        return False
    allowed = _POOLS if kind == "networks" else _STAMPS
    fields = before.__struct_fields__
    return all(field in allowed or getattr(before, field) == getattr(now, field) for field in fields)

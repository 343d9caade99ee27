# SPDX-License-Identifier: BSD-2-Clause
"""How all nodes say that all instances are, for the children of all node groups.

A guest may run in any group, so each look asks every node of the cluster. Fifty children that look at once would be
fifty questions to each node: more than LuxiD has connections for, and then nodes seem silent that are not. So one
looks at a time, and what it sees serves all who wanted to look before it began: of any number that wait, one more does.
"""

import time
from typing import Any

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, GanetiError
from ganeti.base.paths import Paths
from ganeti.daemons.watcher_asking import ANSWER_WITHIN_S, WAIT_S
from ganeti.daemons.watcher_lock import WatcherLock
from ganeti.master.watcher import GroupNow, InstanceNow
from ganeti.system.files import read_if_there, write_atomically
from ganeti.wire.framing_sync import ask

LOOK_WITHIN_S = 200.0
"""The look under way, and one's own."""
NOW = {"cache": "off"}
"""What is done to instances is decided by what nodes say now."""


class _ClusterState(msgspec.Struct, frozen=True):
    began_s: float
    """By the clock that counts from the machine's start."""
    instances: list[tuple[str, str, str, str, str]]
    """Uuid of the group, name, status, primary node, wanted state."""
    nodes: list[tuple[str, str, str | None]]
    """Uuid of the group, name, boot id; none of one that does not answer or is offline."""

    def of_group(self, uuid: str) -> GroupNow:
        instances = [InstanceNow(*values) for group, *values in self.instances if group == uuid]
        return GroupNow(instances, {name: boot_id for group, name, boot_id in self.nodes if group == uuid})


def cluster_state(paths: Paths, uuid: str) -> GroupNow:
    """How a group is at a moment after this call; raises `GanetiError`, also where others look for too long."""
    wanted_s = _clock_s()
    with WatcherLock(f"{paths.lock_dir}/ganeti-watcher-look.lock", within_s=LOOK_WITHIN_S) as lock:
        if not lock.taken:
            raise GanetiError(f"Other children of the watcher have asked the nodes for {LOOK_WITHIN_S:g} seconds")
        seen = _seen_since(paths, wanted_s)
        if seen is None:
            seen = _ask_nodes(paths)
            write_atomically(_look_file(paths), msgspec.json.encode(seen), mode=0o600, durable=False)
    return seen.of_group(uuid)


def _seen_since(paths: Paths, wanted_s: float) -> _ClusterState | None:
    """What another one has seen, if it began to look since then."""
    try:
        seen = msgspec.json.decode(read_if_there(_look_file(paths)) or b"", type=_ClusterState)
    except UNREADABLE_JSON:
        return None
    return seen if wanted_s <= seen.began_s <= _clock_s() else None


def _ask_nodes(paths: Paths) -> _ClusterState:
    began_s = _clock_s()
    rows = _query(paths, "instance", ["pnode.group.uuid", "name", "status", "pnode", "admin_state"])
    instances = [tuple(str(value) for _, value in row) for row in rows if all(not cell[0] for cell in row)]
    nodes = [
        (str(group), str(name), str(boot_id) if not offline and status == 0 and boot_id else None)
        for (_, group), (_, name), (_, offline), (status, boot_id) in _query(
            paths, "node", ["group.uuid", "name", "offline", "bootid"]
        )
    ]
    return _ClusterState(began_s, instances, nodes)  # type: ignore[arg-type]  # five fields were asked for


def _query(paths: Paths, what: str, fields: list[str]) -> list[Any]:
    answer = ask(paths.luxi_socket, ANSWER_WITHIN_S + WAIT_S, "Query", what, fields, None, NOW)
    rows: list[Any] = answer["data"]
    return rows


def _look_file(paths: Paths) -> str:
    return f"{paths.run_dir}/ganeti-watcher-look.json"


def _clock_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)

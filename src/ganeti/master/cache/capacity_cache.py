# SPDX-License-Identifier: BSD-2-Clause
"""How many more instances fit into each node group, as counted last (S1.41, S1.44, S1.48, S1.49, S1.67). Pure.

What is kept is a lower bound. So less of anything makes it void, and more does not: a node that reports less, or whose
report does not count any more; a commit that changes what placement reads; room that was reserved since. What was
kept for other parameters is void for a request with its own, and dropped. "Nothing fits" is no bound, and its reason
may not hold any more as soon as there is more of anything: it is not kept.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ganeti.master.cache.node_reports import EXPIRY_S, NodeReport
from ganeti.model.capacity import Capacity
from ganeti.model.objects import Disk, Instance, Node
from ganeti.model.reservations import Reservation
from ganeti.model.view import ConfigView

Plain = dict[str, Any]


class _Kept(NamedTuple):
    capacity: Capacity
    question: Plain
    reservations: Sequence[Reservation]
    asked_at_s: float


class CapacityCache:
    """The newest capacity of each group, by uuid."""

    def __init__(self, exists: Callable[[str], bool] = lambda group: True) -> None:
        """Nothing is kept of a group that does not *exist*: it may have been removed while it was counted."""
        self._exists = exists
        self._kept: dict[str, _Kept] = {}
        self._lessened: dict[str, int] = {}
        self._changes = 0

    def begin(self) -> int:
        """To be called before anything is looked at; what becomes less from now on may not be in the answer."""
        return self._changes

    def lessened(self, groups: Iterable[str]) -> None:
        """There may be less room in these groups."""
        for group in groups:
            self._kept.pop(group, None)
            if self._exists(group):
                self._changes += 1
                self._lessened[group] = self._changes

    def find(self, group: str, question: Plain, reservations: Sequence[Reservation], now_s: float) -> Capacity | None:
        """What is there at least, counted as *question* asks; *reservations* are those on the group's nodes now."""
        kept = self._kept.get(group)
        if kept is None:
            return None
        counts = (
            kept.question == question
            and now_s - kept.asked_at_s < EXPIRY_S
            and all(reservation in kept.reservations for reservation in reservations)
        )
        if not counts:
            del self._kept[group]
            return None
        return kept.capacity

    def keep(
        self,
        group: str,
        question: Plain,
        capacity: Capacity,
        *,
        begun: int,
        reservations: Sequence[Reservation],
        asked_at_s: float,
    ) -> bool:
        """Keep what was counted unless something became less meanwhile; *reservations* were there when it *begun*.

        Where nothing fits and it is said why, nothing is kept.
        """
        if not self._exists(group) or self._lessened.get(group, 0) > begun:
            return False
        if capacity.why:
            self._kept.pop(group, None)
            return False
        self._kept[group] = _Kept(capacity, question, reservations, asked_at_s)
        return True

    def forget_gone(self) -> None:
        """Keep nothing of groups that are gone."""
        self._lessened = {group: change for group, change in self._lessened.items() if self._exists(group)}
        self._kept = {group: kept for group, kept in self._kept.items() if self._exists(group)}


def is_less(old: NodeReport, new: NodeReport) -> bool:
    """Whether a node has less room than it reported before (S1.44), or may have.

    Used space counts beside free space: a share of a node's disk may have to stay free. Other guests may be owed
    other memory than is free.
    """
    if old.silence:
        return False
    if new.silence:
        return True
    fewer = (
        (old.memory_total_mib, new.memory_total_mib),
        (old.memory_free_mib, new.memory_free_mib),
        (old.cpu_total, new.cpu_total),
        (new.memory_node_mib, old.memory_node_mib),
        (new.cpu_node, old.cpu_node),
    )
    if any(now < before for before, now in fewer) or sorted(old.guests) != sorted(new.guests):
        return True
    for template, before in old.space.items():
        now = new.space_for(template)
        if now.free_mib < before.free_mib or now.size_mib - now.free_mib > before.size_mib - before.free_mib:
            return True
        if (now.free_spindles or 0) < (before.free_spindles or 0):
            return True
    return False


_ASIDE = frozenset(
    {"serial_no", "mtime", "highest_used_port", "tcpudp_port_pool", "candidate_certs", "max_running_jobs"}
)
"""What of the cluster's own object says nothing about room."""
_NODE_FACTS = ("name", "group", "offline", "drained", "vm_capable", "ndparams", "tags")
_INSTANCE_FACTS = ("name", "primary_node", "admin_state", "beparams", "disks", "forthcoming", "tags")
_DISK_FACTS = ("size", "nodes", "spindles", "dev_type")


def groups_concerned(before: ConfigView, event: Mapping[str, Any]) -> list[str]:
    """Uuids of the groups of which a commit changes what placement looks at; *before* is without it."""
    puts = [(kind, uuid, plain) for kind, uuid, plain in event.get("put", ())]
    gone: list[tuple[str, str, Plain]] = [(kind, uuid, {}) for kind, uuid in event.get("remove", ())]
    groups: dict[str, None] = {}
    nodes: dict[str, None] = {}
    for kind, uuid, plain in [*puts, *gone]:
        old = before.get(kind, uuid)
        if kind == "cluster" and (old is None or _but(_ASIDE, old.to_plain()) != _but(_ASIDE, plain)):
            return list(before.uuids("nodegroups"))
        if kind == "nodegroups":
            groups[uuid] = None
        elif kind == "nodes" and _differ(_NODE_FACTS, old, plain):
            groups.update(dict.fromkeys(_own(old, "group") + _own(plain, "group")))
        elif kind == "instances" and _differ(_INSTANCE_FACTS, old, plain):
            if isinstance(old, Instance):
                nodes.update(dict.fromkeys(before.instance_nodes(old)))
            nodes.update(dict.fromkeys(_own(plain, "primary_node")))
        elif kind == "disks" and _differ(_DISK_FACTS, old, plain):
            nodes.update(dict.fromkeys([*(old.nodes if isinstance(old, Disk) else ()), *plain.get("nodes", ())]))
    groups.update(dict.fromkeys(groups_of(before, nodes)))
    return list(groups)


def groups_of(view: ConfigView, nodes: Iterable[str]) -> list[str]:
    """Uuids of the groups these nodes are in; those that have left are in none."""
    found = [view.get("nodes", uuid) for uuid in nodes]
    return list(dict.fromkeys(node.group for node in found if isinstance(node, Node)))


def _but(names: frozenset[str], plain: Plain) -> Plain:
    return {key: value for key, value in plain.items() if key not in names}


def _differ(names: Sequence[str], old: Any, new: Plain) -> bool:
    """Whether one of the fields is another than it was; what is not written down is as good as empty."""
    return old is None or not new or any((getattr(old, name) or None) != (new.get(name) or None) for name in names)


def _own(found: Any, name: str) -> list[str]:
    value = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
    return [value] if value else []

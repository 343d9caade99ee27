# SPDX-License-Identifier: BSD-2-Clause
"""What nodes said about their room, and how long that counts (S1.38 to S1.49, S1.52). Pure.

A report counts until it is too old, or until something changes on the node: a commit what is on its disks, so that its
free space is of before then; a job whatever it had locked for itself (`exclusive_holds`, S1.46); or the node told a
query other guests than it had reported (S1.45). What a commit changes of memory needs no new report: guests and free
memory are of one moment, and what an instance should have and did not use then is owed to it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.node_calls.node import NodeFacts
from ganeti.model.objects import Disk, Instance
from ganeti.model.view import ConfigView

FRESH_S = 30.0
"""Age up to which a report is good enough to place something on the node."""
EXPIRY_S = 3600.0
"""Age up to which a report of any other node may stand in a picture of the whole cluster (S1.49)."""
SILENT_S = 10.0
"""How long a node that did not answer is not asked again."""


class Space(msgspec.Struct, frozen=True):
    size_mib: int
    free_mib: int
    spindles: int | None = None
    """None where nobody counts them."""
    free_spindles: int | None = None


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One node at one moment; *silence* says why there is no answer, and then there is nothing else."""

    memory_total_mib: int = 0
    memory_free_mib: int = 0
    memory_node_mib: int = 0
    cpu_total: int = 0
    cpu_node: int = 0
    space: dict[str, Space] = {}
    """By disk template, where the cluster has a place for it."""
    guests: list[tuple[str, int, str]] = []
    """Name, memory in MiB and state of each guest, from before the free memory was read."""
    silence: str = ""

    def space_for(self, template: str) -> Space:
        return self.space.get(template) or Space(0, 0)

    @property
    def spindles(self) -> tuple[int, int] | None:
        """All and the free ones, whichever template the node was asked for; None where it counts none."""
        for space in self.space.values():
            if space.spindles is not None and space.free_spindles is not None:
                return space.spindles, space.free_spindles
        return None


def silent(why: object) -> NodeReport:
    """What there is of a node that did not answer: the reason in one line, without the node's name before it."""
    return NodeReport(silence=" ".join(str(why).split()))


def report_of(info: NodeFacts, guests: Iterable[FoundInstance], templates: Iterable[str]) -> NodeReport:
    """What a node told of itself, asked for the space of *templates*, and of its guests."""
    capacity = next(iter(info.hypervisors.values()))
    return NodeReport(
        memory_total_mib=capacity.memory_total,
        memory_free_mib=capacity.memory_free,
        memory_node_mib=capacity.memory_dom0,
        cpu_total=capacity.cpu_total,
        cpu_node=capacity.cpu_dom0,
        space={
            template: Space(unit.storage_size or 0, unit.storage_free or 0, unit.spindles, unit.free_spindles)
            for template, unit in zip(templates, info.storage, strict=True)
        },
        guests=guests_of(guests),
    )


def guests_of(found: Iterable[FoundInstance]) -> list[tuple[str, int, str]]:
    """Guests as a report has them."""
    return [(guest.name, guest.memory_mib, guest.state) for guest in found]


class _Kept(msgspec.Struct):
    report: NodeReport
    asked_at_s: float
    changes: int
    """Of all nodes, when it was asked for."""
    number: int


class NodeReports:
    """The newest report of each node, by uuid."""

    def __init__(self, exists: Callable[[str], bool] = lambda node: True) -> None:
        """Nothing is kept of a node that does not *exist*: it may have left while it was asked."""
        self._exists = exists
        self.number = 0
        """How many reports were ever taken."""
        self.voided: list[Callable[[Sequence[str]], None]] = []
        """Called with the nodes whose reports do not count any more."""
        self.renewed: list[Callable[[str, NodeReport, NodeReport], None]] = []
        """Called with a node, what it had reported, and what it reports; not where `voided` was called between."""
        self._kept: dict[str, _Kept] = {}
        self._changes = 0
        self._changed: dict[str, int] = {}

    def stale(self, nodes: Iterable[str], now_s: float, fresh_s: float = FRESH_S) -> list[str]:
        """Those that should be asked before anything is placed on them."""
        return [node for node in nodes if not self._counts(node, now_s, fresh_s)]

    def expired(self, nodes: Iterable[str], now_s: float) -> list[str]:
        """Those whose report is so old that it says nothing any more (S1.49); who was never asked has none."""
        kept = ((node, self._kept.get(node)) for node in nodes)
        return [node for node, found in kept if found is not None and now_s - found.asked_at_s >= EXPIRY_S]

    def begin(self) -> int:
        """To be called before nodes are asked; what happens from now on is not in their answers."""
        return self._changes

    def take(self, node: str, report: NodeReport, begun: int, asked_at_s: float) -> None:
        """Keep a report, unless there is one that was asked for later: several may ask at once."""
        kept = self._kept.get(node)
        if not self._exists(node) or (kept is not None and kept.asked_at_s > asked_at_s):
            return
        self.number += 1
        self._kept[node] = _Kept(report, asked_at_s, begun, self.number)
        if kept is not None and kept.changes >= self._changed.get(node, 0):
            for tell in self.renewed:
                tell(node, kept.report, report)

    def changed(self, nodes: Iterable[str]) -> None:
        """The disks on these nodes have changed."""
        named = list(nodes)
        for node in filter(self._exists, named):
            self._changes += 1
            self._changed[node] = self._changes
        for tell in self.voided if named else ():
            tell(named)

    def compare_guests(self, node: str, guests: list[tuple[str, int, str]]) -> None:
        """What a query heard: if it is not what the report says, nothing of that counts any more (S1.45)."""
        kept = self._kept.get(node)
        if kept is None or kept.changes < self._changed.get(node, 0):
            return
        if kept.report.silence or sorted(kept.report.guests) != sorted(guests):
            self.changed([node])

    def forget_gone(self) -> None:
        """Keep nothing of nodes that have left the cluster."""
        self._changed = {node: change for node, change in self._changed.items() if self._exists(node)}
        self._kept = {node: kept for node, kept in self._kept.items() if self._exists(node)}

    def since(self, number: int) -> Iterator[tuple[str, NodeReport]]:
        """Nodes with the reports that were taken after so many."""
        for node, kept in self._kept.items():
            if kept.number > number:
                yield node, kept.report

    def report(self, node: str) -> NodeReport | None:
        kept = self._kept.get(node)
        return None if kept is None else kept.report

    def _counts(self, node: str, now_s: float, fresh_s: float) -> bool:
        kept = self._kept.get(node)
        if kept is None:
            return False
        age_s = now_s - kept.asked_at_s
        if kept.report.silence:
            return age_s < SILENT_S
        return age_s < fresh_s and kept.changes >= self._changed.get(node, 0)


def nodes_changed(before: ConfigView, event: dict[str, Any]) -> list[str]:
    """Uuids of the nodes whose free space a commit makes another than they reported; *before* is without it.

    *event* is that of the change stream. The disks of an instance that is being created are counted as reserved until
    it is complete: from then on they must be in the reports. Neither tags nor states of instances matter.
    """
    found: dict[str, None] = {}
    coming: dict[str, None] = {}
    for kind, uuid, plain in event.get("put", ()):
        if kind != "instances":
            continue
        old = before.get(kind, uuid)
        if plain.get("forthcoming"):
            coming.update(dict.fromkeys(plain.get("disks", ())))
        elif isinstance(old, Instance) and old.forthcoming:
            for disk in old.disks:
                found.update(_nodes_of(before.get("disks", disk)))
    for kind, uuid, plain in event.get("put", ()):
        if kind == "disks" and uuid not in coming:
            old = before.get(kind, uuid)
            facts = plain.get("size", 0), plain.get("nodes", [])
            if not isinstance(old, Disk) or (old.size, old.nodes) != facts:
                found.update({**_nodes_of(old), **dict.fromkeys(plain.get("nodes", ()))})
    for kind, uuid in event.get("remove", ()):
        if kind == "disks":
            found.update(_nodes_of(before.get(kind, uuid)))
    return list(found)


def _nodes_of(disk: object) -> dict[str, None]:
    return dict.fromkeys(disk.nodes) if isinstance(disk, Disk) else {}

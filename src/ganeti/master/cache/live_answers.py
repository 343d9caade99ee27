# SPDX-License-Identifier: BSD-2-Clause
"""What nodes answered to lists, so that the next list need not ask them (S1.42, S1.50). Pure.

An answer serves every caller with the same question to the same node: up to `LIVE_FRESH_S`, and until something changes
on the node. Who serves one must besides have heard of all that jobs gave up so far, and of whom a job is changing now
(`luxid/queries/state_cache.py`). Silence is never kept: it is asked about again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ganeti.model.node_calls import Answer, NodeRequest
from ganeti.model.node_calls.instances import AllInstancesInfo, FoundInstance
from ganeti.model.node_calls.node import NodeInfo
from ganeti.model.objects import Disk, Instance
from ganeti.model.view import ConfigView

LIVE_FRESH_S = 2.0
"""How long an answer serves other lists: less than a list waits for a silent node, and than people notice."""


class _Kept(NamedTuple):
    request: NodeRequest[Any]
    value: Any
    asked_at_s: float
    changes: int


class LiveAnswers:
    """The newest answer of each node to each call."""

    def __init__(self, exists: Callable[[str], bool] = lambda node: True) -> None:
        """Nothing is kept of a node that does not *exist*: it may have left while it was asked."""
        self._exists = exists
        self._kept: dict[tuple[str, str], _Kept] = {}
        """By node uuid and call."""
        self._changes = 0
        self._changed: dict[str, int] = {}

    def begin(self) -> int:
        """To be called before nodes are asked; what happens from now on is not in their answers."""
        return self._changes

    def keep(self, request: NodeRequest[Answer], node: str, value: Answer, begun: int, asked_at_s: float) -> None:
        """Keep what *node* answered, unless there is an answer that was asked for later."""
        kept = self._kept.get((node, request.call))
        if self._exists(node) and (kept is None or kept.asked_at_s <= asked_at_s):
            self._kept[node, request.call] = _Kept(request, value, asked_at_s, begun)

    def fresh(self, request: NodeRequest[Answer], nodes: Iterable[str], now_s: float) -> dict[str, Answer]:
        """The answers that still count, by node; guests are found in those to `NodeInfo`, too."""
        found: dict[str, Any] = {}
        for node in nodes:
            kept = self._kept.get((node, request.call))
            if kept is not None and kept.request == request and self._counts(node, kept, now_s):
                found[node] = kept.value
            elif isinstance(request, AllInstancesInfo) and (guests := self._guests(request, node, now_s)) is not None:
                found[node] = guests
        return found

    def changed(self, nodes: Iterable[str]) -> None:
        """Something about these nodes is not what they said."""
        for node in filter(self._exists, nodes):
            self._changes += 1
            self._changed[node] = self._changes

    def forget_gone(self) -> None:
        """Keep nothing of nodes that have left the cluster."""
        self._changed = {node: change for node, change in self._changed.items() if self._exists(node)}
        self._kept = {key: kept for key, kept in self._kept.items() if self._exists(key[0])}

    def _guests(self, request: AllInstancesInfo, node: str, now_s: float) -> list[FoundInstance] | None:
        kept = self._kept.get((node, NodeInfo.call))
        asked = None if kept is None else kept.request
        if kept is None or not isinstance(asked, NodeInfo) or asked.hypervisors != request.hypervisors:
            return None
        return kept.value.guests if self._counts(node, kept, now_s) else None

    def _counts(self, node: str, kept: _Kept, now_s: float) -> bool:
        return now_s - kept.asked_at_s < LIVE_FRESH_S and kept.changes >= self._changed.get(node, 0)


def nodes_touched(before: ConfigView, event: Mapping[str, Any]) -> list[str]:
    """Uuids of the nodes of whatever instances and disks a commit names; *before* is without it.

    *event* is that of the change stream. Not every commit changes what such a node would say: to ask it once more is
    cheap.
    """
    found: dict[str, None] = {}
    for kind, uuid, *plain in [*event.get("put", ()), *event.get("remove", ())]:
        old = before.get(kind, uuid)
        if kind == "instances":
            if isinstance(old, Instance):
                found.update(dict.fromkeys(before.instance_nodes(old)))
            found.update(dict.fromkeys(new["primary_node"] for new in plain if new.get("primary_node")))
        elif kind == "disks":
            if isinstance(old, Disk):
                found.update(dict.fromkeys(old.nodes))
            found.update(dict.fromkeys(node for new in plain for node in new.get("nodes", ())))
    return list(found)

# SPDX-License-Identifier: BSD-2-Clause
"""What nodes answered to lists, so that the next list need not ask them (S1.42, S1.50). Pure.

An answer serves whoever would put the same question to the same node: up to `LIVE_FRESH_S`, and until something changes
on the node. Who serves one must besides have heard of all that jobs gave up so far, and of whom a job is changing now
(`luxid/queries/state_cache.py`). Silence is never kept: it is asked about again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ganeti.model.objects import Disk, Instance
from ganeti.model.view import ConfigView

LIVE_FRESH_S = 2.0
"""How long an answer serves other lists: less than a list waits for a silent node, and than people notice."""
WHOLE_CALL = "node_info"
"""What is asked for all that a node knows, guests among it."""
GUESTS_CALL = "all_instances_info"


class _Kept(NamedTuple):
    question: Mapping[str, Any]
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

    def keep(
        self, call: str, question: Mapping[str, Any], node: str, value: Any, begun: int, asked_at_s: float
    ) -> None:
        """Keep what *node* answered, unless there is an answer that was asked for later."""
        kept = self._kept.get((node, call))
        if self._exists(node) and (kept is None or kept.asked_at_s <= asked_at_s):
            self._kept[node, call] = _Kept(question, value, asked_at_s, begun)

    def fresh(self, call: str, question: Mapping[str, Any], nodes: Iterable[str], now_s: float) -> dict[str, Any]:
        """The answers that still count, by node; guests are found in whole answers, too."""
        found: dict[str, Any] = {}
        for node in nodes:
            kept = self._kept.get((node, call))
            if kept is not None and kept.question == question and self._counts(node, kept, now_s):
                found[node] = kept.value
            elif call == GUESTS_CALL and (guests := self._guests(question, node, now_s)) is not None:
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

    def _guests(self, question: Mapping[str, Any], node: str, now_s: float) -> Any:
        kept = self._kept.get((node, WHOLE_CALL))
        if kept is None or kept.question.get("hypervisors") != question.get("hypervisors"):
            return None
        return kept.value.get("guests") if self._counts(node, kept, now_s) else None

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

# SPDX-License-Identifier: BSD-2-Clause
"""What nodes told queries goes into the cache of the state, and serves other queries (S1.42, S1.45, S1.50)."""

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti.luxid.queries.state_cache import StateCache
from ganeti.master.cache.live_answers import GUESTS_CALL, WHOLE_CALL
from ganeti.master.cache.node_reports import guests_of, report_of, silent
from ganeti.master.query.collecting import Mark
from ganeti.ports.nodes import NodeAnswer


class ReportListener:
    """A `Listener` of queries. One that does not *serve* has every node asked, and hears what it says (S1.51)."""

    def __init__(self, cache: StateCache, *, serves: bool = True) -> None:
        self._cache = cache
        self._serves = serves

    async def known(self, call: str, question: Mapping[str, Any], nodes: Sequence[str]) -> Mapping[str, Any]:
        live, now_s = self._cache.live, self._cache.now_s
        if not self._serves or not live.fresh(call, question, nodes, now_s()):
            return {}
        busy = await self._cache.settled()
        if busy is None:
            return {}
        changing = frozenset(busy)
        return live.fresh(call, question, [node for node in nodes if node not in changing], now_s())

    def begin(self) -> Mark:
        return Mark(self._cache.reports.begin(), self._cache.live.begin(), self._cache.now_s())

    def whole(
        self, answers: Sequence[NodeAnswer], question: Mapping[str, Any], begun: Mark, usable: frozenset[str]
    ) -> None:
        templates = [unit["template"] for unit in question["storage"]]
        for answer in answers:
            if answer.node_uuid in usable:
                self._take(answer, templates, begun)
            self._keep(WHOLE_CALL, question, answer, begun)

    def guests(self, answers: Sequence[NodeAnswer], question: Mapping[str, Any], begun: Mark) -> None:
        for answer in answers:
            if answer.error is None:
                self._cache.reports.compare_guests(answer.node_uuid, guests_of(answer.value or []))
            self._keep(GUESTS_CALL, question, answer, begun)

    def _take(self, answer: NodeAnswer, templates: Sequence[str], begun: Mark) -> None:
        if answer.error is not None:
            report = silent(answer.error)
        elif answer.value["hypervisors"] and answer.value["guests"] is not None:
            report = report_of(answer.value, answer.value["guests"], templates)
        else:
            return
        self._cache.reports.take(answer.node_uuid, report, begun.reports, begun.at_s)

    def _keep(self, call: str, question: Mapping[str, Any], answer: NodeAnswer, begun: Mark) -> None:
        """Silence makes void what was said before, and is asked about again."""
        if answer.error is None:
            self._cache.live.keep(call, question, answer.node_uuid, answer.value, begun.live, begun.at_s)
        else:
            self._cache.live.changed([answer.node_uuid])

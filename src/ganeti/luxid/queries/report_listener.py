# SPDX-License-Identifier: BSD-2-Clause
"""What nodes told queries goes into the cache of the state, and serves other queries (S1.42, S1.45, S1.50)."""

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti.luxid.queries.state_cache import StateCache
from ganeti.master.cache.node_reports import guests_of, report_of, silent
from ganeti.master.query.collecting import Mark
from ganeti.model.node_calls import Answer, NodeRequest
from ganeti.model.node_calls.instances import AllInstancesInfo
from ganeti.model.node_calls.node import NodeInfo
from ganeti.ports.nodes import NodeAnswer


class ReportListener:
    """A `Listener` of queries. One that does not *serve* has every node asked, and hears what it says (S1.51)."""

    def __init__(self, cache: StateCache, *, serves: bool = True) -> None:
        self._cache = cache
        self._serves = serves

    async def known(self, request: NodeRequest[Answer], nodes: Sequence[str]) -> Mapping[str, Answer]:
        live, now_s = self._cache.live, self._cache.now_s
        if not self._serves or not live.fresh(request, nodes, now_s()):
            return {}
        busy = await self._cache.settled()
        if busy is None:
            return {}
        changing = frozenset(busy)
        return live.fresh(request, [node for node in nodes if node not in changing], now_s())

    def begin(self) -> Mark:
        return Mark(self._cache.reports.begin(), self._cache.live.begin(), self._cache.now_s())

    def whole(self, answers: Sequence[NodeAnswer], request: NodeInfo, begun: Mark, usable: frozenset[str]) -> None:
        templates = [unit.template for unit in request.storage]
        for answer in answers:
            if answer.node_uuid in usable:
                self._take(answer, templates, begun)
            self._keep(request, answer, begun)

    def guests(self, answers: Sequence[NodeAnswer], request: AllInstancesInfo, begun: Mark) -> None:
        for answer in answers:
            if answer.error is None:
                self._cache.reports.compare_guests(answer.node_uuid, guests_of(answer.value or []))
            self._keep(request, answer, begun)

    def _take(self, answer: NodeAnswer, templates: Sequence[str], begun: Mark) -> None:
        if answer.error is not None:
            report = silent(answer.error)
        elif answer.value.hypervisors and answer.value.guests is not None:
            report = report_of(answer.value, answer.value.guests, templates)
        else:
            return
        self._cache.reports.take(answer.node_uuid, report, begun.reports, begun.at_s)

    def _keep(self, request: NodeRequest[Any], answer: NodeAnswer, begun: Mark) -> None:
        """Silence makes void what was said before, and is asked about again."""
        if answer.error is None:
            self._cache.live.keep(request, answer.node_uuid, answer.value, begun.live, begun.at_s)
        else:
            self._cache.live.changed([answer.node_uuid])

# SPDX-License-Identifier: BSD-2-Clause
"""Hands on to the reports of nodes what nodes told queries (S1.42, S1.45)."""

import time
from collections.abc import Callable, Sequence

from ganeti.master.cache.node_reports import NodeReports, guests_of, report_of, silent
from ganeti.master.query.collecting import Mark
from ganeti.ports.nodes import NodeAnswer


class ReportListener:
    """A `Listener` of queries; *now_s* is the clock the reports are judged by."""

    def __init__(self, reports: NodeReports, now_s: Callable[[], float] = time.monotonic) -> None:
        self.reports = reports
        self._now_s = now_s

    def begin(self) -> Mark:
        return self.reports.begin(), self._now_s()

    def whole(self, answers: Sequence[NodeAnswer], templates: Sequence[str], begun: Mark) -> None:
        for answer in answers:
            if answer.error is not None:
                report = silent(answer.error)
            elif answer.value["hypervisors"] and answer.value["guests"] is not None:
                report = report_of(answer.value, answer.value["guests"], templates)
            else:
                continue
            self.reports.take(answer.node_uuid, report, *begun)

    def guests(self, answers: Sequence[NodeAnswer]) -> None:
        for answer in answers:
            if answer.error is None:
                self.reports.compare_guests(answer.node_uuid, guests_of(answer.value or []))

# SPDX-License-Identifier: BSD-2-Clause
"""The paths of the maintenance daemon (S4.27-S4.31), ``/metrics`` beside them, and what nodes tell by themselves."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError
from ganeti.master.maintenance.changes import STATUSES
from ganeti.master.maintenance.incidents import incident_rows
from ganeti.model.view import ConfigView
from ganeti.system.http_server import HttpReply, HttpRequest
from ganeti.wire.diagnose_report import REFUSALS
from ganeti.wire.guest_report import PATH
from ganeti.wire.loss_report import PATH as LOSSES
from ganeti.wire.prometheus import CONTENT_TYPE, COUNTER, GAUGE, family


class Answers:
    """Tells what the configuration says of maintenance now."""

    def __init__(
        self,
        view: Callable[[], ConfigView],
        refused: Callable[[], Mapping[str, int]],
        hear: Callable[[bytes], str],
        hear_loss: Callable[[bytes], Awaitable[str]],
    ) -> None:
        """*hear* takes a node's report of guests, *hear_loss* one of a lost copy: why it is refused, or nothing."""
        self._view = view
        self._refused = refused
        self._hear = hear
        self._hear_loss = hear_loss

    async def answer(self, request: HttpRequest) -> HttpReply:
        if request.method == "POST" and request.path in (PATH, LOSSES):
            try:
                refusal = self._hear(request.body) if request.path == PATH else await self._hear_loss(request.body)
            except GanetiError as err:
                return HttpReply(503, f"The report is not noted: {err}".encode(), "text/plain")
            return HttpReply(403, refusal.encode(), "text/plain") if refusal else HttpReply(202, b"", "text/plain")
        if request.method not in ("GET", "HEAD"):
            return HttpReply(405, b"Only GET is answered here", "text/plain")
        match [part for part in request.path.split("/") if part]:
            case []:
                return _json([1])
            case ["1"]:
                return _json(None)
            case ["1", "status"]:
                return _json(incident_rows(self._view()))
            case ["1", "jobs"]:
                return _json(self._view().maintenance.jobs)
            case ["1", "evacuated"]:
                return _json(self._view().maintenance.evacuated)
            case ["metrics"]:
                return HttpReply(200, self._metrics().encode(), CONTENT_TYPE)
        return HttpReply(404, b"Resource not found", "text/plain")

    def _metrics(self) -> str:
        own, refused = self._view().maintenance, self._refused()
        counts = {status: sum(each.repair_status == status for each in own.incidents) for status in STATUSES}
        by_status = [({"status": status}, count) for status, count in counts.items()]
        by_reason = [({"reason": reason}, refused.get(reason, 0)) for reason in REFUSALS]
        lines = [
            *family("ganeti_incidents", GAUGE, "Incidents by repair status", by_status),
            *family("ganeti_reports_refused_total", COUNTER, "Reports of MonDs that were not believed", by_reason),
            *family("ganeti_maintenance_jobs", GAUGE, "Jobs of the round under way", [({}, len(own.jobs))]),
        ]
        return "\n".join(lines) + "\n"


def _json(value: Any) -> HttpReply:
    return HttpReply(200, msgspec.json.encode(value))

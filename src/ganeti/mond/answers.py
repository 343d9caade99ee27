# SPDX-License-Identifier: BSD-2-Clause
"""MonD's paths (protocols, 5), and ``/metrics`` beside them."""

from typing import Any

import msgspec

from ganeti.mond.metrics import metrics
from ganeti.mond.monitor import Monitor
from ganeti.system.http_server import HttpReply, HttpRequest
from ganeti.wire.prometheus import CONTENT_TYPE

PORT = 1815
DEFAULT = "default"
_NOT_FOUND = "Resource not found"
_NO_REPORT = "Unable to produce a report for the requested resource"
_ONLY_GET = "Only GET is answered here"


async def answer(monitor: Monitor, request: HttpRequest) -> HttpReply:
    if request.method not in ("GET", "HEAD"):
        return _sentence(405, _ONLY_GET)
    match [part for part in request.path.split("/") if part]:
        case []:
            return _json([1])
        case ["1"]:
            return _json(None)
        case ["1", "list", "collectors"]:
            return _json([[own.name, own.category or DEFAULT, own.kind] for own in monitor.active()])
        case ["1", "report", "all"]:
            return _json(await monitor.all_reports())
        case ["1", "report", category, name]:
            found = await monitor.report(None if category == DEFAULT else category, name)
            return _json(found) if found is not None else _sentence(404, _NO_REPORT)
        case ["1", "report", *_]:
            return _sentence(404, _NO_REPORT)
        case ["metrics"]:
            text = await _metrics(monitor)
            return HttpReply(200, text.encode(), CONTENT_TYPE)
    return _sentence(404, _NOT_FOUND)


async def _metrics(monitor: Monitor) -> str:
    reports = await monitor.all_reports()
    return metrics(monitor.collectors(), reports, monitor.failures(), monitor.node.refused_diagnoses)


def _json(value: Any) -> HttpReply:
    return HttpReply(200, msgspec.json.encode(value))


def _sentence(status: int, text: str) -> HttpReply:
    return HttpReply(status, text.encode(), "text/plain")

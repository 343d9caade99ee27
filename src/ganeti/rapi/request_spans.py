# SPDX-License-Identifier: BSD-2-Clause
"""Requests of the remote API in traces: each continues the trace of its header, and its job that of the request."""

import secrets
import time
from collections.abc import Mapping
from typing import Any

from ganeti.system.http_server import HttpRequest
from ganeti.system.spans import Span
from ganeti.system.tracing import Tracing
from ganeti.wire.traceparent import SOURCE, Place, made_up, read_place


class RequestSpans:
    """Makes a span of each request that has been answered, where spans are wanted."""

    def __init__(self, tracing: Tracing | None) -> None:
        self._tracing = tracing

    def begin(self, request: HttpRequest) -> Place | None:
        """Give the request's place in its trace; None where nothing is traced."""
        if self._tracing is None or not self._tracing.is_wanted():
            return None
        parent = read_place(request.headers.get("traceparent", ""))
        word = secrets.token_hex(16)
        return made_up(word) if parent is None else parent.below(word)

    def end(
        self, request: HttpRequest, place: Place, route: str, status: int, took_s: float, told: Mapping[str, Any]
    ) -> None:
        """Have the span sent."""
        if self._tracing is None or not place.is_sampled:
            return
        attributes: dict[str, str | int] = {
            "http.request.method": request.method,
            "http.route": route,
            "http.response.status_code": status,
            "client.address": request.peer,
        }
        attributes |= {f"ganeti.{name}": told[name] for name in ("operation", "job") if name in told}
        ended_ns = time.time_ns()
        span = Span(
            f"{request.method} {route}",
            place,
            read_place(request.headers.get("traceparent", "")),
            ended_ns - round(took_s * 1e9),
            ended_ns,
            attributes,
            f"answered with {status}" if status >= 500 else None,
            kind="server",
        )
        self._tracing.send_soon([span])


def traced(opcodes: list[dict[str, Any]], place: Place | None) -> list[dict[str, Any]]:
    """Name the request's place in the reason trails, for the spans of the job."""
    if place is None:
        return opcodes
    entry = [SOURCE, str(place), time.time_ns()]
    return [{**opcode, "reason": [*opcode["reason"], entry]} for opcode in opcodes]

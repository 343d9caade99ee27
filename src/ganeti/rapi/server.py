# SPDX-License-Identifier: BSD-2-Clause
"""The door of the remote API: who asks, what for, and the answer (rapi, sections 1 and 2)."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from ganeti.base.errors import GanetiError
from ganeti.rapi.answers import RequestRefused, answered, as_problem_status, as_refusal, problem, refused
from ganeti.rapi.api_request import READS, ApiRequest, read_request, refuse_other_sites
from ganeti.rapi.audit import AuditLog
from ganeti.rapi.caller import ANYBODY, Caller, login_needed
from ganeti.rapi.callers import Callers
from ganeti.rapi.reading import RESOURCES, Luxi, Resource
from ganeti.rapi.request_spans import RequestSpans, traced
from ganeti.rapi.routes import PathTable, Route, filled, routes
from ganeti.rapi.submission import job
from ganeti.rapi.v3.event_fan import EventFan
from ganeti.rapi.v3.request_counts import RequestCounts
from ganeti.rapi.v3.route import Turn
from ganeti.rapi.v3.server import Resources
from ganeti.system.http_server import HttpReply, HttpRequest
from ganeti.system.tracing import Tracing
from ganeti.wire.traceparent import Place

_log = logging.getLogger(__name__)
_FAULT: Final = "This request could not be answered: the log of the master says why"
_NO_ROUTE: Final = "(none)"
_FOR_BROWSERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Answers tell of a cluster to one caller, and are what they are called."""
STRANGERS_BODY_BYTES: Final = 8 * 1024


@dataclass
class _Handled:
    """What has become known of a request while it was handled, for the audit log and the metrics."""

    route: str = _NO_ROUTE
    caller: Caller = ANYBODY
    told: dict[str, Any] | None = None
    place: Place | None = None
    """Where the request stands in a trace."""


class Api:
    """Answers requests; *needs_login* asks for credentials also where anybody may read of `/2`."""

    def __init__(
        self,
        luxi: Luxi,
        callers: Callers,
        *,
        needs_login: bool = False,
        clients_max: int = 4096,
        audit: AuditLog | None = None,
        fan: EventFan | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._luxi = luxi
        self._callers = callers
        self._needs_login = needs_login
        self._clients_max = clients_max
        self._busy = 0
        self._audit = audit
        self._spans = RequestSpans(tracing)
        self._requests = RequestCounts()
        self.table = path_table()
        self.third = Resources(luxi, fan, self._requests, needs_login=needs_login)

    def door(self, request: HttpRequest) -> HttpReply | None:
        """Give the refusal of a long body, before it is read, to a client without valid credentials."""
        if not _is_long(request):
            return None
        handled = _Handled()
        try:
            handled.caller = self._callers.of(request)
            if handled.caller is not ANYBODY:
                return None
            raise login_needed()
        except RequestRefused as refusal:
            reply = (problem if _is_third(request) else refused)(refusal)
        self._count(request, handled, reply, 0.0)
        return reply

    async def answer(self, request: HttpRequest) -> HttpReply:
        third = _is_third(request)
        if self._busy >= self._clients_max:
            return (problem if third else refused)(
                RequestRefused(503, "Too many requests are being answered: try again", {"Retry-After": "1"})
            )
        self._busy += 1
        began_s, handled = time.monotonic(), _Handled(place=self._spans.begin(request))
        try:
            reply = await self._guarded(request, handled, third=third)
        finally:
            self._busy -= 1
        reply = replace(reply, headers={**_FOR_BROWSERS, **reply.headers})
        took_s = time.monotonic() - began_s
        self._count(request, handled, reply, took_s)
        if handled.place is not None:
            self._spans.end(request, handled.place, handled.route, reply.status, took_s, handled.told or {})
        return reply

    def _count(self, request: HttpRequest, handled: _Handled, reply: HttpReply, took_s: float) -> None:
        self._requests.note(request.method, handled.route, reply.status, took_s)
        if self._audit is not None and request.method not in READS:
            self._note(self._audit, request, handled, reply)

    async def _guarded(self, request: HttpRequest, handled: _Handled, *, third: bool) -> HttpReply:
        give = problem if third else refused
        try:
            refuse_other_sites(request)
            await self._callers.prepare(request)
            value = await (self._answer_third if third else self._answer_second)(request, handled)
            return value if isinstance(value, HttpReply) else await answered(value)
        except RequestRefused as refusal:
            return give(refusal)
        except GanetiError as err:
            return give(as_problem_status(err) if third else as_refusal(err))
        except RecursionError:
            return give(RequestRefused(400, "The request is nested too deeply"))
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            return give(RequestRefused(500, _FAULT))

    async def _answer_second(self, request: HttpRequest, handled: _Handled) -> Any:
        methods = self.table.find(request.path)
        if methods is None:
            raise RequestRefused(404)
        if request.method not in methods:
            raise RequestRefused(501, f"{request.path} has no {request.method}: use {', '.join(sorted(methods))}")
        template, target = methods[request.method]
        handled.route = template
        self._admit(request, _access(target), handled)
        asked = read_request(request, filled(template, request.path))
        if isinstance(target, Resource):
            return await target.reader(self._luxi, asked)
        return await self._submit(target, asked, handled)

    async def _submit(self, route: Route, asked: ApiRequest, handled: _Handled) -> Any:
        opcodes = job(route, asked, time.time_ns())
        handled.told = {"operation": route.op_id, "objects": dict(asked.parts)}
        number = await self._luxi.call("SubmitJob", traced(opcodes, handled.place), patience_s=0.0)
        handled.told["job"] = number
        return number

    async def _answer_third(self, request: HttpRequest, handled: _Handled) -> Any:
        methods = self.third.table.find(request.path)
        if methods is None:
            raise RequestRefused(404, f"There is no {request.path}: /3/openapi.json names all")
        method = "GET" if request.method == "HEAD" else request.method  # the server leaves the body out
        if method not in methods:
            allowed = ", ".join(sorted({*methods, "HEAD"} if "GET" in methods else methods))
            raise RequestRefused(405, f"{request.path} has no {request.method}: use {allowed}", {"Allow": allowed})
        template, route = methods[method]
        handled.route = template
        handled.caller = self._callers.of(request)
        asked = read_request(request, filled(template, request.path))
        key, last = request.headers.get("Idempotency-Key"), request.headers.get("Last-Event-ID")
        caller = handled.caller
        turn = Turn(caller, asked, key, last, handled.place, lambda: self._callers.is_still(request, caller))
        handled.told = turn.told
        return await self.third.answer(route, turn)

    def _admit(self, request: HttpRequest, access: str, handled: _Handled) -> None:
        """Raises `RequestRefused` for a caller that may not do this, and for wrong credentials where anybody may.

        Programs learn from such a request whether their password is right.
        """
        handled.caller = caller = self._callers.of(request)
        if access == "open" or (access == "read" and not self._needs_login):
            return
        if caller is ANYBODY:
            raise login_needed()
        if not caller.has_right(access):
            raise RequestRefused(403, f"The user {caller.name} has not the right this needs: {access}")

    def _note(self, audit: AuditLog, request: HttpRequest, handled: _Handled, reply: HttpReply) -> None:
        by = request.headers.get("X-Ganeti-Forwarded-By")
        audit.note(
            {
                "time": round(time.time(), 3),
                "who": handled.caller.name or None,
                "from": request.peer,
                **({"through": by[:255]} if by else {}),
                "method": request.method,
                "path": request.path[:1024],
                **(handled.told or {}),
                "status": reply.status,
            }
        )


def refusal(request: HttpRequest, status: int, sentence: str, headers: Mapping[str, str]) -> HttpReply:
    """Give the reply to a request that never got to the API, in the form of its version."""
    return (problem if _is_third(request) else refused)(RequestRefused(status, sentence, headers))


def _is_third(request: HttpRequest) -> bool:
    return request.path == "/metrics" or request.path.split("/", 2)[1:2] == ["3"]


def _is_long(request: HttpRequest) -> bool:
    """Whether more follows than a stranger may send; what has no length may be endless."""
    length = request.headers.get("Content-Length")
    if length is None:
        return "Transfer-Encoding" in request.headers
    return not length.isdecimal() or len(length) > 9 or int(length) > STRANGERS_BODY_BYTES


def path_table() -> PathTable:
    """Give every method of every path of `/2`: what is read first, then what operations declare."""
    table = PathTable()
    for resource in RESOURCES:
        table.add(resource.method, resource.path, resource)
    for route in routes():
        table.add(route.method, route.path, route)
    return table


def _access(target: Resource | Route) -> str:
    if isinstance(target, Resource):
        return target.access
    return "read" if target.path.endswith("/info") else "write"

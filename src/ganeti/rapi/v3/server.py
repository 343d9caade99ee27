# SPDX-License-Identifier: BSD-2-Clause
"""The door of `/3`: routes, rights, the way in and out of each request."""

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ganeti.base.errors import JobLost, TransportError
from ganeti.master.planning.fingerprint import SOURCE as PLAN_SOURCE
from ganeti.master.planning.fingerprint import is_fingerprint
from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.asked import Asked
from ganeti.rapi.caller import ANYBODY, Caller, login_needed
from ganeti.rapi.reading import Luxi, ask, job_number
from ganeti.rapi.request_spans import traced
from ganeti.rapi.routes import PathTable
from ganeti.rapi.v3 import metrics, queries
from ganeti.rapi.v3.document import document
from ganeti.rapi.v3.events import EventFan, read_kinds, while_allowed
from ganeti.rapi.v3.group_capacity import GroupCapacity
from ganeti.rapi.v3.rights import require, require_operation
from ganeti.rapi.v3.submission import Submitter, digest_of, operation_id, read_operation
from ganeti.system.http_server import HttpReply
from ganeti.wire.prometheus import CONTENT_TYPE
from ganeti.wire.traceparent import Place

_METRICS: Final = "/metrics"
_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "/3/events": ("kinds", "position"),
    "/3/jobs/[name]/wait": ("timeout_s",),
    "/3/operations/[operation]": ("plan", "reason", "wait_s"),
    "/3/plan/[operation]": ("reason",),
}
"""What may follow the question mark; of lists and objects by `queries`."""
WAIT_MAX_S: Final = 60.0
SUBMISSION_WAIT_MAX_S: Final = 600.0
_FINAL: Final = ("success", "error", "canceled")
_OPEN: Final = ("/3", "/3/openapi.json")


@dataclass
class Turn:
    """One request as its handler gets it; the handler leaves in *told* what the audit log is to say."""

    caller: Caller
    asked: Asked
    key: str | None = None
    """Its Idempotency-Key."""
    last_event: str | None = None
    place: Place | None = None
    """Where the request stands in a trace."""
    is_allowed: Callable[[], bool] = lambda: True
    """Whether the caller would still be let in: for answers that last."""
    told: dict[str, Any] = field(default_factory=dict)


Handler = Callable[[Turn], Awaitable[Any]]


class Resources:
    """What `/3` has, and what each request of it does."""

    def __init__(self, luxi: Luxi, fan: EventFan | None, requests: metrics.Requests) -> None:
        self._luxi = luxi
        self._fan = fan
        self._requests = requests
        self._submitter = Submitter(luxi)
        self._capacity = GroupCapacity(luxi)
        self._document: bytes | None = None
        self.table = PathTable()
        for method, path, handler in (
            ("GET", "/3", self._index),
            ("GET", "/3/openapi.json", self._openapi),
            ("GET", "/3/whoami", self._whoami),
            ("GET", "/3/cluster", self._cluster),
            ("GET", "/3/events", self._events),
            ("GET", _METRICS, self._metrics),
            ("GET", "/3/jobs/[name]/wait", self._wait),
            ("DELETE", "/3/jobs/[name]", self._cancel),
            ("POST", "/3/operations/[operation]", self._submit),
            ("POST", "/3/plan/[operation]", self._plan),
        ):
            self.table.add(method, path, handler)
        self._arguments = dict(_ARGUMENTS)
        for plural in queries.FIELDS:
            self.table.add("GET", f"/3/{plural}", self._list(plural))
            self.table.add("GET", f"/3/fields/{plural}", self._fields(plural))
            self._arguments[f"/3/{plural}"] = ("fields", "filter")
            if plural in queries.SINGLE:
                self.table.add("GET", f"/3/{plural}/[name]", self._one(plural))
                self._arguments[f"/3/{plural}/[name]"] = ("fields",)

    def arguments_of(self, path: str) -> tuple[str, ...]:
        """Which arguments may follow the question mark."""
        return self._arguments.get(path, ())

    async def answer(self, handler: Handler, path: str, turn: Turn) -> Any:
        """Carry out one request; raises `RequestRefused`, or what LuxiD answers."""
        if turn.caller is ANYBODY and path not in _OPEN:
            raise login_needed()
        known = self.arguments_of(path)
        if path != _METRICS and (unknown := [name for name in turn.asked.arguments if name not in known]):
            there = f"there are {', '.join(known)}" if known else "there are none"
            raise RequestRefused(400, f"There is no argument '{unknown[0][:40]}' here: {there}")
        return await handler(turn)

    async def _index(self, turn: Turn) -> Any:
        return {"version": 3, "openapi": "/3/openapi.json", "lists": [f"/3/{plural}" for plural in queries.FIELDS]}

    async def _openapi(self, turn: Turn) -> Any:
        if self._document is None:
            self._document = msgspec.json.encode(document())
        return msgspec.Raw(self._document)

    async def _whoami(self, turn: Turn) -> Any:
        return {"name": turn.caller.name, "scopes": [str(scope) for scope in turn.caller.scopes]}

    async def _cluster(self, turn: Turn) -> Any:
        await require(self._luxi, turn.caller, "cluster", "read")
        return await ask(self._luxi, "QueryClusterInfo")

    async def _metrics(self, turn: Turn) -> Any:
        await require(self._luxi, turn.caller, "metrics", "read")
        listeners = self._fan.listeners if self._fan is not None else 0
        text = await metrics.page(self._luxi, self._requests, self._capacity, listeners)
        return HttpReply(200, text.encode(), CONTENT_TYPE)

    async def _events(self, turn: Turn) -> Any:
        await require(self._luxi, turn.caller, "event", "read")
        if self._fan is None:
            raise RequestRefused(503, "There are no events here")
        position = turn.last_event or turn.asked.word("position") or None
        frames = await self._fan.listen(read_kinds(turn.asked), position)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return HttpReply(200, b"", "text/event-stream", headers, while_allowed(frames, turn.is_allowed))

    def _list(self, plural: str) -> Handler:
        async def give(turn: Turn) -> Any:
            return await queries.listed(self._luxi, turn.caller, plural, turn.asked)

        return give

    def _one(self, plural: str) -> Handler:
        async def give(turn: Turn) -> Any:
            return await queries.shown(self._luxi, turn.caller, plural, turn.asked.parts["name"], turn.asked)

        return give

    def _fields(self, plural: str) -> Handler:
        async def give(turn: Turn) -> Any:
            return await queries.fields_of(self._luxi, turn.caller, plural)

        return give

    async def _submit(self, turn: Turn) -> Any:
        operation = await self._operation(turn)
        plain = operation.to_plain()
        wait_s = _seconds(turn.asked, "wait_s", 0.0, SUBMISSION_WAIT_MAX_S)
        plan = turn.asked.word("plan")
        if plan is not None:
            if not is_fingerprint(plan):
                raise RequestRefused(400, f"'{plan[:40]}' is no fingerprint: /3/plan/OPERATION gives one")
            plain["reason"] = [*plain["reason"], [PLAN_SOURCE, plan, time.time_ns()]]
        digest = "" if turn.key is None else digest_of(turn.asked.parts["operation"], turn.asked.body, plan)
        job = await self._submitter.submit(traced([plain], turn.place), turn.key, digest)
        turn.told["job"] = job
        uri = f"/3/jobs/{job}"
        told, headers = {"job": job, "uri": uri}, {"Location": uri}
        try:
            status, results = await self._ended(job, wait_s) if wait_s else (None, None)
        except (TransportError, JobLost):  # the job was taken all the same
            status, results = None, None
        if status is None:
            return HttpReply(202, msgspec.json.encode(told) + b"\n", headers=headers)
        if status != "success":
            raise _failed(results, f"Job {job}: ", headers)
        return HttpReply(200, msgspec.json.encode(told | {"results": results}) + b"\n", headers=headers)

    async def _plan(self, turn: Turn) -> Any:
        operation = await self._operation(turn)
        plain = operation.to_plain()
        planned = {key: value for key, value in plain.items() if key != "reason"}
        wrapped = {"OP_ID": "OP_PLAN", "operation": planned, "reason": plain["reason"]}
        job = await self._submitter.submit(traced([wrapped], turn.place), None)
        turn.told["job"] = job
        with _lost_is_not_found():
            status, results = await self._ended(job, WAIT_MAX_S)
        if status is None:
            raise RequestRefused(504, f"The plan waits for locks: job {job} makes it, its result is the plan")
        if status != "success" or not results:
            raise _failed(results)
        return results[0] | {"job": job}

    async def _operation(self, turn: Turn) -> Any:
        op_id = operation_id(turn.asked.parts["operation"])
        turn.told["operation"] = op_id
        if op_id == "OP_PLAN":
            raise RequestRefused(400, "Plans are made by /3/plan/OPERATION")
        body = turn.asked.body if turn.asked.has_body else {}
        operation = read_operation(op_id, body, turn.caller, turn.asked.word("reason"))
        turn.told["summary"] = operation.summary()
        await require_operation(self._luxi, turn.caller, operation)
        return operation

    async def _wait(self, turn: Turn) -> Any:
        await require(self._luxi, turn.caller, "job", "read")
        job = job_number(turn.asked.parts["name"])
        with _lost_is_not_found():
            status, results = await self._ended(job, _seconds(turn.asked, "timeout_s", 10.0, WAIT_MAX_S))
        return {"id": job, "ended": status is not None, "status": status, "results": results}

    async def _ended(self, job: int, within_s: float) -> tuple[str | None, list[Any] | None]:
        """Give status and results of a job once it has ended; None for both after *within_s*. Raises `JobLost`."""
        end_s, previous = time.monotonic() + within_s, None
        while True:
            left_s = max(0.0, end_s - time.monotonic())
            fields = ["status", "opresult"]
            news = await ask(self._luxi, "WaitForJobChange", job, fields, previous, None, min(left_s, 10.0))
            if isinstance(news, list):
                previous = news[0]
            if previous and previous[0] in _FINAL:
                return previous[0], previous[1]
            if time.monotonic() >= end_s:
                return None, None

    async def _cancel(self, turn: Turn) -> Any:
        await require(self._luxi, turn.caller, "job", "write")
        job = job_number(turn.asked.parts["name"])
        turn.told["job"] = job
        with _lost_is_not_found():
            done, message = await self._luxi.call("CancelJob", job)
        if not done:
            await queries.shown(self._luxi, turn.caller, "jobs", str(job), Asked({}, {"fields": ["id"]}))
            raise RequestRefused(409, str(message))
        return {"id": job, "message": message}


def _seconds(asked: Asked, name: str, default: float, most: float) -> float:
    word = asked.word(name)
    try:
        seconds = float(word) if word else default
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= most:
        raise RequestRefused(400, f"The argument '{name}' must be a number from 0 to {most:g}")
    return seconds


@contextlib.contextmanager
def _lost_is_not_found() -> Iterator[None]:
    """A job that is not there is answered as any other thing that is not."""
    try:
        yield
    except JobLost as err:
        raise RequestRefused(404, str(err)) from err


def _failed(results: list[Any] | None, before: str = "", headers: Mapping[str, str] | None = None) -> RequestRefused:
    """Say why a job failed, with the status that fits its error."""
    error = next((each for each in results or [] if isinstance(each, list) and len(each) == 2), ["", ["it failed"]])
    details = error[1] if isinstance(error[1], list | tuple) else [error[1]]
    code = details[1] if len(details) > 1 else ""
    status = 501 if error[0] == "OpCodeUnknown" else {"unknown_entity": 404, "wrong_input": 400}.get(str(code), 409)
    return RequestRefused(status, f"{before}{details[0]}", headers)

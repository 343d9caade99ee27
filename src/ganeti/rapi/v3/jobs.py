# SPDX-License-Identifier: BSD-2-Clause
"""Jobs in `/3`: waiting for the end of one, and cancelling it."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final

from ganeti.base.errors import JobLost
from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.api_request import ApiRequest
from ganeti.rapi.reading import Luxi, ask, job_number
from ganeti.rapi.v3 import queries
from ganeti.rapi.v3.route import Answer, Argument, Schema, Services, Turn, route, scope

WAIT_MAX_S: Final = 60.0
_FINAL: Final = ("success", "error", "canceled")
_PARTS: Final = {"name": "number of the job"}


def up_to(seconds: float) -> Schema:
    """The schema of a time to wait."""
    return {"type": "number", "minimum": 0, "maximum": int(seconds)}


@route(
    *("GET", "/3/jobs/[name]/wait", "wait_for_job", "Wait for the end of a job"),
    access=scope("job"),
    tag="jobs",
    parts=_PARTS,
    arguments=(Argument("timeout_s", f"how long to wait, at most {WAIT_MAX_S:g}", up_to(WAIT_MAX_S)),),
    answers={200: Answer("status and results")},
)
async def _wait(services: Services, turn: Turn) -> Any:
    job = job_number(turn.request.parts["name"])
    with lost_is_not_found():
        status, results = await ended(services.luxi, job, seconds(turn.request, "timeout_s", 10.0, WAIT_MAX_S))
    return {"id": job, "ended": status is not None, "status": status, "results": results}


@route(
    *("DELETE", "/3/jobs/[name]", "cancel_job", "Cancel a job that does not run yet"),
    access=scope("job", "write"),
    tag="jobs",
    parts=_PARTS,
    answers={200: Answer("done")},
    errors=(409,),
)
async def _cancel(services: Services, turn: Turn) -> Any:
    job = job_number(turn.request.parts["name"])
    turn.told["job"] = job
    with lost_is_not_found():
        done, message = await services.luxi.call("CancelJob", job)
    if not done:
        await queries.shown(services.luxi, "jobs", str(job), ApiRequest({}, {"fields": ["id"]}))
        raise RequestRefused(409, str(message))
    return {"id": job, "message": message}


async def ended(luxi: Luxi, job: int, within_s: float) -> tuple[str | None, list[Any] | None]:
    """Give status and results of a job once it has ended; None for both after *within_s*. Raises `JobLost`."""
    end_s, previous = time.monotonic() + within_s, None
    while True:
        left_s = max(0.0, end_s - time.monotonic())
        fields = ["status", "opresult"]
        news = await ask(luxi, "WaitForJobChange", job, fields, previous, None, min(left_s, 10.0))
        if isinstance(news, list):
            previous = news[0]
        if previous and previous[0] in _FINAL:
            return previous[0], previous[1]
        if time.monotonic() >= end_s:
            return None, None


def seconds(request: ApiRequest, name: str, default: float, most: float) -> float:
    """Read a time to wait; raises `RequestRefused`."""
    word = request.word(name)
    try:
        found = float(word) if word else default
    except ValueError:
        found = -1.0
    if not 0 <= found <= most:
        raise RequestRefused(400, f"The argument '{name}' must be a number from 0 to {most:g}")
    return found


@contextlib.contextmanager
def lost_is_not_found() -> Iterator[None]:
    """A job that is not there is answered as any other thing that is not."""
    try:
        yield
    except JobLost as err:
        raise RequestRefused(404, str(err)) from err

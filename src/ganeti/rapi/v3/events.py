# SPDX-License-Identifier: BSD-2-Clause
"""`/3/events`: what happens in the cluster, as server-sent events."""

from typing import Final

from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.api_request import ApiRequest
from ganeti.rapi.v3.event_fan import while_allowed
from ganeti.rapi.v3.route import Answer, Argument, Services, Turn, route, scope
from ganeti.system.http_server import HttpReply

KINDS: Final = ("config", "job", "lock", "node")
_STREAM: Final = "text/event-stream"


@route(
    *("GET", "/3/events", "events", "What happens"),
    access=scope("event"),
    tag="events",
    arguments=(
        Argument("kinds", f"of {', '.join(KINDS)}, with commas; all without it"),
        Argument("position", "the id of the last event that was read, as Last-Event-ID"),
    ),
    answers={200: Answer("server-sent events", None, _STREAM)},
)
async def _events(services: Services, turn: Turn) -> HttpReply:
    if services.fan is None:
        raise RequestRefused(503, "There are no events here")
    position = turn.last_event or turn.request.word("position") or None
    frames = while_allowed(await services.fan.listen(read_kinds(turn.request), position), turn.is_allowed)
    first = await anext(frames)  # what has not begun would not be closed, if the client has gone
    return HttpReply(200, first, _STREAM, {"X-Accel-Buffering": "no"}, frames)


def read_kinds(request: ApiRequest) -> list[str]:
    """Give the kinds of events that are asked for, all without any; raises `RequestRefused`."""
    words = request.word("kinds")
    kinds = words.split(",") if words else list(KINDS)
    for kind in kinds:
        if kind not in KINDS:
            raise RequestRefused(400, f"'{kind}' is no kind of event: there are {', '.join(KINDS)}")
    return kinds

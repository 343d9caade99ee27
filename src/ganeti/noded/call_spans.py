# SPDX-License-Identifier: BSD-2-Clause
"""The node's side of a traced call: a span of the call, and one of each program that it ran.

The caller names its own span in the header `traceparent`. A call without one costs nothing here.
"""

import secrets
import time
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, GanetiError
from ganeti.system.spans import Span
from ganeti.system.tracing import Tracing
from ganeti.wire.traceparent import Place, read_place

if TYPE_CHECKING:  # those who run programs, and serve nobody, import this, too
    from ganeti.system.http_server import HttpReply

_NOTES_MAX: Final = 100


class _Program(NamedTuple):
    """One program of a call; times are nanoseconds since the epoch."""

    name: str
    begun_ns: int
    ended_ns: int
    fault: str | None


_PROGRAMS: ContextVar[list[_Program] | None] = ContextVar("_PROGRAMS", default=None)
"""Of the call that is being carried out, where it is traced."""


class CallSpans:
    """Makes the spans of each traced call once it has been answered, where this node wants spans."""

    def __init__(self, tracing: Tracing, node: str) -> None:
        self._tracing = tracing
        self._node = node

    async def around(self, call: str, headers: Mapping[str, str], answer: "Awaitable[HttpReply]") -> "HttpReply":
        """Give what *answer* gives, and have the spans sent."""
        above = read_place(headers["traceparent"]) if "traceparent" in headers else None
        if above is None or not above.is_sampled or not self._tracing.is_wanted():
            return await answer
        programs: list[_Program] = []
        token = _PROGRAMS.set(programs)
        begun_ns, fault = time.time_ns(), "the caller has gone"
        try:
            reply = await answer
            fault = _fault_in(reply)
            return reply
        finally:
            _PROGRAMS.reset(token)
            self._tracing.send_soon(self._spans(call, above, begun_ns, fault, programs))

    def _spans(self, call: str, above: Place, begun_ns: int, fault: str, programs: list[_Program]) -> list[Span]:
        place = above.below("node", secrets.token_hex(8))
        told = {"ganeti.node": self._node}
        whole = Span(call, place, above, begun_ns, time.time_ns(), told, fault or None, kind="server")
        return [
            whole,
            *(
                Span(note.name, place.below(note.name, number), place, note.begun_ns, note.ended_ns, told, note.fault)
                for number, note in enumerate(list(programs))
            ),
        ]


def _fault_in(reply: "HttpReply") -> str:
    """Give the name of the error that the answer tells; nothing for a success."""
    if reply.status == 200 and reply.body.startswith(b"[true"):
        return ""
    try:
        return str(msgspec.json.decode(reply.body)[1][0])
    except (*UNREADABLE_JSON, LookupError, TypeError):
        return f"answered with {reply.status}"


@contextmanager
def program_span(path: str) -> Iterator[None]:
    """Note the program at *path* while it runs, by its name alone: arguments may hold what others must not read."""
    notes = _PROGRAMS.get()
    if notes is None or len(notes) >= _NOTES_MAX:
        yield
        return
    begun_ns, fault = time.time_ns(), None
    try:
        yield
    except GanetiError as err:
        fault = type(err).__name__
        raise
    finally:
        notes.append(_Program(PurePath(path).name, begun_ns, time.time_ns(), fault))

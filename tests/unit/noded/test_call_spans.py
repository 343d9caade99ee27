# SPDX-License-Identifier: BSD-2-Clause
"""The node's side of a traced call: its span below the caller's, its programs below that, its fault."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ganeti.base.errors import CommandError
from ganeti.base.paths import Paths
from ganeti.noded.call_spans import CallSpans
from ganeti.noded.world import RealNodeWorld
from ganeti.system.http_server import HttpReply
from ganeti.system.spans import Span
from ganeti.system.tracing import Tracing
from ganeti.wire.traceparent import read_place

ABOVE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Kept(Tracing):
    """Keeps what it is to send."""

    def __init__(self, *, is_wanted: bool = True) -> None:
        self.spans: list[Span] = []
        self._is_wanted = is_wanted

    def is_wanted(self) -> bool:
        return self._is_wanted

    def send_soon(self, spans: Sequence[Span]) -> None:
        self.spans += spans


def carried_out(kept: Kept, root: Path, headers: dict[str, str], answer: HttpReply) -> HttpReply:
    world = RealNodeWorld(Paths(str(root)), "node1")

    async def call() -> HttpReply:
        await world.run(["true"])
        with pytest.raises(CommandError):
            await world.run(["sh", "-c", "echo secret; exit 3"])
        return answer

    async def in_a_task() -> HttpReply:
        return await asyncio.create_task(call())  # as the calls of a node daemon are

    return asyncio.run(CallSpans(kept, "node1").around("blockdev_create", headers, in_a_task()))


def test_the_call_lies_below_its_caller_and_its_programs_below_it(tmp_path: Path) -> None:
    kept, answer = Kept(), HttpReply(200, b"[true, 1]")
    assert carried_out(kept, tmp_path, {"traceparent": ABOVE}, answer) is answer
    whole, *programs = kept.spans
    assert (whole.name, whole.kind, whole.parent, whole.fault) == ("blockdev_create", "server", read_place(ABOVE), None)
    assert [(each.name, each.fault) for each in programs] == [("true", None), ("sh", "CommandError")]
    for each in programs:
        assert each.parent == whole.place and whole.begun_ns <= each.begun_ns <= each.ended_ns <= whole.ended_ns
    assert len({each.place.span_id for each in kept.spans}) == 3 and "secret" not in repr(kept.spans)


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [(200, b'[false, ["OpExecError", ["no room"]]]', "OpExecError"), (503, b"gone", "answered with 503")],
)
def test_a_failed_call_has_a_fault(tmp_path: Path, status: int, body: bytes, fault: str) -> None:
    kept = Kept()
    carried_out(kept, tmp_path, {"traceparent": ABOVE}, HttpReply(status, body))
    assert kept.spans[0].fault == fault


@pytest.mark.parametrize("headers", [{}, {"traceparent": "none"}, {"traceparent": ABOVE[:-1] + "0"}])
def test_nothing_is_noted_of_a_call_that_is_not_traced(tmp_path: Path, headers: dict[str, str]) -> None:
    kept = Kept()
    carried_out(kept, tmp_path, headers, HttpReply(200, b"[true, 1]"))
    assert kept.spans == []


def test_nothing_is_noted_where_no_collector_is_named(tmp_path: Path) -> None:
    kept = Kept(is_wanted=False)
    carried_out(kept, tmp_path, {"traceparent": ABOVE}, HttpReply(200, b"[true, 1]"))
    assert kept.spans == []

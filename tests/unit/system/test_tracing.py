# SPDX-License-Identifier: BSD-2-Clause
"""Spans that wait for their collector: each is sent once, in batches, and a slow one keeps a bounded number waiting."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from ganeti.base.paths import Paths
from ganeti.system import tracing
from ganeti.system.spans import Span
from ganeti.system.tracing import Tracing
from ganeti.wire.traceparent import Place


def span(number: int) -> Span:
    return Span(f"s{number}", Place(1, number + 1), None, 0, 1)


class Slow(Tracing):
    """Its collector takes the first batch only when it is told to; *last* names the span after which all were sent."""

    def __init__(self, last: str) -> None:
        super().__init__("test", Paths("/nowhere"))
        self._last = last
        self._loop = asyncio.get_running_loop()
        self.batches: list[list[str]] = []
        self.begun, self.may_go_on, self.all_sent = threading.Event(), threading.Event(), asyncio.Event()

    def send(self, spans: Sequence[Span]) -> None:
        self.begun.set()
        assert self.may_go_on.wait(60)
        self.batches.append([each.name for each in spans])
        if self._last in self.batches[-1]:
            self._loop.call_soon_threadsafe(self.all_sent.set)


async def batches(count: int) -> list[list[str]]:
    """Hand over *count* spans, all but the first while the collector is busy with that."""
    slow = Slow(f"s{count - 1}")
    slow.send_soon([span(0)])
    assert await asyncio.to_thread(slow.begun.wait, 60)
    slow.send_soon([span(1)])
    slow.send_soon([span(number) for number in range(2, count)])
    slow.may_go_on.set()
    await asyncio.wait_for(slow.all_sent.wait(), 60)
    await slow.close()
    return slow.batches


def test_what_comes_while_the_collector_is_busy_goes_together() -> None:
    assert asyncio.run(batches(4)) == [["s0"], ["s1", "s2", "s3"]]


def test_a_collector_that_is_too_slow_costs_the_oldest_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "WAITING_MAX", 2)
    assert asyncio.run(batches(6)) == [["s0"], ["s4", "s5"]]

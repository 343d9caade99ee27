# SPDX-License-Identifier: BSD-2-Clause
"""Listeners on `/3/events`: they share one subscription, continue where they were, and hear of what they asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ganeti.base.errors import GanetiError, PrerequisiteError, TransportError
from ganeti.rapi.v3 import event_fan
from ganeti.rapi.v3.event_fan import EventFan
from ganeti.wire.framing import encode


class Connection:
    def __init__(self) -> None:
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()

    async def receive_bytes(self, message_s: float | None = None) -> bytes | None:
        return await self.sent.get() or None

    def end(self) -> None:
        self.sent.put_nowait(b"")

    def abort(self) -> None: ...

    def tell(self, number: int, kind: str) -> None:
        self.sent.put_nowait(encode({"event": kind, "position": f"p{number}", "n": number})[:-1])


class Luxi:
    def __init__(self) -> None:
        self.streams: list[tuple[Any, Connection]] = []
        self.opened: asyncio.Queue[Connection] = asyncio.Queue()
        self.fails: GanetiError | None = None
        self.refused = asyncio.Event()

    async def stream(self, method: str, *arguments: Any) -> tuple[Any, Any]:
        if self.fails is not None:
            self.refused.set()
            raise self.fails
        connection = Connection()
        self.streams.append((arguments, connection))
        self.opened.put_nowait(connection)
        return {"position": arguments[1] or "p0"}, connection


async def take(frames: AsyncIterator[bytes], count: int) -> list[str]:
    """Give the ids of so many frames after the first, which says where it begins."""
    found: list[str] = []
    while len(found) < count:
        async with asyncio.timeout(5):
            chunk = await anext(frames)
        found += [line.decode()[4:] for line in chunk.splitlines() if line.startswith(b"id: ")]
    return found


def test_listeners_share_a_subscription_and_continue_by_position() -> None:
    async def play() -> None:
        luxi = Luxi()
        fan = EventFan(luxi)  # type: ignore[arg-type]
        every, jobs = await fan.listen(["job", "node"], None), await fan.listen(["job"], None)
        assert await take(every, 1) == await take(jobs, 1) == ["p0"]
        [(_, stream)] = luxi.streams
        for number, kind in ((1, "job"), (2, "node"), (3, "job")):
            stream.tell(number, kind)
        assert await take(every, 3) == ["p1", "p2", "p3"]
        assert await take(jobs, 2) == ["p1", "p3"]
        again = await fan.listen(["job", "node"], "p1")
        assert await take(again, 3) == ["p1", "p2", "p3"]
        assert len(luxi.streams) == 1 and fan.listeners == 3
        await fan.close()

    asyncio.run(play())


def test_a_position_that_is_not_kept_gets_a_subscription_of_its_own() -> None:
    async def play() -> None:
        luxi = Luxi()
        fan = EventFan(luxi)  # type: ignore[arg-type]
        old = await fan.listen(["job"], "before")
        (arguments, stream) = luxi.streams[1]
        assert arguments == (["job"], "before", {})
        stream.tell(7, "job")
        assert await take(old, 2) == ["before", "p7"]
        await fan.close()

    asyncio.run(play())


async def rest(frames: AsyncIterator[bytes]) -> list[bytes]:
    """What comes until the stream ends."""
    async with asyncio.timeout(5):
        return [frame async for frame in frames]


def test_listeners_of_a_node_that_is_no_longer_the_master_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept for ever by a daemon that hears nothing, they would miss what happens on the new master."""
    monkeypatch.setattr(event_fan, "_RETRY_S", 0.001)

    async def play() -> None:
        luxi = Luxi()
        fan = EventFan(luxi)  # type: ignore[arg-type]
        listener = await fan.listen(["job"], None)
        assert await take(listener, 1) == ["p0"]
        first = await luxi.opened.get()
        first.end()
        second = await luxi.opened.get()
        second.tell(1, "job")
        assert await take(listener, 1) == ["p1"]  # a restart of LuxiD is not noticed
        monkeypatch.setattr(event_fan, "_LOST_S", 0.02)
        luxi.fails = TransportError("gone")
        second.end()
        assert await rest(listener) == []
        await fan.close()

    asyncio.run(play())


def test_a_slow_listener_misses_nothing_when_the_subscription_begins_anew() -> None:
    """It was sending while its place was given up: its stream ends, and it comes back with its position."""

    async def play() -> None:
        luxi = Luxi()
        fan = EventFan(luxi)  # type: ignore[arg-type]
        slow = await fan.listen(["job"], None)
        assert await take(slow, 1) == ["p0"]
        for number in range(1, 6):
            luxi.streams[0][1].tell(number, "job")
        assert await take(slow, 5) == ["p1", "p2", "p3", "p4", "p5"]
        luxi.fails = PrerequisiteError("refused")
        luxi.streams[0][1].end()
        await luxi.refused.wait()
        luxi.fails = None
        other = await fan.listen(["job"], None)
        assert await take(other, 1) == ["p0"]
        luxi.streams[1][1].tell(6, "job")
        assert await take(other, 1) == ["p6"]
        assert await rest(slow) == []
        await fan.close()

    asyncio.run(play())

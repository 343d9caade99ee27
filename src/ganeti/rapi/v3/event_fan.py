# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's event stream as server-sent events, one subscription for all listeners on `/3/events`.

What happens is encoded once and kept for a while; a listener is a place in that. One that comes back with a position
from before continues there if it is still kept. Otherwise it gets a subscription of its own: LuxiD continues where it
can, and sends a snapshot first where it cannot (docs/design/events.md).
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, Protocol

import msgspec

from ganeti.base.errors import GanetiError, TransportError
from ganeti.wire.framing import Connection

_log = logging.getLogger(__name__)
_KEPT: Final = 20_000
_ALIVE_S: Final = 45.0
_ALIVE: Final = b": alive\n\n"
_RETRY_S: Final = 0.5
_LOOK_S: Final = 10.0
"""So long a listener is believed to be allowed what it was; then with the next frame, `_ALIVE` at the latest."""
_LAST_LEFT_S: Final = 60.0
_LOST_S: Final = 15.0
"""So long listeners are kept while LuxiD does not answer: its restart takes less."""
_FRAME: Final = b"id: %s\nevent: %s\ndata: %s\n\n"


class Streams(Protocol):
    async def stream(self, method: str, *arguments: Any) -> tuple[Any, Connection]: ...


class _Head(msgspec.Struct):
    event: str
    position: str


_HEAD: Final = msgspec.json.Decoder(_Head)


class EventFan:
    """Holds one subscription while anybody listens."""

    def __init__(self, luxi: Streams) -> None:
        self._luxi = luxi
        self._events: deque[tuple[str, bytes]] = deque(maxlen=_KEPT)
        """Kind and frame, oldest first."""
        self._places: dict[str, int] = {}
        """Number of the event with this position."""
        self._first = 0
        self._position = ""
        self._moved: asyncio.Event = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self.listeners = 0

    async def listen(self, kinds: list[str], position: str | None) -> AsyncGenerator[bytes, None]:
        """Give frames from *position* on, or from now on; raises `GanetiError` before the first, of LuxiD."""
        await self._begin()
        if position is not None and position not in self._places and position != self._position:
            answer, connection = await self._luxi.stream("Subscribe", kinds, position, {})
            return _own(answer["position"], connection)
        number = self._end if position is None or position == self._position else self._places[position] + 1
        return self._shared(frozenset(kinds), number, position or self._position)

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    @property
    def _end(self) -> int:
        return self._first + len(self._events)

    async def _begin(self) -> None:
        if self._work is None or self._work.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._work = asyncio.ensure_future(self._follow(self._ready))
        assert self._ready is not None
        await asyncio.shield(self._ready)

    async def _follow(self, ready: "asyncio.Future[None]") -> None:
        """Take in events, through restarts of LuxiD, until nobody has listened for a while.

        Without LuxiD for long, another node may be the master: listeners are let go, and come back to it.
        """
        lost_s: float | None = None
        loop = asyncio.get_running_loop()
        try:
            while lost_s is None or loop.time() < lost_s + _LOST_S:
                try:
                    answer, connection = await self._luxi.stream("Subscribe", None, self._position or None, {})
                    lost_s = None
                    self._position = self._position or answer["position"]
                    if not ready.done():
                        ready.set_result(None)
                    await self._take_all(connection)
                    return
                except TransportError as err:
                    if not ready.done():
                        ready.set_exception(err)
                        return
                    _log.info("the stream of events is interrupted: %s", err)
                    lost_s = loop.time() if lost_s is None else lost_s
                    await asyncio.sleep(_RETRY_S)
        except GanetiError as err:
            if not ready.done():
                ready.set_exception(err)
        finally:
            self._first = self._end + 1  # a listener that is still sending will see that its place is gone
            self._events.clear()
            self._places.clear()
            self._position = ""
            self._stir()

    async def _take_all(self, connection: Connection) -> None:
        """Take in what comes until nobody has listened for a while; raises `TransportError` where it ends."""
        idle_since_s: float | None = None
        loop = asyncio.get_running_loop()
        try:
            while idle_since_s is None or loop.time() < idle_since_s + _LAST_LEFT_S:
                idle_since_s = None if self.listeners else idle_since_s or loop.time()
                try:
                    async with asyncio.timeout(_LAST_LEFT_S / 4):
                        data = await connection.receive_bytes()
                except TimeoutError:
                    continue
                if data is None:
                    raise TransportError("LuxiD closed the stream of events")
                self._take(data)
        finally:
            connection.abort()

    def _take(self, data: bytes) -> None:
        head = _HEAD.decode(data)
        if len(self._events) == _KEPT:
            self._first += 1
            del self._places[next(iter(self._places))]
        self._places[head.position] = self._end
        self._events.append((head.event, _FRAME % (head.position.encode(), head.event.encode(), data)))
        self._position = head.position
        self._stir()

    def _stir(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def _shared(self, kinds: frozenset[str], number: int, position: str) -> AsyncGenerator[bytes, None]:
        self.listeners += 1
        try:
            yield b"id: %s\nevent: begin\ndata: {}\n\n" % position.encode()
            while number >= self._first and self._position:
                frames = []
                while number < self._end:
                    kind, frame = self._events[number - self._first]
                    if kind in kinds or kind == "snapshot":
                        frames.append(frame)
                    number += 1
                if frames:
                    yield b"".join(frames)
                    continue
                try:
                    async with asyncio.timeout(_ALIVE_S):
                        await self._moved.wait()
                except TimeoutError:
                    yield _ALIVE
        finally:
            self.listeners -= 1


async def _own(position: str, connection: Connection) -> AsyncGenerator[bytes, None]:
    try:
        yield b"id: %s\nevent: begin\ndata: {}\n\n" % position.encode()
        while True:
            try:
                async with asyncio.timeout(_ALIVE_S):
                    data = await connection.receive_bytes()
            except TimeoutError:
                yield _ALIVE
                continue
            except TransportError:
                return
            if data is None:
                return
            head = _HEAD.decode(data)
            yield _FRAME % (head.position.encode(), head.event.encode(), data)
    finally:
        connection.abort()


async def while_allowed(
    frames: AsyncGenerator[bytes, None], is_allowed: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """End a stream once who opened it would not be let in any more: a token is revoked, or over."""
    loop = asyncio.get_running_loop()
    looked_s = loop.time()
    try:
        async for frame in frames:
            if loop.time() >= looked_s + _LOOK_S:
                looked_s = loop.time()
                if not is_allowed():
                    return
            yield frame
    finally:
        await frames.aclose()

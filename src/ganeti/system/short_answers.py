# SPDX-License-Identifier: BSD-2-Clause
"""Answers to short HTTP requests of one's own callers, at a fifth of what a general server takes.

A connection begins here. As long as its requests look as `http_connections` writes short ones, they are answered here;
with the first that does not, the connection goes to the general server, with all that has come of it.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from multidict import CIMultiDict

from ganeti.system.http_connections import SHORT_BYTES

_log = logging.getLogger(__name__)
_END = b"\r\n\r\n"
_FIRST = re.compile(rb"POST (/[a-z_]{1,64}) HTTP/1\.1")
_LENGTH, _HOST = "Content-Length", "Host"
_HEAD_BYTES = 4096
_NUMBER = re.compile(r"[0-9]{1,6}")


class Head:
    """The first line and the headers of a request."""

    __slots__ = ("headers", "length_bytes", "path")

    def __init__(self, path: str, headers: Mapping[str, str], length_bytes: int) -> None:
        self.path = path
        self.headers = headers
        self.length_bytes = length_bytes


def read_head(data: bytes, known: frozenset[str]) -> Head | None:
    """None for what is not written as `http_connections` writes it, with *known* names of headers, in lower case."""
    first, *lines = data.split(b"\r\n")
    match = _FIRST.fullmatch(first)
    if match is None:
        return None
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(": ")
        if not colon or name in headers or name.lower() not in known or not value.isprintable():
            return None
        headers[name] = value
    length = headers.get(_LENGTH, "")
    if _HOST not in headers or not _NUMBER.fullmatch(length) or int(length) > SHORT_BYTES:
        return None
    return Head(match[1].decode(), headers, int(length))


class Answer(NamedTuple):
    status: int
    body: bytes
    content_type: str


class Server(Protocol):
    """Who has the connections."""

    known_headers: frozenset[str]

    def came(self, connection: "ShortAnswers", transport: asyncio.Transport) -> None: ...

    def went(self, connection: "ShortAnswers") -> None: ...

    def stirs(self, connection: "ShortAnswers") -> None: ...

    def refusal(self, head: Head, transport: asyncio.Transport) -> Answer | None:
        """What is answered to one that is not let in, whose connection is closed then."""
        ...

    def answer(
        self, connection: "ShortAnswers", head: Head, body: bytes, transport: asyncio.Transport
    ) -> Awaitable[Answer]: ...


class ShortAnswers(asyncio.Protocol):
    """One connection."""

    def __init__(
        self,
        server: Server,
        general: Callable[[], asyncio.Protocol],
        start: Callable[[Coroutine[Any, Any, None]], None],
        pause_s: float,
        kept_s: float,
    ) -> None:
        """*pause_s* is how long nothing may come in the middle of a request, *kept_s* how long between them."""
        self._server = server
        self._general = general
        self._start = start
        self._pause_s = pause_s
        self._kept_s = kept_s
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._head: Head | None = None
        self._body_at = 0
        self._is_answering = False
        self._stirred_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._stirred_s = loop.time()
        self._timer = loop.call_later(min(self._pause_s, self._kept_s), self._look)
        self._server.came(self, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._stirred_s = asyncio.get_running_loop().time()
        if self._is_answering:
            if len(self._buffer) > 2 * SHORT_BYTES and self._transport is not None:
                self._transport.abort()  # no client of the product sends on and on without waiting
            return
        self._server.stirs(self)
        self._look_at_buffer()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _look_at_buffer(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if self._head is None:
            end = self._buffer.find(_END)
            if end < 0:
                self._hand_over()
                return
            self._head = read_head(self._buffer[:end], self._server.known_headers) if end < _HEAD_BYTES else None
            if self._head is None:
                self._hand_over()
                return
            self._body_at = end + len(_END)
        whole_bytes = self._body_at + self._head.length_bytes
        if len(self._buffer) < whole_bytes:
            return
        head, body = self._head, self._buffer[self._body_at : whole_bytes]
        self._head, self._buffer = None, self._buffer[whole_bytes:]
        refusal = self._server.refusal(head, transport)
        if refusal is not None:
            transport.write(_written(refusal, "Connection: close\r\n"))
            transport.close()
            return
        self._is_answering = True
        self._start(self._answer(head, body, transport))

    async def _answer(self, head: Head, body: bytes, transport: asyncio.Transport) -> None:
        try:
            answer = await self._server.answer(self, head, body, transport)
        except Exception:
            _log.exception("The request %s could not be answered", head.path)
            transport.abort()
            return
        finally:
            self._is_answering = False
            self._stirred_s = asyncio.get_running_loop().time()
        if not transport.is_closing():
            transport.write(_written(answer))
            if self._buffer:
                self._look_at_buffer()

    def _look(self) -> None:
        """Let go of a connection that nobody uses; the rest of a request that does not come is the general server's."""
        loop = asyncio.get_running_loop()
        left_s = self._stirred_s + (self._kept_s if not self._buffer else self._pause_s) - loop.time()
        if self._is_answering or left_s > 0:
            self._timer = loop.call_later(
                self._pause_s if self._is_answering else min(left_s, self._pause_s), self._look
            )
        elif self._buffer:
            self._hand_over()
        else:
            self.close()

    def _hand_over(self) -> None:
        transport, data = self._transport, self._buffer
        self._leave()
        if transport is None or transport.is_closing():
            return
        general = self._general()
        transport.set_protocol(general)
        general.connection_made(transport)
        general.data_received(data)

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport = None
            self._buffer = b""
            self._server.went(self)


def _written(answer: Answer, more: str = "") -> bytes:
    status = answer.status
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nServer: Ganeti\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n{more}\r\n"
    )
    return lines.encode("ascii") + answer.body

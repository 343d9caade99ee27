# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/1.1 from the side of a client, as our daemons speak it: kept-alive connections, one request at a time on each.

A library that can do all of HTTP takes longer to load than the rest of a daemon, and each job that calls a node would
pay for it in memory. What is needed: a POST with a body in one or many pieces, a GET, an answer with its length or in
chunks. A connection that has given anything else is not used again.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

_HEAD_BYTES = 64 * 1024
_END = b"\r\n"


class TooLong(Exception):
    """The answer is longer than the request allows."""


class NotHttp(Exception):
    """What came is no answer."""


class Place(NamedTuple):
    """Where a connection goes; *host* is the name in the other side's certificate."""

    host: str
    address: str
    port: int


class Request(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | AsyncIterator[bytes] = b""
    limit_bytes: int | None = None
    """Of the answer's body."""


class HttpConnection:
    """One connection; after an exchange it `is_usable` for another one, or not."""

    def __init__(self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.place = place
        self.idle_since_s = 0.0
        self._reader = reader
        self._writer = writer
        self._is_complete = True
        """The last answer was read to its end, and the other side goes on."""

    @classmethod
    async def open(cls, place: Place, tls: ssl.SSLContext | None) -> "HttpConnection":
        """Raises `OSError`."""
        reader, writer = await asyncio.open_connection(
            place.address, place.port, ssl=tls, server_hostname=place.host if tls is not None else None
        )
        return cls(place, reader, writer)

    @property
    def is_usable(self) -> bool:
        return self._is_complete and not self._writer.transport.is_closing() and not self._reader.at_eof()

    async def exchange(self, request: Request) -> tuple[int, bytes]:
        """Give status and body of the answer, which may come before all of the request is sent.

        Raises `OSError`, `EOFError`, `NotHttp`, or `TooLong`.
        """
        self._is_complete = False
        sending: asyncio.Future[None] | None = None
        if isinstance(request.body, bytes):
            self._writer.write(_head(request, self.place.host) + request.body)
        else:
            self._writer.write(_head(request, self.place.host))
            sending = asyncio.ensure_future(self._send(request.body))
        try:
            status, body, goes_on = await self._answer(request.limit_bytes)
            self._is_complete = goes_on and (sending is None or sending.done())
            return status, body
        except (OSError, EOFError):
            if sending is not None and sending.done() and (fault := sending.exception()) is not None:
                raise fault from None  # it is why there is no answer
            raise
        finally:
            if sending is not None and not sending.done():
                sending.cancel()
            if sending is not None:
                await asyncio.gather(sending, return_exceptions=True)

    def abort(self) -> None:
        self._writer.transport.abort()

    async def _send(self, pieces: AsyncIterator[bytes]) -> None:
        """In chunks; where that fails, nobody waits for an answer."""
        try:
            async for piece in pieces:
                if piece:
                    self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    await self._writer.drain()
            self._writer.write(b"0\r\n\r\n")
        except Exception:
            self.abort()
            raise

    async def _answer(self, limit_bytes: int | None) -> tuple[int, bytes, bool]:
        """Status, body, and whether another request may follow."""
        try:
            status, version, headers = await self._answer_head()
            goes_on = version == b"HTTP/1.1" and b"close" not in headers.get(b"connection", b"").lower()
            if status in (204, 304):
                return status, b"", goes_on
            if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
                return status, await self._chunks(limit_bytes), goes_on
            if (length := headers.get(b"content-length")) is not None:
                return status, await self._part(_number(length, 10), limit_bytes), goes_on
            return status, await self._rest(limit_bytes), False
        except (ValueError, asyncio.LimitOverrunError) as err:
            raise NotHttp(str(err)) from err

    async def _answer_head(self) -> tuple[int, bytes, dict[bytes, bytes]]:
        while True:
            first, *lines = (await self._reader.readuntil(_END + _END))[:-4].split(_END)
            version, _, said = first.partition(b" ")
            if not version.startswith(b"HTTP/1."):
                raise NotHttp("the first line is not HTTP's")
            status = _number(said[:3], 10)
            if status >= 200:  # others come before the answer
                pairs = (line.partition(b":") for line in lines)
                return status, version, {name.strip().lower(): value.strip() for name, _, value in pairs}

    async def _part(self, length: int, limit_bytes: int | None) -> bytes:
        if limit_bytes is not None and length > limit_bytes:
            raise TooLong
        return await self._reader.readexactly(length)

    async def _chunks(self, limit_bytes: int | None) -> bytes:
        body = bytearray()
        while length := _number((await self._reader.readuntil(_END)).partition(b";")[0].strip(), 16):
            body += await self._part(length, None if limit_bytes is None else limit_bytes - len(body))
            if await self._reader.readexactly(2) != _END:
                raise NotHttp("a chunk does not end where it should")
        while await self._reader.readuntil(_END) != _END:
            pass  # a trailer says nothing to us
        return bytes(body)

    async def _rest(self, limit_bytes: int | None) -> bytes:
        body = bytearray()
        while piece := await self._reader.read(_HEAD_BYTES):
            body += piece
            if limit_bytes is not None and len(body) > limit_bytes:
                raise TooLong
        return bytes(body)


def _head(request: Request, host: str) -> bytes:
    lines = [f"{request.method} {request.path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    if not isinstance(request.body, bytes):
        lines.append("Transfer-Encoding: chunked")
    elif request.method != "GET":
        lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _number(digits: bytes, base: int) -> int:
    """Raises `ValueError` also for the signs and underscores that `int` takes."""
    if not digits or not digits.isalnum():
        raise ValueError(f"no number: {digits[:20]!r}")
    return int(digits, base)


class Pool:
    """Connections under one certificate: so many at a time, and each kept for a while after its last request."""

    def __init__(self, tls: ssl.SSLContext | None, *, most: int, kept_s: float) -> None:
        self._tls = tls
        self._turn = asyncio.Semaphore(most)
        self._kept_s = kept_s
        self._idle: dict[Place, list[HttpConnection]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    async def take(self, place: Place) -> HttpConnection:
        """A kept connection, else a new one; `give_back` follows. Raises `OSError`."""
        await self._turn.acquire()
        try:
            idle = self._idle.get(place, [])
            while idle:
                if (kept := idle.pop()).is_usable:
                    return kept
                kept.abort()
            return await HttpConnection.open(place, self._tls)
        except BaseException:
            self._turn.release()
            raise

    def give_back(self, connection: HttpConnection) -> None:
        self._turn.release()
        if not connection.is_usable:
            connection.abort()
            return
        connection.idle_since_s = time.monotonic()
        self._idle.setdefault(connection.place, []).append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(self._kept_s, self._end_idle)

    def close(self) -> None:
        """End those that no request has."""
        self._kept_s = 0.0
        self._end_idle()

    def _end_idle(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        latest_s = time.monotonic() - self._kept_s
        for place, connections in list(self._idle.items()):
            for connection in connections:
                if connection.idle_since_s <= latest_s:
                    connection.abort()
            self._idle[place] = [each for each in connections if each.idle_since_s > latest_s]
            if not self._idle[place]:
                del self._idle[place]
        if self._idle:
            self._sweep = asyncio.get_running_loop().call_later(self._kept_s, self._end_idle)

# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/1.1 from the side of a client, as our daemons speak it: kept-alive connections, one request at a time on each.

A library that can do all of HTTP takes longer to load than the rest of a daemon, and takes five times the CPU for a
short request. What is needed: a POST with a body in one or many pieces, a GET, an answer that `http_answers` reads. A
connection that has given anything else is not used again.
"""

import asyncio
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from ganeti.system.http_answers import AnswerReader, NotHttp

BUFFER_BYTES = 32 * 1024
"""Two records of TLS. The loop would give each connection 256 KiB and write zeros to it: 1,000 nodes have one each."""
SHORT_BYTES = 64 * 1024
"""Of a body in one piece: `short_answers` takes up to this length."""


class ConnectError(Exception):
    """No connection came about; *cause* is None where there was no time left for it."""

    def __init__(self, cause: OSError | None) -> None:
        super().__init__(str(cause))
        self.cause = cause


class BrokeError(Exception):
    """The connection broke before the answer was there; *cause* is None where the other side just closed it."""

    def __init__(self, cause: OSError | None) -> None:
        super().__init__(str(cause))
        self.cause = cause


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

    @property
    def is_short(self) -> bool:
        """It is written as `short_answers` reads it."""
        return self.method == "POST" and isinstance(self.body, bytes) and len(self.body) <= SHORT_BYTES


class Pool:
    """Connections that show one certificate: a limited number at a time, and each kept for a while when it is idle.

    Places that could not be reached last time have room of their own: where a third of 1,000 nodes is without power,
    those that wait for these would leave none for the others.
    """

    def __init__(self, tls: ssl.SSLContext | None, *, most: int, kept_s: float) -> None:
        self._tls = tls
        if tls is not None:
            SSLProtocol.max_size = min(SSLProtocol.max_size, BUFFER_BYTES)
        self._room = asyncio.Semaphore(most)
        self._room_of_unreached = asyncio.Semaphore(most)
        self._unreached: set[Place] = set()
        self._kept_s = kept_s
        self._idle: dict[Place, list[_Connection]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    async def exchange(self, place: Place, request: Request, connect_s: float) -> tuple[int, bytes]:
        """Give status and body of the answer. Raises `ConnectError`, `BrokeError`, `TooLong`."""
        async with self._room_of_unreached if place in self._unreached else self._room:
            self._unreached.add(place)  # while this is tried, and where that ends by time
            connection = await self._connected(place, connect_s)
            self._unreached.discard(place)
            try:
                answer = await connection.exchange(request)
            except BaseException:
                connection.abort()
                raise
            self._keep(connection)
            return answer

    def close(self) -> None:
        """End the idle connections; one that has a request ends with that."""
        self._kept_s = 0.0
        self._end_idle()

    async def _connected(self, place: Place, within_s: float) -> "_Connection":
        idle = self._idle.get(place, [])
        while idle:
            if (kept := idle.pop()).is_usable:
                return kept
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(within_s) as patience:
                _, made = await loop.create_connection(
                    lambda: _Connection(place),
                    place.address,
                    place.port,
                    family=socket.AF_INET6 if ":" in place.address else socket.AF_INET,
                    flags=socket.AI_NUMERICHOST,
                    ssl=self._tls,
                    server_hostname=None if self._tls is None else place.host,
                )
        except OSError as err:  # of TLS, too; a `TimeoutError` is one, also where the kernel has given up
            raise ConnectError(None if patience.expired() else err) from err
        return made

    def _keep(self, connection: "_Connection") -> None:
        if not connection.is_usable or not self._kept_s:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since_s = loop.time()
        self._idle.setdefault(connection.place, []).append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(self._kept_s, self._end_idle)

    def _end_idle(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        loop = asyncio.get_running_loop()
        latest_s = loop.time() - self._kept_s
        for place, connections in list(self._idle.items()):
            for connection in connections:
                if connection.idle_since_s <= latest_s:
                    connection.abort()
            self._idle[place] = [each for each in connections if each.is_usable]
            if not self._idle[place]:
                del self._idle[place]
        if self._idle:
            self._sweep = loop.call_later(self._kept_s, self._end_idle)


class _Connection(asyncio.Protocol):
    """One connection; after an exchange it `is_usable` for another one, or not."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.idle_since_s = 0.0
        self.is_usable = True
        self._transport: asyncio.Transport | None = None
        self._reader = AnswerReader()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._room: asyncio.Future[None] | None = None
        """Done when more can be written; None where that is so now."""

    async def exchange(self, request: Request) -> tuple[int, bytes]:
        """Give status and body of the answer, which may come before all of the request is sent.

        Raises `BrokeError`, `TooLong`, or what the request's pieces raise.
        """
        assert self._transport is not None
        self._reader = AnswerReader(request.limit_bytes)
        answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._answer = answer
        head = _head(request, self.place)
        if isinstance(request.body, bytes):
            whole = memoryview(head + request.body)
            for begin in range(0, len(whole), BUFFER_BYTES):
                self._transport.write(whole[begin : begin + BUFFER_BYTES])  # TLS keeps room for the longest
            return await answer
        self._transport.write(head)
        sending = asyncio.ensure_future(self._send(request.body, self._transport))
        try:
            return await answer
        finally:
            if not sending.done():
                self.is_usable = False
                sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    def abort(self) -> None:
        self.is_usable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # nobody asked for this
            return
        self._read(data)

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        self.resume_writing()

    def pause_writing(self) -> None:
        self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None

    def _end(self, exc: Exception | None) -> None:
        self.is_usable = False
        if self._answer is not None and not self._answer.done():
            if exc is None:
                self._read(None)
            else:
                self._fail(BrokeError(exc if isinstance(exc, OSError) and not isinstance(exc, ssl.SSLError) else None))

    def _read(self, data: bytes | None) -> None:
        """Take in what has come, None for the end."""
        assert self._answer is not None
        try:
            answer = self._reader.end() if data is None else self._reader.feed(data)
        except (EOFError, NotHttp):
            self._fail(BrokeError(None))
        except Exception as err:
            self._fail(err)
        else:
            if answer is not None:
                self.is_usable = self.is_usable and answer.goes_on
                self._answer.set_result((answer.status, answer.body))

    async def _send(self, pieces: AsyncIterator[bytes], transport: asyncio.Transport) -> None:
        """In chunks; where a piece cannot be read, that is why there is no answer."""
        try:
            async for piece in pieces:
                if transport.is_closing():
                    return
                if piece:
                    transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                if self._room is not None:
                    await self._room
            transport.write(b"0\r\n\r\n")
        except Exception as err:
            self._fail(BrokeError(err) if isinstance(err, OSError) else err)

    def _fail(self, err: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(err)
        self.abort()


def _head(request: Request, place: Place) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    if not isinstance(request.body, bytes):
        lines += "Transfer-Encoding: chunked\r\n"
    elif request.method != "GET":
        lines += f"Content-Length: {len(request.body)}\r\n"
    return f"{request.method} {request.path} HTTP/1.1\r\nHost: {place.host}:{place.port}\r\n{lines}\r\n".encode(
        "latin-1"
    )

# SPDX-License-Identifier: BSD-2-Clause
"""Short HTTP requests over kept connections: what most node calls are, at a fifth of what a general client takes.

What goes over the wire is plain HTTP/1.1, so any server answers it; `short_answers` does so as cheaply. One connection
has one request at a time. What is sent in pieces, or is long, goes another way (`http_client`).
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping

from ganeti.base.errors import NodeTimeoutError

LONGEST_BYTES = 64 * 1024
"""Of a body: longer ones are not sent this way, nor taken in by `short_answers`."""
_HEAD_BYTES = 16 * 1024
_END = b"\r\n\r\n"
_LENGTH, _CLOSE = b"\r\ncontent-length:", b"\r\nconnection: close\r\n"


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


class Connections:
    """Those that show one certificate. A request takes one that waits, or opens one."""

    def __init__(self, context: ssl.SSLContext | None, kept_s: float, most: int) -> None:
        """*most* requests are under way at one time; a connection is used again within *kept_s*."""
        self._context = context
        self._kept_s = kept_s
        self._room = asyncio.Semaphore(most)
        self._idle: dict[tuple[str, str, int], list[_Connection]] = {}

    async def post(
        self,
        host: str,
        address_of: Callable[[str], str],
        port: int,
        path: str,
        body: bytes,
        *,
        limit_s: float,
        connect_s: float,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes]:
        """Give status and body of the answer. Raises `ConnectError`, `BrokeError`, `NodeTimeoutError`."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        request = head.encode("ascii") + body
        try:
            async with asyncio.timeout(max(limit_s, 0.001)), self._room:
                connection = await self._connected(host, address_of(host), port, connect_s)
                try:
                    answer = await connection.ask(request)
                except BaseException:
                    connection.abort()
                    raise
        except TimeoutError:
            raise NodeTimeoutError(
                f"Node {host} did not answer the call {path.strip('/')} within {limit_s:.0f} seconds"
            ) from None
        self._keep(connection)
        return answer

    def close(self) -> None:
        """Those that wait; one with a request is closed when that is over."""
        self._kept_s = 0.0
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()

    async def _connected(self, host: str, address: str, port: int, within_s: float) -> "_Connection":
        key = (host, address, port)
        loop = asyncio.get_running_loop()
        idle = self._idle.get(key, [])
        while idle:
            connection = idle.pop()
            if not connection.is_over and loop.time() - connection.idle_since_s < self._kept_s:
                return connection
            connection.abort()
        self._idle.pop(key, None)
        try:
            async with asyncio.timeout(within_s):
                _, made = await loop.create_connection(
                    lambda: _Connection(key),
                    address,
                    port,
                    family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                    flags=socket.AI_NUMERICHOST,
                    ssl=self._context,
                    server_hostname=None if self._context is None else host,
                )
        except TimeoutError:
            raise ConnectError(None) from None
        except OSError as err:  # of TLS, too
            raise ConnectError(err) from err
        return made

    def _keep(self, connection: "_Connection") -> None:
        if connection.is_over or not self._kept_s:
            connection.abort()
            return
        connection.idle_since_s = asyncio.get_running_loop().time()
        self._idle.setdefault(connection.key, []).append(connection)


class _Connection(asyncio.Protocol):
    def __init__(self, key: tuple[str, str, int]) -> None:
        self.key = key
        self.idle_since_s = 0.0
        self.is_over = False
        """It takes no other request."""
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._status, self._whole_bytes = 0, 0
        """Of the answer whose head is there."""

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._answer
        finally:
            self._answer = None

    def abort(self) -> None:
        self.is_over = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # nobody asked for this
            return
        self._buffer += data
        if not self._whole_bytes and not self._read_head():
            return
        if len(self._buffer) < self._whole_bytes:
            return
        head_and_body = bytes(self._buffer)
        body = head_and_body[head_and_body.index(_END) + len(_END) : self._whole_bytes]
        self.is_over = self.is_over or len(head_and_body) > self._whole_bytes
        status, self._status, self._whole_bytes = self._status, 0, 0
        self._buffer.clear()
        self._answer.set_result((status, body))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self._fail(exc if isinstance(exc, OSError) else None)

    def _read_head(self) -> bool:
        """Take in status and length; False if they are not there, or not to be understood."""
        end = self._buffer.find(_END)
        if end < 0:
            if len(self._buffer) > _HEAD_BYTES:
                self._refuse()
            return False
        head = bytes(self._buffer[: end + 2]).lower()
        words, (_, found, rest) = head.split(b" ", 2), head.partition(_LENGTH)
        length = rest.partition(b"\r\n")[0].strip()
        if not (words[0].startswith(b"http/1.") and words[1].isdigit() and found and length.isdigit()):
            self._refuse()
            return False
        self._status, self._whole_bytes = int(words[1]), end + len(_END) + int(length)
        self.is_over = self.is_over or _CLOSE in head
        return True

    def _refuse(self) -> None:
        """What comes is no answer that has a length."""
        self._fail(None)
        self.abort()

    def _fail(self, cause: OSError | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(BrokeError(cause))

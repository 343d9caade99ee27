# SPDX-License-Identifier: BSD-2-Clause
"""Connections between the nodes: what is accepted at the port, and the lines of control connections over TLS.

asyncio's own connections keep their socket to themselves; one that is for a storage daemon is given away.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Self, TypeVar

from ganeti.system.event_loop import Background
from ganeti.system.ip_socket import family_of, listen_at

_LINE_LIMIT_BYTES = 64 * 1024
_BLOCK_BYTES = 4096
OF_A_DISK = b"GANETI-DISK "
"""What a connection to a disk's storage daemon begins with, in clear: the disk's UUID follows, a line end, then TLS."""
_OF_A_DISK_MOST_BYTES = 64
_ACCEPT_AGAIN_S = 1.0
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Listener:
    """Starts *serve* with each client's socket, which that one closes."""

    def __init__(self, sock: socket.socket, serve: Callable[[socket.socket], Coroutine[Any, Any, None]]) -> None:
        self._sock, self._serve = sock, serve
        self._loop = asyncio.get_running_loop()
        self._serving = Background()
        sock.setblocking(False)
        self._loop.add_reader(sock, self._accept)

    @classmethod
    def at_port(cls, address: str, port: int, serve: Callable[[socket.socket], Coroutine[Any, Any, None]]) -> Self:
        return cls(listen_at(address, port), serve)

    def close(self) -> None:
        """Clients that were accepted are served on."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._sock.close()

    def _accept(self) -> None:
        try:
            client, _ = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as err:  # no file is free
            _log.error("no connection can be accepted: %s", err.strerror)
            self._loop.remove_reader(self._sock)
            self._loop.call_later(_ACCEPT_AGAIN_S, self._listen_again)
            return
        client.setblocking(False)
        self._serving.start(self._serve(client), "a connection")

    def _listen_again(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock, self._accept)


class Connection:
    """TLS with another node: a line each way. Raises `OSError`."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self.sock = sock

    @classmethod
    async def open(cls, address: str, port: int, context: ssl.SSLContext, name: str) -> Self:
        """To the node *name*."""
        sock = socket.socket(family_of(address))
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
        except BaseException:
            sock.close()
            raise
        return await cls._after_handshake(sock, partial(context.wrap_socket, server_hostname=name))

    @classmethod
    async def accepted(cls, sock: socket.socket, context: ssl.SSLContext) -> Self:
        """Of a client; *sock* is closed where it fails."""
        return await cls._after_handshake(sock, partial(context.wrap_socket, server_side=True))

    @classmethod
    async def _after_handshake(cls, sock: socket.socket, wrap: Callable[..., ssl.SSLSocket]) -> Self:
        """Closes *sock* where it fails."""
        try:
            sock = wrapped = wrap(sock, do_handshake_on_connect=False)
            await _when_ready(wrapped, wrapped.do_handshake)
        except BaseException:
            sock.close()
            raise
        return cls(wrapped)

    @property
    def names(self) -> set[str]:
        """The names in the certificate of the other side."""
        certificate: dict[str, Any] = self.sock.getpeercert() or {}
        subject = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
        return subject | {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}

    async def write_line(self, line: bytes) -> None:
        left = memoryview(line + b"\n")
        while left:
            left = left[await _when_ready(self.sock, partial(self.sock.send, left)) :]

    async def read_line(self) -> bytes:
        """Nothing where the other side has ended; raises `ValueError` for a line that is too long."""
        line = bytearray()
        while not line.endswith(b"\n"):
            found = await _when_ready(self.sock, partial(self.sock.recv, _BLOCK_BYTES))
            if not found:
                return b""
            line += found
            if len(line) > _LINE_LIMIT_BYTES:
                raise ValueError("a line of another node is too long")
        return bytes(line)

    def close(self) -> None:
        self.sock.close()


async def is_for_storage_daemon(sock: socket.socket) -> bool:
    """Whether *sock* begins so; nothing of it is read. Raises `OSError`."""
    return await _now_or_later(sock, partial(sock.recv, 1, socket.MSG_PEEK)) == OF_A_DISK[:1]


async def read_disk(sock: socket.socket) -> str:
    """The UUID of the disk that *sock* is for. Raises `OSError`, or `ValueError` for what is no such line.

    Byte by byte: what follows the line is the storage daemon's.
    """
    line = b""
    while not line.endswith(b"\n"):
        found = await _now_or_later(sock, partial(sock.recv, 1))
        line += found
        if not found or len(line) > _OF_A_DISK_MOST_BYTES:
            raise ValueError("a connection names no disk")
    if not line.startswith(OF_A_DISK):
        raise ValueError("a connection is neither TLS nor for a disk")
    return line.removeprefix(OF_A_DISK).strip().decode("ascii")


async def _now_or_later(sock: socket.socket, do: Callable[[], T]) -> T:
    while True:
        try:
            return do()
        except (BlockingIOError, InterruptedError):
            await _event(sock, for_reading=True)


async def _when_ready(sock: ssl.SSLSocket, do: Callable[[], T]) -> T:
    while True:
        try:
            return do()
        except ssl.SSLWantReadError:
            await _event(sock, for_reading=True)
        except ssl.SSLWantWriteError:
            await _event(sock, for_reading=False)


async def _event(sock: socket.socket, *, for_reading: bool) -> None:
    loop, number = asyncio.get_running_loop(), sock.fileno()
    come = loop.create_future()

    def tell() -> None:
        if not come.done():
            come.set_result(None)

    (loop.add_reader if for_reading else loop.add_writer)(number, tell)
    try:
        await come
    finally:  # at once: the number may be another socket's soon
        (loop.remove_reader if for_reading else loop.remove_writer)(number)

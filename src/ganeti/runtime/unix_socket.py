# SPDX-License-Identifier: BSD-2-Clause
"""Opening and serving Unix sockets; paths may be longer than a socket address."""

import asyncio
import os
import socket
import stat
from collections.abc import Awaitable, Callable

from ganeti.base.errors import TransportError
from ganeti.runtime.event_loop import Background
from ganeti.wire.framing import Connection
from ganeti.wire.framing_sync import MESSAGE_LIMIT_BYTES, reachable_path

_STREAM_LIMIT_BYTES = 256 * 1024


async def connect(path: str, timeout_s: float = 10.0) -> Connection:
    """Connect to a daemon; raises `TransportError` saying who does not answer."""
    try:
        with reachable_path(path) as name:
            async with asyncio.timeout(timeout_s):
                streams = await asyncio.open_unix_connection(name, limit=_STREAM_LIMIT_BYTES)
    except OSError as err:  # TimeoutError is one
        raise TransportError(f"Cannot connect to {path}: {err.strerror or err}; is the daemon running?") from err
    return Connection(*streams)


class UnixServer:
    """Serves a socket: one task per connection, all ended by `close`."""

    def __init__(self, server: asyncio.Server, tasks: Background, path: str) -> None:
        self._server = server
        self._tasks = tasks
        self._path = path

    async def close(self) -> None:
        self._server.close()
        await self._tasks.cancel()
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            return


async def serve(
    path: str,
    handle: Callable[[Connection], Awaitable[None]],
    mode: int = 0o660,
    limit_bytes: int = MESSAGE_LIMIT_BYTES,
) -> UnixServer:
    """Listen at *path* and run *handle* for each connection, which is closed when it returns.

    A socket file left by a dead daemon is replaced; whoever calls this holds the daemon's pid file.
    """
    tasks = Background()
    listener = _listen(path, mode)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.start(_serve_one(Connection(reader, writer, limit_bytes), handle), f"connection to {path}")

    server = await asyncio.start_unix_server(accept, sock=listener, limit=_STREAM_LIMIT_BYTES)
    return UnixServer(server, tasks, path)


async def _serve_one(connection: Connection, handle: Callable[[Connection], Awaitable[None]]) -> None:
    try:
        await handle(connection)
    except TransportError:
        connection.abort()
    except asyncio.CancelledError:
        connection.abort()
        raise
    finally:
        await connection.close()


def _listen(path: str, mode: int) -> socket.socket:
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with reachable_path(path) as name:
            before = os.umask(0o777 & ~mode)
            try:
                listener.bind(name)
            finally:
                os.umask(before)
        listener.listen(128)
    except OSError as err:
        listener.close()
        raise TransportError(f"Cannot listen at {path}: {err.strerror or err}") from err
    listener.setblocking(False)
    return listener

# SPDX-License-Identifier: BSD-2-Clause
"""Opening and serving Unix sockets; paths may be longer than a socket address.

Every client is served or told why not: beyond the most connections, and when the process has no descriptor left,
a client gets a sentence and its connection is closed. Accepting never spins and never ends before the server does.
A socket that somebody removes is there again within seconds: nobody else would start a daemon that runs.
"""

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ganeti.base.errors import GanetiError, TransportError
from ganeti.system.accounts import SOCKET_DIR_MODE, give_group
from ganeti.system.crowd import Crowd
from ganeti.system.event_loop import Background
from ganeti.wire.framing import Connection, encode
from ganeti.wire.framing_sync import MESSAGE_LIMIT_BYTES, ReachablePath

_log = logging.getLogger(__name__)
_STREAM_LIMIT_BYTES = 256 * 1024
_BACKLOG = 4096
_AT_ONCE = 64
_IN_LINE_S = 0.02
"""Pause before the next try to connect to a daemon that has not yet accepted those before."""
_CONNECTIONS_MAX = 8192
_DESCRIPTORS_WANTED = 32_768
_DESCRIPTORS_RESERVED = 256
"""Kept for files, pipes and connections of our own; half of them where there are few."""
_SOCKETS_A_DAEMON = 2
_PAUSE_S = 0.5
_CROWD = 500
_LOOK_S = 5.0
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


async def connect(path: str, timeout_s: float = 10.0, limit_bytes: int = MESSAGE_LIMIT_BYTES) -> Connection:
    """Connect to a daemon; raises `TransportError` saying who does not answer."""
    try:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as err:  # no descriptor: that passes, as a daemon's restart does
        raise TransportError(f"Cannot connect to {path}: {err.strerror or err}") from err
    try:
        client.setblocking(False)
        with ReachablePath(path) as name:
            async with asyncio.timeout(timeout_s):
                await _stand_in_line(client, name)
        streams = await asyncio.open_unix_connection(sock=client, limit=_STREAM_LIMIT_BYTES)
    except OSError as err:  # TimeoutError is one
        client.close()
        raise TransportError(f"Cannot connect to {path}: {err.strerror or err}; is the daemon running?") from err
    except BaseException:
        client.close()
        raise
    return Connection(*streams, limit_bytes)


async def _stand_in_line(client: socket.socket, name: str) -> None:
    """Connect; a Unix socket whose line is full says so at once, and to wait for it to be writable does not help."""
    while True:
        try:
            client.connect(name)
        except BlockingIOError:
            await asyncio.sleep(_IN_LINE_S)
        else:
            return


def allow_many_connections() -> None:
    """Raise this process' limit of open descriptors as far as it may go, within reason; root's limits are its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _DESCRIPTORS_WANTED:
        with contextlib.suppress(OSError, ValueError):  # the kernel's own limit, or no right to it
            resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS_WANTED, _DESCRIPTORS_WANTED))
            return
    wanted = _DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> int:
    """How many connections one socket may have, so that descriptors are left for everything else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _CONNECTIONS_MAX
    reserved = min(_DESCRIPTORS_RESERVED, soft // 2)
    return max(1, min(_CONNECTIONS_MAX, (soft - reserved) // _SOCKETS_A_DAEMON))


class UnixServer:
    """Serves a socket: one task per connection, all ended by `close`."""

    def __init__(
        self,
        place: "_Place",
        handle: Callable[[Connection], Awaitable[None]],
        limit_bytes: int,
        connections_max: int,
    ) -> None:
        self._listener = place.listen()
        self._place = place
        self._path = place.path
        self._handle = handle
        self._limit_bytes = limit_bytes
        self._connections_max = connections_max
        self._connections = 0
        self._crowd = Crowd(_CROWD)
        self._refusing = False
        self._spare: int | None = None
        """A descriptor given up for a moment to be able to refuse a client when there are none left."""
        self._tasks = Background()
        self._accepting = self._tasks.start(self._accept(), f"accepting at {self._path}")
        self._tasks.start(self._keep(), f"looking after {self._path}")

    async def close(self) -> None:
        await self._tasks.cancel()
        self._crowd.forget()
        self._listener.close()
        if self._spare is not None:
            os.close(self._spare)
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            return

    async def _keep(self) -> None:
        """Put the socket back where it was removed."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if os.path.lexists(self._path):
                continue
            try:
                listener = self._place.listen_again()
            except (OSError, TransportError) as err:
                _log.debug("%s cannot be put back now: %s", self._path, err)
                continue
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
            while await self._accept_one():  # those who have come by the former one
                pass
            self._listener.close()
            self._listener = listener
            self._accepting = self._tasks.start(self._accept(), f"accepting at {self._path}")
            _log.warning("%s was removed while the daemon ran: it is there again", self._path)

    async def _accept(self) -> None:
        while True:
            await self._readable()
            for _ in range(_AT_ONCE):  # then those who are in get their turn, however many stand in line
                if not await self._accept_one():
                    break

    async def _accept_one(self) -> bool:
        """Serve or refuse the next client; False if there was none."""
        try:
            if self._spare is None:
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            client, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return False
        except OSError as err:
            self._complain(f"takes no connection: {err.strerror or err}")
            if err.errno not in _NO_DESCRIPTOR or not self._refuse_with_spare():
                await asyncio.sleep(_PAUSE_S)
            return False
        client.setblocking(False)
        if self._connections >= self._connections_max:
            self._complain(f"has {self._connections} connections, which is the most")
            _refuse(client)
        else:
            self._refusing = False
            self._connections += 1
            self._crowd.came()
            self._tasks.start(self._serve_one(client), f"connection to {self._path}")
        return True

    async def _readable(self) -> None:
        """Wait for a client. Not by trying: without a descriptor to spare, that fails when there is none, too."""
        loop = asyncio.get_running_loop()
        there_is_one: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._listener, _settle, there_is_one)
        try:
            await there_is_one
        finally:
            loop.remove_reader(self._listener)

    def _complain(self, what: str) -> None:
        if not self._refusing:
            _log.warning("%s %s; new clients are refused until that has changed", self._path, what)
        self._refusing = True

    def _refuse_with_spare(self) -> bool:
        """Take one client in the place of the spare descriptor and tell it; False if not even that works."""
        if self._spare is None:
            return False
        os.close(self._spare)
        self._spare = None
        try:
            client, _ = self._listener.accept()
        except OSError:
            return False
        client.setblocking(False)
        _refuse(client)
        return True

    async def _serve_one(self, client: socket.socket) -> None:
        try:
            await _serve_one(client, self._handle, self._limit_bytes)
        finally:
            self._connections -= 1
            self._crowd.went()


async def serve(
    path: str,
    handle: Callable[[Connection], Awaitable[None]],
    mode: int = 0o660,
    limit_bytes: int = MESSAGE_LIMIT_BYTES,
    connections_max: int | None = None,
    group: str | None = None,
) -> UnixServer:
    """Listen at *path* and run *handle* for each connection, which is closed when it returns.

    A socket file left by a dead daemon is replaced; the caller holds the daemon's pid file. Without
    *connections_max*, as many are served as descriptors allow. Members of *group* may connect, where daemons have
    users of their own.
    """
    return UnixServer(_Place(path, mode, group), handle, limit_bytes, connections_max or most_connections())


@dataclass(frozen=True)
class _Place:
    """Where a server listens, and for whom."""

    path: str
    mode: int
    group: str | None

    def listen(self) -> socket.socket:
        """Raises `TransportError`, `OSError`."""
        listener = _listen(self.path, self.mode)
        try:
            if self.group is not None:
                give_group(self.path, self.group)
        except OSError:
            listener.close()
            raise
        return listener

    def listen_again(self) -> socket.socket:
        """With the directory, where that was removed, too."""
        directory = os.path.dirname(self.path)
        if not os.path.isdir(directory):
            os.mkdir(directory)
            os.chmod(directory, SOCKET_DIR_MODE)
            if self.group is not None:
                give_group(directory, self.group)
        return self.listen()


async def _serve_one(client: socket.socket, handle: Callable[[Connection], Awaitable[None]], limit_bytes: int) -> None:
    try:
        reader, writer = await asyncio.open_unix_connection(sock=client, limit=_STREAM_LIMIT_BYTES)
    except BaseException:
        client.close()
        raise
    connection = Connection(reader, writer, limit_bytes)
    try:
        await handle(connection)
    except TransportError:
        connection.abort()
    except asyncio.CancelledError:
        connection.abort()
        raise
    finally:
        await connection.close()


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _refuse(client: socket.socket) -> None:
    error = GanetiError("The daemon has as many connections as it can serve: try again later")
    with client:
        try:
            client.send(encode({"success": False, "result": error.to_wire()}))
        except OSError:
            return


def _listen(path: str, mode: int) -> socket.socket:
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with ReachablePath(path) as name:
            before = os.umask(0o777 & ~mode)
            try:
                listener.bind(name)
            finally:
                os.umask(before)
        listener.listen(_BACKLOG)
    except OSError as err:
        listener.close()
        raise TransportError(f"Cannot listen at {path}: {err.strerror or err}") from err
    listener.setblocking(False)
    return listener

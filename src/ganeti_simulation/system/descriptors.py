# SPDX-License-Identifier: BSD-2-Clause
"""What a simulated process has open: files, pipes, Unix sockets.

A description is shared by all descriptors that were made from it (fork, passing over a socket) and closed with the
last of them. Whoever waits for one is a *watcher*: it is told of every change and looks for itself.
"""

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Any

STREAM_BYTES = 208 * 1024
BACKLOG = 4096


class Description:
    """An open thing; `readable` and `writable` say whether to read or write would not wait."""

    blocking = True

    def __init__(self) -> None:
        self.users = 0
        self.watchers: dict[int, Callable[[], None]] = {}

    @property
    def readable(self) -> bool:
        return True

    @property
    def writable(self) -> bool:
        return True

    def changed(self) -> None:
        for tell in list(self.watchers.values()):
            tell()

    def closed(self) -> None:
        """The last descriptor is gone."""

    def read(self, count: int) -> bytes:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def write(self, data: bytes) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


class FileDescription(Description):
    """An open file of a `Disk`."""

    def __init__(self, file: Any, path: str) -> None:
        super().__init__()
        self.file = file
        self.path = path

    def closed(self) -> None:
        self.file.close()

    def read(self, count: int) -> bytes:
        data: bytes = self.file.read(count)
        return data

    def write(self, data: bytes) -> int:
        written: int = self.file.write(data)
        return written


class Generated(Description):
    """A file whose content is made when it is opened: what the kernel tells in `/proc`."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.content = content
        self.offset = 0

    def read(self, count: int) -> bytes:
        data = self.content[self.offset : self.offset + count] if count >= 0 else self.content[self.offset :]
        self.offset += len(data)
        return data

    def write(self, data: bytes) -> int:
        return len(data)


class PipeEnd(Description):
    """One end of a pipe."""

    def __init__(self, buffer: bytearray, *, reads: bool) -> None:
        super().__init__()
        self._buffer = buffer
        self._reads = reads
        self.other: PipeEnd | None = None

    @property
    def readable(self) -> bool:
        return self._reads and (bool(self._buffer) or self.other is None)

    @property
    def writable(self) -> bool:
        return not self._reads

    def read(self, count: int) -> bytes:
        if not self._buffer and self.other is not None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def write(self, data: bytes) -> int:
        if self.other is None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        self._buffer += data
        self.other.changed()
        return len(data)

    def closed(self) -> None:
        if self.other is not None:
            self.other.other = None
            self.other.changed()
            self.other = None


def make_pipe() -> tuple[PipeEnd, PipeEnd]:
    """(read end, write end)."""
    buffer = bytearray()
    read, write = PipeEnd(buffer, reads=True), PipeEnd(buffer, reads=False)
    read.other, write.other = write, read
    return read, write


class SocketEnd(Description):
    """One end of a connected Unix socket: a stream, or packets; descriptors may travel with the bytes."""

    def __init__(self, *, packets: bool) -> None:
        super().__init__()
        self.packets = packets
        self.other: SocketEnd | None = None
        self.received: deque[tuple[bytes, list[Description]]] = deque()
        self.waiting_bytes = 0
        self.reset = False
        self.peer_credentials: tuple[int, int, int] = (0, 0, 0)

    @property
    def readable(self) -> bool:
        return bool(self.received) or self.other is None

    @property
    def writable(self) -> bool:
        return self.other is None or self.other.waiting_bytes < STREAM_BYTES

    def receive(self, count: int) -> tuple[bytes, list[Description]]:
        """What has come, at most *count* bytes; nothing at the end."""
        if not self.received:
            if self.reset:
                self.reset = False
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            if self.other is None:
                return b"", []
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        was_full = self.waiting_bytes >= STREAM_BYTES
        data, passed = self.received.popleft()
        if self.packets:
            self.waiting_bytes -= len(data)
            data = data[:count]
        else:
            while not passed and len(data) < count and self.received and not self.received[0][1]:
                data += self.received.popleft()[0]
            if len(data) > count:
                self.received.appendleft((data[count:], []))
                data = data[:count]
            self.waiting_bytes -= len(data)
        if was_full and self.other is not None:
            self.other.changed()
        return data, passed

    def send(self, data: bytes, passed: list[Description] | None = None) -> int:
        other = self.other
        if other is None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        if other.waiting_bytes >= STREAM_BYTES:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if not self.packets and len(data) > STREAM_BYTES - other.waiting_bytes:
            data = data[: STREAM_BYTES - other.waiting_bytes]
        for description in passed or []:
            description.users += 1
        other.received.append((bytes(data), passed or []))
        other.waiting_bytes += len(data)
        other.changed()
        return len(data)

    def read(self, count: int) -> bytes:
        return self.receive(count)[0]

    def write(self, data: bytes) -> int:
        return self.send(data)

    def closed(self) -> None:
        for _, passed in self.received:
            for description in passed:
                description.users -= 1
                if description.users == 0:
                    description.closed()
        if self.other is not None:
            self.other.other = None
            self.other.reset = bool(self.received)
            self.other.changed()
            self.other = None
        self.received.clear()


def make_socket_pair(*, packets: bool) -> tuple[SocketEnd, SocketEnd]:
    one, two = SocketEnd(packets=packets), SocketEnd(packets=packets)
    one.other, two.other = two, one
    return one, two


class Listener(Description):
    """A Unix socket others connect to."""

    def __init__(self) -> None:
        super().__init__()
        self.line: deque[SocketEnd] = deque()
        self.listening = False
        self.gone = False

    @property
    def readable(self) -> bool:
        return bool(self.line)

    def connect(self) -> SocketEnd:
        """The caller's end of a new connection."""
        if self.gone or not self.listening:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        if len(self.line) >= BACKLOG:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        ours, theirs = make_socket_pair(packets=False)
        theirs.users += 1
        self.line.append(theirs)
        self.changed()
        return ours

    def accept(self) -> SocketEnd:
        if not self.line:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        end = self.line.popleft()
        end.users -= 1
        return end

    def closed(self) -> None:
        self.gone = True
        while self.line:
            self.line.popleft().closed()

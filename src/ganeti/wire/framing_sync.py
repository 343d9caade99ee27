# SPDX-License-Identifier: BSD-2-Clause
"""The blocking client of all Unix sockets: JSON documents, each ended by the byte 0x03 (protocols, section 2).

Hardly anything of the standard library: commands and job processes import this and must start in milliseconds.
JSON escapes control characters, so the byte cannot occur inside a document.
"""

from __future__ import annotations

import _socket
import gc
import os
import time

from ganeti.base.errors import TransportError, from_wire
from ganeti.wire import quick_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

END = b"\x03"
MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_PATH_LIMIT_BYTES = 107
_IN_LINE_S = 0.02


class ReachablePath:
    """Gives a name for a socket's path that fits into a socket address, however deep its directory lies."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._directory: int | None = None

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= _PATH_LIMIT_BYTES:
            return self._path
        directory, name = os.path.split(self._path)
        self._directory = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._directory}/{name}"

    def __exit__(self, *_: object) -> None:
        if self._directory is not None:
            os.close(self._directory)


def connect(
    path: str, timeout_s: float = 10.0, *, waits_in_line: bool = True, **codec: Callable[[Any], Any]
) -> SyncConnection:
    """Connect to a daemon's Unix socket; raises `TransportError` saying who does not answer.

    *timeout_s* counts for each step of all that follows; *codec* is that of `SyncConnection`. Unless *waits_in_line*, a
    daemon that has others to accept first counts as one that does not answer.
    """
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)  # importing `socket` takes longer than a call
    sock.settimeout(timeout_s)
    try:
        with ReachablePath(path) as name:
            if waits_in_line:
                _stand_in_line(sock, name, time.monotonic() + timeout_s)
            else:
                sock.connect(name)
    except OSError as err:
        sock.close()
        raise TransportError(f"Cannot connect to {path}: {err.strerror or err}; is the daemon running?") from err
    return SyncConnection(sock, MESSAGE_LIMIT_BYTES, **codec)


def _stand_in_line(sock: _socket.socket, name: str, deadline_s: float) -> None:
    """Connect; a daemon that has not yet accepted those before makes a Unix socket say so at once, not wait."""
    while True:
        try:
            sock.connect(name)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(_IN_LINE_S)
        else:
            return


class WithoutCollecting:
    """JSON has no cycles: to look for garbage again and again while a long list is read takes ten times the reading."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()


class SyncConnection:
    """A connected socket that sends and receives whole documents.

    A process that has loaded another JSON codec gives its *encode* and *decode*, which raises `ValueError` or
    `TransportError`.
    """

    def __init__(
        self,
        sock: _socket.socket,
        limit_bytes: int = MESSAGE_LIMIT_BYTES,
        *,
        encode: Callable[[Any], bytes] = quick_json.encode,
        decode: Callable[[bytes], Any] = quick_json.decode,
    ) -> None:
        self._socket = sock
        self._limit_bytes = limit_bytes
        self._encode = encode
        self._decode = decode
        self._buffer = bytearray()

    def __enter__(self) -> SyncConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def set_timeout(self, timeout_s: float | None) -> None:
        self._socket.settimeout(timeout_s)

    def send(self, message: Any) -> None:
        """Send one document; raises `TransportError`."""
        data = self._encode(message) + END
        if len(data) > self._limit_bytes:
            raise TransportError(f"A message of {len(data)} bytes is too long: the most is {self._limit_bytes}")
        try:
            self._socket.sendall(data)
        except OSError as err:
            raise TransportError(f"The connection broke while sending: {err.strerror or err}") from err

    def receive(self) -> Any:
        """Wait for one document; raises `TransportError` on the end of the stream, a timeout or nonsense."""
        searched = 0
        while (end := self._buffer.find(END, searched)) < 0 and len(self._buffer) <= self._limit_bytes:
            searched = len(self._buffer)
            self._buffer += self._read()
        if not 0 <= end <= self._limit_bytes:
            raise TransportError(f"The other side sent a message of more than {self._limit_bytes} bytes")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            with WithoutCollecting():
                return self._decode(line)
        except ValueError as err:
            raise TransportError(f"The other side sent something that is not JSON: {err}") from err

    def call(self, method: str, *arguments: Any) -> Any:
        """Ask a daemon and wait for its answer; raises `TransportError`, or the error it answers."""
        self.send({"method": method, "args": arguments})
        answer = self.receive()
        if not isinstance(answer, dict) or "success" not in answer:
            raise TransportError(f"The answer to {method} is none")
        if not answer["success"]:
            raise from_wire(answer.get("result"))
        return answer.get("result")

    def _read(self) -> bytes:
        try:
            chunk = self._socket.recv(_CHUNK_BYTES)
        except TimeoutError as err:
            raise TransportError("The other side did not answer in time") from err
        except OSError as err:
            raise TransportError(f"The connection broke: {err.strerror or err}") from err
        if not chunk:
            raise TransportError("The other side closed the connection")
        return chunk

    def close(self) -> None:
        self._socket.close()


def ask(path: str, timeout_s: float, method: str, *arguments: Any) -> Any:
    """One question to a daemon of this machine, as soon as it listens; raises `TransportError`, or what it answers."""
    with connect(path, timeout_s) as connection:
        return connection.call(method, *arguments)

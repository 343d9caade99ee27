# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's side of a new job process's socket: its greeting, and the confirmation (S2.36, S2.37).

One short message each way; so without the streams of asyncio, which would cost a fifth of what LuxiD does for a job.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import msgspec

from ganeti.base.errors import UNREADABLE_JSON
from ganeti.wire.framing_sync import END

_SEND_S = 5.0
_GREETING_BYTES = 64 * 1024


class Greeting(msgspec.Struct):
    """The new process has locked a file of its own (S2.26)."""

    lock_file: str
    pid: int


class Handshake:
    """Waits for the greeting; exactly one of *greeted* and *lost* is called, in the event loop."""

    def __init__(self, pipe: socket.socket, greeted: Callable[[Greeting], None], lost: Callable[[], None]) -> None:
        self._pipe = pipe
        self._greeted = greeted
        self._lost = lost
        self._received = b""
        asyncio.get_running_loop().add_reader(pipe, self._read)

    def confirm(self, message: bytes) -> None:
        """Let the process run. Whether it still lives does not matter here: its lock file says that (S2.40)."""
        with suppress(OSError):
            self._pipe.settimeout(_SEND_S)  # the socket is empty: only secrets beyond its buffer would wait at all
            self._pipe.sendall(message)

    def close(self) -> None:
        """Done, or given up: a process that was not confirmed ends (S2.39)."""
        if self._pipe.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._pipe)
            self._pipe.close()

    def _read(self) -> None:
        try:
            data = self._pipe.recv(_GREETING_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._received += data
        if data and END not in self._received and len(self._received) < _GREETING_BYTES:
            return
        asyncio.get_running_loop().remove_reader(self._pipe)
        try:
            greeting = msgspec.json.decode(self._received.partition(END)[0], type=Greeting)
        except UNREADABLE_JSON:
            self.close()
            self._lost()
            return
        self._greeted(greeting)

# SPDX-License-Identifier: BSD-2-Clause
"""The connection to a storage daemon that commands go over: numbered messages, answers in any order, and events.

A message of the socket (`SOCK_SEQPACKET`) is UTF-8 in fields that are separated by line ends: number, word, arguments.
The answer is the number, then `ok` and results, or `error` and a sentence. Events have the number 0.
"""

import asyncio
import itertools
import socket
from collections.abc import Callable, Sequence
from typing import Self

from ganeti.base.errors import BlockDeviceError

COMMAND_S = 30.0
"""A storage daemon that does not answer for so long hangs."""
_MESSAGE_BYTES = 256 * 1024
_EVENT = 0


class StorageDaemonError(BlockDeviceError):
    """A storage daemon did not do what it was asked."""


class RefusedError(StorageDaemonError):
    """It says why. *details* are what its answer has after that."""

    def __init__(self, sentence: str, *details: str) -> None:
        super().__init__(sentence)
        self.details = details


class GoneError(StorageDaemonError):
    """It has ended, or ended the connection."""


class SilentError(StorageDaemonError):
    """It runs and does not answer."""


Hear = Callable[["Commands", str, Sequence[str]], None]
"""What is called at each event, with its connection, its word and its arguments."""


class Commands:
    """One connection. A later one of the same storage daemon replaces it."""

    def __init__(self, sock: socket.socket, hear: Hear) -> None:
        self._sock, self._hear = sock, hear
        self._numbers = itertools.count(_EVENT + 1)
        self._waiting: dict[int, asyncio.Future[list[str]]] = {}
        self._ended = ""
        """Why it carries nothing more."""
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(lambda _: sock.close())

    @classmethod
    def connect(cls, path: str, hear: Hear) -> Self:
        """Raises `OSError`: `BlockingIOError` where the storage daemon accepts nobody."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.setblocking(False)
            sock.connect(path)
            return cls(sock, hear)
        except BaseException:
            sock.close()
            raise

    @property
    def has_ended(self) -> bool:
        return bool(self._ended)

    async def execute(
        self, word: str, *arguments: str | int, descriptor: int | None = None, within_s: float = COMMAND_S
    ) -> list[str]:
        """The results of a command; *descriptor* goes with it. Raises `StorageDaemonError`."""
        if self._ended:
            raise GoneError(self._ended)
        number = next(self._numbers)
        waiting: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            self._send("\n".join((str(number), word, *map(str, arguments))).encode(), descriptor)
            async with asyncio.timeout(within_s):
                return await waiting
        except TimeoutError as err:
            raise SilentError(f"The storage daemon does not answer {word!r} within {within_s:g} s") from err
        finally:
            del self._waiting[number]

    def close(self) -> None:
        """Commands that wait for an answer fail."""
        self._end("The connection to the storage daemon is closed")
        self._reading.cancel()

    def _send(self, message: bytes, descriptor: int | None) -> None:
        try:
            if descriptor is None:
                self._sock.send(message)
            else:
                socket.send_fds(self._sock, [message], [descriptor])
        except BlockingIOError as err:  # hundreds of commands have not been read
            raise SilentError("The storage daemon takes no commands") from err
        except OSError as err:
            raise GoneError(f"The storage daemon has ended the connection: {err.strerror}") from err

    async def _read(self) -> None:
        why = "The storage daemon has ended the connection"
        loop = asyncio.get_running_loop()
        try:
            while message := await loop.sock_recv(self._sock, _MESSAGE_BYTES):
                self._take(message)
        except OSError as err:
            why = f"{why}: {err.strerror}"
        except ValueError as err:
            why = f"The storage daemon says what cannot be understood: {err}"
        finally:
            self._end(why)

    def _take(self, message: bytes) -> None:
        """Some of it may be a stranger's: bytes that are no UTF-8 end nothing."""
        number, word, *fields = message.decode(errors="replace").split("\n")
        if int(number) == _EVENT:
            self._hear(self, word, fields)
            return
        waiting = self._waiting.get(int(number))
        if waiting is None or waiting.done():  # nobody waits any more
            return
        if word == "ok":
            waiting.set_result(fields)
        else:
            sentence, *details = fields or [word]
            waiting.set_exception(RefusedError(sentence, *details))

    def _end(self, why: str) -> None:
        self._ended = self._ended or why
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(GoneError(self._ended))

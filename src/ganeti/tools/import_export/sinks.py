# SPDX-License-Identifier: BSD-2-Clause
"""Where the data of a transfer go on the receiver's node: into a program, or into a new file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Protocol

from ganeti.base.errors import CommandError
from ganeti.node.export_room import FULL, no_room

_ZEROS = bytes(64 * 1024)
"""Zeros are looked for in blocks of this size, however large the pieces are in which the data come."""


class Sink(Protocol):
    """Where data go: `finish` when all have come, `close` in any case."""

    def write(self, data: bytes) -> None: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...


class Pipe:
    """The standard input of a program."""

    def __init__(self, into: IO[bytes]) -> None:
        self._into = into

    def write(self, data: bytes) -> None:
        content = memoryview(data)
        while content:
            content = content[os.write(self._into.fileno(), content) :]

    def finish(self) -> None: ...

    def close(self) -> None:
        self._into.close()


class NewFile:
    """A file of root's alone, on disk when it is finished; what is zero takes no room. Raises `CommandError`."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._telling():
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o600)
        self._size = 0

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), len(_ZEROS)):
            block = data[start : start + len(_ZEROS)]
            if block != _ZEROS[: len(block)]:
                self._put(block)
            self._size += len(block)

    def _put(self, block: bytes) -> None:
        content, offset = memoryview(block), self._size
        with self._telling():
            while content:
                done = os.pwrite(self._file, content, offset)
                content, offset = content[done:], offset + done

    def finish(self) -> None:
        directory = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with self._telling():
                os.ftruncate(self._file, self._size)
                os.fsync(self._file)
                os.fsync(directory)
        finally:
            os.close(directory)

    def close(self) -> None:
        os.close(self._file)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as err:
            if err.errno in FULL:
                raise CommandError(no_room(self._path)) from err
            raise CommandError(f"{self._path} cannot be written: {err.strerror}") from err

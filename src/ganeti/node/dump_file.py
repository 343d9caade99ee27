# SPDX-License-Identifier: BSD-2-Clause
"""A dump as it is written and read: what is zero takes no room, its checksum is computed on the way.

A checksum is the SHA-256 of the whole dump, zeros too, as `sha256sum` gives it.
"""

import asyncio
import fcntl
import hashlib
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.node.export_room import FULL, no_room
from ganeti.node.runs import Progress
from ganeti.node.storage.image_io import in_thread

CHUNK = 256 * 1024
_PIPE = 1024 * 1024
_TAKEN = 64
"""Chunks at once: more than a pipe holds, and not what a process that a script left behind may write for ever."""
_ZEROS = bytes(64 * 1024)
"""Zeros are looked for in blocks of this size, however large the pieces are in which the data come."""


class DumpFile:
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

    def finish(self, *, durable: bool = True) -> None:
        """Give it its size; without *durable*, the caller that publishes it syncs it."""
        with self._telling():
            os.ftruncate(self._file, self._size)
        if not durable:
            return
        directory = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with self._telling():
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


async def write(path: str, run: Callable[[int], Awaitable[object]], progress: Progress) -> str:
    """Have *run* write a dump into a descriptor; gives its SHA-256 when it has ended.

    Whatever fails, nothing writes any more when this has ended. Raises `CommandError` and what *run* raises.
    """
    from_script, into = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, _PIPE)
    os.set_blocking(from_script, False)
    found = hashlib.sha256()
    try:
        file = await in_thread(DumpFile, path)
        try:
            await _filled(file, from_script, run(into), found.update, progress)
            await in_thread(file.finish, durable=False)
        finally:
            file.close()
    finally:
        os.close(from_script)
        os.close(into)
    return found.hexdigest()


async def _filled(
    file: DumpFile, source: int, script: Awaitable[object], count: Callable[[bytes], None], progress: Progress
) -> None:
    def take() -> None:
        """At least what is in the pipe now."""
        with suppress(BlockingIOError):
            for _ in range(_TAKEN):
                data = os.read(source, CHUNK)
                count(data)
                file.write(data)
                progress.bytes += len(data)

    async def keep_taking() -> None:
        while True:
            await _readable(source)
            await in_thread(take)

    taking = asyncio.ensure_future(keep_taking())
    running = asyncio.ensure_future(script)
    try:
        await asyncio.wait([taking, running], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (running, taking):  # the script first: what it has said is taken until it ends
            if not task.done():
                task.cancel()
            await asyncio.wait([task])
    if not taking.cancelled():
        taking.result()  # it ends only by an error, of which that of the script is a consequence
    await running
    await in_thread(take)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def sha256(path: str, progress: Progress) -> str:
    """Read a whole dump; a caller that is cancelled waits until nothing is read any more."""
    reading = asyncio.ensure_future(in_thread(_read, path, progress))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        progress.stopped = True
        await asyncio.wait([reading])
        raise


def _read(path: str, progress: Progress) -> str:
    found, buffer = hashlib.sha256(), bytearray(4 * CHUNK)
    view = memoryview(buffer)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb", buffering=0) as file:
            while not progress.stopped and (count := file.readinto(buffer)):
                found.update(view[:count])
                progress.bytes += count
    except OSError as err:
        raise BlockDeviceError(f"The dump {path} cannot be read: {err.strerror}") from err
    return found.hexdigest()

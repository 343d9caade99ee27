# SPDX-License-Identifier: BSD-2-Clause
"""Image files at the level of the file system: making, looking at, growing, and the sentences for what fails."""

import asyncio
import contextlib
import errno
import io
import os
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, ParamSpec, TypeVar

from ganeti.base.errors import BlockDeviceError

P = ParamSpec("P")
T = TypeVar("T")

MIB = 1024 * 1024
RAW = "raw"
QCOW2 = "qcow2"
QCOW2_MAGIC = b"QFI\xfb"
HUNG_AFTER_S = 10.0
_THREADS = 128
"""More than calls can run at once: a file system that hangs must not keep others waiting."""
_reads: dict[str, list[float]] = {}
"""By storage directory, since when its reads under way have been."""


async def read(directory: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what looks at *directory*, and changes nothing, beside the event loop.

    Raises `BlockDeviceError` when it hangs (a network file system without its server), and at once for as long as an
    earlier read of the same directory still does: else each question would cost a thread.
    """
    under_way = _reads.setdefault(directory, [])
    hangs = f"{directory} does not answer: is the server of this file system reachable?"
    if under_way and time.monotonic() - under_way[0] > HUNG_AFTER_S:
        raise BlockDeviceError(hangs)
    begun = time.monotonic()
    under_way.append(begun)
    work = asyncio.get_running_loop().run_in_executor(
        _threads(os.getpid()), lambda: _noted(under_way, begun, function, args, kwargs)
    )
    try:
        async with asyncio.timeout(HUNG_AFTER_S) as limit:
            return await asyncio.shield(work)
    except TimeoutError:
        if not limit.expired():
            raise
        work.add_done_callback(lambda late: late.cancelled() or late.exception())
        raise BlockDeviceError(hangs) from None


@cache
def _threads(pid: int) -> ThreadPoolExecutor:
    """Those of this process: a forked one has none of its parent's."""
    return ThreadPoolExecutor(_THREADS, f"storage-{pid}")


def _noted(under_way: list[float], begun: float, function: Callable[..., T], args: Any, kwargs: Any) -> T:
    try:
        return function(*args, **kwargs)
    finally:
        under_way.remove(begun)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what changes a disk beside the event loop; a cancelled caller still waits for its end.

    Without that, a superseded call would go on writing after it was said to have ended.
    """
    work = asyncio.get_running_loop().run_in_executor(_threads(os.getpid()), lambda: function(*args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def inspect(path: str, image_format: str) -> int | None:
    """Give the virtual size in bytes of an image, None when there is none.

    The format is what the configuration says: what a raw image holds is the guest's to write, a header too.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        status = os.fstat(descriptor)
        head = os.pread(descriptor, 32, 0) if stat.S_ISREG(status.st_mode) else b""
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise BlockDeviceError(f"Disk {path} is no file: something else has taken its name")
    if image_format == RAW:
        return status.st_size
    if not head.startswith(QCOW2_MAGIC) or len(head) < 32:
        raise BlockDeviceError(f"Disk {path} should be of format {image_format}, but the file is not")
    return int.from_bytes(head[24:32], "big")


def publish(fresh: str, path: str) -> None:
    """Give a whole image its name, durably, its new directory too."""
    descriptor = os.open(fresh, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(fresh, path)
    sync(os.path.dirname(path))
    sync(os.path.dirname(os.path.dirname(path)))


def extend(path: str, size: int, *, full: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if full:
            _allocate(descriptor, size)
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _allocate(descriptor: int, size: int) -> None:
    """Take the space up to *size*, or none of it."""
    before = os.fstat(descriptor).st_size
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def write_zeros(path: str, offset_mib: int, size_mib: int) -> None:
    """Overwrite a part of a raw image, durably."""
    zeros = memoryview(bytes(MIB))
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        for position in range(offset_mib * MIB, (offset_mib + size_mib) * MIB, MIB):
            done = 0
            while done < MIB:
                done += os.pwrite(descriptor, zeros[done:], position + done)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_raw(source: str, target: str) -> None:
    """Copy a raw image durably into one that nobody uses; what is zero there already is left out, so holes stay holes.

    A volume is made of whole extents, so *target* may be larger, and has zeros at its end then; a smaller file grows.
    """
    with open(source, "rb", buffering=0) as old, open(target, "r+b", buffering=0) as new:
        size = os.lseek(old.fileno(), 0, os.SEEK_END)
        if size > os.lseek(new.fileno(), 0, os.SEEK_END) and stat.S_ISREG(os.fstat(new.fileno()).st_mode):
            os.ftruncate(new.fileno(), size)
        for position in range(0, max(size, os.lseek(new.fileno(), 0, os.SEEK_END)), MIB):
            chunk, there = _piece(old, position), _piece(new, position)
            chunk = chunk.ljust(len(there), b"\0")
            if chunk.strip(b"\0") or there.strip(b"\0"):
                done = 0
                while done < len(chunk):
                    done += os.pwrite(new.fileno(), memoryview(chunk)[done:], position + done)
        os.fsync(new.fileno())


def same_raw(one: str, other: str) -> bool:
    """Whether two raw images hold the same bytes; the larger one has nothing but zeros at its end then."""
    with open(one, "rb", buffering=0) as first, open(other, "rb", buffering=0) as second:
        for position in range(0, max(os.lseek(each.fileno(), 0, os.SEEK_END) for each in (first, second)), MIB):
            pieces = [_piece(each, position) for each in (first, second)]
            if pieces[0] != pieces[1] and pieces[0].ljust(MIB, b"\0") != pieces[1].ljust(MIB, b"\0"):
                return False
        return True


def _piece(file: io.FileIO, position: int) -> bytes:
    """A whole MiB, but at the end."""
    parts, missing = list[bytes](), MIB
    while missing and (part := os.pread(file.fileno(), missing, position + MIB - missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unlink(path: str) -> None:
    """Remove a file; one that is not there, or cannot be, is no error."""
    try:
        os.unlink(path)
    except OSError as err:
        if not is_absence(err):
            raise


def is_absence(err: OSError) -> bool:
    """Whether the error says that there is no such file, and that there cannot be one as things are."""
    return err.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


def space_mib(directory: str) -> tuple[int, int]:
    """Size and free space of the file system."""
    found = os.statvfs(directory)
    return found.f_blocks * found.f_frsize // MIB, found.f_bavail * found.f_frsize // MIB


def _nearest(directory: str) -> str:
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return directory


def files_below(top: str) -> Iterator[tuple[str, list[str]]]:
    """Give each directory below *top*, relative to it, and its files; hidden names count for nothing."""

    def refuse(err: OSError) -> None:
        if not isinstance(err, FileNotFoundError | NotADirectoryError):
            raise err

    for directory, below, files in os.walk(top, onerror=refuse):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if directory != top:
            yield os.path.relpath(directory, top), [name for name in files if not name.startswith(".")]


def write_raw(fresh: str, size: int, *, full: bool) -> None:
    """Make a raw image of *size* bytes, sparse or *full*y allocated."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(fresh, flags, 0o640)
    try:
        if full and size:
            os.posix_fallocate(descriptor, 0, size)
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def storage_of(path: str) -> str:
    """The storage directory that an image lies in, or one below it."""
    return os.path.dirname(os.path.dirname(path))


def why_missing(path: str) -> str:
    """A guess at why the image *path* is not there."""
    directory = os.path.dirname(os.path.dirname(path))
    if not os.path.isdir(directory):
        return f"{directory} is not there (is it mounted?)"
    return "it was removed, or never made on this node"


def failed(verb: str, path: str, err: OSError) -> BlockDeviceError:
    """Put a system error into a sentence; a full file system is told with what is free."""
    sentence = f"Disk {path} cannot be {verb}: {err.strerror or err}"
    if err.errno in (errno.ENOSPC, errno.EDQUOT):
        with contextlib.suppress(OSError):
            sentence += (
                f"; {space_mib(_nearest(os.path.dirname(path)))[1]} MiB are free there: make room there and try again"
            )
    return BlockDeviceError(sentence)


def directory_problems(directory: str, node: str, *, links: bool) -> list[str]:
    """Sentences saying why disks cannot be made in *directory*; with *links*, hard links are tried too."""
    if not os.path.isdir(directory):
        return [f"{directory} is not a directory: make it, or mount it"]
    probe = os.path.join(directory, f".probe-{node}")
    try:
        with open(probe, "wb") as file:
            file.write(b"probe")
            os.fsync(file.fileno())
        if links:
            unlink(f"{probe}.link")
            os.link(probe, f"{probe}.link")
    except OSError as err:
        return [f"{directory} cannot be used for disks: {err.strerror}"]
    finally:
        for name in (probe, f"{probe}.link"):
            with contextlib.suppress(OSError):
                os.unlink(name)
    return []

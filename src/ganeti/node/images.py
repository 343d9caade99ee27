# SPDX-License-Identifier: BSD-2-Clause
"""Disk images named by a path or a URL: brought to this node, and written onto disks.

Only raw images: one that names other files inside (qcow2 can) would let its maker read the node's files. The submitter
of a job names the image, and root opens it: so a path is under the rule of files that guests are given.
"""

import errno
import http.client
import os
import stat
import urllib.error
import urllib.request
from typing import BinaryIO, cast

from ganeti.base.errors import BlockDeviceError
from ganeti.base.names import shown
from ganeti.base.paths import Paths
from ganeti.node.hypervisors import guest_files
from ganeti.node.storage.image_io import MIB, QCOW2_MAGIC, failed, unlink

_SCHEMES = ("http", "https", "ftp")
_SILENT_AFTER_S = 60.0
_MODE = 0o600


def copy_onto(paths: Paths, image: str, target: str) -> int:
    """Write *image* onto the disk at *target*, durably; gives its size in bytes. Raises `BlockDeviceError`.

    Parts that hold the same already are left alone, so that a sparse disk stays one. An image in a file for which the
    file system has no room is refused before anything is written; of one at a URL nobody knows how much it holds.
    """
    with _opened(paths, image) as source:
        try:
            with open(target, "r+b", buffering=0) as disk:
                size = os.lseek(disk.fileno(), 0, os.SEEK_END)
                if image.startswith("/"):
                    _check_room(image, source, disk)
                position = _copy(image, source, disk, size)
                os.fsync(disk.fileno())
        except OSError as err:
            raise failed("filled", target, err) from err
    return position


def copy_into(paths: Paths, image: str, path: str) -> int:
    """Make the file *path* with what *image* holds, whole or not at all; gives its size in bytes."""
    fresh = f"{path}.new"
    with _opened(paths, image) as source:
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
            with open(descriptor, "r+b", buffering=0) as file:
                size = _copy(image, source, file, None)
                size = -(-size // MIB) * MIB  # hypervisors want whole sectors
                file.truncate(size)
            os.rename(fresh, path)
        except OSError as err:
            raise failed("filled", path, err) from err
        finally:
            unlink(fresh)
    return size


def _check_room(image: str, source: BinaryIO, target: BinaryIO) -> None:
    """Raise `OSError` where the image does not fit into what a sparse disk has and what is free beside it."""
    descriptor = target.fileno()
    found = os.fstatvfs(descriptor)
    free = found.f_bavail * found.f_frsize
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) or os.fstat(source.fileno()).st_size <= free:
        return
    position = needed = 0
    while chunk := _chunk(image, source):
        if any(chunk) and _is_hole(descriptor, position, len(chunk)):
            needed += len(chunk)
        position += len(chunk)
    if needed > free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    source.seek(0)


def _is_hole(descriptor: int, position: int, length: int) -> bool:
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA) >= position + length
    except OSError:  # ENXIO: no data from here on
        return True


def _copy(image: str, source: BinaryIO, target: BinaryIO, room: int | None) -> int:
    position, zeros = 0, bytes(MIB)
    while chunk := _chunk(image, source):
        if position == 0 and chunk.startswith(QCOW2_MAGIC):
            raise BlockDeviceError(
                f"The image {image} is of format qcow2: convert it first (qemu-img convert -O raw IMAGE NEW)"
            )
        if room is not None and position + len(chunk) > room:
            raise BlockDeviceError(f"The image {image} is larger than the disk of {room // MIB} MiB")
        there = os.pread(target.fileno(), len(chunk), position) or zeros[: len(chunk)]
        if there != chunk:
            done = 0
            while done < len(chunk):
                done += os.pwrite(target.fileno(), memoryview(chunk)[done:], position + done)
        position += len(chunk)
    if position == 0:
        raise BlockDeviceError(f"The image {image} is empty")
    if (size := _said_size(source)) not in (None, position):
        raise BlockDeviceError(
            f"The image {image} came in part: {position} of {size} bytes, then the connection ended: try again"
        )
    return position


def _said_size(source: BinaryIO) -> int | None:
    """In bytes, as a server says it; a connection that is cut looks like the end of the image."""
    said = getattr(source, "headers", {}).get("Content-Length", "")
    return int(said) if said.isascii() and said.isdigit() else None


def _chunk(image: str, source: BinaryIO) -> bytes:
    """A whole MiB, but at the end."""
    parts, missing = [], MIB
    try:
        while missing and (part := source.read(missing)):
            parts.append(part)
            missing -= len(part)
    except (OSError, http.client.HTTPException) as err:
        raise BlockDeviceError(f"The image {image} cannot be read: {err}") from err
    return b"".join(parts)


def _opened(paths: Paths, image: str) -> BinaryIO:
    """Begin to read an image. What is done with it meanwhile fails for other reasons, and says so itself."""
    scheme = image.partition("://")[0].lower() if "://" in image else ""
    try:
        if image.startswith("/"):
            return _opened_file(paths, image)
        if scheme in _SCHEMES:
            return cast("BinaryIO", urllib.request.urlopen(image, timeout=_SILENT_AFTER_S))  # noqa: S310 - checked above
    except (OSError, ValueError, http.client.HTTPException) as err:  # what urllib raises by itself is an OSError
        reason = getattr(err, "strerror", None) or getattr(err, "reason", None) or err
        raise BlockDeviceError(f"The image {image} cannot be had: {reason}") from err
    raise BlockDeviceError(f"The image '{shown(image)}' is neither an absolute path nor a URL of http or ftp")


def _opened_file(paths: Paths, image: str) -> BinaryIO:
    """The file that was opened counts, whatever its name leads to meanwhile. Raises `OSError`."""
    file = open(os.open(image, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb", buffering=0)  # noqa: SIM115
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise BlockDeviceError(f"The image {image} is not a file")
        real = os.readlink(f"/proc/self/fd/{file.fileno()}")
        if (reason := guest_files.fault(paths, real)) is not None:
            raise BlockDeviceError(f"The image {image} cannot be used: {reason}")
    except BaseException:
        file.close()
        raise
    return file

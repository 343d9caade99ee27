# SPDX-License-Identifier: BSD-2-Clause
"""For whoever prepares a machine: files and devices that are there from the beginning, and other disks mounted."""

import errno
import os
import stat
from collections.abc import Callable
from random import Random
from typing import Any

from ganeti_simulation.disk.devices import MadeUp, NullDevice, RandomDevice
from ganeti_simulation.disk.disk import Disk
from ganeti_simulation.disk.faults import refused
from ganeti_simulation.disk.inodes import Directory
from ganeti_simulation.disk.names import Shape


def make_directories(disk: Disk, path: str, mode: int = 0o755) -> None:
    """The directory and all above it, where they are missing."""
    if not disk.isdir(path):
        make_directories(disk, os.path.dirname(path.rstrip("/")) or "/", mode)
        disk.mkdir(path, mode)


def put_file(disk: Disk, path: str, content: bytes, mode: int = 0o644) -> None:
    """Have this file, as if it had always been there: in a directory that is made if it is missing."""
    make_directories(disk, os.path.dirname(path))
    file = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    file.write(content)
    file.fsync()
    file.close()
    directory = disk.there(os.path.dirname(path))
    directory.disk.sync(directory)


def provide(disk: Disk, path: str, give: Callable[[], bytes], take: Callable[[bytes], None] | None = None) -> None:
    """A file whose bytes are made up at every open, as in /proc; *take* gets what is written to it."""
    _place(disk, path, stat.S_IFREG | (0o444 if take is None else 0o644), MadeUp(give, take))


def provide_device(disk: Disk, path: str, device: Any) -> None:
    """A character device; *device* has `read(count)` and `write(data)`."""
    _place(disk, path, stat.S_IFCHR | 0o666, device)


def provide_standard_devices(disk: Disk, random: Random) -> None:
    """null, zero, random and urandom in /dev."""
    for name, device in (("null", NullDevice()), ("zero", NullDevice(fill=True))):
        provide_device(disk, f"/dev/{name}", device)
    for name in ("random", "urandom"):
        provide_device(disk, f"/dev/{name}", RandomDevice(random))


def mount(disk: Disk, path: str, other: Disk) -> None:
    """Have *other* at *path*, which is made if it is missing, and is found there again after a loss of power."""
    make_directories(disk, path)
    directory, name, found = disk.find(path)
    if found is disk.root or type(found) is not Directory or directory.entries.get(name) is not found:
        raise refused(errno.EBUSY, path)
    directory.disk.settle_names()
    found.covered = other
    Shape.changes += 1


def _place(disk: Disk, path: str, mode: int, token: Any) -> None:
    make_directories(disk, os.path.dirname(path))
    if disk.exists(path):
        disk.unlink(path)
    disk.make_special(path, mode, token)

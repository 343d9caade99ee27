# SPDX-License-Identifier: BSD-2-Clause
"""Room for what is read out of backups, and for what guests write meanwhile: others use the same file systems.

A part of each file system stays free, so that neither a file of a backup nor a trial guest fills the one that the
disks of instances are on.
"""

import os

from ganeti.base.errors import BlockDeviceError, HypervisorError
from ganeti.node.storage.image_io import MIB

_SPARE_BYTES = 1024**3
_SPARE_PART = 20
"""At least this much of a file system stays free, or one part in so many of a small one."""


def room(directory: str) -> tuple[int, int]:
    """Bytes that may be written, below zero where too few are left, and those that stay free. Raises `OSError`.

    The directory is made if it is not there.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    there = os.statvfs(directory)
    spare = min(_SPARE_BYTES, there.f_blocks * there.f_frsize // _SPARE_PART)
    return there.f_bavail * there.f_frsize - spare, spare


def require_room(directory: str, size: int, what: str) -> None:
    """Refuse what has *size* bytes and no room; raises `BlockDeviceError`, `OSError`."""
    free, spare = room(directory)
    if size > free:
        raise BlockDeviceError(
            f"{what} has {size} bytes, and {directory} has room for {max(free, 0)} (it keeps {spare // MIB} MiB free): "
            "make room there, or mount a larger file system"
        )


def require_scratch(directory: str, what: str) -> None:
    """Give *what* up before its scratch files fill their file system, which others use. Raises `HypervisorError`."""
    try:
        free, spare = room(directory)
    except OSError as err:
        raise HypervisorError(f"The directory {directory} cannot be used: {err.strerror}") from err
    if free < 0:
        raise HypervisorError(
            f"{what} is given up: {directory}, which takes what the guest overwrites meanwhile, has less than "
            f"{spare // MIB} MiB left. Make room there, or mount a larger file system"
        )

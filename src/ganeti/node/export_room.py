# SPDX-License-Identifier: BSD-2-Clause
"""What is told where the directory of exports is full: one sentence with the path and the ways out.

A script of an OS says in its own words that it could not write, so whether that was for want of room is asked of the
file system itself.
"""

import errno
import os

FULL = (errno.ENOSPC, errno.EDQUOT)
_LITTLE_BYTES = 64 * 1024
"""Less than what programs write at once: a file system with this little cannot have taken the last write."""
_MIB = 1024 * 1024


def is_full(path: str) -> bool:
    """Whether nothing can be written beside *path*."""
    try:
        return _free_bytes(path) < _LITTLE_BYTES
    except OSError:
        return False


def no_room(path: str, wanted_bytes: int = 0) -> str:
    """Say that *path* cannot be written, of so many bytes where that is known."""
    size = f" of {wanted_bytes} bytes" if wanted_bytes else ""
    try:
        free = f"{_free_bytes(path) // _MIB} MiB are free there"
    except OSError:
        free = "the file system is full"
    return (
        f"{path}{size} has no room ({free}): remove older exports from this node (gnt-backup remove), mount a larger "
        "file system at the directory of exports, or export to another node (-n)"
    )


def _free_bytes(path: str) -> int:
    there = os.statvfs(os.path.dirname(path))
    return there.f_bavail * there.f_frsize

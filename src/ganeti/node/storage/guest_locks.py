# SPDX-License-Identifier: BSD-2-Clause
"""Whether a QEMU has an image open for writing, by the locks that QEMU itself puts on the file.

QEMU locks single bytes, one for each right that it has: so its locks show on every node whose file system carries them
(NFS, GFS2, OCFS2, Gluster), and a second QEMU does not start before the first one has ended.
"""

import fcntl
import os
import struct

_WRITING_BYTE = 101
"""QEMU locks it while it may write (100 is the first of the rights, writing is the second)."""
_FLOCK = "hhqqi0q"
"""`struct flock`: type, whence, start, length, pid."""


def is_written(path: str) -> bool:
    """False where the file system carries no locks, or the image cannot be opened."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _WRITING_BYTE, 1, 0)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
        finally:
            os.close(descriptor)
    except OSError:
        return False
    return bool(struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK)

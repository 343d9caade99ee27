# SPDX-License-Identifier: BSD-2-Clause
"""Being told when a file in a directory is made or replaced (inotify), so that nobody has to poll."""

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable

_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_Q_OVERFLOW = 0x4000
_IN_NONBLOCK = os.O_NONBLOCK
_IN_CLOEXEC = os.O_CLOEXEC
_HEADER = struct.Struct("iIII")
_BUFFER_BYTES = 64 * 1024


class DirectoryWatch:
    """Calls *replaced* with the name of each file renamed into *directory*, and *lost* when names were missed.

    With *created* also with the names of files that are made there.
    """

    def __init__(
        self, directory: str, replaced: Callable[[str], None], lost: Callable[[], None], *, created: bool = False
    ) -> None:
        self._replaced = replaced
        self._lost = lost
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "cannot watch directories")
        wanted = ctypes.c_uint32(_IN_MOVED_TO | (_IN_CREATE if created else 0))
        if libc.inotify_add_watch(self._descriptor, os.fsencode(directory), wanted) < 0:
            code = ctypes.get_errno()
            os.close(self._descriptor)
            raise OSError(code, os.strerror(code), directory)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        data = os.read(self._descriptor, _BUFFER_BYTES)
        names: dict[str, None] = {}
        missed = False
        offset = 0
        while offset < len(data):
            _, mask, _, length = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size
            missed = missed or bool(mask & _IN_Q_OVERFLOW)
            names[os.fsdecode(data[offset : offset + length].rstrip(b"\0"))] = None
            offset += length
        for name in names:
            self._replaced(name)
        if missed:
            self._lost()

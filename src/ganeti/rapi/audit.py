# SPDX-License-Identifier: BSD-2-Clause
"""Writing the audit log: who asked for which change, from where, and what came of it (`wire/audit_lines.py`).

No value of a parameter is written but names of objects: a body may hold passwords and keys.
"""

import errno
import logging
import os
from typing import Any, Final

from ganeti.system.accounts import DAEMONS, give_group
from ganeti.system.files import open_among_others
from ganeti.wire.audit_lines import FIRST, AuditFault, sealed

_log = logging.getLogger(__name__)
_TAIL_BYTES: Final = 64 * 1024
_NOT_WHOLE: Final = "its last line is not whole: move the file away, and a new one is begun"


class AuditLog:
    """Appends to one file; a line is handed to the system before its request is answered."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._before = FIRST
        self._seen: tuple[int, int, int] | None = None
        """Device, inode and size of the file whose last line has the hash *_before*."""

    def note(self, entry: dict[str, Any]) -> None:
        """Write one line; where that fails, the log of the daemon says so, and has the entry."""
        try:
            descriptor = open_among_others(self._path, os.O_RDWR | os.O_APPEND, 0o640)
            try:
                if os.fstat(descriptor).st_size == 0:  # just made, as after each rotation
                    give_group(self._path, DAEMONS, descriptor)
                self._append(descriptor, entry)
            finally:
                os.close(descriptor)
        except (OSError, AuditFault) as err:
            _log.error("the audit log %s cannot be written (%s); what was asked: %s", self._path, err, entry)

    def _append(self, descriptor: int, entry: dict[str, Any]) -> None:
        """Write a whole line or nothing; what follows is chained to what stands in the file, which may be a new one."""
        state = os.fstat(descriptor)
        if self._seen != (state.st_dev, state.st_ino, state.st_size):
            self._before = _last(descriptor, state.st_size)
        line, hash_ = sealed(entry, self._before)
        data = line.encode() + b"\n"
        self._seen = None
        try:
            if os.write(descriptor, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(descriptor, state.st_size)
            raise
        self._before, self._seen = hash_, (state.st_dev, state.st_ino, state.st_size + len(data))


def _last(descriptor: int, size: int) -> str:
    """The hash of the last line: only it is checked, the rest by ``gnt-cluster audit verify``."""
    text = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace")
    if not text:
        return FIRST
    if not text.endswith("\n"):
        raise AuditFault(_NOT_WHOLE)
    return _hash_of(text.splitlines()[-1])


def _hash_of(line: str) -> str:
    _, found, rest = line.rpartition('"hash":"')
    if not found or len(rest) < len(FIRST):
        raise AuditFault(_NOT_WHOLE)
    return rest[: len(FIRST)]

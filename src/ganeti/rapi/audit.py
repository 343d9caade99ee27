# SPDX-License-Identifier: BSD-2-Clause
"""Writing the audit log: who asked for which change, from where, and what came of it (`wire/audit_lines.py`).

No value of a parameter is written but names of objects: a body may hold passwords and keys.
"""

import logging
import os
from typing import Any, Final

from ganeti.wire.audit_lines import FIRST, AuditFault, sealed

_log = logging.getLogger(__name__)
_TAIL_BYTES: Final = 64 * 1024


class AuditLog:
    """Appends to one file; a line is handed to the system before its request is answered."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._before: str | None = None

    def note(self, entry: dict[str, Any]) -> None:
        """Write one line; where that fails, the log of the daemon says so, and has the entry."""
        try:
            before = self._last() if self._before is None else self._before
            line, self._before = sealed(entry, before)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            try:
                os.write(descriptor, line.encode() + b"\n")
            finally:
                os.close(descriptor)
        except (OSError, AuditFault) as err:
            _log.error("the audit log %s cannot be written (%s); what was asked: %s", self._path, err, entry)

    def _last(self) -> str:
        """The hash of the last line: only it is checked, the rest by ``gnt-cluster audit verify``."""
        try:
            with open(self._path, "rb") as file:
                file.seek(max(0, os.path.getsize(self._path) - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return FIRST
        return _hash_of(lines[-1]) if lines else FIRST


def _hash_of(line: str) -> str:
    _, found, rest = line.rpartition('"hash":"')
    if not found or len(rest) < len(FIRST):
        raise AuditFault("its last line is not whole: move the file away, and a new one is begun")
    return rest[: len(FIRST)]

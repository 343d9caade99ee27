# SPDX-License-Identifier: BSD-2-Clause
"""The flight recorder: what a daemon did in the last hours, a line each, in a file that never grows beyond its limit.

`NAME.record` beside the daemon's log, and `NAME.record.1` that it replaced. A line is a JSON list: when (seconds since
1970), whom it is about, what happened. Lines are not synced: a machine that loses its power may lose the last ones. A
disk that is full loses lines, never work.
"""

import json
import logging
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ganeti.system.files import open_among_others, plain_file

LIMIT_BYTES = 4 * 1024 * 1024
"""Of each of the two files: some ten thousand lines."""
LONGEST_TEXT = 500
_FILE = re.compile(r"[a-z-]+\.record(\.1)?")
_JOB = "job:"
_log = logging.getLogger(__name__)


class Noted(NamedTuple):
    """One line."""

    at_s: float
    about: list[str]
    text: str


def job(job_id: int) -> str:
    """How a job is named among those a line is about."""
    return f"{_JOB}{job_id}"


class FlightRecord:
    """Appends to one file; opened with the first line."""

    def __init__(self, log_dir: str, name: str, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = f"{log_dir}/{name}.record"
        self._limit_bytes = limit_bytes
        self._descriptor = -1
        self._written = 0
        self._is_failing = False

    def note(self, about: Iterable[str], text: str, at_s: float | None = None) -> None:
        """Write a line; one that cannot be written is lost, and the log says so once."""
        if len(text) > LONGEST_TEXT:
            text = f"{text[:LONGEST_TEXT]}…"
        line = json.dumps([round(time.time() if at_s is None else at_s, 3), [*dict.fromkeys(about)], text])
        try:
            self._append(line.encode() + b"\n")
            self._is_failing = False
        except OSError as err:
            if not self._is_failing:
                _log.warning("%s cannot be written, lines are lost: %s", self._path, err.strerror)
            self._is_failing = True

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _append(self, data: bytes) -> None:
        if self._descriptor < 0:
            self._open()
        if self._written and self._written + len(data) > self._limit_bytes:
            self.close()
            os.replace(self._path, f"{self._path}.1")
            self._open()
        self._written += os.write(self._descriptor, data)

    def _open(self) -> None:
        self._descriptor = open_among_others(self._path, os.O_WRONLY | os.O_APPEND, 0o640)
        self._written = os.fstat(self._descriptor).st_size


def read(log_dir: str, about: Collection[str], since_s: float, most: int) -> list[Noted]:
    """The newest *most* lines of all records here that are about one of *about* (all lines if that is empty), the
    oldest first. A line that cannot be read counts for nothing."""
    with suppress(FileNotFoundError):
        names = sorted(name for name in os.listdir(log_dir) if _FILE.fullmatch(name))
        found = [noted for name in names for noted in _lines(f"{log_dir}/{name}", set(about), since_s)]
        return sorted(found)[-most:]
    return []


def _lines(path: str, about: set[str], since_s: float) -> Iterator[Noted]:
    wanted = [json.dumps(name).encode() for name in about]
    try:
        with open(path, "rb", opener=plain_file) as source:
            for line in source:
                if wanted and not any(name in line for name in wanted):
                    continue  # most lines are not read at all
                with suppress(ValueError, TypeError):
                    noted = Noted(*json.loads(line))
                    if noted.at_s >= since_s and (not about or about & set(noted.about)):
                        yield noted
    except OSError as err:
        _log.warning("%s cannot be read: %s", path, err.strerror)


_NAME_KEYS = ("instance_name", "node_name", "primary_node", "target_node", "remote_node", "pnode", "snode", "name")
_LIST_KEYS = ("instances", "nodes", "names")


def names_in(fields: Mapping[str, Any]) -> list[str]:
    """Whom an opcode or a node call is about, by the values that name instances and nodes."""
    found = [value for key in _NAME_KEYS if isinstance(value := fields.get(key), str) and value]
    for key in _LIST_KEYS:
        values = fields.get(key)
        found += [value for value in values if isinstance(value, str)] if isinstance(values, list | tuple) else []
    return found

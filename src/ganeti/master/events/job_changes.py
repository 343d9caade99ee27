# SPDX-License-Identifier: BSD-2-Clause
"""What has happened to jobs, found by holding what is now against what was last told.

Kept per unfinished job only. An unknown job is new if it is unfinished, or has a higher id than any before: one that
was refused at once is finished when it is first heard of.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ganeti.master.query.jobs import opcode_summary
from ganeti.wire.job_file import FINAL_STATUSES, JobFile, LogEntry

Fields = dict[str, Any]


class _Published(NamedTuple):
    status: str
    priority: int
    serial: int
    """Of the newest log message told."""


class JobChanges:
    """Give it every state of every job; it gives the events in between."""

    def __init__(self) -> None:
        self._published: dict[int, _Published] = {}
        self._newest = 0

    def adopt(self, files: Iterable[JobFile], newest: int) -> None:
        """Take these unfinished jobs as known, and no others; *newest* is the highest id of any job so far."""
        self._newest = newest
        self._published = {file.id: _Published(file.status, file.priority, _last_serial(file)) for file in files}

    def changed(self, file: JobFile | None, job_id: int) -> list[Fields]:
        """The events that lead to *file*; None is a job that was archived."""
        if file is None:
            self._published.pop(job_id, None)
            return [{"what": "archived", "id": job_id}]
        told = self._published.get(job_id)
        status, priority = file.status, file.priority
        final = status in FINAL_STATUSES
        if told is None and final and job_id <= self._newest:
            return []
        self._newest = max(self._newest, job_id)
        events: list[Fields] = []
        if told is None:
            told = _Published("queued", priority, 0)
            events.append(
                {
                    "what": "submitted",
                    "id": job_id,
                    "status": told.status,
                    "priority": priority,
                    "summary": summary(file),
                }
            )
        serial = told.serial
        for entry in _entries_after(file, told.serial):
            serial = entry[0]
            events.append({"what": "log", "id": job_id, "serial": serial, "type": entry[2], "text": entry[3]})
        if priority != told.priority and not final:
            events.append({"what": "priority", "id": job_id, "priority": priority, "was": told.priority})
        if status != told.status:
            events.append({"what": "status", "id": job_id, "status": status, "was": told.status})
        if final:
            self._published.pop(job_id, None)
        else:
            self._published[job_id] = _Published(status, priority, serial)
        return events


def summary(file: JobFile) -> list[str]:
    """What each opcode of a job is about, as the job field of that name."""
    return [opcode_summary(entry.input) for entry in file.ops]


def job_rows(live: Iterable[JobFile], ended: Mapping[int, str]) -> list[list[Any]]:
    """``[id, status, summary, priority]`` of every job, in order; summary and priority of ended ones are null."""
    rows: list[list[Any]] = [[file.id, file.status, summary(file), file.priority] for file in live]
    rows += [[job_id, status, None, None] for job_id, status in ended.items()]
    return sorted(rows, key=lambda row: int(row[0]))


def _last_serial(file: JobFile) -> int:
    return next((op.log[-1][0] for op in reversed(file.ops) if op.log), 0)


def _entries_after(file: JobFile, serial: int) -> Iterator[LogEntry]:
    """Serials count over the whole job, so the new ones are at its end."""
    found: list[LogEntry] = []
    for op in reversed(file.ops):
        for entry in reversed(op.log):
            if entry[0] <= serial:
                return reversed(found)
            found.append(entry)
    return reversed(found)

# SPDX-License-Identifier: BSD-2-Clause
"""Undo logs on disk: `queue/job-N.undo`, one line a record, synced before the step it undoes (D5).

Jobs write them by way of `job/records.py`, which has them copied to the candidates as well.
"""

import errno
import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass

from ganeti.base.errors import ConfigurationError, ExecutionError, GanetiError, JobFileCorrupted
from ganeti.base.paths import Paths
from ganeti.master.queue import outcomes
from ganeti.master.queue.left_behind import made_moot
from ganeti.master.queue.undo import Line, UndoLog, decode_lines, encode_lines, whole_part
from ganeti.model.view import ConfigView
from ganeti.stores.job_files import JobFiles
from ganeti.system.files import plain_file, read_if_there, sync_directory
from ganeti.system.livelock import is_alive
from ganeti.wire.job_file import FINAL_STATUSES, SUCCESS, JobFile

_log = logging.getLogger(__name__)
_NAME = re.compile(r"^job-([1-9][0-9]*)\.undo$")


_DAMAGED = re.compile(r"^damaged-job-([1-9][0-9]*)$")


class UndoFile:
    """The undo log of one job. A job that creates nothing never makes the file."""

    def __init__(self, paths: Paths, job_id: int) -> None:
        """Raises `JobFileCorrupted` for a log that is damaged where it was synced."""
        self.path = undo_path(paths, job_id)
        raw = read_if_there(self.path)
        self.log = UndoLog() if raw is None else _read_log(raw, self.path)
        self._size = len(whole_part(raw)) if raw is not None else 0
        self._descriptor = -1
        self._unwritten: list[bytes] = []

    def append(self, *lines: Line, durable: bool = True) -> None:
        """Add lines; when this returns, they are on disk. Raises `ExecutionError`: the step must not begin.

        They are written at once: who is killed has written all of them, or none.

        A line about a record that is dealt with is only noted where there is no space, and written with the next one:
        undoing must go on, and doing it twice does no harm.
        """
        note = not any("record" in line or "settles" in line for line in lines)
        fresh = [encode_lines(lines)]
        data = b"".join((*self._unwritten, *fresh))
        try:
            self._write(data, durable)
        except OSError as err:
            if not note:
                raise ExecutionError(f"The undo log {self.path} cannot be written: {err.strerror}") from err
            self._unwritten += fresh
        else:
            self._unwritten.clear()
        for line in lines:
            self.log.add(line)

    def _write(self, data: bytes, durable: bool) -> None:
        if self._descriptor < 0:
            self._open()
        elif os.fstat(self._descriptor).st_size != self._size:
            os.ftruncate(self._descriptor, self._size)  # what a failing disk did not let go when it was to
        try:
            if os.write(self._descriptor, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            if durable:
                os.fdatasync(self._descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def clear(self) -> None:
        """The opcode has ended: its records go, but for those given up, which verify names."""
        if self.log.given_up():
            return
        self.log = UndoLog()
        self._size = 0
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def _open(self) -> None:
        new = not os.path.exists(self.path)
        self._descriptor = plain_file(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.ftruncate(self._descriptor, self._size)  # a line cut short by a crash must not garble the next one
        if new:
            sync_directory(os.path.dirname(self.path))


def _read_log(raw: bytes, path: str) -> UndoLog:
    """Read all of a log at once, so that damage shows here and not in the midst of unwinding."""
    try:
        log = UndoLog(decode_lines(raw))
        log.owed((0, 0))
        log.given_up()
        log.nodes()
        if all(isinstance(number, int) for number in log.unspoken()):
            return log
    except JobFileCorrupted as err:
        raise JobFileCorrupted(f"{path} is damaged: {err}") from err
    except ConfigurationError:
        raise
    except Exception as err:  # whatever stands in it, it must not end the daemon that looks
        raise JobFileCorrupted(f"{path} is damaged: {type(err).__name__}: {err}") from err
    raise JobFileCorrupted(f"{path} is damaged: the number of a record is not valid")


def left_by(paths: Paths, job: JobFile) -> tuple[int, str]:
    """What a process that died has left: how many records are to be unwound, and what has become of the others."""
    ended = [index for index, entry in enumerate(job.ops) if entry.status in FINAL_STATUSES]
    try:
        log = UndoFile(paths, job.id).log
        return len(log.owed(None, ended)), outcomes.of_process(job, log.outcome(None))
    except GanetiError as err:
        _log.error("job %d died and cannot be unwound: %s", job.id, err)
        return 0, "its undo log is damaged, see `gnt-cluster verify`"


def settle_for_good(undo: UndoFile, job: JobFile) -> None:
    """A job has ended and has no process: records nobody will carry out any more are outstanding, the others go."""
    succeeded = [index for index, entry in enumerate(job.ops) if entry.status == SUCCESS]
    for item in undo.log.owed(None, succeeded):
        undo.append({"given_up": item.number, "reason": "all processes that should have undone it died"})
    undo.clear()


def clear_moot(undo: UndoFile, failed: JobFile, later: JobFile, view: ConfigView) -> bool:
    """Forget what *failed* could not undo and *later* has made moot; whether there was anything."""
    moot = made_moot(undo.log.given_up(), failed, later, view)
    if moot:
        undo.append(*({"dropped": number} for number in moot))
        undo.clear()
        _log.info(
            "job %d has nothing left to undo in %d steps: job %d has made them moot", failed.id, len(moot), later.id
        )
    return bool(moot)


@dataclass(frozen=True)
class Outstanding:
    """A step of a dead or failed job that could not be undone; the sentence names what was left."""

    job_id: int
    sentence: str
    reason: str


def _owed_by_nobody(paths: Paths, job_id: int, log: UndoLog) -> list[tuple[str, str]]:
    """Records that no process will carry out: the job's file is damaged, or says that the job has ended."""
    damaged = damaged_job_path(paths, job_id)
    if os.path.exists(damaged):
        return [(item.record.sentence, f"the job's file is damaged, see {damaged}") for item in log.owed(None)]
    files = JobFiles(paths)
    if files.is_archived(job_id):
        return []
    try:
        job = files.read(job_id)
    except (OSError, GanetiError) as err:
        return [(item.record.sentence, str(err)) for item in log.owed(None)]
    if job is None:
        why = f"the job's file is not there; remove {undo_path(paths, job_id)} when you have dealt with it"
        return [(item.record.sentence, why) for item in log.owed(None)]
    if not job.final or (job.livelock is not None and is_alive(job.livelock)):
        return []
    succeeded = [index for index, entry in enumerate(job.ops) if entry.status == SUCCESS]
    reason = "the process that should have undone it died"
    return [(item.record.sentence, reason) for item in log.owed(None, succeeded)]


def undo_path(paths: Paths, job_id: int) -> str:
    return f"{paths.queue_dir}/job-{job_id}.undo"


def damaged_job_path(paths: Paths, job_id: int) -> str:
    """Where the file of a job lies that could not be read when LuxiD started."""
    return f"{paths.queue_dir}/damaged-job-{job_id}"


def damaged_jobs(paths: Paths) -> list[tuple[int, str]]:
    """Jobs whose files were set aside, with the paths: they are in no list, so that only verify can name them."""
    try:
        names = os.listdir(paths.queue_dir)
    except FileNotFoundError:
        return []
    ids = sorted(int(match[1]) for name in names if (match := _DAMAGED.match(name)))
    return [(job_id, damaged_job_path(paths, job_id)) for job_id in ids]


def outstanding_undo(paths: Paths) -> list[Outstanding]:
    """What `gnt-cluster verify` reports: records given up, by job; a log that cannot be read is one of them.

    Records of a job whose file was set aside as damaged are among them: nobody will carry them out any more.
    """
    found: list[Outstanding] = []
    for job_id in jobs_with_undo(paths):
        try:
            log = UndoFile(paths, job_id).log
        except GanetiError as err:
            found.append(Outstanding(job_id, f"the undo log of job {job_id} cannot be read", str(err)))
            continue
        found += [Outstanding(job_id, item.sentence, item.reason) for item in log.given_up()]
        found += [Outstanding(job_id, *item) for item in _owed_by_nobody(paths, job_id, log)]
    return found


def jobs_with_undo(paths: Paths) -> list[int]:
    """Ids of jobs that have an undo log: their locks must not be freed behind their back while it holds records."""
    try:
        names = os.listdir(paths.queue_dir)
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for name in names if (match := _NAME.match(name)))

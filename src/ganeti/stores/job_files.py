# SPDX-License-Identifier: BSD-2-Clause
"""The job queue on disk: `queue/job-N`, the serial number, the archive, the drain flag (protocols, sections 1 and 13).

Order of steps of a submission: the files are written and synced, then renamed into place, then the directory is synced;
only then does a client see the id. The serial file is written along; after a crash the highest number found
anywhere counts, so an id that somebody saw is never given twice.

Most writes of a job's file are not synced (status, log), and a loss of power may leave zeros of what was renamed over
the last synced content. Invariant: `job-N` was synced after it was last written, or `.job-N.durable` is a name of its
last synced content. It rests on the changes of one directory arriving on the disk in their order:

    write, not durable   link job-N to .job-N.durable if that is not there; rename the new file to job-N
    write, durable       sync the new file; rename it to job-N; unlink .job-N.durable; sync the directory
    power is back        `mend`: where job-N cannot be read, .job-N.durable is renamed to it
    no writer any more   `settle`: sync job-N, unlink .job-N.durable

So `job-N` counts wherever it can be read: it is never older than the other. Only the one writer of a job's file makes
or unlinks the other name, and LuxiD is the writer of a job without a process; what was kept in an earlier life of the
machine is settled before LuxiD writes, else it would pass for what was synced last in this one.
"""

import errno
import logging
import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from ganeti.base.errors import JobFileCorrupted, JobQueueError, refusal_of_system
from ganeti.base.paths import Paths
from ganeti.system.accounts import QUEUE_DIR_MODE, QUEUE_FILE_MODE
from ganeti.system.files import read_if_there, sync_directory, sync_file, write_atomically, write_over
from ganeti.wire.job_file import JobFile, decode, encode

JOBS_PER_ARCHIVE_DIRECTORY = 10000
QUEUE_VERSION = b"1\n"
NOT_A_FILE = (errno.EISDIR, errno.ELOOP, errno.ENXIO)
"""What opening the file of a job says where something else has its name."""
_JOB_PREFIX = "job-"
_NAMED = re.compile(r"^(?:|\.|damaged-)job-([1-9][0-9]{0,17})(?:|\.undo|\.durable)(?:|\.new)$", re.ASCII)
"""Whatever lies here under the number of a job: its file, its undo log, what was set aside or never finished."""
_STRAY = re.compile(r"^\.(?:job-([1-9][0-9]{0,17})(?:\.undo)?|(?:serial|drain)(?:\..*)?)\.new$", re.ASCII)
_KEPT = re.compile(r"^\.job-([1-9][0-9]{0,17})\.durable$", re.ASCII)
_NUMBER = re.compile(rb"[0-9]{1,18}")
_log = logging.getLogger(__name__)


class JobFiles:
    """All access to the queue directory; blocking, each call quick."""

    def __init__(self, paths: Paths) -> None:
        self.directory = paths.queue_dir
        self.archive_directory = f"{self.directory}/archive"

    def prepare(self) -> None:
        """Make what a new cluster's queue needs; raises `JobQueueError` for the queue of another release."""
        os.makedirs(self.directory, mode=QUEUE_DIR_MODE, exist_ok=True)
        os.makedirs(self.archive_directory, mode=QUEUE_DIR_MODE, exist_ok=True)
        path = f"{self.directory}/version"
        found = read_if_there(path)
        if found == QUEUE_VERSION:
            return
        if found is not None and (number := _number_in(found)) is not None:
            if number == int(QUEUE_VERSION):
                return
            raise JobQueueError(
                f"The job queue {self.directory} has version {number}, this program knows {int(QUEUE_VERSION)}: "
                "run the release that wrote it, or move it away to begin with an empty queue"
            )
        if found is not None:
            _log.warning("%s is damaged and is written anew", path)
        write_atomically(path, QUEUE_VERSION, mode=QUEUE_FILE_MODE)

    def path(self, job_id: int) -> str:
        return f"{self.directory}/job-{job_id}"

    def archive_path(self, job_id: int) -> str:
        return f"{self.archive_directory}/{job_id // JOBS_PER_ARCHIVE_DIRECTORY}/job-{job_id}"

    def ids(self) -> list[int]:
        """Ids of all jobs that are not archived, in order."""
        return _ids_in(self.directory)

    def archived_ids(self) -> list[int]:
        return sorted(
            job_id
            for entry in os.listdir(self.archive_directory)
            if entry.isdigit()
            for job_id in _ids_in(f"{self.archive_directory}/{entry}")
        )

    def read(self, job_id: int) -> JobFile | None:
        """Give a job, archived or not; None if there is none. Raises `JobFileCorrupted`.

        A damaged one is given as it was when it was last synced, where that is there still.
        """
        for path in (self.path(job_id), self.archive_path(job_id)):
            try:
                raw = read_if_there(path)
            except OSError as err:
                if err.errno in NOT_A_FILE:
                    raise JobFileCorrupted(f"The file of job {job_id} is damaged: {refusal_of_system(err)}") from err
                raise
            if raw is not None:
                return self._decoded(raw, job_id)
        return None

    def _decoded(self, raw: bytes, job_id: int) -> JobFile:
        try:
            return decode(raw, job_id)
        except JobFileCorrupted:
            kept = read_if_there(self.durable_path(job_id))
            if kept is None:
                raise
            return decode(kept, job_id)

    def is_archived(self, job_id: int) -> bool:
        return not os.path.exists(self.path(job_id)) and os.path.exists(self.archive_path(job_id))

    def durable_path(self, job_id: int) -> str:
        """Another name of the last synced content of a job's file that was replaced without a sync since."""
        return f"{self.directory}/.job-{job_id}.durable"

    def write(self, job: JobFile, *, durable: bool) -> None:
        """Replace a job's file. It has one writer at a time, so the name of the new file can be fixed."""
        temporary, path, kept = self._temporary(job.id), self.path(job.id), self.durable_path(job.id)
        _write_file(temporary, encode(job), durable=durable)
        if not durable:
            with suppress(FileExistsError, FileNotFoundError):
                os.link(path, kept)
            os.rename(temporary, path)
        else:
            os.rename(temporary, path)
            _unlink(kept)
            sync_directory(self.directory)

    def add(self, jobs: Sequence[JobFile]) -> None:
        """Store new jobs durably, all with the two syncs of the directory's journal shared."""
        written: list[tuple[str, str]] = []
        try:
            for job in jobs:
                temporary = self._temporary(job.id)
                written.append((temporary, self.path(job.id)))
                _write_file(temporary, encode(job), durable=True)
            serial = max(job.id for job in jobs)
            write_over(f"{self.directory}/serial", b"%d\n" % serial, mode=QUEUE_FILE_MODE)
            for temporary, final in written:
                os.rename(temporary, final)
            sync_directory(self.directory)
        except Exception:  # the submitter is told that there are no such jobs
            for temporary, final in written:
                for path in (temporary, final):
                    with suppress(OSError):
                        os.unlink(path)
            raise

    def remove(self, job_ids: Iterable[int]) -> None:
        """Take back new jobs that nobody was told of; their ids stay used up."""
        for job_id in job_ids:
            with suppress(FileNotFoundError):
                os.unlink(self.path(job_id))
        sync_directory(self.directory)

    def forget(self, job_id: int) -> None:
        """Remove the file of a job that has ended, for good; its id stays used up."""
        self._sync_serial([job_id])
        for path in (self.path(job_id), self.durable_path(job_id)):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _temporary(self, job_id: int) -> str:
        return f"{self.directory}/.job-{job_id}.new"

    def highest_id(self) -> int:
        """The highest job id ever seen by a client, or higher."""
        path = f"{self.directory}/serial"
        raw = read_if_there(path)
        stored = None if raw is None else _number_in(raw)
        if raw is not None and stored is None:
            _log.warning("%s is damaged: the highest job id found in the queue and its archive counts", path)
        newest = max((int(name) for name in os.listdir(self.archive_directory) if name.isdigit()), default=None)
        archived = _ids_in(f"{self.archive_directory}/{newest}") if newest is not None else []
        named = [int(match[1]) for name in os.listdir(self.directory) if (match := _NAMED.match(name))]
        return max([stored or 0, *archived[-1:], *named])

    def mend(self) -> None:
        """Let each file that was lost with the power be what it was when it was last synced.

        To be called before anybody relies on the queue, or copies it. It leaves alone what can be read, so it does no
        harm where the power was not lost and jobs are at work.
        """
        for job_id in self._kept():
            try:
                self._mend(job_id)
            except OSError as err:
                _log.warning("the file of job %d cannot be looked at: %s", job_id, err.strerror)

    def _mend(self, job_id: int) -> None:
        raw = read_if_there(self.path(job_id))
        if raw is None:  # an earlier life as a master left it, of a job that is archived by now
            _unlink(self.durable_path(job_id))
        elif not _can_be_read(raw, job_id):
            kept = read_if_there(self.durable_path(job_id))
            if kept is not None and _can_be_read(kept, job_id):
                _log.warning("the file of job %d is damaged: what was synced last takes its place", job_id)
                os.rename(self.durable_path(job_id), self.path(job_id))
                sync_directory(self.directory)

    def settle(self, *, but_for: Collection[int] = ()) -> None:
        """Make every file durable as it is now; to be called by who writes them, *but_for* those with a writer."""
        try:
            self._settle([job_id for job_id in self._kept() if job_id not in but_for])
        except OSError as err:
            _log.warning("the queue cannot be synced now: %s", err.strerror)

    def _settle(self, job_ids: Sequence[int]) -> None:
        for job_id in job_ids:
            with suppress(FileNotFoundError):
                sync_file(self.path(job_id))
            _unlink(self.durable_path(job_id))
        if job_ids:
            sync_directory(self.directory)

    def _kept(self) -> list[int]:
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        return sorted(int(match[1]) for name in names if (match := _KEPT.match(name)))

    def remove_strays(self, written: Collection[int] = ()) -> None:
        """Remove what writers that died left of files that were not in place yet; *written* may be written now."""
        for name in os.listdir(self.directory):
            stray = _STRAY.match(name)
            if stray is not None and int(stray[1] or 0) not in written:
                _log.info("%s was never finished and is removed", name)
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.directory}/{name}")

    def archive(self, job_ids: Iterable[int]) -> int:
        """Move ended jobs into the archive; gives how many there were.

        What is not synced is synced before: nothing in the archive stands beside what it was earlier, and an archive
        may be emptied, after which the file of the serial number alone knows the ids.
        """
        job_ids = list(job_ids)
        self._settle([job_id for job_id in job_ids if os.path.exists(self.durable_path(job_id))])
        self._sync_serial(job_ids)
        moved = 0
        for job_id in job_ids:
            target = self.archive_path(job_id)
            os.makedirs(os.path.dirname(target), mode=QUEUE_DIR_MODE, exist_ok=True)
            try:
                os.rename(self.path(job_id), target)
            except FileNotFoundError:
                continue
            moved += 1
        return moved

    def _sync_serial(self, job_ids: Sequence[int]) -> None:
        """The newest job is about to go: only then can its number be all that says which ids are used up."""
        path = f"{self.directory}/serial"
        if job_ids and max(job_ids) >= (_number_in(read_if_there(path) or b"") or 0):
            with suppress(FileNotFoundError):
                sync_file(path)
                sync_directory(self.directory)

    def drained(self) -> bool:
        return os.path.exists(f"{self.directory}/drain")

    def set_drained(self, flag: bool) -> None:
        path = f"{self.directory}/drain"
        if flag:
            write_atomically(path, b"", mode=QUEUE_FILE_MODE)
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)
            sync_directory(self.directory)


def job_id_of(file_name: str) -> int | None:
    """The id of the job whose file has this name; None for any other file of the queue."""
    digits = file_name[len(_JOB_PREFIX) :]
    if file_name.startswith(_JOB_PREFIX) and digits.isdecimal() and digits.isascii() and digits[0] != "0":
        return int(digits)
    return None


def _number_in(data: bytes) -> int | None:
    text = data.strip()
    return int(text) if _NUMBER.fullmatch(text) else None


def _ids_in(directory: str) -> list[int]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(job_id for name in names if (job_id := job_id_of(name)) is not None)


def _can_be_read(raw: bytes, job_id: int) -> bool:
    try:
        decode(raw, job_id)
    except Exception:  # whatever stands in it, the file is of no use
        return False
    return True


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _write_file(path: str, data: bytes, *, durable: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, QUEUE_FILE_MODE)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if durable:
            os.fsync(descriptor)
    except OSError as err:
        err.filename = path
        raise
    finally:
        os.close(descriptor)

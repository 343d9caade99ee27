# SPDX-License-Identifier: BSD-2-Clause
"""Reading the whole queue when LuxiD starts: quickly for jobs that have ended, fully for those that have not."""

import logging
import os
from typing import Annotated, Literal

import msgspec

from ganeti.base.errors import GanetiError, JobFileCorrupted, JobQueueError, refusal_of_system
from ganeti.base.paths import Paths
from ganeti.master.queue.dependencies import dependencies_of
from ganeti.master.queue.events import Found
from ganeti.stores.job_files import NOT_A_FILE, JobFiles
from ganeti.stores.job_files_reader import JobFilesReader
from ganeti.stores.undo_files import damaged_job_path, left_by
from ganeti.system.files import read_if_there, write_atomically, write_over
from ganeti.system.livelock import is_alive
from ganeti.wire.job_file import FINAL_STATUSES, JobFile, combined_status, decode, seconds, secrets_lost

_log = logging.getLogger(__name__)


class _Glance(msgspec.Struct, gc=False):
    """The parts of an opcode's entry that say whether it has ended."""

    status: Literal["queued", "waiting", "canceling", "running", "canceled", "success", "error"]


class _JobGlance(msgspec.Struct, gc=False):
    id: int
    ops: Annotated[list[_Glance], msgspec.Meta(min_length=1)]
    end_timestamp: list[int] | None = None


Scan = tuple[list[Found], list[tuple[int, str, float]], dict[int, str]]


def scan(paths: Paths, files: JobFiles, *, foreign: bool = False) -> Scan:
    """Give unfinished jobs, (id, status, end) of ended ones, and the statuses of archived dependencies.

    *foreign* says that the processes named in the files were another machine's, or of before its power was cut.
    """
    decoder = msgspec.json.Decoder(_JobGlance)
    found: list[Found] = []
    ended: list[tuple[int, str, float]] = []
    files.mend()
    job_ids = files.ids()
    with JobFilesReader(files) as reader:
        for job_id in job_ids:
            try:
                raw = reader.raw(job_id)
                if raw is None:
                    continue
                glance = decoder.decode(raw)
                if glance.id != job_id:
                    raise JobFileCorrupted(f"it says it is job {glance.id}")
                status = combined_status([entry.status for entry in glance.ops])
                if status in FINAL_STATUSES:
                    ended.append((job_id, status, seconds(glance.end_timestamp) or 0.0))
                else:
                    file = decode(raw, job_id)
                    alive = file.livelock is not None and is_alive(file.livelock)
                    if file.livelock is None or alive or reader.raw(job_id) == raw:
                        found.append(_look(paths, file, alive, foreign))
                    else:
                        job_ids.append(job_id)  # its process came to its last write between our two looks
            except OSError as err:
                if err.errno not in NOT_A_FILE:  # it may be sound: its job must not be forgotten
                    raise JobQueueError(f"The file of job {job_id} cannot be read: {err.strerror}") from err
                _set_aside(paths, files, job_id, err)
            except Exception as err:  # whatever stands in it, it must not keep the daemon from starting
                _set_aside(paths, files, job_id, err)
    at_work = {item.file.id for item in found if item.alive}
    files.remove_strays(at_work)
    files.settle(but_for=at_work)
    return found, ended, _archived_dependencies(files, found)


class PowerOn:
    """Whether LuxiD has lived on this machine since that was switched on, as master of this epoch.

    If not, no process that a job's file names was ever one of this machine, whatever has its number now.
    """

    def __init__(self, paths: Paths, epoch: int) -> None:
        self._path = f"{paths.run_dir}/luxid-epoch"
        self._content = b"%d\n" % epoch
        self.is_known = read_if_there(self._path) == self._content

    def remember(self) -> None:
        """The jobs found are taken up: from now on what their files say is about this machine."""
        if not self.is_known:
            try:
                write_atomically(self._path, self._content, durable=False)
            except OSError as err:
                _log.warning("%s cannot be written: %s", self._path, err.strerror)


class IssuedIds:
    """The highest job id given on this machine since it was switched on, kept beside the queue's own files.

    Nodes keep their answers by job id. Where the queue is gone, or older than what has run (a backup of the directory
    was put back), a new job of a former one's id would get answers to calls that it never made.
    """

    def __init__(self, paths: Paths, cluster_uuid: str) -> None:
        self._path = f"{paths.run_dir}/luxid-serial"
        self._cluster_uuid = cluster_uuid

    def highest(self) -> int:
        """0 where nobody knows, or it was another cluster."""
        words = (read_if_there(self._path) or b"").decode(errors="replace").split()
        is_ours = len(words) == 2 and words[0] == self._cluster_uuid and words[1].isdecimal()
        return int(words[1]) if is_ours else 0

    def note(self, job_id: int) -> None:
        try:
            write_over(self._path, f"{self._cluster_uuid} {job_id}\n".encode())
        except OSError as err:
            _log.warning("%s", refusal_of_system(err))


def _look(paths: Paths, file: JobFile, alive: bool, foreign: bool) -> Found:
    records, outcome = left_by(paths, file) if file.livelock is not None and not alive else (0, "")
    return Found(file, alive, records, secrets_lost(file), foreign, outcome)


def _set_aside(paths: Paths, files: JobFiles, job_id: int, err: Exception) -> None:
    """A damaged file must not keep the others waiting; it stays, under another name, for a human."""
    target = damaged_job_path(paths, job_id)
    _log.error("the file of job %d is damaged and is now called %s: %s", job_id, target, err)
    os.rename(files.path(job_id), target)


def _archived_dependencies(files: JobFiles, found: list[Found]) -> dict[int, str]:
    statuses: dict[int, str] = {}
    for item in found:
        for dependency in dependencies_of(item.file):
            if dependency.job_id in statuses or not files.is_archived(dependency.job_id):
                continue
            try:
                file = files.read(dependency.job_id)
            except GanetiError as err:
                _log.error("%s", err)
                continue
            if file is not None:
                statuses[dependency.job_id] = file.status
    return statuses

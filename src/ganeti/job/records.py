# SPDX-License-Identifier: BSD-2-Clause
"""What a job must not lose: its file and its undo log, on disk here and at every candidate in sync (S2.7, D5).

In this order, each on the members' disks before the next:

    mark      before the first commit, submission, or node call that changes something, once a process: the job's file
              says that this process has begun (`begun`), so that no take-over and no loss of power runs the job twice.
              Where a commit comes first, the mark goes to the other members with it: each writes the mark before it
    record    of what undoes a step, before the step
    result    of an opcode or the job, or that it is handed back; of a process that has begun. The job's end is not
              waited for where WConfD is away: then its records stay, and LuxiD has it copied before they go; nor
              where there are no records: LuxiD has it copied before it tells of it, and nothing else depends on it

A process that has not begun leaves nothing that counts: its job may run again, so it need not wait for anybody. That
the end of any job is told to nobody before the candidates have it is up to LuxiD (`queue_watching`).
"""

import asyncio
import logging
import time

from ganeti.base.errors import ExecutionError, GanetiError, TransportError
from ganeti.base.paths import Paths
from ganeti.calls.queue_replication import Replication, job_name, undo_name
from ganeti.master.queue.undo import Line, UndoLog
from ganeti.stores import stuck_jobs
from ganeti.stores.job_files import JobFiles
from ganeti.stores.undo_files import UndoFile
from ganeti.system.pause_points import reach
from ganeti.wire.job_file import JobFile

_log = logging.getLogger(__name__)
_WRITE_AGAIN_S = 0.5
_ASK_AGAIN_S = 1.0


class JobRecords:
    """The durable records of one attempt of a job; implements `UndoStore`."""

    def __init__(self, paths: Paths, job: JobFile, wconfd: Replication) -> None:
        self._job = job
        self._wconfd = wconfd
        self._files = JobFiles(paths)
        self._undo = UndoFile(paths, job.id)
        self._names = (job_name(job.id), undo_name(job.id))
        self._marked = False
        self._beginning = asyncio.Lock()

    async def begin(self) -> None:
        """Return when no take-over can run this job again; raises `ExecutionError`, and then nothing may be changed."""
        if self._marked:
            return
        async with self._beginning:
            if not self._marked:
                self._mark()
                await self._copy()
                self._marked = True
                reach("job-begun")

    def mark(self) -> tuple[str, ...]:
        """Mark the job on this disk; gives the files that must go to the members with the commit that comes next.

        There are none once the mark is everywhere, which is told by `marked`. Raises as `begin` does.
        """
        if self._marked:
            return ()
        self._mark()
        return self._names

    def marked(self) -> None:
        """The files that `mark` gave are at every member."""
        self._marked = True

    async def save(self, job: JobFile) -> None:
        """Store the job's file; what this process has changed something for is everywhere when this returns."""
        self._write(job)
        if job.begun == job.attempt:
            reach("job-written")
            await self._copy()

    async def end(self, job: JobFile) -> bool:
        """As `save`, but the job has ended: where WConfD is away, nobody waits for it (S2.62), and this gives False.

        A job without records does not wait for the copies at all: LuxiD does, and one trip there is enough.

        Before LuxiD tells of the end it has the file copied itself. Until then the records and the locks must stay:
        should another master take over without this end, it carries the records out.
        """
        self._write(job)
        if job.begun != job.attempt:
            return True
        reach("job-written")
        return not self.log.has_lines or await self._copy(ending=True)

    def _write(self, job: JobFile) -> None:
        """What a job has done must not be forgotten for lack of space: it has nothing to do but wait for some."""
        said = False
        while True:
            try:
                self._files.write(job, durable=True)
                break
            except OSError as err:
                if not said:
                    _log.error("job %d waits until its file can be written: %s", job.id, err.strerror)
                    if job.livelock is not None:
                        stuck_jobs.tell(job.livelock, time.time(), err.strerror or str(err))
                said = True
            time.sleep(_WRITE_AGAIN_S)
        if said and job.livelock is not None:
            stuck_jobs.over(job.livelock)

    # The undo log

    @property
    def log(self) -> UndoLog:
        return self._undo.log

    async def append(self, *lines: Line, durable: bool = True) -> None:
        """See `UndoFile.append`; durable lines are at the candidates as well when this returns."""
        if durable and not self._marked:
            self._mark()  # so that one trip to the candidates does for both
        self._undo.append(*lines, durable=durable)
        if durable:
            reach("job-recorded")
            await self._copy()
            self._marked = True

    def clear(self) -> None:
        """See `UndoFile.clear`; the candidates hear of it with the next record, or from LuxiD at the job's end."""
        self._undo.clear()

    def _mark(self) -> None:
        self._job.begun = self._job.attempt
        try:
            self._files.write(self._job, durable=True)
        except OSError as err:
            raise ExecutionError(
                f"The file of job {self._job.id} cannot be written, so nothing is begun: {err.strerror}"
            ) from err
        reach("job-marked")

    async def _copy(self, *, ending: bool = False) -> bool:
        """Wait until every member has both files; where another node is the master now, the process ends in there.

        With *ending* WConfD must be there; False if it is not.
        """
        said = False
        while True:
            try:
                await self._wconfd.replicate_queue(self._names, patience_s=0.0 if ending else None)
                return True
            except GanetiError as err:
                if ending and isinstance(err, TransportError):
                    _log.warning("the end of job %d is copied when WConfD is back: %s", self._job.id, err)
                    return False
                if not said:
                    _log.warning("job %d waits for the copies of its records: %s", self._job.id, err)
                said = True
            await asyncio.sleep(_ASK_AGAIN_S)

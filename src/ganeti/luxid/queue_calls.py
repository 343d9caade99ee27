# SPDX-License-Identifier: BSD-2-Clause
"""LUXI calls about the job queue (protocols, section 2)."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from ganeti.base.errors import WRONG_INPUT, GanetiError, JobLost, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.calls.serving import Reads, serves
from ganeti.luxid.arguments import Fields, Flag, JobId, Kill, LogSerial, PauseEnd, Priority, Seconds, Timeout
from ganeti.luxid.queue.driver import QueueDriver
from ganeti.master.query.fields import Missing
from ganeti.master.query.jobs import JOBS, JobRow
from ganeti.master.query.running import legacy_rows, selected
from ganeti.master.queue.submission import new_job, read_opcodes
from ganeti.ports.luxid import CancelUnbegun, MayContinue
from ganeti.stores.undo_files import jobs_with_undo
from ganeti.stores.watcher_pause import pause_watcher
from ganeti.wire.job_file import QUEUED, WAITING, JobFile
from ganeti.wire.luxi import WAIT_TIMEOUT_S

_ARCHIVED_AT_ONCE = 100


def _jobs(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PrerequisiteError("SubmitManyJobs takes a list of jobs, each a list of opcodes", WRONG_INPUT)
    return value


Jobs = Annotated[list[Any], Reads(_jobs)]


class QueueCalls:
    """Handlers of LUXI requests."""

    def __init__(self, paths: Paths, queue: QueueDriver) -> None:
        self._paths = paths
        self._queue = queue

    @serves("SubmitJob")
    async def submit_job(self, opcodes: Any) -> int:
        self._refuse_if_drained()
        return await self.submit_job_to_drained_queue(opcodes)

    @serves("SubmitJobToDrainedQueue")
    async def submit_job_to_drained_queue(self, opcodes: Any) -> int:
        read = read_opcodes(opcodes, None, self._queue.status_for_dependency)
        (job,) = await self._queue.submit([partial(_make_job, read, time.time())])
        return job.id

    @serves("SubmitManyJobs")
    async def submit_many_jobs(self, jobs: Jobs) -> list[list[Any]]:
        """[ok, id or error text] of each; dependencies may be relative to the others."""
        self._refuse_if_drained()
        first_id = self._queue.next_id
        ids: list[int | None] = []
        answers: list[list[Any]] = []
        accepted: list[list[dict[str, Any]]] = []
        for ops in jobs:
            try:
                opcodes = read_opcodes(ops, ids, self._status_or_new(first_id, len(accepted)))
            except GanetiError as err:
                ids.append(None)
                answers.append([False, str(err)])
                continue
            job_id = first_id + len(accepted)
            accepted.append(opcodes)
            ids.append(job_id)
            answers.append([True, job_id])
        if accepted:
            now_s = time.time()
            await self._queue.submit([partial(_make_job, opcodes, now_s) for opcodes in accepted])
        return answers

    @serves("WaitForJobChange")
    async def wait_for_job_change(
        self, job_id: JobId, names: Fields, previous: Any, serial: LogSerial, timeout_s: Timeout
    ) -> list[Any]:
        """[field values, log entries after the last one seen], as soon as anything is new, or when the time is over."""
        deadline_s = time.monotonic() + min(max(timeout_s, 0.0), WAIT_TIMEOUT_S)
        while True:
            job = self._queue.job(job_id)
            if job is None:
                raise JobLost(f"Job {job_id} not found")
            values = self._values(job_id, names)
            entries = [entry for op in job.ops for entry in op.log if entry[0] > serial]
            ended = self._queue.machine.jobs.get(job_id) is None
            if ended or values != previous or entries:
                return [values, entries]
            try:
                async with asyncio.timeout(max(deadline_s - time.monotonic(), 0.0)):
                    await self._queue.changed(job_id)
            except TimeoutError:
                return [values, entries]

    @serves("PickupJob")
    async def pickup_job(self, job_id: Any) -> None:
        raise GanetiError("Luxi call 'PickupJob' is for internal use only")

    @serves(MayContinue)
    async def may_continue(self, asked: MayContinue) -> bool:
        return self._queue.may_continue(asked.job_id, asked.attempt)

    @serves("ArchiveJob")
    async def archive_job(self, job_id: JobId) -> bool:
        return await self._queue.archiving.archive([job_id], dealt_with=True) == 1

    @serves("ForgetRenewal")
    async def forget_renewal(self, job_id: JobId) -> bool:
        """Internal: the watcher has read what a job of `OP_UPDATE_NODE_GROUP_CACHE` told."""
        return await self._queue.archiving.forget_renewal(job_id)

    @serves("AutoArchiveJobs")
    async def auto_archive_jobs(self, age_s: Seconds, timeout_s: Seconds) -> list[int]:
        """[archived, left]: those not looked at when the time was over are left."""
        deadline_s = time.monotonic() + timeout_s
        before_s = time.time() - age_s
        archived = 0
        known = self._queue.machine.ended
        ids = sorted(known)
        left_behind = set(await asyncio.to_thread(jobs_with_undo, self._paths))
        for position in range(0, len(ids), _ARCHIVED_AT_ONCE):
            if time.monotonic() > deadline_s:
                return [archived, len(ids) - position]
            some = [job_id for job_id in ids[position : position + _ARCHIVED_AT_ONCE] if job_id in known]
            old = [job_id for job_id in some if age_s == -1 or known[job_id].end_s < before_s]
            archived += await self._queue.archiving.archive_many(
                [job_id for job_id in old if job_id not in left_behind]
            )
        return [archived, 0]

    @serves("CancelJob")
    async def cancel_job(self, job_id: JobId, kill: Kill = False) -> list[Any]:
        ok, message = await self._queue.cancel(job_id, kill)
        return [ok, message]

    @serves(CancelUnbegun)
    async def cancel_unbegun(self, asked: CancelUnbegun) -> list[int]:
        """The newest first: a job that waits for another would fail with it."""
        status_of = self._queue.machine.status_of
        waiting = [job_id for job_id in sorted(asked.jobs, reverse=True) if status_of(job_id) in (QUEUED, WAITING)]
        answers = await asyncio.gather(*(self._queue.cancel(job_id, kill=False) for job_id in waiting))
        return sorted(job_id for job_id, (is_canceled, _) in zip(waiting, answers, strict=True) if is_canceled)

    @serves("ChangeJobPriority")
    async def change_job_priority(self, job_id: JobId, priority: Priority) -> list[Any]:
        ok, message = await self._queue.change_priority(job_id, priority)
        return [ok, message]

    @serves("SetDrainFlag")
    async def set_drain_flag(self, flag: Flag) -> bool:
        await self._queue.set_drained(flag)
        return True

    @serves("SetWatcherPause")
    async def set_watcher_pause(self, until: PauseEnd) -> int | float | None:
        """Keep the watcher from acting until a time (seconds since the epoch), or let it act again."""
        if until is not None and until < time.time():
            raise GanetiError("Unable to set pause end time in the past")
        pause_watcher(self._paths, None if until is None else float(until))
        return until

    def _values(self, job_id: int, names: Sequence[str]) -> list[Any]:
        row = JobRow(job_id, self._queue.job(job_id), False)
        fields = selected(JOBS, names)
        legacy_rows(JOBS, fields, [])
        values = [field.get(row) for field in fields]
        return [None if isinstance(value, Missing) else value for value in values]

    def _status_or_new(self, first_id: int, accepted: int) -> Any:
        """Statuses of jobs that exist, and of those of this batch that will."""

        def status(job_id: int) -> str | None:
            if first_id <= job_id < first_id + accepted:
                return "queued"
            return self._queue.status_for_dependency(job_id)

        return status

    def _refuse_if_drained(self) -> None:
        if self._queue.files.drained():
            raise GanetiError("Queue drained")  # 3.1 says it in this class


def _make_job(opcodes: list[dict[str, Any]], now_s: float, job_id: int) -> JobFile:
    return new_job(job_id, opcodes, now_s)

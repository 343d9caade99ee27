# SPDX-License-Identifier: BSD-2-Clause
"""Group commit of new jobs: whatever is submitted while the disk is busy shares the next round of syncs.

While the candidates get one round, the next is written.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ganeti.base.errors import JobQueueError, refusal_of_system
from ganeti.system.event_loop import Background
from ganeti.wire.job_file import JobFile

_log = logging.getLogger(__name__)
Group = tuple[list[JobFile], "asyncio.Future[None]"]


async def _nobody_else(jobs: Sequence[JobFile]) -> None:
    """There is only one disk."""


class GroupCommit:
    """*write* stores jobs durably, in a thread; *stored* is told of them in the loop, before those who submitted.

    In between, *copy* returns when the candidates have them too, or takes them back and raises `JobQueueError`.
    """

    def __init__(
        self,
        write: Callable[[Sequence[JobFile]], None],
        stored: Callable[[Sequence[JobFile]], None],
        tasks: Background,
        copy: Callable[[Sequence[JobFile]], Awaitable[None]] = _nobody_else,
    ) -> None:
        self._write = write
        self._stored = stored
        self._tasks = tasks
        self._copy = copy
        self._groups: list[Group] = []
        self._writer: asyncio.Task[Any] | None = None
        self.pending = 0
        """How many jobs are about to be stored."""

    async def add(self, jobs: list[JobFile]) -> None:
        """Return when all of *jobs* are durable and known; raises `JobQueueError` if they cannot be stored."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._groups.append((jobs, done))
        self.pending += len(jobs)
        if self._writer is None:
            self._writer = self._tasks.start(self._write_all(), "submission")
        await asyncio.shield(done)

    async def _write_all(self) -> None:
        try:
            while self._groups:
                groups, self._groups = self._groups, []
                jobs = [job for group, _ in groups for job in group]
                try:
                    await asyncio.to_thread(self._write, jobs)
                except Exception as err:
                    self.pending -= len(jobs)
                    _tell(groups, _explain(jobs, err))
                else:
                    self._tasks.start(self._hand_on(groups, jobs), "copies of new jobs")
        finally:
            self._writer = None

    async def _hand_on(self, groups: list[Group], jobs: list[JobFile]) -> None:
        error: JobQueueError | None = None
        try:
            await self._copy(jobs)
        except Exception as err:
            error = _explain(jobs, err)
        self.pending -= len(jobs)
        if error is None:
            try:
                self._stored(jobs)
            except Exception as err:
                error = _explain(jobs, err)
        _tell(groups, error)


def _explain(jobs: Sequence[JobFile], err: Exception) -> JobQueueError:
    """Those who submitted wait for an answer, whatever is wrong with us."""
    if isinstance(err, JobQueueError):
        return err
    if isinstance(err, OSError):
        return JobQueueError(f"The job cannot be stored: {refusal_of_system(err)}")
    _log.exception("jobs %d to %d were not queued", jobs[0].id, jobs[-1].id)
    return JobQueueError(
        f"The job was not queued: the daemon failed with {type(err).__name__}; see its log, and submit the job again"
    )


def _tell(groups: Sequence[Group], error: JobQueueError | None) -> None:
    for _, done in groups:
        if done.done():
            continue
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

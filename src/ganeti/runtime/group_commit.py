# SPDX-License-Identifier: BSD-2-Clause
"""Group commit of new jobs: whatever is submitted while the disk is busy shares the next round of syncs."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from ganeti.base.errors import JobQueueError
from ganeti.runtime.event_loop import Background
from ganeti.wire.job_file import JobFile

_log = logging.getLogger(__name__)
Group = tuple[list[JobFile], "asyncio.Future[None]"]


class GroupCommit:
    """*write* stores jobs durably, in a thread; *stored* is told of them in the loop, before those who submitted."""

    def __init__(
        self,
        write: Callable[[Sequence[JobFile]], None],
        stored: Callable[[Sequence[JobFile]], None],
        tasks: Background,
    ) -> None:
        self._write = write
        self._stored = stored
        self._tasks = tasks
        self._groups: list[Group] = []
        self._being_written = 0
        self._writer: asyncio.Task[Any] | None = None

    @property
    def pending(self) -> int:
        """How many jobs are about to be stored."""
        return self._being_written + sum(len(jobs) for jobs, _ in self._groups)

    async def add(self, jobs: list[JobFile]) -> None:
        """Return when all of *jobs* are durable and known; raises `JobQueueError` if they cannot be stored."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._groups.append((jobs, done))
        if self._writer is None:
            self._writer = self._tasks.start(self._write_all(), "submission")
        await asyncio.shield(done)

    async def _write_all(self) -> None:
        try:
            while self._groups:
                groups, self._groups = self._groups, []
                await self._write_groups(groups)
        finally:
            self._writer = None

    async def _write_groups(self, groups: list[Group]) -> None:
        jobs = [job for group, _ in groups for job in group]
        self._being_written = len(jobs)
        try:
            await asyncio.to_thread(self._write, jobs)
            self._being_written = 0
            self._stored(jobs)
        except OSError as err:
            _tell(groups, JobQueueError(f"The job cannot be stored: {err.strerror or err}"))
        except Exception as err:  # those who submitted wait for an answer, whatever is wrong with us
            _log.exception("jobs %d to %d were not queued", jobs[0].id, jobs[-1].id)
            _tell(groups, JobQueueError(f"The job was not queued because of a fault of ours: {type(err).__name__}"))
        else:
            _tell(groups, None)
        finally:
            self._being_written = 0


def _tell(groups: Sequence[Group], error: JobQueueError | None) -> None:
    for _, done in groups:
        if done.done():
            continue
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

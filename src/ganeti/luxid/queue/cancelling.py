# SPDX-License-Identifier: BSD-2-Clause
"""Cancelling a job, whatever it is doing, and telling the client what came of it (protocols, section 13)."""

import asyncio
from collections.abc import Awaitable, Callable

from ganeti.luxid.queue.decisions import Answered, Decisions
from ganeti.master.queue import events as ev
from ganeti.master.queue.machine import Phase
from ganeti.wire.job_file import CANCELED, RUNNING

_CANCEL_S = 44.0
_STARTING_S = 6.3


class JobCancelling:
    """*changed* waits for the next change of a job that a client may see."""

    def __init__(self, decisions: Decisions, changed: Callable[[int], Awaitable[None]]) -> None:
        self._decisions = decisions
        self._machine = decisions.machine
        self._changed = changed

    async def cancel(self, job_id: int, kill: bool) -> Answered:
        """Give whether the job is, or will be, cancelled, and a sentence."""
        await self._while_starting(job_id)
        answer = self._decisions.ask(ev.CancelAsked(job_id, kill))
        return answer if answer is not None else await self._await_end(job_id)

    async def _while_starting(self, job_id: int) -> None:
        """Wait, not for long, until a job that is being started has a process that can be told something."""
        try:
            async with asyncio.timeout(_STARTING_S):
                while (job := self._machine.jobs.get(job_id)) is not None and job.phase is Phase.ANNOUNCED:
                    await self._changed(job_id)
        except TimeoutError:
            return

    async def _await_end(self, job_id: int) -> Answered:
        """Wait for the end of a job that was told; one that was handed back just before is cancelled in the queue."""
        try:
            async with asyncio.timeout(_CANCEL_S):
                while (job := self._machine.jobs.get(job_id)) is not None:
                    if job.phase is not Phase.STARTED:
                        return await self.cancel(job_id, False)
                    if job.file.status == RUNNING:
                        return False, "Job no longer waiting, can't cancel (informed it anyway)"
                    await self._changed(job_id)
        except TimeoutError:
            return False, f"Job {job_id} was told to stop but has not ended yet"
        status = self._machine.status_of(job_id)
        if status == CANCELED:
            return True, f"Job {job_id} canceled"
        return False, f"Job {job_id} ended with {status} before it could be canceled"

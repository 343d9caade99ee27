# SPDX-License-Identifier: BSD-2-Clause
"""Who is told that a job has changed: clients that wait for it, and the event stream; and jobs that ended just now."""

import asyncio
from collections.abc import Callable

from ganeti.master.queue import events as ev
from ganeti.master.queue.machine import QueueMachine
from ganeti.wire.job_file import JobFile

_RECENT_JOBS = 64
Observer = Callable[[JobFile | None, int], None]


class JobAnnouncements:
    """Carries out `Announce`, and `Forget` as far as clients see it."""

    def __init__(self, machine: QueueMachine) -> None:
        self.observers: list[Observer] = []
        """Called with the file and the id of a job when something a client can see has changed; without a file, when
        the job has been archived."""
        self.recent: dict[int, JobFile] = {}
        """The last jobs that have ended: who waited for one reads it now."""
        self._machine = machine
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def changed(self, job_id: int) -> None:
        """Wait until the job has changed in a way a client may see."""
        future = self._waiting.get(job_id)
        if future is None:
            future = self._waiting[job_id] = asyncio.get_running_loop().create_future()
        await asyncio.shield(future)

    def announce(self, effect: ev.Announce) -> None:
        """Wake those who wait, and tell the observers of a job that is still unfinished."""
        waiting = self._waiting.pop(effect.job_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        if self.observers and (job := self._machine.jobs.get(effect.job_id)) is not None:
            self._observed(job.file, effect.job_id)

    def ended(self, effect: ev.Forget) -> None:
        """Tell the observers of the end, and keep the file for a while."""
        file = effect.file
        self.recent[file.id] = file
        while len(self.recent) > _RECENT_JOBS:
            del self.recent[next(iter(self.recent))]
        self._observed(file, file.id)

    def archived(self, job_id: int) -> None:
        """The job is in the lists no more."""
        self.recent.pop(job_id, None)
        self._observed(None, job_id)

    def _observed(self, file: JobFile | None, job_id: int) -> None:
        for observer in self.observers:
            observer(file, job_id)

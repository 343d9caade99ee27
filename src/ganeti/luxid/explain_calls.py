# SPDX-License-Identifier: BSD-2-Clause
"""The LUXI call `ExplainJob` (not in 3.1): why a job is where it is, as ``[[depth, sentence], …]``."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from ganeti.base.errors import TransportError
from ganeti.calls.serving import serves
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.arguments import JobId
from ganeti.luxid.queue.driver import QueueDriver
from ganeti.master.locks.owners import Owner
from ganeti.master.query.queue_facts import Ahead, Held, LockWait, UnfinishedJob, Unwritable
from ganeti.master.query.why import explain
from ganeti.master.queue.filters import Admission
from ganeti.master.queue.machine import QueueMachine
from ganeti.master.queue.state import Phase
from ganeti.model.view import ConfigView
from ganeti.stores import stuck_jobs
from ganeti.wire.job_file import JobFile

_WCONFD_S = 5.0


class ExplainCalls:
    """Handlers of LUXI requests."""

    def __init__(self, queue: QueueDriver, wconfd: WConfdClient, view: Callable[[], ConfigView]) -> None:
        self._queue = queue
        self._wconfd = wconfd
        self._view = view

    @serves("ExplainJob")
    async def explain_job(self, job_id: JobId) -> list[list[Any]]:
        """Raises `JobLost` for a job that does not exist, `JobFileCorrupted` for one that cannot be read."""
        self._queue.job(job_id)
        sentences = await explain(job_id, _LiveFacts(self._queue, self._wconfd, self._view()))
        return [[depth, text] for depth, text in sentences]


class _LiveFacts:
    """The queue and the locks as they are while one question is answered (`QueueFacts`)."""

    def __init__(self, queue: QueueDriver, wconfd: WConfdClient, view: ConfigView) -> None:
        self.view = view
        self.now_s = time.time()
        self._queue = queue
        self._wconfd = wconfd
        self._requests: dict[Owner, dict[str, str]] | None = None
        self._silent = False

    @property
    def _machine(self) -> QueueMachine:
        return self._queue.machine

    @property
    def admission(self) -> Admission:
        return self._machine.admission

    @property
    def slots(self) -> Sequence[int]:
        return sorted(self._machine.slots)

    @property
    def most_running(self) -> int:
        return self._machine.limits.running

    @property
    def held_back(self) -> bool:
        return self._machine.held_back

    @property
    def unwritable(self) -> Unwritable | None:
        return self._queue.writes.unwritable

    def stuck(self, job: UnfinishedJob) -> Unwritable | None:
        told = stuck_jobs.told(job.file.livelock) if job.phase is Phase.STARTED else None
        return None if told is None else Unwritable(self._queue.files.directory, told[1], told[0])

    def unfinished(self, job_id: int) -> UnfinishedJob | None:
        return self._machine.jobs.get(job_id)

    def ended(self, job_id: int) -> JobFile | None:
        return self._queue.readable_job(job_id)

    def ready_order(self) -> Sequence[int]:
        return self._machine.ready_order()

    def waiting_owner(self, job: UnfinishedJob) -> Owner:
        """A job with a process asks with a lock file of its own, any other in LuxiD's care."""
        if job.phase is Phase.STARTED and job.file.livelock is not None:
            return Owner(job.file.id, job.file.livelock, job.file.process_id or 0)
        return Owner(job.file.id, self._machine.own_lock_file)

    async def lock_wait(self, owner: Owner) -> LockWait | None:
        """Once WConfD was silent it is not asked again: a person waits for the answer."""
        if self._silent:
            return None
        try:
            async with asyncio.timeout(_WCONFD_S):
                return await self._ask(owner)
        except (TransportError, TimeoutError):
            self._silent = True
            return None

    async def _ask(self, owner: Owner) -> LockWait:
        if self._requests is None:
            waiting = await self._wconfd.waiting_locks()
            self._requests = {client: request for _, client, request in waiting}
        request = self._requests.get(owner)
        if request is None:
            return LockWait()
        answer = await self._wconfd.call("explainLocks", owner.to_wire())
        return LockWait(
            [
                Held(lock, wanted, held, Owner.from_wire(client), state, since_s)
                for lock, wanted, held, client, state, since_s in answer["holders"]
            ],
            [Ahead(lock, Owner.from_wire(client), priority) for lock, client, priority in answer["ahead"]],
            request,
        )

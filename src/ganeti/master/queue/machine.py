# SPDX-License-Identifier: BSD-2-Clause
"""The life of jobs as LuxiD sees it: events in, effects out. No clock, file or process (D2).

    queued ──Picked──► announced ──Greeted──► started ──Changed (final)──► ended
      │  ▲                │  └─StartFailed──────►────────────────────────►─┤
      │  └──SpawnerLost───┘                       └─Died──► ended, or, with undo records, announced again
      └─CancelAsked, DependencyEnded─────────────────────────────────────►─┘

What always holds (`check`):
 1. A job's file is written here only while no process may write it: never in `started` (S2.62).
 2. A job is in `started` only after its process's lock file name was stored and confirmed (S2.37); so a process that
    runs can be found by its lock file, whoever restarts in between (S2.33).
 3. No more than `limits.running` jobs have a process, unless the limit was lowered meanwhile.
 4. A job is picked only when all it depends on has ended as asked; among those that may, by (priority, id).

The machine keeps unfinished jobs whole; of an ended one it keeps the final status and the time.
"""

from collections.abc import Iterable, Mapping

from ganeti.base.errors import JobQueueFull
from ganeti.master.queue import entries
from ganeti.master.queue.events import (
    Answer,
    CancelAsked,
    Died,
    Effect,
    Ended,
    Found,
    JobEvent,
    Limits,
    Picked,
    PriorityAsked,
)
from ganeti.master.queue.state import Job, Phase, QueueState
from ganeti.master.queue.transitions import InvalidTransition, fail, park_or_ready, step
from ganeti.wire.job_file import JobFile

__all__ = ["InvalidTransition", "Phase", "QueueMachine"]


class QueueMachine:
    """Entry points: `submit`, `handle`, `recover`, `resume`. All give effects, to be carried out in order."""

    def __init__(self, own_lock_file: str, limits: Limits | None = None) -> None:
        self._state = QueueState(own_lock_file, limits or Limits())
        self.held_back = False
        """True while no process can be started (no spawner, or LuxiD is about to stop)."""

    @property
    def jobs(self) -> Mapping[int, Job]:
        """Unfinished jobs by id."""
        return self._state.jobs

    @property
    def ended(self) -> Mapping[int, Ended]:
        """Jobs that have ended and are not archived."""
        return self._state.ended

    @property
    def own_lock_file(self) -> str:
        return self._state.own_lock_file

    @property
    def limits(self) -> Limits:
        return self._state.limits

    def submit(self, files: Iterable[JobFile], now_s: float, known: Mapping[int, str] | None = None) -> list[Effect]:
        """Take jobs whose files are on disk already. *known* has the final statuses of archived dependencies."""
        self._state.now_s = now_s
        effects: list[Effect] = []
        for file in files:
            job = self._state.add(file, Phase.QUEUED, f"submitted with priority {file.priority}")
            effects += park_or_ready(self._state, job, known or {})
        return effects + self._pick()

    def handle(self, event: JobEvent, now_s: float) -> list[Effect]:
        """Carry out one transition. Events about jobs that have ended or never were are ignored, but for requests."""
        self._state.now_s = now_s
        job = self._state.jobs.get(event.job_id)
        if job is not None:
            return step(self._state, job, event) + self._pick()
        if isinstance(event, CancelAsked | PriorityAsked):
            return [Answer(False, f"Job {event.job_id} not found in queue")]
        return []

    def recover(self, found: Iterable[Found], now_s: float, known: Mapping[int, str] | None = None) -> list[Effect]:
        """Take up the unfinished jobs of an earlier life, in order of their ids."""
        self._state.now_s = now_s
        effects: list[Effect] = []
        for item in sorted(found, key=lambda each: each.file.id):
            if item.file.livelock is None:
                effects += self._recover_queued(item, known or {})
            elif item.alive:
                self._state.add(item.file, Phase.STARTED, "found running after a restart")
            else:
                job = self._state.add(item.file, Phase.STARTED, "found dead after a restart")
                effects += step(self._state, job, Died(item.file.id, item.file, item.records))
        return effects + self._pick()

    def resume(self, now_s: float, limits: Limits | None = None) -> list[Effect]:
        """Look for work again: a spawner is there, or the limits have changed."""
        self._state.now_s = now_s
        self._state.limits = limits or self._state.limits
        return self._pick()

    def remember(self, job_id: int, status: str, end_s: float) -> None:
        """Note a job that ended in an earlier life."""
        self._state.ended[job_id] = Ended(status, end_s)

    def archive(self, job_id: int) -> bool:
        """Forget an ended job; False if there is none."""
        return self._state.ended.pop(job_id, None) is not None

    def room_for(self, count: int) -> None:
        """Raise `JobQueueFull` unless so many more jobs may be unfinished."""
        unfinished, most = len(self.jobs), self.limits.active
        if unfinished + count > most:
            raise JobQueueFull(
                f"The queue is full: {unfinished} jobs are unfinished, and {most} may be; wait for some to end"
            )

    def status_of(self, job_id: int) -> str | None:
        """Status of a job that is not archived."""
        if job_id in self.jobs:
            return self.jobs[job_id].file.status
        return self.ended[job_id].status if job_id in self.ended else None

    def check(self) -> None:
        """Assert what the head of this module says always holds."""
        state = self._state
        for job_id, job in state.jobs.items():
            assert job.file.id == job_id and job_id not in state.ended
            assert job.phase is not Phase.ENDED and not job.file.final, job.story
            assert (job_id in state.slots) == (job.phase is not Phase.QUEUED), job.story
            if job.phase is Phase.QUEUED:
                assert job.file.livelock is None and bool(job.parked) != state.is_ready(job), job.story
            elif job.phase is Phase.ANNOUNCED:
                assert job.file.livelock == state.own_lock_file, job.story
            else:
                assert job.file.livelock is not None, job.story
            for dependency in job.parked:
                assert dependency.job_id in state.jobs and job_id in state.waiters[dependency.job_id], job.story
        assert state.slots <= set(state.jobs)

    def _recover_queued(self, item: Found, known: Mapping[int, str]) -> list[Effect]:
        job = self._state.add(item.file, Phase.QUEUED, "found queued after a restart")
        if item.secrets_lost and item.file.attempt == 1:
            return fail(self._state, job, entries.SECRETS_LOST)
        if item.file.attempt > 1:  # it has begun once: it must be undone, whatever became of what it waited for
            self._state.push(job)
            return []
        return park_or_ready(self._state, job, known)

    def _pick(self) -> list[Effect]:
        effects: list[Effect] = []
        while not self.held_back and (job := self._state.next_ready()) is not None:
            effects += step(self._state, job, Picked(job.file.id))
        return effects

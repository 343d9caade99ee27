# SPDX-License-Identifier: BSD-2-Clause
"""The life of jobs as LuxiD sees it: events in, effects out. No clock, file or process (D2).

    queued ─Picked─► asking ─Granted─► announced ─Greeted─► started ─Changed (final)─► ended
      ▲ ▲               └─Refused─► parked ─Granted─┘▲         │ │
      │ └──────────SpawnerLost──────────────┘        └──Died───┘ │   (with undo records: a successor unwinds)
      └────────────────────────HandedBack────────────────────────┘

The whole table is `transitions.TRANSITIONS`; `docs/design/job-life.md` has the drawing made from it.

What always holds (`check`):
 1. A job's file is written here only while no process may write it: never in `started` (S2.62).
 2. A job is in `started` only after its process's lock file name was stored and confirmed (S2.37); so a process that
    runs can be found by its lock file, whichever daemon restarts in between (S2.33).
 3. No more than `limits.running` jobs have a slot, unless the limit was lowered meanwhile. A job that waits, for
    whatever, has neither slot nor process; so those that have one get on, and no job waits for ever (S2.61).
 4. A job is picked only when all it depends on has ended as asked and no filter keeps it back; among those that may,
    by (priority of its first opcode that has not ended, id) (S1.82). Filters that
    hold no more start nobody.

The machine keeps unfinished jobs whole; of an ended one it keeps the final status and the time.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from ganeti.master.queue.events import (
    AdmissionChanged,
    Announce,
    Answer,
    AttemptOver,
    CancelAsked,
    Effect,
    Ended,
    Found,
    Granted,
    JobEvent,
    Limits,
    Picked,
    PriorityAsked,
    Refused,
    WithdrawLocks,
)
from ganeti.master.queue.filters import Admission
from ganeti.master.queue.recovery import take_up
from ganeti.master.queue.state import Job, Phase, QueueState
from ganeti.master.queue.transitions import InvalidTransition, step
from ganeti.master.queue.waiting import wait_or_ready
from ganeti.wire.job_file import FINAL_STATUSES, RUNNING, JobFile

__all__ = ["InvalidTransition", "Phase", "QueueMachine"]


_CONSIDERED_AT_ONCE = 4
"""Jobs that the filters are asked about in one go: each that is rejected then costs a synced write."""


class QueueMachine:
    """Entry points: `submit`, `handle`, `recover`, `resume`, `set_admission`, `reconsider`, `tick`.

    All give effects, to be carried out in order.
    """

    def __init__(self, own_lock_file: str, limits: Limits | None = None) -> None:
        self._state = QueueState(own_lock_file, limits or Limits())

    @property
    def jobs(self) -> Mapping[int, Job]:
        """Unfinished jobs by id."""
        return self._state.jobs

    @property
    def ended(self) -> Mapping[int, Ended]:
        """Jobs that have ended and are not archived."""
        return self._state.ended

    @property
    def slots(self) -> set[int]:
        """Jobs that have, or are about to get, a process."""
        return self._state.slots

    @property
    def own_lock_file(self) -> str:
        return self._state.own_lock_file

    @property
    def limits(self) -> Limits:
        return self._state.limits

    @property
    def admission(self) -> Admission:
        return self._state.admission

    @property
    def outdated(self) -> int:
        """How many jobs the present job filters have not been asked about yet: `reconsider` is wanted."""
        return len(self._state.outdated)

    @property
    def held_back(self) -> bool:
        """True while no process can be started (no spawner, or LuxiD is about to stop)."""
        return self._state.held_back

    @held_back.setter
    def held_back(self, value: bool) -> None:
        self._state.held_back = value

    def submit(self, files: Iterable[JobFile], now_s: float, known: Mapping[int, str] | None = None) -> list[Effect]:
        """Take jobs whose files are on disk already. *known* has the final statuses of archived dependencies."""
        self._state.now_s = now_s
        effects: list[Effect] = []
        for file in files:
            job = self._state.add(file, Phase.QUEUED, f"submitted with priority {file.priority}")
            effects.append(Announce(file.id))
            effects += wait_or_ready(self._state, job, known or {})
        return effects + self._pick()

    def handle(self, event: JobEvent, now_s: float) -> list[Effect]:
        """Carry out one transition. Events about jobs that have ended or never were are ignored, but for requests."""
        self._state.now_s = now_s
        effects = self._bring_up_to_date(event.job_id)
        job = self._state.jobs.get(event.job_id)
        if job is not None:
            return effects + step(self._state, job, event) + self._pick()
        if isinstance(event, CancelAsked | PriorityAsked):
            return [*effects, Answer(False, f"Job {event.job_id} not found in queue")]
        if isinstance(event, Granted | Refused):
            return [*effects, WithdrawLocks(event.job_id)]
        return effects

    def recover(self, found: Iterable[Found], now_s: float, known: Mapping[int, str] | None = None) -> list[Effect]:
        """Take up the unfinished jobs of an earlier life, in order of their ids."""
        self._state.now_s = now_s
        effects = take_up(self._state, found, known or {})
        return effects + self._pick()

    def resume(self, now_s: float, limits: Limits | None = None) -> list[Effect]:
        """Look for work again: a spawner is there, or the limits have changed."""
        self._state.now_s = now_s
        self._state.limits = limits or self._state.limits
        return self._pick()

    def set_admission(self, admission: Admission, now_s: float) -> list[Effect]:
        """The job filters have changed: they hold at once, for every job that has not begun.

        Jobs with a slot are counted anew here and now. Of the others there may be thousands: they are asked about by
        `reconsider`, those first whose turn is next; and whatever happens to one before that finds it asked about.
        """
        state = self._state
        state.now_s = now_s
        state.admission = admission
        state.outdated = dict.fromkeys(
            job_id for _, job_id in sorted((job.file.priority, job.file.id) for job in state.jobs.values())
        )
        effects: list[Effect] = []
        for job_id in sorted(state.slots):
            effects += self._bring_up_to_date(job_id)
        return effects + self.reconsider(now_s)

    def reconsider(self, now_s: float, most: int = _CONSIDERED_AT_ONCE) -> list[Effect]:
        """Ask the job filters about so many of the jobs that they were not asked about since they changed."""
        self._state.now_s = now_s
        effects: list[Effect] = []
        for job_id in list(islice(self._state.outdated, most)):
            effects += self._bring_up_to_date(job_id)
        return effects + self._pick()

    def tick(self, now_s: float) -> list[Effect]:
        """Time has passed: end the attempts of jobs that have waited for locks long enough."""
        self._state.now_s = now_s
        effects: list[Effect] = []
        for job in self._state.due():
            if job.phase in (Phase.PARKED, Phase.QUEUED):
                effects += step(self._state, job, AttemptOver(job.file.id))
        return effects + self._pick()

    def next_alarm_s(self) -> float | None:
        """When `tick` is wanted next."""
        return self._state.next_alarm_s()

    def may_continue(self, job_id: int) -> bool:
        """Whether a job between two opcodes goes on, or gives way to a better one that has no slot (S1.81)."""
        state, job = self._state, self._state.jobs.get(job_id)
        best = state.ready.first()
        if job is None or best is None or state.held_back or len(state.slots) < state.limits.running:
            return True
        pending = [op.priority for op in job.file.ops if op.status not in FINAL_STATUSES and op.status != RUNNING]
        return not pending or (pending[0], job_id) < best

    def remember(self, job_id: int, status: str, end_s: float) -> None:
        """Note a job that ended in an earlier life."""
        self._state.ended[job_id] = Ended(status, end_s)

    def archive(self, job_id: int) -> bool:
        """Forget an ended job; False if there is none."""
        return self._state.ended.pop(job_id, None) is not None

    def status_of(self, job_id: int) -> str | None:
        """Status of a job that is not archived."""
        if job_id in self.jobs:
            return self.jobs[job_id].file.status
        return self.ended[job_id].status if job_id in self.ended else None

    def ready_order(self) -> list[int]:
        """Jobs that wait for nothing but a slot, the next one first."""
        return self._state.ready.in_order()

    def check(self) -> None:
        """Assert what the head of this module says always holds."""
        state = self._state
        for job_id, job in state.jobs.items():
            assert job.file.id == job_id and job_id not in state.ended
            assert job.phase is not Phase.ENDED and not job.file.final, job.story
            with_slot = job.phase in (Phase.ASKING, Phase.ANNOUNCED, Phase.STARTED)
            assert (job_id in state.slots) == with_slot, job.story
            assert job.holds == (job_id in state.holding) and (not job.holds or job.phase is Phase.QUEUED), job.story
            if job.phase in (Phase.QUEUED, Phase.ASKING, Phase.PARKED):
                assert job.file.livelock is None, job.story
            elif job.phase is Phase.ANNOUNCED:
                assert job.file.livelock == state.own_lock_file, job.story
            else:
                assert job.file.livelock is not None, job.story
            kept_back = bool(job.depends) or job.held_by is not None
            assert (job_id in state.ready) == (job.phase is Phase.QUEUED and not kept_back), job.story
            assert (job.phase is Phase.PARKED) <= (job.attempts is not None), job.story
            for dependency in job.depends:
                assert dependency.job_id in state.jobs and job_id in state.waiters[dependency.job_id], job.story
        assert state.slots <= set(state.jobs) and not state.slots & set(state.outdated)
        in_buckets = [name for job_id in state.slots for name in state.jobs[job_id].buckets]
        assert sum(state.usage.values()) == len(in_buckets)

    def _pick(self) -> list[Effect]:
        effects: list[Effect] = []
        still_to_ask = _CONSIDERED_AT_ONCE
        while not self.held_back and (job := self._state.next_ready()) is not None:
            if job.file.id not in self._state.outdated:
                effects += step(self._state, job, Picked(job.file.id))
                continue
            self._state.push(job)
            if not still_to_ask:
                break
            still_to_ask -= 1
            effects += self._bring_up_to_date(job.file.id)
        return effects

    def _bring_up_to_date(self, job_id: int) -> list[Effect]:
        """Ask the job filters about a job, if they have changed since they were."""
        if job_id not in self._state.outdated:
            return []
        del self._state.outdated[job_id]
        job = self._state.jobs.get(job_id)
        return step(self._state, job, AdmissionChanged(job_id)) if job is not None else []

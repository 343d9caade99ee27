# SPDX-License-Identifier: BSD-2-Clause
"""The life of jobs as LuxiD sees it: a table of transitions, events in, effects out. No clock, file or process (D2).

    queued ──Picked──► announced ──Greeted──► started ──Changed (final)──► ended
      │  ▲                │  └─StartFailed──────►────────────────────────►─┤
      │  └──SpawnerLost───┘                       └─Died──► ended, or, with undo records, announced again
      └─CancelAsked, DependencyEnded─────────────────────────────────────►─┘

What always holds (`check`):
 1. A job's file is written here only while no process may write it: never in `started` (S2.62).
 2. A job is in `started` only after its process's lock file name was stored and confirmed (S2.37); so a process that
    runs can be found by its lock file, whoever restarts in between (S2.33).
 3. No more than `limits.running` jobs of first attempts are announced or started at once.
 4. A job is picked only when all it depends on has ended as asked; among those that may, by (priority, id).

The machine keeps unfinished jobs whole; of an ended one it keeps the final status and the time.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from heapq import heappop, heappush
from typing import Any

from ganeti.base.errors import JobQueueFull
from ganeti.master.queue import entries
from ganeti.master.queue.dependencies import Dependency, dependencies_of, why_failed
from ganeti.master.queue.events import (
    Announce,
    Answer,
    AwaitCancel,
    CancelAsked,
    Changed,
    Confirm,
    DependencyEnded,
    Died,
    Effect,
    Ended,
    Forget,
    Found,
    Greeted,
    JobEvent,
    Limits,
    Log,
    Picked,
    PriorityAsked,
    ReleaseOwner,
    SendSignal,
    SpawnerLost,
    StartFailed,
    StartProcess,
    WriteJob,
)
from ganeti.wire.job_file import JobFile, seconds


class Phase(StrEnum):
    QUEUED = "queued"
    ANNOUNCED = "announced"
    STARTED = "started"
    ENDED = "ended"


class InvalidTransition(AssertionError):
    """An event met a phase it cannot meet; the message carries the job's story."""


class Job:
    """One unfinished job."""

    __slots__ = ("file", "parked", "phase", "story")

    def __init__(self, file: JobFile, phase: Phase) -> None:
        self.file = file
        self.phase = phase
        self.parked: list[Dependency] = []
        self.story: list[str] = []


class QueueMachine:
    """Entry points: `submit`, `handle`, `recover`, `resume`. All give effects, to be carried out in order."""

    def __init__(self, own_lock_file: str, limits: Limits | None = None) -> None:
        self.own_lock_file = own_lock_file
        self.limits = limits or Limits()
        self.jobs: dict[int, Job] = {}
        self.ended: dict[int, Ended] = {}
        self.held_back = False
        """True while no process can be started (no spawner, or LuxiD is about to stop)."""
        self._ready: list[tuple[int, int]] = []
        self._parked: dict[int, list[int]] = {}
        self._slots: set[int] = set()
        self._now_s = 0.0

    # Entry points

    def submit(self, files: Iterable[JobFile], now_s: float, known: dict[int, str] | None = None) -> list[Effect]:
        """Take jobs whose files are on disk already. *known* has the final statuses of archived dependencies."""
        self._now_s = now_s
        effects: list[Effect] = []
        for file in files:
            job = self.jobs[file.id] = Job(file, Phase.QUEUED)
            self._tell(job, f"submitted with priority {file.priority}")
            effects += self._park_or_ready(job, known or {})
        return effects + self._pick()

    def handle(self, event: JobEvent, now_s: float) -> list[Effect]:
        """Carry out one transition. Events about jobs that have ended or never were are ignored, but for requests."""
        self._now_s = now_s
        job = self.jobs.get(event.job_id)
        if job is None:
            return self._about_nobody(event)
        return self._step(job, event) + self._pick()

    def recover(self, found: Iterable[Found], now_s: float, known: dict[int, str] | None = None) -> list[Effect]:
        """Take up the unfinished jobs of an earlier life, in order of their ids."""
        self._now_s = now_s
        effects: list[Effect] = []
        for item in sorted(found, key=lambda each: each.file.id):
            file = item.file
            if file.livelock is None:
                job = self.jobs[file.id] = Job(file, Phase.QUEUED)
                self._tell(job, "found queued after a restart")
                if item.secrets_lost:
                    effects += self._fail(job, entries.SECRETS_LOST)
                else:
                    effects += self._park_or_ready(job, known or {})
                continue
            job = self.jobs[file.id] = Job(file, Phase.STARTED)
            self._slots.add(file.id)
            self._tell(job, "found running after a restart" if item.alive else "found dead after a restart")
            if not item.alive:
                effects += self._step(job, Died(file.id, file, item.records))
        return effects + self._pick()

    def resume(self, now_s: float) -> list[Effect]:
        """Look for work again: a spawner is there, or the limits have changed."""
        self._now_s = now_s
        return self._pick()

    def remember(self, job_id: int, status: str, end_s: float) -> None:
        """Note a job that ended in an earlier life."""
        self.ended[job_id] = Ended(status, end_s)

    def archive(self, job_id: int) -> bool:
        """Forget an ended job; False if there is none."""
        return self.ended.pop(job_id, None) is not None

    def room_for(self, count: int) -> None:
        """Raise `JobQueueFull` unless so many more jobs may be unfinished."""
        if len(self.jobs) + count > self.limits.active:
            raise JobQueueFull(
                f"The queue is full: {len(self.jobs)} jobs are unfinished, and {self.limits.active} may be; "
                "wait for some to end"
            )

    def status_of(self, job_id: int) -> str | None:
        """Status of a job that is not archived."""
        if job_id in self.jobs:
            return self.jobs[job_id].file.status
        return self.ended[job_id].status if job_id in self.ended else None

    # Transitions

    def _step(self, job: Job, event: JobEvent) -> list[Effect]:
        handler = TRANSITIONS.get((job.phase, type(event)))
        if handler is None:
            story = "; ".join(job.story)
            raise InvalidTransition(f"job {job.file.id}: {type(event).__name__} while {job.phase} ({story})")
        return handler(self, job, event)

    def _on_picked(self, job: Job, event: Picked) -> list[Effect]:
        job.phase = Phase.ANNOUNCED
        job.file.livelock = self.own_lock_file
        job.file.start_timestamp = job.file.start_timestamp or entries.stamp(self._now_s)
        entries.add_pickup(job.file, self._now_s)
        self._slots.add(job.file.id)
        self._tell(job, "picked to run")
        return [WriteJob(job.file), StartProcess(job.file.id, job.file.attempt)]

    def _on_greeted(self, job: Job, event: Greeted) -> list[Effect]:
        job.phase = Phase.STARTED
        job.file.livelock = event.lock_file
        job.file.process_id = event.pid
        self._tell(job, f"started as process {event.pid}")
        return [WriteJob(job.file), Confirm(job.file.id)]

    def _on_start_failed(self, job: Job, event: StartFailed) -> list[Effect]:
        if job.file.attempt > 1:
            return self._start_successor(job, 1)
        return self._fail(job, f"The process of job {job.file.id} could not be started: {event.reason}")

    def _on_spawner_lost(self, job: Job, event: SpawnerLost) -> list[Effect]:
        if job.file.attempt > 1:
            job.file.attempt -= 1
            return self._start_successor(job, 1)
        job.phase = Phase.QUEUED
        job.file.livelock = None
        self._slots.discard(job.file.id)
        self._push(job)
        self._tell(job, "queued again, because the spawner ended before it made the process")
        return [WriteJob(job.file), Log(f"job {job.file.id} is queued again: the spawner ended before it began")]

    def _on_changed(self, job: Job, event: Changed) -> list[Effect]:
        if event.file.attempt < job.file.attempt:
            return []
        job.file = event.file
        if event.file.final:
            return self._end(job, event.file.status)
        return [Announce(job.file.id)]

    def _on_died(self, job: Job, event: Died) -> list[Effect]:
        job.file = event.file
        if event.file.final:
            return self._end(job, event.file.status)
        self._tell(job, f"process {event.file.process_id} died, leaving {event.records} undo records")
        if event.records:
            return self._start_successor(job, event.records)
        return self._fail(job, entries.died_sentence(event.file))

    def _start_successor(self, job: Job, records: int) -> list[Effect]:
        """A new process takes over the locks and unwinds (D5); tried a few times, as it may die as well."""
        if job.file.attempt >= self.limits.attempts:
            return self._fail(
                job,
                f"{entries.died_sentence(job.file)}, and so did those that should undo its work: "
                "`gnt-cluster verify` names what was left",
            )
        job.file.attempt += 1
        job.phase = Phase.ANNOUNCED
        job.file.livelock = self.own_lock_file
        job.file.process_id = None
        sentence = f"job {job.file.id} died with {records} steps to undo: attempt {job.file.attempt} undoes them"
        return [WriteJob(job.file), StartProcess(job.file.id, job.file.attempt), Log(sentence)]

    def _on_cancel_queued(self, job: Job, event: CancelAsked) -> list[Effect]:
        entries.cancel(job.file, self._now_s)
        self._tell(job, "cancelled while queued")
        ended = self._end(job, job.file.status)
        return [WriteJob(job.file, durable=True), *ended, Answer(True, f"Dequeued job {job.file.id}")]

    def _on_cancel_announced(self, job: Job, event: CancelAsked) -> list[Effect]:
        return [Answer(False, f"Timeout: job {job.file.id} still in its startup phase")]

    def _on_cancel_started(self, job: Job, event: CancelAsked) -> list[Effect]:
        if job.file.process_id is None:
            return [Answer(False, f"Job {job.file.id} has no process that could be told")]
        told = SendSignal(job.file.id, job.file.process_id, event.kill)
        self._tell(job, "killed on request" if event.kill else "asked to stop")
        if event.kill:
            return [told, Answer(True, "SIGKILL send to the process")]
        return [told, AwaitCancel(job.file.id)]

    def _on_priority_queued(self, job: Job, event: PriorityAsked) -> list[Effect]:
        entries.set_priority(job.file, event.priority)
        self._push(job)
        message = f"Priorities of pending opcodes for job {job.file.id} have been changed to {event.priority}"
        return [WriteJob(job.file, durable=True), Announce(job.file.id), Answer(True, message)]

    def _on_priority_started(self, job: Job, event: PriorityAsked) -> list[Effect]:
        return [Answer(False, f"Job {job.file.id} has started: its priority cannot be changed any more")]

    def _on_dependency(self, job: Job, event: DependencyEnded) -> list[Effect]:
        met = [each for each in job.parked if each.job_id == event.dependency]
        job.parked = [each for each in job.parked if each.job_id != event.dependency]
        for dependency in met:
            failed = why_failed(dependency, event.status)
            if failed is not None:
                return self._fail(job, failed)
        if not job.parked:
            self._push(job)
        return []

    def _ignore(self, job: Job, event: JobEvent) -> list[Effect]:
        return []

    # Ends

    def _fail(self, job: Job, sentence: str) -> list[Effect]:
        """End a job in error, in its file too: there is no process that could write it."""
        had_process = job.phase is not Phase.QUEUED
        entries.fail(job.file, sentence, self._now_s)
        effects: list[Effect] = [WriteJob(job.file, durable=True)]
        if had_process:
            effects.append(ReleaseOwner(job.file.id, job.file.attempt))
        return [*effects, Log(f"job {job.file.id} ended in error: {sentence}"), *self._end(job, job.file.status)]

    def _end(self, job: Job, status: str) -> list[Effect]:
        job_id = job.file.id
        job.phase = Phase.ENDED
        self._slots.discard(job_id)
        del self.jobs[job_id]
        self.ended[job_id] = Ended(status, seconds(job.file.end_timestamp) or self._now_s)
        effects: list[Effect] = [Announce(job_id), Forget(job.file)]
        for waiting_id in self._parked.pop(job_id, []):
            waiting = self.jobs.get(waiting_id)
            if waiting is not None:
                effects += self._step(waiting, DependencyEnded(waiting_id, job_id, status))
        return effects

    # Order

    def _park_or_ready(self, job: Job, known: dict[int, str]) -> list[Effect]:
        for dependency in dependencies_of(job.file):
            ended = self.ended.get(dependency.job_id)
            status = ended.status if ended is not None else known.get(dependency.job_id)
            if status is not None:
                failed = why_failed(dependency, status)
                if failed is not None:
                    return self._fail(job, failed)
            elif dependency.job_id in self.jobs and dependency.job_id != job.file.id:
                job.parked.append(dependency)
                self._parked.setdefault(dependency.job_id, []).append(job.file.id)
            else:
                return self._fail(job, f"Job {job.file.id} depends on job {dependency.job_id}, which does not exist")
        if not job.parked:
            self._push(job)
        return []

    def _push(self, job: Job) -> None:
        if job.phase is Phase.QUEUED and not job.parked:
            heappush(self._ready, (job.file.priority, job.file.id))

    def _pick(self) -> list[Effect]:
        effects: list[Effect] = []
        while self._ready and not self.held_back and len(self._slots) < self.limits.running:
            priority, job_id = heappop(self._ready)
            job = self.jobs.get(job_id)
            if job is not None and job.phase is Phase.QUEUED and not job.parked and job.file.priority == priority:
                effects += self._step(job, Picked(job_id))
        return effects

    def _about_nobody(self, event: JobEvent) -> list[Effect]:
        if isinstance(event, CancelAsked | PriorityAsked):
            return [Answer(False, f"Job {event.job_id} not found in queue")]
        return []

    def _tell(self, job: Job, sentence: str) -> None:
        job.story.append(f"{self._now_s:.1f} {sentence}")
        del job.story[:-12]

    def check(self) -> None:
        """Assert what the head of this module says always holds."""
        ready = {job_id for _, job_id in self._ready}
        for job_id, job in self.jobs.items():
            assert job.file.id == job_id and job_id not in self.ended
            assert job.phase is not Phase.ENDED and not job.file.final, job.story
            assert (job_id in self._slots) == (job.phase is not Phase.QUEUED), job.story
            if job.phase is Phase.QUEUED:
                assert job.file.livelock is None and bool(job.parked) != (job_id in ready), job.story
            if job.phase is Phase.ANNOUNCED:
                assert job.file.livelock == self.own_lock_file, job.story
            if job.phase is Phase.STARTED:
                assert job.file.livelock is not None, job.story
            for dependency in job.parked:
                assert dependency.job_id in self.jobs and job_id in self._parked[dependency.job_id], job.story
        first_attempts = [job_id for job_id in self._slots if self.jobs[job_id].file.attempt == 1]
        assert len(first_attempts) <= max(self.limits.running, 0) or self.limits.running < len(self._slots)


Handler = Callable[[QueueMachine, Job, Any], list[Effect]]
M = QueueMachine
TRANSITIONS: dict[tuple[Phase, type[JobEvent]], Handler] = {
    (Phase.QUEUED, Picked): M._on_picked,
    (Phase.QUEUED, CancelAsked): M._on_cancel_queued,
    (Phase.QUEUED, PriorityAsked): M._on_priority_queued,
    (Phase.QUEUED, DependencyEnded): M._on_dependency,
    (Phase.QUEUED, Changed): M._ignore,
    (Phase.ANNOUNCED, Greeted): M._on_greeted,
    (Phase.ANNOUNCED, StartFailed): M._on_start_failed,
    (Phase.ANNOUNCED, SpawnerLost): M._on_spawner_lost,
    (Phase.ANNOUNCED, CancelAsked): M._on_cancel_announced,
    (Phase.ANNOUNCED, PriorityAsked): M._on_priority_started,
    (Phase.ANNOUNCED, Changed): M._ignore,
    (Phase.STARTED, Changed): M._on_changed,
    (Phase.STARTED, Died): M._on_died,
    (Phase.STARTED, StartFailed): M._ignore,
    (Phase.STARTED, CancelAsked): M._on_cancel_started,
    (Phase.STARTED, PriorityAsked): M._on_priority_started,
}
"""Every pair that can meet. A pair that is not here is a mistake of ours, and raises with the job's story."""

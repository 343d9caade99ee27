# SPDX-License-Identifier: BSD-2-Clause
"""What the queue machine knows: unfinished jobs, what remains of ended ones, and who is next. Pure."""

from collections.abc import Iterator
from enum import StrEnum
from heapq import heappop, heappush

from ganeti.master.queue.dependencies import Dependency
from ganeti.master.queue.events import Ended, Limits
from ganeti.master.queue.filters import Admission, Verdict
from ganeti.master.queue.lock_attempts import LockAttempts
from ganeti.master.queue.run_queue import RunQueue
from ganeti.wire.job_file import JobFile, Secret, put_secrets, secrets_of

_STORY_LINES = 12


class Phase(StrEnum):
    QUEUED = "queued"
    """Ready; or kept back by what it depends on, by a filter, or by a rate limit."""
    ASKING = "asking"
    """It has a slot, and WConfD is being asked for its locks."""
    PARKED = "parked"
    """Its request waits in WConfD; no slot, no process."""
    ANNOUNCED = "announced"
    STARTED = "started"
    ENDED = "ended"


class Job:
    """One unfinished job."""

    __slots__ = (
        "attempts",
        "blockers",
        "buckets",
        "deferred",
        "depends",
        "file",
        "held_by",
        "holds",
        "phase",
        "secrets",
        "since_s",
        "story",
        "verdict",
    )

    def __init__(self, file: JobFile, phase: Phase, now_s: float) -> None:
        self.file = file
        self.phase = phase
        self.since_s = now_s
        """When it came into its phase."""
        self.depends: list[Dependency] = []
        self.verdict = Verdict("run")
        self.held_by: str | None = None
        """Why a job in the queue is not ready, if that is neither a dependency nor its turn."""
        self.buckets: tuple[str, ...] = ()
        """The rate limits that its slot counts for."""
        self.holds = False
        """WConfD has granted its locks, and there was no slot yet."""
        self.blockers: tuple[int | str, ...] = ()
        self.attempts: LockAttempts | None = None
        self.deferred = False
        """It put itself off, and its pause is not over."""
        self.secrets: list[list[Secret]] | None = None
        self.story: list[str] = []
        if any(secrets := [secrets_of(entry.input) for entry in file.ops]):
            self.secrets = secrets

    def replace_file(self, file: JobFile) -> None:
        """Take what a process wrote, with the secrets that are never written."""
        self.file = file
        for entry, values in zip(file.ops, self.secrets or (), strict=False):
            put_secrets(entry.input, values)


class QueueState:
    """Jobs by id, the order in which queued ones are picked, and who waits for whom."""

    def __init__(self, own_lock_file: str, limits: Limits) -> None:
        self.own_lock_file = own_lock_file
        self.limits = limits
        self.held_back = False
        self.now_s = 0.0
        self.jobs: dict[int, Job] = {}
        self.ended: dict[int, Ended] = {}
        self.slots: set[int] = set()
        """Jobs that have, or are about to get, a process."""
        self.holding: set[int] = set()
        """Queued jobs whose locks are granted already."""
        self.waiters: dict[int, list[int]] = {}
        """Jobs that wait until a job ends."""
        self.ready = RunQueue()
        self.limited: dict[str, RunQueue] = {}
        """By rate limit, the jobs it keeps back."""
        self.usage: dict[str, int] = {}
        self.admission = Admission(())
        self.outdated: dict[int, None] = {}
        """Jobs whose verdict is that of earlier rules, in the order of their turns."""
        self.unwinding: set[int] = set()
        """Jobs of another machine's processes that are being undone; until they are, no other job starts."""
        self._alarms: list[tuple[float, int]] = []

    def add(self, file: JobFile, phase: Phase, sentence: str) -> Job:
        job = self.jobs[file.id] = Job(file, phase, self.now_s)
        job.verdict = self.admission.of(file)
        if phase is Phase.ANNOUNCED or phase is Phase.STARTED:
            self.take_slot(job)
        self.tell(job, sentence)
        return job

    def enter(self, job: Job, phase: Phase, sentence: str) -> None:
        job.phase = phase
        job.since_s = self.now_s
        self.tell(job, sentence)

    def depend(self, job: Job, dependency: Dependency) -> None:
        job.depends.append(dependency)
        self.waiters.setdefault(dependency.job_id, []).append(job.file.id)

    def tell(self, job: Job, sentence: str) -> None:
        """Remember for the job's story."""
        job.story.append(f"{self.now_s:.1f} {sentence}")
        del job.story[:-_STORY_LINES]

    # Whose turn it is

    def push(self, job: Job) -> None:
        """Let a queued job that nothing keeps back be picked in its turn."""
        if job.phase is not Phase.QUEUED or job.depends:
            return
        job.held_by = "it has put itself off for a while" if job.deferred else None
        if job.deferred:
            return
        if job.verdict.action == "pause" and not job.file.deaths:
            job.held_by = f"filter rule {job.verdict.rule} pauses it"
            self.unready(job)
        else:
            self.ready.push(job.file.id, job.file.priority)

    def unready(self, job: Job) -> None:
        """Let a job not have its turn; if a rate limit had let it, the next under that limit may try."""
        if job.file.id in self.ready:
            self.ready.discard(job.file.id)
            for bucket, _ in job.verdict.limits:
                self._wake(bucket)
        for queue in self.limited.values():
            queue.discard(job.file.id)

    def next_ready(self) -> Job | None:
        """The job whose turn it is, if there is a slot for it; by priority, then by id."""
        while len(self.slots) < self.limits.running and (job_id := self._pop_ready()) is not None:
            job = self.jobs[job_id]
            full = self.full_bucket(job)
            if full is None:
                return job
            bucket, most = full
            job.held_by = f"of the jobs under the rate limit {bucket}, {most} may run and {self.usage[bucket]} do"
            self.limited.setdefault(bucket, RunQueue()).push(job_id, job.file.priority)
            for other, _ in job.verdict.limits:
                if other != bucket:
                    self._wake(other)
        return None

    def full_bucket(self, job: Job) -> tuple[str, int] | None:
        """A rate limit of the job that is used up, and how many it lets run."""
        if job.file.deaths:  # what it left must be undone, whatever the limits
            return None
        return next(((name, most) for name, most in job.verdict.limits if self.usage.get(name, 0) >= most), None)

    def is_one_too_many(self, job: Job) -> bool:
        """A rate limit came, or became stricter, after this job had got its slot."""
        return not job.file.deaths and any(self.usage.get(name, 0) > most for name, most in job.verdict.limits)

    def may_start(self, job: Job) -> bool:
        return (
            not self.held_back
            and self._may_go(job)
            and len(self.slots) < self.limits.running
            and self.full_bucket(job) is None
        )

    def _may_go(self, job: Job) -> bool:
        return not self.unwinding or job.file.deaths > 0

    def _pop_ready(self) -> int | None:
        if not self.unwinding:
            return self.ready.pop()
        able = next((job_id for job_id in self.ready.in_order() if self._may_go(self.jobs[job_id])), None)
        if able is not None:
            self.ready.discard(able)
        return able

    def take_slot(self, job: Job) -> None:
        if job.file.id in self.slots:
            return
        self.slots.add(job.file.id)
        job.buckets = tuple(name for name, _ in job.verdict.limits)
        for name in job.buckets:
            self.usage[name] = self.usage.get(name, 0) + 1

    def free_slot(self, job: Job) -> None:
        if job.file.id not in self.slots:
            return
        self.slots.discard(job.file.id)
        for name in job.buckets:
            self.usage[name] -= 1
            if not self.usage[name]:
                del self.usage[name]
            self._wake(name)
        job.buckets = ()

    def recount(self, job: Job) -> None:
        """Other rate limits are there: a job with a slot counts for those that it matches now."""
        if job.file.id in self.slots:
            self.free_slot(job)
            self.take_slot(job)

    def _wake(self, bucket: str) -> None:
        """Let the first that a rate limit keeps back, and need not, try again; reasons bring limits of their own."""
        queue = self.limited.get(bucket)
        if queue is None:
            return
        used = self.usage.get(bucket, 0)

        def has_room(job_id: int) -> bool:
            return used < dict(self.jobs[job_id].verdict.limits).get(bucket, used + 1)

        first = queue.first()
        job_id = first[1] if first is not None else 0
        able = job_id if first is None or has_room(job_id) else next(filter(has_room, queue.in_order()), 0)
        if able:
            queue.discard(able)
            self.push(self.jobs[able])
        if not queue:
            del self.limited[bucket]

    # Waiting for locks

    def begin_attempts(self, job: Job) -> None:
        """Have the job looked at after the length of an attempt; earlier attempts count as well (S1.84)."""
        if job.attempts is None:
            job.attempts = LockAttempts(job.file.id, self.now_s)
        else:
            job.attempts.begin(self.now_s)
        heappush(self._alarms, (job.attempts.deadline_s, job.file.id))

    def next_alarm_s(self) -> float | None:
        while self._alarms:
            deadline_s, job_id = self._alarms[0]
            job = self.jobs.get(job_id)
            if job is not None and job.attempts is not None and job.attempts.deadline_s == deadline_s:
                return deadline_s
            heappop(self._alarms)
        return None

    def due(self) -> Iterator[Job]:
        """Jobs whose attempt is over now; each is taken off."""
        while (deadline_s := self.next_alarm_s()) is not None and deadline_s <= self.now_s:
            yield self.jobs[heappop(self._alarms)[1]]

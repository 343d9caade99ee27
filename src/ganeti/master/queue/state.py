# SPDX-License-Identifier: BSD-2-Clause
"""What the queue machine knows: unfinished jobs, what remains of ended ones, and who is next. Pure."""

from enum import StrEnum
from heapq import heappop, heappush

from ganeti.master.queue.dependencies import Dependency
from ganeti.master.queue.events import Ended, Limits
from ganeti.wire.job_file import JobFile

_STORY_LINES = 12


class Phase(StrEnum):
    QUEUED = "queued"
    ANNOUNCED = "announced"
    STARTED = "started"
    ENDED = "ended"


class Job:
    """One unfinished job."""

    __slots__ = ("file", "parked", "phase", "story")

    def __init__(self, file: JobFile, phase: Phase) -> None:
        self.file = file
        self.phase = phase
        self.parked: list[Dependency] = []
        self.story: list[str] = []


class QueueState:
    """Jobs by id, the order in which queued ones are picked, and who waits for whom."""

    def __init__(self, own_lock_file: str, limits: Limits) -> None:
        self.own_lock_file = own_lock_file
        self.limits = limits
        self.now_s = 0.0
        self.jobs: dict[int, Job] = {}
        self.ended: dict[int, Ended] = {}
        self.slots: set[int] = set()
        """Jobs that have, or are about to get, a process."""
        self.waiters: dict[int, list[int]] = {}
        """Jobs parked until a job ends."""
        self._ready: list[tuple[int, int]] = []

    def add(self, file: JobFile, phase: Phase, sentence: str) -> Job:
        job = self.jobs[file.id] = Job(file, phase)
        if phase is not Phase.QUEUED:
            self.slots.add(file.id)
        self.tell(job, sentence)
        return job

    def park(self, job: Job, dependency: Dependency) -> None:
        job.parked.append(dependency)
        self.waiters.setdefault(dependency.job_id, []).append(job.file.id)

    def push(self, job: Job) -> None:
        """Let a queued job that waits for nobody be picked in its turn."""
        if job.phase is Phase.QUEUED and not job.parked:
            heappush(self._ready, (job.file.priority, job.file.id))

    def next_ready(self) -> Job | None:
        """The job whose turn it is, if there is a slot for it; by priority, then by id."""
        while self._ready and len(self.slots) < self.limits.running:
            priority, job_id = heappop(self._ready)
            job = self.jobs.get(job_id)
            if job is not None and job.phase is Phase.QUEUED and not job.parked and job.file.priority == priority:
                return job
        return None

    def is_ready(self, job: Job) -> bool:
        return (job.file.priority, job.file.id) in self._ready

    def tell(self, job: Job, sentence: str) -> None:
        """Remember for the job's story."""
        job.story.append(f"{self.now_s:.1f} {sentence}")
        del job.story[:-_STORY_LINES]

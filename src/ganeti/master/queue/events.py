# SPDX-License-Identifier: BSD-2-Clause
"""What happens to jobs (events) and what is owed in return (effects): the two sides of the queue machine."""

from dataclasses import dataclass

from ganeti.wire.job_file import JobFile


@dataclass(frozen=True)
class JobEvent:
    job_id: int


@dataclass(frozen=True)
class Picked(JobEvent):
    """The job's turn has come: there is a slot, and nothing it depends on is missing."""


@dataclass(frozen=True)
class Greeted(JobEvent):
    """Its new process has locked a file of its own and says the name (S2.36)."""

    lock_file: str
    pid: int


@dataclass(frozen=True)
class StartFailed(JobEvent):
    """The pipe broke before the greeting or before the confirmation: the job has not run (S2.40)."""

    reason: str


@dataclass(frozen=True)
class SpawnerLost(JobEvent):
    """The spawner ended before it made the job's process: nobody has seen the job."""


@dataclass(frozen=True)
class Changed(JobEvent):
    """The job has written its file; *file* is what stands there."""

    file: JobFile


@dataclass(frozen=True)
class Died(JobEvent):
    """The job's process is gone; *file* is what it left, *records* how many undo records are still to be unwound."""

    file: JobFile
    records: int


@dataclass(frozen=True)
class CancelAsked(JobEvent):
    kill: bool = False


@dataclass(frozen=True)
class PriorityAsked(JobEvent):
    priority: int


@dataclass(frozen=True)
class DependencyEnded(JobEvent):
    """A job this one waited for has ended with *status*."""

    dependency: int
    status: str


@dataclass(frozen=True)
class Effect:
    pass


@dataclass(frozen=True)
class WriteJob(Effect):
    """Store the job's file; *durable* when somebody was told, or is about to be told, that it will last."""

    file: JobFile
    durable: bool = False


@dataclass(frozen=True)
class StartProcess(Effect):
    """Ask the spawner for a process; an *attempt* above 1 unwinds what the one before left."""

    job_id: int
    attempt: int


@dataclass(frozen=True)
class Confirm(Effect):
    """Let the process run (S2.37); the job's file is the process's from here on."""

    job_id: int


@dataclass(frozen=True)
class SendSignal(Effect):
    job_id: int
    pid: int
    kill: bool = False


@dataclass(frozen=True)
class ReleaseOwner(Effect):
    """The job's processes are gone for good: WConfD may drop the locks of all its attempts."""

    job_id: int
    attempts: int


@dataclass(frozen=True)
class Announce(Effect):
    """Something a waiting client can see has changed."""

    job_id: int


@dataclass(frozen=True)
class Forget(Effect):
    """The job has ended: its contents are on disk and need not be kept in memory."""

    file: JobFile


@dataclass(frozen=True)
class Answer(Effect):
    """What the client who asked is told."""

    ok: bool
    message: str


@dataclass(frozen=True)
class AwaitCancel(Effect):
    """Tell the client whether the signalled job has ended, once that is known."""

    job_id: int


@dataclass(frozen=True)
class Log(Effect):
    sentence: str


@dataclass(frozen=True)
class Found:
    """One unfinished job file met at start: how its process is, and what it left."""

    file: JobFile
    alive: bool = False
    records: int = 0
    secrets_lost: bool = False


@dataclass(frozen=True)
class Limits:
    """How many jobs may run at once, and how many may be unfinished."""

    running: int = 20
    active: int = 5000
    attempts: int = 5
    """Processes that may work on one job: the first, and those that unwind after it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What is remembered of a job that has ended, until it is archived."""

    status: str
    end_s: float

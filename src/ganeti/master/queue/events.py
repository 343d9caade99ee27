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
class Granted(JobEvent):
    """WConfD holds the job's locks in its name; also said where it turned out that there is nothing to ask for."""


@dataclass(frozen=True)
class Refused(JobEvent):
    """The job's request waits in WConfD, for *blockers*."""

    blockers: tuple[int | str, ...] = ()


@dataclass(frozen=True)
class RequestLost(JobEvent):
    """WConfD knows nothing of the job's request any more: it was restarted without its file of locks."""


@dataclass(frozen=True)
class AttemptOver(JobEvent):
    """A job has waited for its locks for as long as one attempt takes (S1.84)."""


@dataclass(frozen=True)
class AdmissionChanged(JobEvent):
    """The rules of job filters are others now."""


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
class HandedBack(JobEvent):
    """The process gave the job back between two opcodes, or because it could not have its locks (S1.81)."""

    file: JobFile


@dataclass(frozen=True)
class Died(JobEvent):
    """The job's process is gone; *file* is what it left, *records* how many undo records are still to be unwound.

    *outcome* says in words what has become of its work, where nothing is to be unwound.
    """

    file: JobFile
    records: int
    outcome: str = ""


@dataclass(frozen=True)
class CancelAsked(JobEvent):
    kill: bool = False


@dataclass(frozen=True)
class PriorityAsked(JobEvent):
    priority: int


@dataclass(frozen=True)
class Effect:
    pass


@dataclass(frozen=True)
class WriteJob(Effect):
    """Store the job's file; *durable* when somebody was told, or is about to be told, that it will last."""

    file: JobFile
    durable: bool = False


@dataclass(frozen=True)
class AskLocks(Effect):
    """Ask WConfD for what the job's next opcode wants, in the job's name; `Granted` or `Refused` is the answer."""

    job_id: int
    priority: int


@dataclass(frozen=True)
class WithdrawLocks(Effect):
    """Give up what was asked for in the job's name, whether granted or not."""

    job_id: int


@dataclass(frozen=True)
class MoveRequest(Effect):
    """Give the job's waiting request another priority."""

    job_id: int
    priority: int


@dataclass(frozen=True)
class StartProcess(Effect):
    """Ask the spawner for a process; for a job whose processes died, it unwinds what they left."""

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
class TellPriority(Effect):
    """Let the job's process give its pending opcodes another priority: the file is the process's."""

    job_id: int
    priority: int


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
    foreign: bool = False
    """Its process was one of another machine, or of before this one's power was cut."""
    outcome: str = ""
    """As in `Died`."""


@dataclass(frozen=True)
class Limits:
    """How many jobs may run at once, and how many may be unfinished."""

    running: int = 20
    active: int = 5000
    deaths: int = 5
    """Processes of one job that may die with work to undo; what they leave then is named by verify."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What is remembered of a job that has ended, until it is archived."""

    status: str
    end_s: float

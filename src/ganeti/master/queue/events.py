# SPDX-License-Identifier: BSD-2-Clause
"""What happens to jobs (events) and what is owed in return (effects): the two sides of the queue machine."""

import msgspec

from ganeti.wire.job_file import JobFile


class JobEvent(msgspec.Struct, frozen=True):
    job_id: int


class Picked(JobEvent, frozen=True):
    """The job's turn has come: there is a slot, and nothing it depends on is missing."""


class Granted(JobEvent, frozen=True):
    """WConfD holds the job's locks in its name; also said where it turned out that there is nothing to ask for."""


class Refused(JobEvent, frozen=True):
    """The job's request waits in WConfD, for *blockers*."""

    blockers: tuple[int | str, ...] = ()


class RequestLost(JobEvent, frozen=True):
    """WConfD knows nothing of the job's request any more: it was restarted without its file of locks."""


class AttemptOver(JobEvent, frozen=True):
    """A job has waited for its locks for as long as one attempt takes (S1.84)."""


class AdmissionChanged(JobEvent, frozen=True):
    """The rules of job filters are others now."""


class Greeted(JobEvent, frozen=True):
    """Its new process has locked a file of its own and says the name (S2.36)."""

    lock_file: str
    pid: int


class StartFailed(JobEvent, frozen=True):
    """The pipe broke before the greeting or before the confirmation: the job has not run (S2.40)."""

    reason: str


class SpawnerLost(JobEvent, frozen=True):
    """The spawner ended before it made the job's process: nobody has seen the job."""


class Changed(JobEvent, frozen=True):
    """The job has written its file; *file* is what stands there."""

    file: JobFile


class HandedBack(JobEvent, frozen=True):
    """The process gave the job back between two opcodes, or because it could not have its locks (S1.81)."""

    file: JobFile


class Died(JobEvent, frozen=True):
    """The job's process is gone; *file* is what it left, *records* how many undo records are still to be unwound.

    *outcome* says in words what has become of its work, where nothing is to be unwound.
    """

    file: JobFile
    records: int
    outcome: str = ""


class CancelAsked(JobEvent, frozen=True):
    kill: bool = False


class PriorityAsked(JobEvent, frozen=True):
    priority: int


class Effect(msgspec.Struct, frozen=True):
    pass


class WriteJob(Effect, frozen=True):
    """Store the job's file; *durable* when somebody was told, or is about to be told, that it will last."""

    file: JobFile
    durable: bool = False


class AskLocks(Effect, frozen=True):
    """Ask WConfD for what the job's next opcode wants, in the job's name; `Granted` or `Refused` is the answer."""

    job_id: int
    priority: int


class WithdrawLocks(Effect, frozen=True):
    """Give up what was asked for in the job's name, whether granted or not."""

    job_id: int


class MoveRequest(Effect, frozen=True):
    """Give the job's waiting request another priority."""

    job_id: int
    priority: int


class StartProcess(Effect, frozen=True):
    """Ask the spawner for a process; for a job whose processes died, it unwinds what they left."""

    job_id: int
    attempt: int


class Confirm(Effect, frozen=True):
    """Let the process run (S2.37); the job's file is the process's from here on."""

    job_id: int


class SendSignal(Effect, frozen=True):
    job_id: int
    pid: int
    kill: bool = False


class TellPriority(Effect, frozen=True):
    """Let the job's process give its pending opcodes another priority: the file is the process's."""

    job_id: int
    priority: int


class ReleaseOwner(Effect, frozen=True):
    """The job's processes are gone for good: WConfD may drop the locks of all its attempts."""

    job_id: int
    attempts: int


class Announce(Effect, frozen=True):
    """Something a waiting client can see has changed."""

    job_id: int


class Forget(Effect, frozen=True):
    """The job has ended: its contents are on disk and need not be kept in memory."""

    file: JobFile


class Answer(Effect, frozen=True):
    """What the client who asked is told."""

    ok: bool
    message: str


class AwaitCancel(Effect, frozen=True):
    """Tell the client whether the signalled job has ended, once that is known."""

    job_id: int


class Log(Effect, frozen=True):
    sentence: str


class Found(msgspec.Struct, frozen=True):
    """One unfinished job file met at start: how its process is, and what it left."""

    file: JobFile
    alive: bool = False
    records: int = 0
    secrets_lost: bool = False
    foreign: bool = False
    """Its process was one of another machine, or of before this one's power was cut."""
    outcome: str = ""
    """As in `Died`."""


class Limits(msgspec.Struct, frozen=True):
    """How many jobs may run at once, and how many may be unfinished."""

    running: int = 20
    active: int = 5000
    deaths: int = 5
    """Processes of one job that may die with work to undo; what they leave then is named by verify."""


class Ended(msgspec.Struct, frozen=True):
    """What is remembered of a job that has ended, until it is archived."""

    status: str
    end_s: float

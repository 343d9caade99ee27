# SPDX-License-Identifier: BSD-2-Clause
"""What each event does to a job in each phase: the table behind the queue machine, and its part about processes. Pure.

A handler changes the state and gives the effects owed, in order. A pair that is not in the table cannot meet. The
table says where each transition can lead; `docs/design/job-life.md` draws it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ganeti.master.queue import entries, waiting
from ganeti.master.queue import events as ev
from ganeti.master.queue.endings import end, fail
from ganeti.master.queue.events import Effect, JobEvent
from ganeti.master.queue.state import Job, Phase, QueueState
from ganeti.wire.job_file import FINAL_STATUSES, RUNNING, SUCCESS


class InvalidTransition(AssertionError):
    """An event met a phase it cannot meet, or led where it must not; the message carries the job's story."""


def step(state: QueueState, job: Job, event: JobEvent) -> list[Effect]:
    """Carry out one transition."""
    transition = TRANSITIONS.get((job.phase, type(event)))
    if transition is None:
        raise InvalidTransition(_story(job, f"{type(event).__name__} while {job.phase}"))
    before = job.phase
    effects = transition.handler(state, job, event)
    if job.phase not in transition.to:
        raise InvalidTransition(_story(job, f"{type(event).__name__} led from {before} to {job.phase}"))
    return effects


def _story(job: Job, what: str) -> str:
    return f"job {job.file.id}: {what} ({'; '.join(job.story)})"


def _greeted(state: QueueState, job: Job, event: ev.Greeted) -> list[Effect]:
    job.file.livelock = event.lock_file
    job.file.process_id = event.pid
    state.enter(job, Phase.STARTED, f"started as process {event.pid}")
    return [ev.WriteJob(job.file), ev.Confirm(job.file.id), ev.Announce(job.file.id)]


def _start_failed(state: QueueState, job: Job, event: ev.StartFailed) -> list[Effect]:
    if job.file.deaths:
        return start_successor(state, job)
    return fail(state, job, f"The process of job {job.file.id} could not be started: {event.reason}")


def _spawner_lost(state: QueueState, job: Job, event: ev.SpawnerLost) -> list[Effect]:
    """What was granted in its name is still held so, and is asked for again in its turn, which is harmless."""
    job.file.livelock = None
    state.free_slot(job)
    state.enter(job, Phase.QUEUED, "queued again, because the spawner ended before it made the process")
    if job.verdict.action == "reject" and not job.file.deaths:  # by a rule that came when it had its place already
        return [ev.WithdrawLocks(job.file.id), *waiting.reject(state, job)]
    state.push(job)
    told = ev.Log(f"job {job.file.id} is queued again: the spawner ended before it began")
    return [ev.WriteJob(job.file), ev.WithdrawLocks(job.file.id), told, ev.Announce(job.file.id)]


def _changed(state: QueueState, job: Job, event: ev.Changed) -> list[Effect]:
    if event.file.attempt < job.file.attempt:
        return []
    job.replace_file(event.file)
    if job.file.status == RUNNING:
        job.attempts = None  # it has what it waited for
    if not job.file.final:
        return [ev.Announce(job.file.id)]
    if job.file.status == SUCCESS:
        return end(state, job)
    return [ev.WithdrawLocks(job.file.id), *end(state, job)]  # it may have ended before it claimed them


def _handed_back(state: QueueState, job: Job, event: ev.HandedBack) -> list[Effect]:
    """The next process will be another one, with a lock file of its own."""
    if event.file.attempt < job.file.attempt:
        return []
    job.replace_file(event.file)
    job.file.attempt += 1
    state.free_slot(job)
    state.enter(job, Phase.QUEUED, "handed back by its process")
    job.verdict = state.admission.of(job.file)
    if job.verdict.action == "reject":
        return waiting.reject(state, job)
    current = job.file.ops[job.file.current_index()]
    if job.file.wants is None and current.start_timestamp is not None:  # the opcode had begun: it put itself off
        job.deferred = True
        state.begin_attempts(job)
    state.push(job)
    return [ev.WithdrawLocks(job.file.id), ev.Announce(job.file.id)]


def _died(state: QueueState, job: Job, event: ev.Died) -> list[Effect]:
    job.replace_file(event.file)
    if job.file.final:
        return end(state, job)
    state.tell(job, f"process {job.file.process_id} died, leaving {event.records} undo records")
    if event.records:
        return start_successor(state, job)
    return fail(state, job, "; ".join(filter(None, (entries.died_sentence(job.file), event.outcome))))


def start_successor(state: QueueState, job: Job) -> list[Effect]:
    """A new process takes over the locks and unwinds (D5); tried a few times, as it may die as well."""
    job.file.deaths += 1
    if job.file.deaths >= state.limits.deaths:
        sentence = f"{entries.died_sentence(job.file)}, and so did those that should undo its work"
        return fail(state, job, f"{sentence}: `gnt-cluster verify` names what was left")
    job.file.attempt += 1
    job.file.livelock = state.own_lock_file
    job.file.process_id = None
    state.enter(job, Phase.ANNOUNCED, "a successor will undo what it left")
    sentence = f"job {job.file.id} died in the midst of its work: attempt {job.file.attempt} undoes it"
    return [ev.WriteJob(job.file), ev.StartProcess(job.file.id, job.file.attempt), ev.Log(sentence)]


def _cancel_announced(state: QueueState, job: Job, event: ev.CancelAsked) -> list[Effect]:
    """It will have a process in a moment; who carries this out tries again then."""
    return [ev.Answer(False, "Timeout: job still in its startup phase")]


def _cancel_started(state: QueueState, job: Job, event: ev.CancelAsked) -> list[Effect]:
    if job.file.process_id is None:
        return [ev.Answer(False, f"Job {job.file.id} has no process that could be told")]
    told = ev.SendSignal(job.file.id, job.file.process_id, event.kill)
    state.tell(job, "killed on request" if event.kill else "asked to stop")
    if event.kill:
        return [told, ev.Answer(True, "SIGKILL send to the process")]
    if job.file.status == RUNNING:
        return [told, ev.Answer(False, "Job no longer waiting, can't cancel (informed it anyway)")]
    return [told, ev.AwaitCancel(job.file.id)]


def _priority_announced(state: QueueState, job: Job, event: ev.PriorityAsked) -> list[Effect]:
    """Its process reads the file only when it has been confirmed: LuxiD may still write the file."""
    if job.file.deaths:
        return [_nothing_left(job)]
    return waiting.priority_waiting(state, job, event)


def _priority_started(state: QueueState, job: Job, event: ev.PriorityAsked) -> list[Effect]:
    """The file is the process's: it is told (protocols, section 13)."""
    pending = [op for op in job.file.ops if op.status not in FINAL_STATUSES and op.status != RUNNING]
    if not pending or job.file.deaths:
        return [_nothing_left(job)]
    message = f"Priorities of pending opcodes for job {job.file.id} have been changed to {event.priority}"
    return [ev.TellPriority(job.file.id, event.priority), ev.Answer(True, message)]


def _nothing_left(job: Job) -> ev.Answer:
    return ev.Answer(False, f"Job {job.file.id} has no opcode left that waits for its turn")


Handler = Callable[[QueueState, Job, Any], list[Effect]]


class Transition(NamedTuple):
    handler: Handler
    to: tuple[Phase, ...]
    """Where it can lead."""


_Q, _A, _P, _N, _S, _E = Phase.QUEUED, Phase.ASKING, Phase.PARKED, Phase.ANNOUNCED, Phase.STARTED, Phase.ENDED

TRANSITIONS: dict[tuple[Phase, type[JobEvent]], Transition] = {
    (_Q, ev.Picked): Transition(waiting.picked, (_A, _N)),
    (_Q, ev.CancelAsked): Transition(waiting.cancel_waiting, (_E, _Q)),
    (_Q, ev.PriorityAsked): Transition(waiting.priority_waiting, (_Q,)),
    (_Q, ev.AdmissionChanged): Transition(waiting.admission_changed, (_Q, _E)),
    (_Q, ev.Granted): Transition(waiting.stray_answer, (_Q,)),
    (_Q, ev.Refused): Transition(waiting.stray_answer, (_Q,)),
    (_Q, ev.RequestLost): Transition(waiting.ignore, (_Q,)),
    (_Q, ev.AttemptOver): Transition(waiting.deferral_over, (_Q,)),
    (_Q, ev.Changed): Transition(waiting.ignore, (_Q,)),
    (_A, ev.Granted): Transition(waiting.granted_asking, (_N, _Q)),
    (_A, ev.Refused): Transition(waiting.refused, (_P,)),
    (_A, ev.RequestLost): Transition(waiting.ignore, (_A,)),
    (_A, ev.CancelAsked): Transition(waiting.cancel_waiting, (_E,)),
    (_A, ev.PriorityAsked): Transition(waiting.priority_waiting, (_A,)),
    (_A, ev.AdmissionChanged): Transition(waiting.admission_changed, (_A, _Q, _E)),
    (_A, ev.Changed): Transition(waiting.ignore, (_A,)),
    (_P, ev.Granted): Transition(waiting.granted_parked, (_N, _Q)),
    (_P, ev.Refused): Transition(waiting.refused, (_P,)),
    (_P, ev.RequestLost): Transition(waiting.request_lost, (_P,)),
    (_P, ev.AttemptOver): Transition(waiting.attempt_over, (_P,)),
    (_P, ev.CancelAsked): Transition(waiting.cancel_waiting, (_E,)),
    (_P, ev.PriorityAsked): Transition(waiting.priority_waiting, (_P,)),
    (_P, ev.AdmissionChanged): Transition(waiting.admission_changed, (_P, _Q, _E)),
    (_P, ev.Changed): Transition(waiting.ignore, (_P,)),
    (_N, ev.Greeted): Transition(_greeted, (_S,)),
    (_N, ev.StartFailed): Transition(_start_failed, (_N, _E)),
    (_N, ev.SpawnerLost): Transition(_spawner_lost, (_Q, _E)),
    (_N, ev.CancelAsked): Transition(_cancel_announced, (_N,)),
    (_N, ev.PriorityAsked): Transition(_priority_announced, (_N,)),
    (_N, ev.AdmissionChanged): Transition(waiting.admission_changed, (_N,)),
    (_N, ev.Granted): Transition(waiting.ignore, (_N,)),
    (_N, ev.Refused): Transition(waiting.ignore, (_N,)),
    (_N, ev.RequestLost): Transition(waiting.ignore, (_N,)),
    (_N, ev.Changed): Transition(waiting.ignore, (_N,)),
    (_S, ev.Changed): Transition(_changed, (_S, _E)),
    (_S, ev.HandedBack): Transition(_handed_back, (_S, _Q, _E)),
    (_S, ev.Died): Transition(_died, (_N, _E)),
    (_S, ev.CancelAsked): Transition(_cancel_started, (_S,)),
    (_S, ev.PriorityAsked): Transition(_priority_started, (_S,)),
    (_S, ev.AdmissionChanged): Transition(waiting.admission_changed, (_S,)),
    (_S, ev.Granted): Transition(waiting.stray_answer, (_S,)),
    (_S, ev.Refused): Transition(waiting.stray_answer, (_S,)),
    (_S, ev.RequestLost): Transition(waiting.ignore, (_S,)),
}
"""Every pair that can meet. A pair that is not here is a fault of the program, and raises with the job's story."""

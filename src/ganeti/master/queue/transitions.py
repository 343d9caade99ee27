# SPDX-License-Identifier: BSD-2-Clause
"""What each event does to a job in each phase: the table behind the queue machine. Pure.

A handler changes the state and gives the effects owed, in order. A pair that is not in the table cannot meet.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ganeti.master.queue import entries
from ganeti.master.queue.dependencies import dependencies_of, why_failed
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
    Greeted,
    JobEvent,
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
from ganeti.master.queue.state import Job, Phase, QueueState
from ganeti.wire.job_file import RUNNING, seconds


class InvalidTransition(AssertionError):
    """An event met a phase it cannot meet; the message carries the job's story."""


def step(state: QueueState, job: Job, event: JobEvent) -> list[Effect]:
    """Carry out one transition."""
    handler = TRANSITIONS.get((job.phase, type(event)))
    if handler is None:
        story = "; ".join(job.story)
        raise InvalidTransition(f"job {job.file.id}: {type(event).__name__} while {job.phase} ({story})")
    return handler(state, job, event)


def park_or_ready(state: QueueState, job: Job, known: Mapping[int, str]) -> list[Effect]:
    """Let a job wait for what it depends on, or for its turn; *known* has the statuses of archived jobs."""
    for dependency in dependencies_of(job.file):
        ended = state.ended.get(dependency.job_id)
        status = ended.status if ended is not None else known.get(dependency.job_id)
        if status is not None:
            failed = why_failed(dependency, status)
            if failed is not None:
                return fail(state, job, failed)
        elif dependency.job_id in state.jobs and dependency.job_id != job.file.id:
            state.park(job, dependency)
        else:
            return fail(state, job, f"Job {job.file.id} depends on job {dependency.job_id}, which does not exist")
    state.push(job)
    return []


def fail(state: QueueState, job: Job, sentence: str) -> list[Effect]:
    """End a job in error, in its file too: there is no process that could write it."""
    had_process = job.phase is not Phase.QUEUED
    entries.fail(job.file, sentence, state.now_s)
    effects: list[Effect] = [WriteJob(job.file, durable=True)]
    if had_process:
        effects.append(ReleaseOwner(job.file.id, job.file.attempt))
    return [*effects, Log(f"job {job.file.id} ended in error: {sentence}"), *_end(state, job)]


def _end(state: QueueState, job: Job) -> list[Effect]:
    job_id, status = job.file.id, job.file.status
    job.phase = Phase.ENDED
    state.slots.discard(job_id)
    del state.jobs[job_id]
    state.ended[job_id] = Ended(status, seconds(job.file.end_timestamp) or state.now_s)
    effects: list[Effect] = [Announce(job_id), Forget(job.file)]
    for waiting_id in state.waiters.pop(job_id, []):
        waiting = state.jobs.get(waiting_id)
        if waiting is not None:
            effects += step(state, waiting, DependencyEnded(waiting_id, job_id, status))
    return effects


def _picked(state: QueueState, job: Job, event: Picked) -> list[Effect]:
    job.phase = Phase.ANNOUNCED
    job.file.livelock = state.own_lock_file
    job.file.start_timestamp = job.file.start_timestamp or entries.stamp(state.now_s)
    state.slots.add(job.file.id)
    state.tell(job, "picked to run")
    return [WriteJob(job.file), StartProcess(job.file.id, job.file.attempt)]


def _greeted(state: QueueState, job: Job, event: Greeted) -> list[Effect]:
    job.phase = Phase.STARTED
    job.file.livelock = event.lock_file
    job.file.process_id = event.pid
    state.tell(job, f"started as process {event.pid}")
    return [WriteJob(job.file), Confirm(job.file.id), Announce(job.file.id)]


def _start_failed(state: QueueState, job: Job, event: StartFailed) -> list[Effect]:
    if job.file.attempt > 1:
        return _start_successor(state, job)
    return fail(state, job, f"The process of job {job.file.id} could not be started: {event.reason}")


def _spawner_lost(state: QueueState, job: Job, event: SpawnerLost) -> list[Effect]:
    job.phase = Phase.QUEUED
    job.file.livelock = None
    state.slots.discard(job.file.id)
    state.push(job)
    state.tell(job, "queued again, because the spawner ended before it made the process")
    return [WriteJob(job.file), Log(f"job {job.file.id} is queued again: the spawner ended before it began")]


def _changed(state: QueueState, job: Job, event: Changed) -> list[Effect]:
    if event.file.attempt < job.file.attempt:
        return []
    job.file = event.file
    return _end(state, job) if job.file.final else [Announce(job.file.id)]


def _died(state: QueueState, job: Job, event: Died) -> list[Effect]:
    job.file = event.file
    if job.file.final:
        return _end(state, job)
    state.tell(job, f"process {job.file.process_id} died, leaving {event.records} undo records")
    if event.records:
        return _start_successor(state, job)
    return fail(state, job, entries.died_sentence(job.file))


def _start_successor(state: QueueState, job: Job) -> list[Effect]:
    """A new process takes over the locks and unwinds (D5); tried a few times, as it may die as well."""
    if job.file.attempt >= state.limits.attempts:
        sentence = f"{entries.died_sentence(job.file)}, and so did those that should undo its work"
        return fail(state, job, f"{sentence}: `gnt-cluster verify` names what was left")
    job.file.attempt += 1
    job.phase = Phase.ANNOUNCED
    job.file.livelock = state.own_lock_file
    job.file.process_id = None
    sentence = f"job {job.file.id} died in the midst of its work: attempt {job.file.attempt} undoes it"
    return [WriteJob(job.file), StartProcess(job.file.id, job.file.attempt), Log(sentence)]


def _cancel_queued(state: QueueState, job: Job, event: CancelAsked) -> list[Effect]:
    if job.file.attempt > 1:
        return [Answer(False, f"Job {job.file.id} died and is being undone: that cannot be cancelled")]
    entries.cancel(job.file, state.now_s)
    state.tell(job, "cancelled while queued")
    answer = Answer(True, f"Dequeued job {job.file.id}")
    return [WriteJob(job.file, durable=True), *_end(state, job), answer]


def _cancel_announced(state: QueueState, job: Job, event: CancelAsked) -> list[Effect]:
    """It will have a process in a moment; who carries this out tries again then."""
    return [Answer(False, "Timeout: job still in its startup phase")]


def _cancel_started(state: QueueState, job: Job, event: CancelAsked) -> list[Effect]:
    if job.file.process_id is None:
        return [Answer(False, f"Job {job.file.id} has no process that could be told")]
    told = SendSignal(job.file.id, job.file.process_id, event.kill)
    state.tell(job, "killed on request" if event.kill else "asked to stop")
    if event.kill:
        return [told, Answer(True, "SIGKILL send to the process")]
    if job.file.status == RUNNING:
        return [told, Answer(False, "Job no longer waiting, can't cancel (informed it anyway)")]
    return [told, AwaitCancel(job.file.id)]


def _priority_queued(state: QueueState, job: Job, event: PriorityAsked) -> list[Effect]:
    entries.set_priority(job.file, event.priority)
    state.push(job)
    message = f"Priorities of pending opcodes for job {job.file.id} have been changed to {event.priority}"
    return [WriteJob(job.file, durable=True), Announce(job.file.id), Answer(True, message)]


def _priority_started(state: QueueState, job: Job, event: PriorityAsked) -> list[Effect]:
    return [Answer(False, f"Job {job.file.id} has started: its priority cannot be changed any more")]


def _dependency_ended(state: QueueState, job: Job, event: DependencyEnded) -> list[Effect]:
    met = [each for each in job.parked if each.job_id == event.dependency]
    job.parked = [each for each in job.parked if each.job_id != event.dependency]
    for dependency in met:
        failed = why_failed(dependency, event.status)
        if failed is not None:
            return fail(state, job, failed)
    state.push(job)
    return []


def _ignore(state: QueueState, job: Job, event: JobEvent) -> list[Effect]:
    return []


Handler = Callable[[QueueState, Job, Any], list[Effect]]
TRANSITIONS: dict[tuple[Phase, type[JobEvent]], Handler] = {
    (Phase.QUEUED, Picked): _picked,
    (Phase.QUEUED, CancelAsked): _cancel_queued,
    (Phase.QUEUED, PriorityAsked): _priority_queued,
    (Phase.QUEUED, DependencyEnded): _dependency_ended,
    (Phase.QUEUED, Changed): _ignore,
    (Phase.ANNOUNCED, Greeted): _greeted,
    (Phase.ANNOUNCED, StartFailed): _start_failed,
    (Phase.ANNOUNCED, SpawnerLost): _spawner_lost,
    (Phase.ANNOUNCED, CancelAsked): _cancel_announced,
    (Phase.ANNOUNCED, PriorityAsked): _priority_started,
    (Phase.ANNOUNCED, Changed): _ignore,
    (Phase.STARTED, Changed): _changed,
    (Phase.STARTED, Died): _died,
    (Phase.STARTED, CancelAsked): _cancel_started,
    (Phase.STARTED, PriorityAsked): _priority_started,
}
"""Every pair that can meet. A pair that is not here is a mistake of ours, and raises with the job's story."""

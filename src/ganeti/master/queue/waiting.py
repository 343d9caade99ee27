# SPDX-License-Identifier: BSD-2-Clause
"""What happens to jobs that have no process: they get their turn, ask for locks, wait for them, are kept back. Pure.

The waiting itself is WConfD's lock table; here is only who waits. A job that waits holds no lock, no process and no
slot. A grant that meets no free slot is kept by a few jobs and given back by the others, so that locks never stand
idle behind a long queue and nobody waits for a lock while he holds one.
"""

from collections.abc import Mapping

from ganeti.master.queue import entries
from ganeti.master.queue.dependencies import dependencies_of, why_failed
from ganeti.master.queue.endings import cancel, fail
from ganeti.master.queue.events import (
    AdmissionChanged,
    Announce,
    Answer,
    AskLocks,
    AttemptOver,
    CancelAsked,
    Effect,
    Granted,
    JobEvent,
    Log,
    MoveRequest,
    Picked,
    PriorityAsked,
    Refused,
    RequestLost,
    StartProcess,
    WithdrawLocks,
    WriteJob,
)
from ganeti.master.queue.state import Job, Phase, QueueState


def wait_or_ready(state: QueueState, job: Job, known: Mapping[int, str]) -> list[Effect]:
    """Let a job wait for what it depends on, or for its turn; *known* has the statuses of archived jobs."""
    if job.verdict.action == "reject":
        return reject(state, job)
    for dependency in dependencies_of(job.file):
        ended = state.ended.get(dependency.job_id)
        status = ended.status if ended is not None else known.get(dependency.job_id)
        if status is not None:
            failed = why_failed(dependency, status)
            if failed is not None:
                return fail(state, job, failed)
        elif dependency.job_id in state.jobs and dependency.job_id != job.file.id:
            state.depend(job, dependency)
        else:
            return fail(state, job, f"Job {job.file.id} depends on job {dependency.job_id}, which does not exist")
    state.push(job)
    return []


def reject(state: QueueState, job: Job) -> list[Effect]:
    told = Log(f"job {job.file.id} is rejected by the filter rule {job.verdict.rule}")
    return [told, *cancel(state, job, state.admission.rejection(job.file))]


def announce(state: QueueState, job: Job) -> list[Effect]:
    """Give a job its process (S2.34, S2.35)."""
    state.take_slot(job)
    state.holding.discard(job.file.id)
    job.holds = False
    job.blockers = ()
    job.file.livelock = state.own_lock_file
    job.file.start_timestamp = job.file.start_timestamp or entries.stamp(state.now_s)
    state.enter(job, Phase.ANNOUNCED, "gets a process")
    return [WriteJob(job.file), StartProcess(job.file.id, job.file.attempt)]


def picked(state: QueueState, job: Job, event: Picked) -> list[Effect]:
    if job.holds or job.file.deaths:
        return announce(state, job)
    state.take_slot(job)
    state.enter(job, Phase.ASKING, "asks for its locks")
    return [AskLocks(job.file.id, job.file.priority)]


def granted_asking(state: QueueState, job: Job, event: Granted) -> list[Effect]:
    if state.held_back or state.is_one_too_many(job):
        return _keep_or_give_back(state, job)
    return announce(state, job)


def granted_parked(state: QueueState, job: Job, event: Granted) -> list[Effect]:
    return announce(state, job) if state.may_start(job) else _keep_or_give_back(state, job)


def _keep_or_give_back(state: QueueState, job: Job) -> list[Effect]:
    state.free_slot(job)
    job.blockers = ()
    if len(state.holding) < state.limits.running and state.full_bucket(job) is None:
        job.holds = True
        state.holding.add(job.file.id)
        state.enter(job, Phase.QUEUED, "has its locks and waits for a slot")
        state.push(job)
        return []
    state.enter(job, Phase.QUEUED, "gives its locks back, since there is no slot")
    state.push(job)
    return [WithdrawLocks(job.file.id)]


def refused(state: QueueState, job: Job, event: Refused) -> list[Effect]:
    job.blockers = event.blockers
    if job.phase is Phase.ASKING:
        state.free_slot(job)
        state.enter(job, Phase.PARKED, "waits for its locks")
        state.begin_attempts(job)
    return []


def request_lost(state: QueueState, job: Job, event: RequestLost) -> list[Effect]:
    return [AskLocks(job.file.id, job.file.priority)]


def deferral_over(state: QueueState, job: Job, event: AttemptOver) -> list[Effect]:
    """A job that put itself off has its next turn, with a better priority when that has gone on for long (S1.90)."""
    if not job.deferred or job.attempts is None:
        return []
    before = job.file.priority
    priority = job.attempts.over(before, state.now_s)
    job.deferred = False
    effects: list[Effect] = []
    if priority != before:
        entries.set_priority(job.file, priority)
        effects = [WriteJob(job.file), Announce(job.file.id)]
    state.push(job)
    return effects


def attempt_over(state: QueueState, job: Job, event: AttemptOver) -> list[Effect]:
    """Ask again, which is harmless, and with a better priority when it has waited long (S1.84): its arrival stays.

    That is promised to nobody, so it is not synced: thousands that were submitted together rise together.
    """
    assert job.attempts is not None
    before = job.file.priority
    priority = job.attempts.over(before, state.now_s)
    state.begin_attempts(job)
    ask = AskLocks(job.file.id, priority)
    if priority == before:
        return [ask]
    entries.set_priority(job.file, priority)
    told = Log(f"job {job.file.id} has waited long for its locks: its priority rises from {before} to {priority}")
    return [WriteJob(job.file), ask, told, Announce(job.file.id)]


def admission_changed(state: QueueState, job: Job, event: AdmissionChanged) -> list[Effect]:
    if job.phase is Phase.QUEUED:
        state.unready(job)  # under the limits that it had: another may get on under them
    job.verdict = state.admission.of(job.file)
    state.recount(job)
    if job.file.deaths:
        state.push(job)
        return []
    if job.verdict.action == "reject" and job.phase is not Phase.ANNOUNCED and job.phase is not Phase.STARTED:
        return reject(state, job)
    if job.verdict.action == "pause" and job.phase in (Phase.ASKING, Phase.PARKED):
        state.free_slot(job)
        job.attempts = None
        state.enter(job, Phase.QUEUED, "paused by a filter rule")
        state.push(job)
        return [WithdrawLocks(job.file.id), Announce(job.file.id)]
    let_go: list[Effect] = []
    if job.holds and job.verdict.action == "pause":
        job.holds = False
        state.holding.discard(job.file.id)
        let_go = [WithdrawLocks(job.file.id)]
    state.push(job)
    return let_go


def cancel_waiting(state: QueueState, job: Job, event: CancelAsked) -> list[Effect]:
    if job.file.deaths:
        return [Answer(False, f"Job {job.file.id} died and is being undone: that cannot be cancelled")]
    return [*cancel(state, job), Answer(True, f"Dequeued job {job.file.id}")]


def priority_waiting(state: QueueState, job: Job, event: PriorityAsked) -> list[Effect]:
    entries.set_priority(job.file, event.priority)
    effects: list[Effect] = [WriteJob(job.file, durable=True)]
    if job.phase is Phase.QUEUED:
        if job.file.id in state.ready:
            state.push(job)
        else:
            _move_under_limit(state, job)
    elif job.phase is not Phase.ANNOUNCED:
        effects.append(MoveRequest(job.file.id, event.priority))
    message = f"Priorities of pending opcodes for job {job.file.id} have been changed to {event.priority}"
    return [*effects, Announce(job.file.id), Answer(True, message)]


def _move_under_limit(state: QueueState, job: Job) -> None:
    for queue in state.limited.values():
        if job.file.id in queue:
            queue.push(job.file.id, job.file.priority)


def stray_answer(state: QueueState, job: Job, event: Granted | Refused) -> list[Effect]:
    """An answer nobody waits for any more: what it says is held or waited for must not stay so."""
    return [] if job.holds else [WithdrawLocks(job.file.id)]


def ignore(state: QueueState, job: Job, event: JobEvent) -> list[Effect]:
    return []

# SPDX-License-Identifier: BSD-2-Clause
"""How jobs end as LuxiD sees it, and what that means for those that depend on them. Pure."""

from ganeti.master.queue import entries
from ganeti.master.queue.dependencies import why_failed
from ganeti.master.queue.events import Announce, Effect, Ended, Forget, Log, ReleaseOwner, WithdrawLocks, WriteJob
from ganeti.master.queue.state import Job, Phase, QueueState
from ganeti.wire.job_file import JobFile, seconds


def end(state: QueueState, job: Job) -> list[Effect]:
    """Forget a job whose file says how it ended, and let those go that waited for it, and those that waited for them.

    One after the other and not each within the other: a chain of jobs may be as long as the queue.
    """
    effects = _forget(state, job)
    gone = [job.file]
    for file in gone:
        for waiting_id in state.waiters.pop(file.id, ()):
            waiting = state.jobs.get(waiting_id)
            if waiting is None:
                continue
            failed = _dependency_ended(state, waiting, file)
            if failed is not None:
                effects += _fail_in_file(state, waiting, failed, durable=False)
                effects += _forget(state, waiting)
                gone.append(waiting.file)
    return effects


def _forget(state: QueueState, job: Job) -> list[Effect]:
    job_id = job.file.id
    job.phase = Phase.ENDED
    state.unready(job)
    state.free_slot(job)
    state.holding.discard(job_id)
    state.unwinding.discard(job_id)
    del state.jobs[job_id]
    state.ended[job_id] = Ended(job.file.status, seconds(job.file.end_timestamp) or state.now_s)
    return [Announce(job_id), Forget(job.file)]


def fail(state: QueueState, job: Job, sentence: str) -> list[Effect]:
    """End a job in error, in its file too: there is no process that could write it."""
    return [*_fail_in_file(state, job, sentence, durable=True), *end(state, job)]


def _fail_in_file(state: QueueState, job: Job, sentence: str, *, durable: bool) -> list[Effect]:
    let_go = let_go_of_locks(job)
    entries.fail(job.file, sentence, state.now_s)
    told = Log(f"job {job.file.id} ended in error: {sentence}")
    return [WriteJob(job.file, durable=durable), *let_go, told]


def left_by_another(state: QueueState, job: Job) -> list[Effect]:
    """End a job that had begun when its process ended with the former master, or with this machine's power."""
    return fail(state, job, entries.left_sentence(job.file))


def cancel(state: QueueState, job: Job, sentence: str = entries.CANCELED_SENTENCE) -> list[Effect]:
    """End a job that has no process as canceled."""
    let_go = let_go_of_locks(job)
    entries.cancel(job.file, state.now_s, sentence)
    state.tell(job, "cancelled")
    return [WriteJob(job.file, durable=True), *let_go, *end(state, job)]


def let_go_of_locks(job: Job) -> list[Effect]:
    """What must be given up in WConfD for a job in this phase."""
    if job.phase is Phase.ANNOUNCED or job.phase is Phase.STARTED:
        return [ReleaseOwner(job.file.id, job.file.attempt)]
    if job.phase is Phase.ASKING or job.phase is Phase.PARKED or job.holds:
        return [WithdrawLocks(job.file.id)]
    return []


def _dependency_ended(state: QueueState, job: Job, ended: JobFile) -> str | None:
    """A job that waited for another one: it goes on, or can never be run; then gives why.

    Its end needs no sync: what it follows from is on disk, and a restart that finds it waiting ends it again.
    """
    met = [each for each in job.depends if each.job_id == ended.id]
    job.depends = [each for each in job.depends if each.job_id != ended.id]
    for dependency in met:
        failed = why_failed(dependency, ended.status)
        if failed is not None:
            return failed
    state.push(job)
    return None

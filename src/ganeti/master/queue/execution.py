# SPDX-License-Identifier: BSD-2-Clause
"""Runs the opcodes of one job over ports: locks, facts, checks, hooks, act, or unwind (D3, D4, D5).

    decode → locks → gather (more locks? again) → check, on nodes too → hooks pre → execute → hooks post → result
                │         │                                              └─ failed: unwind last first ─┘
                └─────────┴── not to be had at once, or deferred: the job is handed back

No process waits for locks (S1.81 to S1.83). A job whose locks are not to be had at once is handed back: it frees what
it holds, writes down what it wants, and its process ends; the queue starts another one when all that is there. That
happens only before an opcode acts, or between two opcodes, so nothing has to be undone.

Order at an opcode's end, and why:
 1. A failed opcode is unwound before its locks are freed, so nobody meets half of it.
 2. An opcode with records keeps the locks until its result is on disk here and at the candidates: should the process
    or the master die in between, its successor unwinds under the locks of the dead.
 3. The job's end waits for no daemon (S2.62): it is on disk here first, and carries the position of the last commit.
    LuxiD tells of it when that is published and the candidates have it.
 4. The undo log is cleared after the result is on disk; records of an ended opcode are moot whatever the log says.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError, JobCanceled, LockError, TransportError
from ganeti.master.operation import Defer, MoreLocks, Operation, SubmitJobs, decode
from ganeti.master.planning import fingerprint as plan_fingerprint
from ganeti.master.queue import entries
from ganeti.master.queue.engine_ports import EngineWorld
from ganeti.master.queue.hook_runs import HookRunner
from ganeti.master.queue.job_log import JobLog
from ganeti.master.queue.lock_needs import handed_back, with_big_lock
from ganeti.master.queue.outcomes import Outcome, standing
from ganeti.master.queue.unwinding import UndoWriter, unwind
from ganeti.model.locks import EXCLUSIVE, LockPlan, lock_order
from ganeti.ports.context import JobIdentity, OperationContext
from ganeti.wire.job_file import (
    CANCELED,
    CANCELING,
    ERROR,
    FINAL_STATUSES,
    QUEUED,
    RUNNING,
    SUCCESS,
    WAITING,
    JobFile,
    OpcodeEntry,
    timestamp,
)

_MAX_ROUNDS = 20
"""How often an operation may ask for more locks before that counts as a fault of the operation."""


class HandBack(Exception):
    """The opcode cannot go on now: *wants* is what it must hold next, *priority* with which it goes on, if another."""

    def __init__(self, wants: LockPlan | None = None, priority: int | None = None) -> None:
        super().__init__()
        self.wants = wants
        self.priority = priority


class JobRunner:
    """One job in one process, from its first unfinished opcode until it ends or is handed back."""

    def __init__(self, job: JobFile, world: EngineWorld) -> None:
        self.job = job
        self._world = world
        self._cancel_asked = False
        self._over = False
        """The file is no longer ours."""
        self._preparing: asyncio.Future[Any] | None = None
        """What comes before an opcode acts: it changes nothing, and is ended where somebody cancels the job."""
        self._held: LockPlan | None = None

    def ask_cancel(self) -> None:
        """Stop before the next opcode acts (as 3.1, one that runs is stopped only where it looks out for that)."""
        if self._over:
            return
        self._cancel_asked = True
        entry = self.job.ops[self.job.current_index()]
        if entry.status == WAITING:
            entry.status = CANCELING
            self._world.save_soon(self.job)
        if self._preparing is not None:
            self._preparing.cancel()

    def renew_priority(self) -> None:
        """Take on the priority somebody has left for the job; it counts from the next claim of locks on (S1.79)."""
        priority = None if self._over else self._world.priority_message()
        if priority is not None:
            entries.set_priority(self.job, priority)
            self._world.save_soon(self.job)

    async def run(self) -> None:
        """Run the opcodes that have not ended, and write the job's end, or that it is handed back."""
        resting = False
        for index, entry in enumerate(self.job.ops):
            if entry.status in FINAL_STATUSES:
                continue
            if resting and not self._cancel_asked and not await self._world.may_continue():
                await self._hand_back(entry, HandBack())
                return
            last = index == len(self.job.ops) - 1
            if not await self._run_opcode(index, entry, last):
                return
            resting = True

    async def unwind_for_the_dead(self, sentence: str) -> None:
        """As the successor of a process that died: undo what it left, and end the job in error."""
        await self._world.take_over()
        for node_uuid in self._world.undo.log.nodes():
            await self._world.abort_attempt(node_uuid)
        index = self.job.current_index()
        entry = self.job.ops[index]
        log = JobLog(self.job, entry, self._world)
        log.warning(f"{sentence}; undoing what it had begun")
        outcome = await self._unwind(self._context(index, entry, log), log)
        error = entries.died_error(sentence, outcome, standing(self._world.view(), entry.input))
        await self._end_in_error(entry, error.to_wire(), ERROR)

    async def _run_opcode(self, index: int, entry: OpcodeEntry, last: bool) -> bool:
        """Run one opcode; False if the job has ended with it, or was handed back."""
        entry.status = WAITING
        entry.start_timestamp = entry.start_timestamp or timestamp(self._world.now_s())
        self._world.save_soon(self.job)
        log = JobLog(self.job, entry, self._world)
        context = self._context(index, entry, log)
        try:
            result = await self._carry_out(entry, context, log)
        except HandBack as back:
            await self._hand_back(entry, back)
            return False
        except (Exception, asyncio.CancelledError) as error:
            if not isinstance(error, GanetiError):
                self._world.note_fault(error)
            log.end_progress(done=False)
            outcome = await self._unwind(context, log)
            told = entries.plain_error(error)
            if outcome.completed or (outcome.settled and isinstance(error, TransportError)):  # it is done all the same
                told = entries.told_outcome(told, outcome, standing(self._world.view(), entry.input))
            await self._end_in_error(entry, told, CANCELED if isinstance(error, JobCanceled) else ERROR)
            return False
        log.end_progress(done=True)
        await self._end_in_success(entry, result, last)
        return True

    async def _carry_out(self, entry: OpcodeEntry, context: OperationContext, log: JobLog) -> Any:
        operation = decode(entry.input)
        operation.refuse_unsupported()
        self._refuse_if_cancelled()
        self._preparing = asyncio.ensure_future(self._checked(operation, entry, context))
        try:
            checked = await self._preparing
        except (asyncio.CancelledError, GanetiError):
            self._refuse_if_cancelled()
            raise
        finally:
            self._preparing = None
        self._refuse_if_cancelled()
        if operation.dry_run:
            log.info(" - INFO: dry-run mode requested, not actually executing the operation")
            return None
        hooks = HookRunner(operation, operation.hooks(self._world.view(), checked), context, log)
        entry.status = RUNNING
        entry.exec_timestamp = timestamp(self._world.now_s())
        self._world.save_soon(self.job)
        commits_before = self._world.commits()
        await hooks.run_pre()
        result: Any = await operation.execute(checked, context)
        if isinstance(result, SubmitJobs):
            result = await self._submit(result, operation)
        await hooks.run_post()
        if self._world.commits() != commits_before and self._world.has_local_hooks("config-update-post.d"):
            await hooks.run_config_update()
        return msgspec.to_builtins(result)

    async def _checked(self, operation: Operation[Any], entry: OpcodeEntry, context: OperationContext) -> Any:
        """Decide what is to be done, and hear what nodes have against it."""
        decided = await self._prepare(operation, entry, context)
        plan_fingerprint.require(operation, self._world.view())
        return await operation.check_on_nodes(decided, context)

    async def _prepare(self, operation: Operation[Any], entry: OpcodeEntry, context: OperationContext) -> Any:
        """Take locks, gather facts and check, again and again until what is held covers what is wanted.

        Raises `HandBack` where locks cannot be had at once, and where the operation defers itself.
        """
        wanted = with_big_lock(operation.locks(self._world.view())).union(handed_back(self.job))
        for _ in range(_MAX_ROUNDS):
            await self._take(wanted, entry)
            view = self._world.view()
            renewed = with_big_lock(operation.locks(view))
            if self._held is not None and not self._held.covers(renewed):
                wanted = renewed.union(wanted)
                continue
            try:
                facts = await operation.gather(context, view)
            except Defer as defer:
                raise HandBack(priority=defer.priority) from None
            del view  # so that the next one is read through the same handle
            if not isinstance(facts, MoreLocks):
                return operation.check(self._world.view(), facts, context)
            wanted = wanted.union(with_big_lock(facts.plan))
        raise LockError(f"{operation.op_id} asked for more locks {_MAX_ROUNDS} times without end")

    async def _take(self, wanted: LockPlan, entry: OpcodeEntry) -> None:
        """Hold *wanted*; where the order forbids adding to what is held, all is given up and taken again."""
        if self._held is not None:
            if self._held.covers(wanted):
                return
            if not _may_follow(self._held, wanted):
                await self._free()
        if not await self._world.claim_locks(entry.priority, wanted.request()):
            raise HandBack(wanted)
        self._held = wanted
        self.job.wants = None

    async def _hand_back(self, entry: OpcodeEntry, back: HandBack) -> None:
        """Give the job to the queue again; or end it, if that is asked for meanwhile.

        The locks are freed before the file says so: by then the queue may ask for them in the job's name.
        """
        assert not self._world.undo.log.has_records(), "an opcode that has acted cannot be handed back"
        await self._world.free_locks()
        self._held = None
        self.job.position = self._world.position()
        if self._cancel_asked:
            await self._end_in_error(entry, JobCanceled(entries.CANCELED_SENTENCE).to_wire(), CANCELED)
            return
        if back.priority is not None:
            entry.priority = back.priority
        self.renew_priority()  # what somebody asks for counts more
        entry.status, entry.progress = QUEUED, None
        self.job.wants = back.wants.request() if back.wants is not None else None
        self.job.livelock = self.job.process_id = None
        self._over = True
        await self._world.hand_back(self.job)

    async def _free(self, *, ending: bool = False) -> None:
        if self._held is not None:
            self._held = None
            await self._world.free_locks(ending=ending)

    async def _unwind(self, context: OperationContext, log: JobLog) -> Outcome:
        ended = [index for index, entry in enumerate(self.job.ops) if entry.status in FINAL_STATUSES]
        return await unwind(self._world, context, log, ended)

    async def _submit(self, result: SubmitJobs, operation: Operation[Any]) -> dict[str, Any]:
        jobs = [[_child(child, operation.reason, operation.priority) for child in job] for job in result.jobs]
        answers = await self._world.submit_jobs(jobs) if jobs else []
        return {"jobs": answers, **result.other}

    async def _end_in_success(self, entry: OpcodeEntry, result: Any, last: bool) -> None:
        owing = self._world.undo.log.has_lines
        if not owing:
            await self._free(ending=last)
        now = timestamp(self._world.now_s())
        entry.status, entry.result, entry.end_timestamp = SUCCESS, result, now
        if last:
            self.job.end_timestamp, self.job.position = now, self._world.position()
        if await self._save(last) and owing:
            self._world.undo.clear()
            await self._free(ending=last)

    async def _end_in_error(self, entry: OpcodeEntry, error: list[Any], status: str) -> None:
        owing = self._world.undo.log.has_lines
        if not owing:
            await self._world.free_locks(ending=True)
        self.job.position = self._world.position()
        now_s = self._world.now_s()
        entry.status, entry.result, entry.end_timestamp = status, error, timestamp(now_s)
        if status == CANCELED:
            entries.cancel(self.job, now_s)
        else:
            entries.close_after_failure(self.job, now_s)
        if not await self._save(True):
            return
        self._world.undo.clear()
        if owing:
            await self._world.free_locks(ending=True)

    async def _save(self, last: bool) -> bool:
        """Store what an opcode has come to; False where the candidates have yet to get the end of the job from LuxiD.

        Then records and locks stay as they are, for LuxiD to clear: an old record must not be carried out anywhere
        when others have had the locks.
        """
        if last:
            return await self._world.end(self.job)
        await self._world.save(self.job)
        return True

    def _context(self, index: int, entry: OpcodeEntry, log: JobLog) -> OperationContext:
        identity = JobIdentity(self.job.id, self.job.attempt, index, entry.priority)
        undo = UndoWriter(self._world.undo, index, self.job.attempt)
        return self._world.context(identity, log, undo, self._refuse_if_cancelled)

    def _refuse_if_cancelled(self) -> None:
        if self._cancel_asked:
            raise JobCanceled(entries.CANCELED_SENTENCE)


def _may_follow(held: LockPlan, wanted: LockPlan) -> bool:
    """Whether all that *wanted* adds comes after all that is held."""
    have = {lock: state for lock, state in held.request()}
    added = [lock for lock, state in wanted.request() if have.get(lock) != state and have.get(lock) != EXCLUSIVE]
    return not added or not have or lock_order(added[0]) > lock_order(list(have)[-1])


def _child(operation: Operation[Any], trail: Sequence[Any], priority: int) -> dict[str, Any]:
    plain = operation.to_plain()
    plain["reason"] = [*plan_fingerprint.without_plan(trail), *plain.get("reason", [])]
    plain["priority"] = plain.get("priority") or priority
    return plain

# SPDX-License-Identifier: BSD-2-Clause
"""Taking back what a failed or dead opcode had done, last first, one sentence a record (D5)."""

from collections.abc import Sequence
from typing import Any

from ganeti.base.errors import REFUSED_AT_THE_DOOR, GanetiError
from ganeti.master.queue.engine_ports import EngineWorld, UndoStore
from ganeti.master.queue.job_log import JobLog
from ganeti.master.queue.outcomes import Outcome
from ganeti.master.queue.undo import PendingUndo, record_line
from ganeti.ports.context import OperationContext, UndoChange, UndoNodeCall


class UndoWriter:
    """Implements `UndoPort` for one opcode."""

    def __init__(self, store: UndoStore, opcode: int, attempt: int) -> None:
        self._store = store
        self._opcode = opcode
        self._attempt = attempt

    async def push(self, *records: UndoNodeCall | UndoChange) -> None:
        numbered = enumerate(records, self._store.log.next_number)
        await self._store.append(*(record_line(number, self._opcode, self._attempt, each) for number, each in numbered))


async def unwind(world: EngineWorld, context: OperationContext, log: JobLog, ended: Sequence[int]) -> Outcome:
    """Carry out all records still owed; gives what has become of all there were, by earlier processes as well.

    What cannot be undone stays in the log, for verify to name.
    """
    store = world.undo
    if not store.log.has_records():
        return store.log.outcome(None)
    try:
        settled = await world.last_settled()
        owed = store.log.owed(settled, ended)
    except GanetiError as err:
        log.warning(f"could not undo anything, since the configuration daemon cannot say what was committed: {err}")
        for each in store.log.owed(None, ended):
            await store.append({"given_up": each.number, "reason": str(err)})
        return store.log.outcome(None)
    for item in owed:
        try:
            is_complete = await _carry_out(item, context)
        except NeverDone as err:
            await store.append({"undone": item.number}, durable=False)
            log.info(f"nothing to undo: {item.record.sentence}: {err}")
            continue
        except NotCompleted as err:
            await store.append({"given_up": item.number, "reason": str(err)})
            log.warning(f"could not complete: {item.record.sentence}: {err}")
            break  # the step was complete: what came before it stays as it is
        except Exception as err:  # any failure: the next record must still be tried
            if not isinstance(err, GanetiError):
                world.note_fault(err)
            await store.append({"given_up": item.number, "reason": str(err)})
            log.warning(f"could not undo: {item.record.sentence}: {err}")
            continue
        await store.append({"completed" if is_complete else "undone": item.number}, durable=False)
        if is_complete:
            log.info(f"complete after all: {item.record.sentence}")
            break
        log.info(f"{'completed' if item.record.forward else 'undone'}: {item.record.sentence}")
    for number in store.log.unspoken():  # moot; a successor that reads the log need not ask WConfD
        await store.append({"dropped": number}, durable=False)
    return store.log.outcome(settled)


class NeverDone(Exception):
    """The node refuses whatever is asked for with these names: it has refused the step, too."""


class NotCompleted(Exception):
    """A step turned out to be complete, and what is to follow it failed."""


async def _carry_out(item: PendingUndo, context: OperationContext) -> bool:
    """Undo one step; True if it turned out to be complete, so that nothing before it may be undone.

    Raises `NeverDone`, or what keeps the step from being undone.
    """
    record = item.record
    if isinstance(record, UndoChange):
        if record.rest is None:
            await context.config.commit(record.change)
            return False
        try:
            await context.config.commit(record.change)  # it may have happened before; a failure does not say
            await record.rest.carry_out(context.nodes)
        except GanetiError as err:
            raise NotCompleted(str(err)) from err
        return True
    try:
        answer = await record.carry_out(context.nodes)
    except GanetiError as err:
        if REFUSED_AT_THE_DOOR in err.args[1:]:
            raise NeverDone(str(err)) from err
        raise
    return await _settle(record, answer, context)


async def _settle(record: UndoNodeCall, answer: Any, context: OperationContext) -> bool:
    """Complete the step if *answer* says that it is to be; whether it says so. Raises `NotCompleted`."""
    if not (isinstance(answer, dict) and answer.get("settled")):
        return False
    try:
        if record.settled_change is not None:
            await context.config.commit(record.settled_change)
        if record.settled_call is not None:
            rest = record.settled_call
            await _settle(rest, await rest.carry_out(context.nodes), context)
    except GanetiError as err:
        raise NotCompleted(str(err)) from err
    return True

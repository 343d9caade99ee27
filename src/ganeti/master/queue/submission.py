# SPDX-License-Identifier: BSD-2-Clause
"""What a submitted job must be, before it gets an id: checks at the door, and the file it begins with."""

from collections.abc import Callable, Sequence
from typing import Any

from ganeti.base.errors import WRONG_INPUT, GanetiError, JobQueueFull, PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.queue.dependencies import resolve
from ganeti.master.queue.entries import reason_trail
from ganeti.master.queue.machine import QueueMachine
from ganeti.wire.job_file import JobFile, OpcodeEntry, timestamp

SUBMITTABLE_PRIORITIES = (-10, 0, 10)
PRIORITY_RANGE = range(-20, 20)
MAX_OPCODES = 10000

StatusOf = Callable[[int], str | None]


def refuse_if_full(machine: QueueMachine, count: int) -> None:
    """Raise `JobQueueFull` unless so many more jobs may be unfinished."""
    unfinished, most = len(machine.jobs), machine.limits.active
    if unfinished + count > most:
        raise JobQueueFull(
            f"The queue is full: {unfinished} jobs are unfinished, and {most} may be; wait for some to end"
        )


def require_submittable(priority: int) -> None:
    """Raise `PrerequisiteError` for a priority that jobs get by waiting only (S1.79)."""
    if priority not in SUBMITTABLE_PRIORITIES:
        words = ", ".join(str(each) for each in SUBMITTABLE_PRIORITIES)
        raise PrerequisiteError(f"Priority {priority} cannot be submitted: use one of {words}")


def read_opcodes(ops: Any, earlier: Sequence[int | None] | None, status_of: StatusOf) -> list[dict[str, Any]]:
    """Check the opcodes of one job and give them with absolute dependencies.

    *status_of* gives the status of a job, None if there is none. Raises `PrerequisiteError`, `OpCodeUnknown`, or
    `GanetiError`.
    """
    if not isinstance(ops, list) or not ops:
        raise PrerequisiteError("A job must be a list of at least one opcode", WRONG_INPUT)
    if len(ops) > MAX_OPCODES:
        raise PrerequisiteError(f"A job can have {MAX_OPCODES} opcodes, not {len(ops)}: submit several jobs")
    result = []
    for opcode in ops:
        operation = decode(opcode)
        require_submittable(operation.priority)
        plain = dict(opcode)
        depends = resolve(plain.get("depends"), earlier)
        for job_id, _ in depends or []:
            if status_of(job_id) is None:
                raise PrerequisiteError(f"Job {job_id}, on which the new one is to depend, does not exist")
        if depends is not None:
            plain["depends"] = depends
        result.append(plain)
    return result


def new_job(job_id: int, opcodes: Sequence[dict[str, Any]], now_s: float) -> JobFile:
    """The file of a job that has just been submitted."""
    ops = [
        OpcodeEntry(
            input={**opcode, "reason": reason_trail(opcode, job_id, index, now_s)},
            priority=opcode.get("priority") or 0,
        )
        for index, opcode in enumerate(opcodes)
    ]
    return JobFile(id=job_id, ops=ops, received_timestamp=timestamp(now_s))


def check_priority(priority: Any) -> int:
    """A priority for `ChangeJobPriority`; raises `GanetiError`."""
    if not isinstance(priority, int) or isinstance(priority, bool) or priority not in PRIORITY_RANGE:
        raise GanetiError(f"'{priority}' is not a priority: use a number from -20 (first) to 19 (last)")
    return priority

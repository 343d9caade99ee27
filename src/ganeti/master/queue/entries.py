# SPDX-License-Identifier: BSD-2-Clause
"""What happens to the opcodes of a job when it is picked, cancelled, or ends without having run: edits of its file."""

from collections.abc import Mapping
from typing import Any

from ganeti.base.errors import ExecutionError, GanetiError, JobCanceled
from ganeti.master.queue.outcomes import Outcome
from ganeti.wire.job_file import CANCELED, ERROR, FINAL_STATUSES, QUEUED, RUNNING, JobFile, OpcodeEntry, timestamp

CANCELED_SENTENCE = "Job canceled by request"
PRECEDING_SENTENCE = "Preceding opcode failed"
SECRETS_LOST = (
    "The secret parameters of this job are kept in memory only, and the master daemon was restarted before the job "
    "ran: submit it again"
)

stamp = timestamp


def reason_time_ns(now_s: float) -> int:
    return round(now_s * 1_000_000) * 1000


def reason_trail(opcode: Mapping[str, Any], job_id: int, index: int, now_s: float) -> list[Any]:
    """The trail an opcode came with and, after that, the opcode itself (protocols, section 24)."""
    source = "gnt:opcode:" + opcode["OP_ID"].lower().removeprefix("op_")
    return [*(opcode.get("reason") or []), [source, f"job={job_id};index={index}", reason_time_ns(now_s)]]


def unfinished(job: JobFile) -> list[OpcodeEntry]:
    return [op for op in job.ops if op.status not in FINAL_STATUSES]


def close(job: JobFile, status: str, error: GanetiError, now_s: float) -> None:
    """Give every opcode that has not ended *status* and *error*, and the job its end."""
    now = timestamp(now_s)
    for op in unfinished(job):
        op.status = status
        op.result = error.to_wire()
        op.end_timestamp = now
        op.progress = None
    job.end_timestamp = now


def cancel(job: JobFile, now_s: float, sentence: str = CANCELED_SENTENCE) -> None:
    close(job, CANCELED, JobCanceled(sentence), now_s)


def fail(job: JobFile, sentence: str, now_s: float) -> None:
    """End the opcode under way with *sentence*, and those after it because of it."""
    current = unfinished(job)[:1]
    for op in current:
        op.status = ERROR
        op.result = ExecutionError(sentence).to_wire()
        op.end_timestamp = timestamp(now_s)
        op.progress = None
    close_after_failure(job, now_s)


def close_after_failure(job: JobFile, now_s: float) -> None:
    """End the opcodes that come after one that has failed."""
    close(job, ERROR, ExecutionError(PRECEDING_SENTENCE), now_s)


def died_error(sentence: str, outcome: Outcome, standing: str) -> ExecutionError:
    """The end of a job that a successor has unwound; *standing* is how its object is afterwards."""
    return ExecutionError("; ".join(filter(None, (sentence, str(outcome) or "there was nothing to undo", standing))))


def told_outcome(error: list[Any], outcome: Outcome, standing: str) -> list[Any]:
    """The plain *error* of an opcode, with what has become of its work in the same sentence."""
    name, arguments = error
    if not arguments or not isinstance(arguments[0], str):
        return error
    return [name, ["; ".join(filter(None, (arguments[0], str(outcome), standing))), *arguments[1:]]]


def set_priority(job: JobFile, priority: int) -> None:
    """Change that of what has not begun: an opcode that runs has its locks and keeps what it got them by (3.1)."""
    for op in unfinished(job):
        if op.status != RUNNING:
            op.priority = priority


def died_sentence(job: JobFile) -> str:
    index = job.current_index()
    op = job.ops[index] if job.ops else None
    what = f" while {op.input.get('OP_ID')} was {op.status}" if op is not None else ""
    return f"Job {job.id} died{what}"


def left_sentence(job: JobFile) -> str:
    return (
        f"{died_sentence(job)}: its process ended with the former master or with the power of this one; what it had "
        "committed holds and is not done again, see `gnt-cluster verify`"
    )


def begin_again(job: JobFile) -> None:
    """Queue a job whose process is gone and had changed nothing: whatever its file says of that process is void."""
    for op in unfinished(job):
        op.status, op.exec_timestamp, op.progress = QUEUED, None, None
    job.livelock = job.process_id = None


def plain_error(error: BaseException) -> list[Any]:
    """The wire form of any error, for the result of an opcode."""
    if isinstance(error, GanetiError):
        return error.to_wire()
    return ExecutionError(f"{type(error).__name__}: {error}").to_wire()

# SPDX-License-Identifier: BSD-2-Clause
"""Fields of jobs (rapi, section 4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ganeti.master.operation import find
from ganeti.master.query.fields import BOOL, JOINED, NUMBER, OTHER, TEXT, TIMES, UNAVAILABLE, Field, Resource, table
from ganeti.wire.job_file import JobFile, OpcodeEntry, shown


@dataclass(frozen=True)
class JobRow:
    """A job, or the place of one that does not exist."""

    id: int
    file: JobFile | None
    archived: bool = False


def _job(get: Callable[[JobFile], Any]) -> Callable[[JobRow], Any]:
    return lambda row: UNAVAILABLE if row.file is None else get(row.file)


def _per_opcode(get: Callable[[OpcodeEntry], Any]) -> Callable[[JobRow], Any]:
    return _job(lambda job: [get(entry) for entry in job.ops])


def opcode_summary(opcode: dict[str, Any]) -> str:
    """``INSTANCE_CREATE(web1)``, from the stored opcode, which need not be one this version knows."""
    op_id = str(opcode.get("OP_ID", ""))
    name = op_id.removeprefix("OP_")
    cls = find(op_id)
    value = opcode.get(cls.summary_field) if cls is not None and cls.summary_field else None
    if isinstance(value, list):
        value = ", ".join(str(item) for item in value)
    return f"{name}({value})" if value is not None else name


JOBS = Resource(
    "job",
    "id",
    table(
        [
            Field("id", "ID", NUMBER, "Number of the job", lambda row: row.id),
            Field(
                "status",
                "Status",
                TEXT,
                "queued, waiting, running, canceling, canceled, success or error",
                _job(lambda job: job.status),
            ),
            Field(
                "priority",
                "Priority",
                NUMBER,
                "Priority of the next opcode: -20 (first) to 19 (last)",
                _job(lambda job: job.priority),
            ),
            Field("archived", "Archived", BOOL, "Is in the archive", lambda row: row.archived),
            Field(
                "ops",
                "OpCodes",
                OTHER,
                "Each opcode with its parameters",
                _per_opcode(lambda entry: shown(entry.input)),
            ),
            Field("opresult", "OpCode_result", OTHER, "Result of each opcode", _per_opcode(lambda entry: entry.result)),
            Field(
                "opstatus",
                "OpCode_status",
                OTHER,
                "Status of each opcode",
                _per_opcode(lambda entry: entry.status),
                shown=JOINED,
            ),
            Field("oplog", "OpCode_log", OTHER, "Messages of each opcode", _per_opcode(lambda entry: entry.log)),
            Field(
                "opstart",
                "OpCode_start",
                OTHER,
                "When each opcode was taken up, before it had its locks",
                _per_opcode(lambda entry: entry.start_timestamp),
                shown=TIMES,
            ),
            Field(
                "opexec",
                "OpCode_exec",
                OTHER,
                "When each opcode had its locks and began to act",
                _per_opcode(lambda entry: entry.exec_timestamp),
                shown=TIMES,
            ),
            Field(
                "opend",
                "OpCode_end",
                OTHER,
                "When each opcode ended",
                _per_opcode(lambda entry: entry.end_timestamp),
                shown=TIMES,
            ),
            Field(
                "oppriority",
                "OpCode_prio",
                OTHER,
                "Priority of each opcode",
                _per_opcode(lambda entry: entry.priority),
                shown=JOINED,
            ),
            Field(
                "summary",
                "Summary",
                OTHER,
                "Each opcode in short, such as INSTANCE_CREATE(web1)",
                _per_opcode(lambda entry: opcode_summary(entry.input)),
                shown=JOINED,
            ),
            Field(
                "received_ts",
                "Received",
                OTHER,
                "When the job was submitted",
                _job(lambda job: job.received_timestamp),
                shown=TIMES,
            ),
            Field(
                "start_ts", "Start", OTHER, "When the job started", _job(lambda job: job.start_timestamp), shown=TIMES
            ),
            Field("end_ts", "End", OTHER, "When the job ended", _job(lambda job: job.end_timestamp), shown=TIMES),
            Field(
                "opprogress",
                "OpCode_progress",
                OTHER,
                "How far each opcode is with a step of known length: [text, done, total], or nothing",
                _per_opcode(lambda entry: entry.progress),
                hidden=True,
            ),
        ]
    ),
    "Job",
    columns="id status summary",
    program="gnt-job",
)

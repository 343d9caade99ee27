# SPDX-License-Identifier: BSD-2-Clause
"""Fields of jobs (rapi, section 4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ganeti.master.operation import REGISTRY
from ganeti.master.query.fields import BOOL, JOINED, NUMBER, OTHER, TEXT, TIMES, UNAVAILABLE, Field, Resource, table
from ganeti.wire.job_file import JobFile, OpcodeEntry, redact


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
    cls = REGISTRY.get(op_id)
    value = opcode.get(cls.summary_field) if cls is not None and cls.summary_field else None
    if isinstance(value, list):
        value = ", ".join(str(item) for item in value)
    return f"{name}({value})" if value is not None else name


JOBS = Resource(
    "job",
    "id",
    table(
        [
            Field("id", "ID", NUMBER, "Job ID", lambda row: row.id),
            Field("status", "Status", TEXT, "Job status", _job(lambda job: job.status)),
            Field(
                "priority",
                "Priority",
                NUMBER,
                "Current job priority (-20 to 19)",
                _job(lambda job: job.priority),
            ),
            Field("archived", "Archived", BOOL, "Whether job is archived", lambda row: row.archived),
            Field("ops", "OpCodes", OTHER, "List of all opcodes", _per_opcode(lambda entry: redact(entry.input))),
            Field(
                "opresult", "OpCode_result", OTHER, "List of opcodes results", _per_opcode(lambda entry: entry.result)
            ),
            Field(
                "opstatus",
                "OpCode_status",
                OTHER,
                "List of opcodes status",
                _per_opcode(lambda entry: entry.status),
                shown=JOINED,
            ),
            Field("oplog", "OpCode_log", OTHER, "List of opcode output logs", _per_opcode(lambda entry: entry.log)),
            Field(
                "opstart",
                "OpCode_start",
                OTHER,
                "List of opcode start timestamps (before acquiring locks)",
                _per_opcode(lambda entry: entry.start_timestamp),
                shown=TIMES,
            ),
            Field(
                "opexec",
                "OpCode_exec",
                OTHER,
                "List of opcode execution start timestamps (after acquiring locks)",
                _per_opcode(lambda entry: entry.exec_timestamp),
                shown=TIMES,
            ),
            Field(
                "opend",
                "OpCode_end",
                OTHER,
                "List of opcode execution end timestamps",
                _per_opcode(lambda entry: entry.end_timestamp),
                shown=TIMES,
            ),
            Field(
                "oppriority",
                "OpCode_prio",
                OTHER,
                "List of opcode priorities",
                _per_opcode(lambda entry: entry.priority),
                shown=JOINED,
            ),
            Field(
                "summary",
                "Summary",
                OTHER,
                "List of per-opcode summaries",
                _per_opcode(lambda entry: opcode_summary(entry.input)),
                shown=JOINED,
            ),
            Field(
                "received_ts",
                "Received",
                OTHER,
                "Timestamp of when job was received",
                _job(lambda job: job.received_timestamp),
                shown=TIMES,
            ),
            Field(
                "start_ts", "Start", OTHER, "Timestamp of job start", _job(lambda job: job.start_timestamp), shown=TIMES
            ),
            Field("end_ts", "End", OTHER, "Timestamp of job end", _job(lambda job: job.end_timestamp), shown=TIMES),
            Field(
                "opprogress",
                "OpCode_progress",
                OTHER,
                "How far each opcode's step of known length is: [text, done, total] or nothing",
                _per_opcode(lambda entry: entry.progress),
                hidden=True,
            ),
        ]
    ),
    "Job",
    columns="id status summary",
    program="gnt-job",
)

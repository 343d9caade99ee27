# SPDX-License-Identifier: BSD-2-Clause
"""gnt-job info."""

from __future__ import annotations

from ganeti.cli.commands.listing import job_id
from ganeti.cli.infotext import Ordered, print_info, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

FIELDS = [
    "id",
    "status",
    "ops",
    "opresult",
    "opstatus",
    "oplog",
    "opstart",
    "opexec",
    "opend",
    "received_ts",
    "start_ts",
    "end_ts",
]
_NOT_YET = "N/A"


def info(call: Invocation) -> int:
    """As in 3.1, jobs that nobody has are named among the others, and are no error."""
    ids = list(dict.fromkeys(job_id(word) for word in call.values["jobs"]))
    rows = call.client.call("QueryJobs", ids, FIELDS)
    found: list[Ordered | str] = []
    for asked, row in zip(ids, rows, strict=True):
        if row is None or row[1] is None:
            found.append(f"Job ID {asked} not found")
        else:
            found.append(describe(dict(zip(FIELDS, row, strict=True))))
    print_info(found)
    return 0


def describe(job: dict[str, Any]) -> Ordered:
    """Arrange one job as 3.1 shows it."""
    received, start, end = job["received_ts"], job["start_ts"], job["end_ts"]
    shown = Ordered([("Job ID", job["id"]), ("Status", job["status"])])
    shown.append(("Received", " " * 8 + _moment(received)))
    shown.append(("Processing start", _moment(start) + _since(received, start)))
    shown.append(("Processing end", "  " + _moment(end) + _since(start, end)))
    if received and end:
        shown.append(("Total processing time", f"{_seconds(end) - _seconds(received):.6f} seconds"))
    else:
        shown.append(("Total processing time", _NOT_YET))
    shown.append(("Opcodes", [_opcode(job, index) for index in range(len(job["ops"]))]))
    return shown


def _opcode(job: dict[str, Any], index: int) -> Ordered:
    opcode = job["ops"][index]
    return Ordered(
        [
            ("Opcode", opcode.get("OP_ID")),
            ("Status", job["opstatus"][index]),
            ("Processing start", _moment(job["opstart"][index])),
            ("Execution start", " " + _moment(job["opexec"][index])),
            ("Processing end", "  " + _moment(job["opend"][index])),
            ("Input fields", opcode),
            ("Result", job["opresult"][index]),
            ("Execution log", [_log_entry(entry) for entry in job["oplog"][index]]),
        ]
    )


def _log_entry(entry: list[Any]) -> Ordered:
    serial, moment, kind, content = entry
    return Ordered([("Time", timestamp(moment)), ("Content", (serial, kind, content))])


def _moment(value: Any) -> str:
    return timestamp(value) if value else _NOT_YET


def _seconds(value: list[int]) -> float:
    return value[0] + value[1] / 1e6


def _since(earlier: Any, later: Any) -> str:
    return f" (delta {_seconds(later) - _seconds(earlier):.6f}s)" if earlier and later else ""

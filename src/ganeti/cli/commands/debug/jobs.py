# SPDX-License-Identifier: BSD-2-Clause
"""gnt-debug submit-job."""

from __future__ import annotations

import json
import sys
import time

from ganeti.cli import jobs
from ganeti.cli.failures import Failure, UsageError
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation


def submit_job(call: Invocation) -> int:
    """Submit the files' lists of opcodes and wait for all jobs."""
    op_repeat, job_repeat = call.get("op_repeat"), call.get("job_repeat")
    if op_repeat < 1 or job_repeat < 1:
        raise UsageError("--op-repeat and --job-repeat must be at least 1")
    started = time.monotonic()
    batches = [jobs.Batch(call)]
    count = 0
    for path in call.values["files"]:
        opcodes = read_opcodes(path) * op_repeat
        for _ in range(job_repeat):
            if call.get("each") and count:
                batches.append(jobs.Batch(call))
            batches[-1].add(f"{path}/{count}" if call.get("verbose") else "", opcodes)
            count += 1
    loaded = time.monotonic()
    statuses = [batch.finish() for batch in batches]
    if call.get("timing_stats"):
        out(f"C:op     {len(call.values['files']) * op_repeat * job_repeat:4d}")
        out(f"C:job    {count:4d}")
        out(f"L:load   {loaded - started:8.3f} s")
        out(f"L:run    {time.monotonic() - loaded:8.3f} s")
    return max(statuses)


def read_opcodes(path: str) -> list[dict[str, Any]]:
    """Read a JSON list of opcodes (``-``: standard input); raises `Failure` saying what is wrong with the file."""
    try:
        if path == "-":
            data = json.load(sys.stdin, parse_float=_finite)
        else:
            with open(path, encoding="utf-8") as file:
                data = json.load(file, parse_float=_finite)
    except OSError as error:
        raise Failure(f"Cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise Failure(f"{path} is not JSON: {error}") from None
    if not isinstance(data, list) or not data:
        raise Failure(f"{path} must hold a JSON list of at least one opcode")
    for opcode in data:
        if not isinstance(opcode, dict) or not isinstance(opcode.get("OP_ID"), str):
            raise Failure(f"{path}: every opcode must be an object with the key 'OP_ID'")
    return data


def _finite(text: str) -> float:
    """A number that JSON can carry on."""
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text} is too large")
    return number

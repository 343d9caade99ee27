# SPDX-License-Identifier: BSD-2-Clause
"""Users of the simulated cluster, and what they were told: the ledger against which everything is checked."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.machine import Machine
from ganeti_simulation.system.process import Process

FINAL = ("success", "error", "canceled")
_LUXI = "/run/ganeti/socket/ganeti-query"
_VERSION = 3010000
_POLL_S = 0.5
_PATIENCE_S = 60.0


@dataclass
class AcceptedJob:
    """One job as its submitter knows it."""

    job: int
    purpose: str
    told_s: float
    status: str | None = None
    """The final status, once somebody was told."""
    result: Any = None


@dataclass
class Ledger:
    accepted_jobs: dict[int, AcceptedJob] = field(default_factory=dict)
    told: list[Callable[[AcceptedJob], None]] = field(default_factory=list)

    def accepted(self, job: int, purpose: str, now_s: float) -> AcceptedJob:
        self.accepted_jobs[job] = AcceptedJob(job, purpose, now_s)
        return self.accepted_jobs[job]

    def ended(self, accepted: AcceptedJob, status: str, result: Any) -> None:
        accepted.status = status
        accepted.result = result
        for tell in self.told:
            tell(accepted)


def submit(
    machine: Machine, ledger: Ledger, purpose: str, opcodes: list[dict[str, Any]], *, wait: bool = True
) -> Process:
    """Have a user on *machine* submit one job and, with *wait*, stay until it has ended or the daemon has gone."""

    def program() -> int:
        kernel = Running.kernel
        framing = importlib.import_module("ganeti.wire.framing_sync")
        errors = importlib.import_module("ganeti.base.errors")

        def call(method: str, *arguments: Any) -> Any:
            connection.send({"method": method, "args": list(arguments), "version": _VERSION})
            answer = connection.receive()
            if not answer["success"]:
                raise errors.from_wire(answer["result"])
            return answer["result"]

        try:
            connection = framing.connect(_LUXI, 10.0)
            job = call("SubmitJob", opcodes)
        except (errors.GanetiError, OSError) as err:
            kernel.tell("user", f"{purpose}: not accepted: {err}")
            return 1
        known = ledger.accepted_jobs.get(job)
        if known is not None:
            kernel.faults.append(("user", f"job {job} was given to '{known.purpose}' and again to '{purpose}'", None))
            return 1
        accepted = ledger.accepted(job, purpose, kernel.now_s)
        kernel.tell("user", f"{purpose}: accepted as job {job}")
        return _await(call, kernel, ledger, accepted, errors) if wait else 0

    return machine.start("user", program)


def _await(call: Any, kernel: Any, ledger: Ledger, accepted: AcceptedJob, errors: Any) -> int:
    until_s = kernel.now_s + _PATIENCE_S
    try:
        while kernel.now_s < until_s:
            row = call("QueryJobs", [accepted.job], ["status", "opresult"])[0]
            if row is not None and row[0] in FINAL:
                reason = f": {_reason(row[1])}" if row[0] == "error" else ""
                kernel.tell("user", f"{accepted.purpose}: job {accepted.job} ended with {row[0]}{reason}")
                ledger.ended(accepted, row[0], row[1])
                return 0
            kernel.sleep(_POLL_S)
    except (errors.GanetiError, OSError) as err:
        kernel.tell("user", f"{accepted.purpose}: job {accepted.job} cannot be followed: {err}")
    return 1


def _reason(results: list[Any]) -> str:
    """What the first opcode that failed says, of those of a job."""
    for result in results:
        if isinstance(result, list) and len(result) == 2 and isinstance(result[1], list):
            return " ".join(map(str, result[1]))
    return "no reason is given"


def look_up(machine: Machine, jobs: list[int], found: dict[int, tuple[str, Any]]) -> Process:
    """Have somebody ask the daemon on *machine* for the status of *jobs*."""

    def program() -> int:
        framing = importlib.import_module("ganeti.wire.framing_sync")
        connection = framing.connect(_LUXI, 10.0)
        connection.send({"method": "QueryJobs", "args": [jobs, ["status", "opresult"]], "version": _VERSION})
        answer = connection.receive()
        if not answer["success"]:
            return 1
        for job, row in zip(jobs, answer["result"], strict=True):
            if row is not None:
                found[job] = (row[0], row[1])
        return 0

    return machine.start("user", program)

# SPDX-License-Identifier: BSD-2-Clause
"""Submitting opcodes and waiting for them, with the words of 3.1."""

from __future__ import annotations

import time

from ganeti.cli.failures import Failure, ServerError, from_wire
from ganeti.cli.invocation import err, out
from ganeti.cli.luxi import Client, Disconnected, LostAnswer
from ganeti.cli.progress import LogPrinter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ganeti.cli.invocation import Invocation

    Opcode = dict[str, Any]

PRIORITIES = {"low": 10, "normal": 0, "high": -10}
FINAL = ("success", "error", "canceled")
_FIRST_WAIT_S = 5
_WAIT_S = 60
_RECONNECT_S = 60
_TELL_AFTER_S = 3
_RETRY_S = 0.2
_STANDING = {
    "queued": "Job {} is waiting in queue",
    "waiting": "Job {} is trying to acquire all necessary locks",
}
_CANCELED_BY_A_USER = "Job canceled by request"


class _Submitted:
    """Stands for the result of a job nobody waits for."""


SUBMITTED = _Submitted()


def prepare(call: Invocation, opcode: Opcode) -> Opcode:
    """Add to an opcode what every command sends: its reason trail, priority, and what was asked of all jobs."""
    full = {key: value for key, value in opcode.items() if value is not None}
    full["reason"] = reason_trail(call)
    if call.get("dry_run"):
        full["dry_run"] = True
    if call.get("priority") is not None:
        full["priority"] = PRIORITIES[call.get("priority")]
    if call.get("debug"):
        full["debug_level"] = call.get("debug")
    return full


def reason_trail(call: Invocation) -> list[list[Any]]:
    """Who asked and why, as entries of source, text and time in nanoseconds."""
    now_ns = time.time_ns()
    trail: list[list[Any]] = []
    if call.get("reason"):
        trail.append(["gnt:user", call.get("reason"), now_ns])
    trail.append([f"gnt:client:{call.command.program}", call.command.name, now_ns])
    return trail


def submit_or_wait(call: Invocation, *opcodes: Opcode) -> Any:
    """Submit one job, of one opcode as a rule; give the result of the last, or `SUBMITTED` with ``--submit``.

    ``--submit`` says the id on standard error, as 3.1 does. `SUBMITTED` is given with ``--dry-run``, too, when the
    check has ended well: what is only checked has no result. With ``--plan`` nothing is submitted: what it would do is
    printed.
    """
    if call.get("plan"):
        _plan(call, opcodes)
        return SUBMITTED
    job_id = _submit(call.client, "SubmitJob", [prepare(call, opcode) for opcode in opcodes])
    if call.get("print_jobid"):
        out(str(job_id))
    if call.get("submit"):
        if not call.get("print_jobid"):
            err(f"JobID: {job_id}")
        return SUBMITTED
    result = wait(call.client, job_id)[-1]
    return SUBMITTED if call.get("dry_run") else result


def _plan(call: Invocation, opcodes: Iterable[Opcode]) -> None:
    """Have each operation planned by the master, and print what it would do."""
    from ganeti.cli.plans import lines

    for opcode in opcodes:
        planned = {key: value for key, value in opcode.items() if key != "reason" and value is not None}
        for line in lines(ask(call, {"OP_ID": "OP_PLAN", "operation": planned})):
            out(line)


def run(call: Invocation, opcode: Opcode) -> int:
    """Submit one opcode, wait, and wait for the jobs it made; gives the exit status."""
    result = submit_or_wait(call, opcode)
    return 0 if result is SUBMITTED else follow_result(call, result)


def ask(call: Invocation, opcode: Opcode, log: list[Any] | None = None) -> Any:
    """Run an opcode that only reads, without the options of jobs; its log is not shown, but put into *log*."""
    full = prepare(call, opcode)
    if "dry_run" not in opcode:
        full.pop("dry_run", None)  # it changes nothing anyhow, and is asked for its result
    job_id = _submit(call.client, "SubmitJob", [full])
    return wait(call.client, job_id, silent=True, log=log)[0]


def _submit(client: Client, method: str, jobs: Sequence[Any]) -> Any:
    """Submit once only: nobody knows what became of jobs whose answer is lost, but the queue itself."""
    try:
        return client.call(method, jobs)
    except LostAnswer as lost:
        raise Failure(f"{lost.text}; 'gnt-job list' shows whether what was asked for has become a job") from None


def follow_result(call: Invocation, result: Any) -> int:
    """Wait for the jobs that an opcode's result names (`{"jobs": [[ok, id], …]}`); other results need nothing."""
    if not isinstance(result, dict) or not isinstance(result.get("jobs"), list):
        return 0
    batch = Batch(call)
    for ok, job in result["jobs"]:
        batch.adopt(bool(ok), job)
    return batch.finish()


def move(call: Invocation, opcode: Opcode, deed: str, done: str) -> int:
    """Submit an opcode whose jobs move instances, wait for them and say so: *deed* the migration, *done* migrated."""
    result = submit_or_wait(call, opcode)
    if result is SUBMITTED:
        return 0
    status = follow_result(call, result)
    if status:
        err(f"There were errors during the {deed}.")
    else:
        out(f"All instances {done} successfully.")
    return status


def wait(
    client: Client, job_id: Any, *, silent: bool = False, others: Sequence[Any] = (), log: list[Any] | None = None
) -> list[Any]:
    """Wait for the end of a job, showing its log unless *silent*; give its opcodes' results or raise what failed.

    *others* are jobs that come after it: an interrupt leaves them, too. *log* gets the entries of the log.
    """
    printer = None if silent else LogPrinter()
    try:
        _follow(client, job_id, printer, log)
    except KeyboardInterrupt:
        raise Failure(_left_behind([job_id, *others])) from None
    finally:
        if printer is not None:
            printer.finish()
    rows = _patient_call(client, job_id, silent, "QueryJobs", [job_id], ["status", "opstatus", "opresult"])
    return results_of(job_id, rows[0] if rows else None)


def _left_behind(job_ids: Sequence[Any]) -> str:
    """What somebody who stops waiting must know: nothing else has stopped."""
    every = " ".join(str(job_id) for job_id in job_ids)
    end = f"'gnt-job cancel {every}'"
    if len(job_ids) > 1:
        return f"Interrupted; {len(job_ids)} jobs go on: see 'gnt-job list {every}', end them with {end}"
    return f"Interrupted; job {every} goes on: follow it with 'gnt-job watch {every}', end it with {end}"


def _follow(client: Client, job_id: Any, printer: LogPrinter | None, log: list[Any] | None = None) -> None:
    """Read changes until the job has ended; a restart of the master daemon in between does no harm."""
    serial: int | None = None
    timeout_s, told = _FIRST_WAIT_S, ""
    fields = ["status", "opprogress"] if printer is not None and printer.wants_progress else ["status"]
    seen: Any = ["queued"] if len(fields) == 1 else None  # nobody need be told what a job is at first
    while True:
        answer = _patient_call(
            client, job_id, printer is None, "WaitForJobChange", job_id, fields, seen, serial, timeout_s
        )
        values, entries = answer if isinstance(answer, list) else (seen, [])
        for entry in entries or []:
            serial = max(serial or 0, entry[0])
            if log is not None:
                log.append(entry)
            if printer is not None:
                printer.show(entry)
        if printer is not None and values and len(values) > 1:
            printer.show_progress(values[1])
        status = values[0] if values else None
        if status in FINAL or status is None:
            return
        if values == seen and not entries:
            if printer is not None and status in _STANDING and told != status:
                err(_STANDING[status].format(job_id))
                if not told:
                    err(f"'gnt-job why {job_id}' says what for")
                told = status
            timeout_s = _WAIT_S
        seen = values


def _patient_call(client: Client, job_id: Any, silent: bool, method: str, *arguments: Any) -> Any:
    """Ask about a job; while the master daemon restarts, try again for a minute, and say so unless *silent*."""
    since_s: float | None = None
    told = silent
    while True:
        try:
            return client.call(method, *arguments)
        except Disconnected as away:
            now_s = time.monotonic()
            since_s = now_s if since_s is None else since_s
            if now_s - since_s > _RECONNECT_S:
                later = f"job {job_id} is not lost: follow it with 'gnt-job watch {job_id}' then"
                raise Failure(f"{away.text}; {later}") from None
            if not told and now_s - since_s > _TELL_AFTER_S:
                err(f"The master daemon is away; job {job_id} is not lost: its end is printed when the daemon is back")
                told = True
            time.sleep(_RETRY_S)


def results_of(job_id: Any, row: Any) -> list[Any]:
    """Give the results of a finished job, or raise why it failed."""
    if not row or row[0] is None:
        raise ServerError("JobLost", [f"Job with id {job_id} lost"])
    status, op_statuses, op_results = row
    if status == "success":
        return list(op_results)
    if status in ("canceled", "canceling"):
        raise ServerError("JobCanceled", [f"Job {job_id} was canceled{_why_canceled(op_statuses, op_results)}"])
    done = False
    for index, (op_status, result) in enumerate(zip(op_statuses, op_results, strict=False)):
        if op_status == "success":
            done = True
        elif op_status == "error":
            if done:
                raise ServerError("OpExecError", [f"partial failure (opcode {index}): {_brief(result)}"])
            raise from_wire(result)
    raise ServerError("OpExecError", [f"Job {job_id} ended with status {status}: see 'gnt-job info {job_id}'"])


def _why_canceled(op_statuses: Sequence[str], op_results: Sequence[Any]) -> str:
    """What the first opcode that was canceled says about it; nothing if it was just what somebody asked for."""
    for op_status, result in zip(op_statuses, op_results, strict=False):
        if op_status == "canceled" and result is not None:
            said = _brief(result)
            return "" if said == _CANCELED_BY_A_USER else f": {said}"
    return ""


def _brief(result: Any) -> str:
    """The sentence of a failure, without its class."""
    error = from_wire(result)
    if error.name == "HooksAbort":
        return error.text.partition("\n")[2].strip()
    details = error.details[:1] if error.name == "OpPrereqError" else error.details
    return ", ".join(str(detail) for detail in details)


class Batch:
    """Several jobs submitted together and waited for in order (the executor of 3.1)."""

    def __init__(self, call: Invocation) -> None:
        self._call = call
        self._pending: list[tuple[str, Sequence[Opcode]]] = []
        self._jobs: list[tuple[bool, Any, str]] = []
        self.results: list[tuple[bool, Any]] = []
        """(success, first result or error text) in the order of the jobs, after `finish`."""

    def add(self, name: str, opcodes: Iterable[Opcode]) -> None:
        """Put a job into the batch; *name* says what it is for."""
        self._pending.append((name, [prepare(self._call, opcode) for opcode in opcodes]))

    def adopt(self, ok: bool, job: Any, name: str = "") -> None:
        """Take in a job that something else has submitted, or failed to."""
        self._jobs.append((ok, job, name))

    def finish(self, *, quiet_submission: bool = False) -> int:
        """Submit what is pending and wait for all, or, with ``--submit``, name the ids; gives the exit status."""
        if self._call.get("plan"):
            _plan(self._call, [opcode for _, opcodes in self._pending for opcode in opcodes])
            return 0
        self._submit_pending()
        if self._call.get("submit"):
            return self._name_all()
        submitted = [str(job) for ok, job, _ in self._jobs if ok]
        if submitted and not quiet_submission:
            out(f"Submitted jobs {', '.join(submitted)}")
        for index, (ok, job, name) in enumerate(self._jobs):
            later = [other for submitted_too, other, _ in self._jobs[index + 1 :] if submitted_too]
            self.results.append(self._finish_one(ok, job, name, later))
        return 0 if all(ok and result is not False for ok, result in self.results) else 1

    def _submit_pending(self) -> None:
        if not self._pending:
            return
        answers = _submit(self._call.client, "SubmitManyJobs", [opcodes for _, opcodes in self._pending])
        for (name, _), (ok, job) in zip(self._pending, answers, strict=True):
            self._jobs.append((bool(ok), job, name))
            if ok and self._call.get("print_jobid"):
                out(str(job))
        self._pending = []

    def _name_all(self) -> int:
        for ok, job, name in self._jobs:
            if not ok:
                err(f"Failure for {name}: {job}")
            elif not self._call.get("print_jobid"):
                out(f"{job}: {name}")
        return 0 if all(ok for ok, _, _ in self._jobs) else 1

    def _finish_one(self, ok: bool, job: Any, name: str, later: Sequence[Any]) -> tuple[bool, Any]:
        for_name = f" for {name}" if name else ""
        if not ok:
            err(f"Failed to submit job{for_name}: {job}")
            return False, job
        out(f"Waiting for job {job}{for_name} ...")
        try:
            return True, wait(self._call.client, job, others=later)[0]
        except ServerError as error:
            err(f"Job {job}{for_name} has failed: {error.text}")
            return False, error.text

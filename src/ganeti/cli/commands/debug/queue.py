# SPDX-License-Identifier: BSD-2-Clause
"""gnt-debug test-jobqueue: jobs that log, fail and wait, and whether the queue tells of them what happened."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.failures import Failure, ServerError
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_HOLD_S = 2.0
_MANY = [f"message {number}" for number in range(100)]


def test(call: Invocation) -> int:
    """Run each check; the first that finds a fault ends the test with its sentence."""
    for title, check in (
        ("Log messages come once and in order", _messages),
        ("A failed job ends with its error, and what comes after is not run", _failure),
        ("A job waits for the lock that another one holds", _lock),
    ):
        out(f"{title} ...")
        check(call)
    out("The job queue works")
    return 0


def _messages(call: Invocation) -> None:
    log: list[Any] = []
    job_id = _submit(call, [{"notify_waitlock": True, "notify_exec": True, "log_messages": _MANY}])
    results = jobs.wait(call.client, job_id, silent=True, log=log)
    _expect(job_id, "result", results, [True])
    _expect(job_id, "messages", _texts(log), ["waitlock", "exec", *_MANY])
    serials = [entry[0] for entry in log]
    _expect(job_id, "serial numbers", serials, sorted(set(serials)))


def _failure(call: Invocation) -> None:
    job_id = _submit(call, [{"log_messages": ["first"]}, {"fail": True}, {"log_messages": ["never"]}])
    log: list[Any] = []
    try:
        jobs.wait(call.client, job_id, silent=True, log=log)
    except ServerError:
        pass
    else:
        raise Failure(f"Job {job_id} ended well, but was asked to fail: see 'gnt-job info {job_id}'")
    [[status, of_opcodes]] = call.client.call("QueryJobs", [job_id], ["status", "opstatus"])
    _expect(job_id, "status", [status, *of_opcodes], ["error", "success", "error", "error"])
    _expect(job_id, "messages", _texts(log), ["first"])


def _lock(call: Invocation) -> None:
    info = call.client.call("QueryClusterInfo")
    hold = {"OP_ID": "OP_TEST_DELAY", "duration": _HOLD_S, "on_nodes": [info["master"]], "no_locks": False}
    first = call.client.call("SubmitJob", [jobs.prepare(call, hold)])
    second = _submit(call, [{"log_messages": ["second"]}])
    jobs.wait(call.client, second, silent=True)
    [[status, ends], [_, starts]] = [
        call.client.call("QueryJobs", [job], ["status", field])[0]
        for job, field in ((first, "opend"), (second, "opexec"))
    ]
    _expect(first, "status", status, "success")
    if starts[0] < ends[0]:
        raise Failure(f"Job {second} ran while job {first} held its lock: see 'gnt-job info {first} {second}'")


def _submit(call: Invocation, opcodes: list[dict[str, Any]]) -> Any:
    """Submit one job of these opcodes of the command."""
    return call.client.call(
        "SubmitJob", [jobs.prepare(call, {"OP_ID": call.command.op_id, **opcode}) for opcode in opcodes]
    )


def _texts(log: list[Any]) -> list[str]:
    return [str(content).partition(" ")[2] for _, _, _, content in log if str(content).startswith("TESTMSG ")]


def _expect(job_id: Any, what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise Failure(f"The {what} of job {job_id} should be {wanted}, but the queue says {found}")

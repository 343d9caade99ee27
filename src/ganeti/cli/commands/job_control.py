# SPDX-License-Identifier: BSD-2-Clause
"""gnt-job watch, wait, archive and cancel."""

from __future__ import annotations

from ganeti.cli import confirm, jobs
from ganeti.cli.commands.listing import JOB_STATES, job_id
from ganeti.cli.failures import EXIT_CONFIRMATION, Failure, ServerError, UsageError
from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


def watch(call: Invocation) -> int:
    number = job_id(call.values["job"])
    _require(call, number)
    title = f"Output from job {number} follows"
    out(title)
    out("-" * len(title))
    try:
        jobs.wait(call.client, number)
    except ServerError as error:
        err(f"Job {number} failed: {error.text}")
        return 1
    return 0


def wait(call: Invocation) -> int:
    number = job_id(call.values["job"])
    _require(call, number)
    try:
        jobs.wait(call.client, number, silent=True)
    except ServerError:
        return 1
    return 0


def _require(call: Invocation, number: int) -> None:
    rows = call.client.call("QueryJobs", [number], ["status"])
    if not rows or rows[0] is None or rows[0][0] is None:
        raise Failure(f"Job ID {number} not found")


def archive(call: Invocation) -> int:
    status = 0
    for number in [job_id(word) for word in call.values["jobs"]]:
        if not call.client.call("ArchiveJob", number):
            err(f"Failed to archive job with ID '{number}': there is no such job, or it has not ended")
            status = 1
    return status


def cancel(call: Invocation) -> int:
    """Cancel the jobs named, or all in a state; killing a running job must be confirmed by an option."""
    kill = bool(call.get("kill"))
    if kill and not call.get("yes_do_it"):
        raise UsageError("--kill ends a job in the middle of its work: confirm it with --yes-do-it", 1)
    selector, words = call.get("selector"), call.get("jobs", [])
    if bool(selector) == bool(words):
        raise UsageError("gnt-job cancel takes either job ids or one of --pending, --queued, --waiting", 1)
    numbers = [job_id(word) for word in words]
    if selector:
        numbers = _in_state(call, selector)
        if not numbers:
            out("No jobs to cancel.")
            return 0
        if not call.get("assume_yes"):
            question = confirm.listing("jobs", [str(number) for number in numbers], "cancellation")
            confirm.require(question, "give -f to go on without the question.", EXIT_CONFIRMATION)
    status = 0
    for number in numbers:
        ok, message = call.client.call("CancelJob", number, kill)
        if ok:
            out(message)
        else:
            err(message)
            status = 1
    return status


def _in_state(call: Invocation, selector: str) -> list[int]:
    condition = ["|", *(["==", "status", state] for state in JOB_STATES[selector])]
    return [row[0][1] for row in call.client.call("Query", "job", ["id"], condition)["data"]]

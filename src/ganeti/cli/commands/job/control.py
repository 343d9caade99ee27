# SPDX-License-Identifier: BSD-2-Clause
"""gnt-job watch, wait, archive, autoarchive, cancel and change-priority."""

from __future__ import annotations

from ganeti.cli import confirm, jobs
from ganeti.cli.commands.listing import JOB_STATES, job_id
from ganeti.cli.failures import EXIT_CONFIRMATION, EXIT_USAGE, Failure, ServerError, UsageError
from ganeti.cli.invocation import err, out
from ganeti.cli.values import read_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ganeti.cli.invocation import Invocation

WRONG_STATE = "wrong_state"
PRIORITY_RANGE = range(-20, 20)
EVERY_AGE = -1
_RUNS = "Job no longer waiting"
"""How the answer about a job begins that could not be cancelled, as it has begun to act."""
_NOT_THERE = "not found in queue"
"""How it ends about a job that does not exist, or has ended."""
_AGE_LETTERS = 12
_ARCHIVE_S = 30
"""How long one call may look at jobs."""


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
            why = "there is no such job, it has not ended, or it is archived already"
            err(f"Failed to archive job with ID '{number}': {why}")
            status = 1
    return status


def auto_archive(call: Invocation) -> int:
    """Archive by age; the daemon stops looking after a while, and says how many it has not looked at."""
    word = call.values["age"]
    if len(word) > _AGE_LETTERS:
        raise UsageError(f"age: '{word[:_AGE_LETTERS]}…' is longer than any job is old")
    age_s = EVERY_AGE if word == "all" else read_duration("age", word)
    archived, left = call.client.call("AutoArchiveJobs", age_s, _ARCHIVE_S)
    out(f"Archived {archived} jobs, {left} unchecked left")
    return 0


def cancel(call: Invocation) -> int:
    """Cancel the jobs named, or all in a state; killing a running job must be confirmed by an option."""
    kill = bool(call.get("kill"))
    if kill and not call.get("yes_do_it"):
        raise UsageError("--kill ends a job in the middle of its work: confirm it with --yes-do-it", 1)
    return _each_chosen(call, "cancellation", lambda job: ("CancelJob", job, kill))


def change_priority(call: Invocation) -> int:
    """Give what the jobs named, or all in a state, have not done yet another priority."""
    if call.get("priority") is None:
        raise UsageError("gnt-job change-priority needs --priority with low, normal, high or a number", 1)
    priority = read_priority(call.get("priority"))
    return _each_chosen(call, "priority change", lambda job: ("ChangeJobPriority", job, priority))


def read_priority(text: str) -> int:
    """Read a word or a number from -20 to 19; raises `UsageError`."""
    if text in jobs.PRIORITIES:
        return jobs.PRIORITIES[text]
    digits = text.removeprefix("-")
    if len(digits) <= 2 and digits.isascii() and digits.isdecimal() and int(text) in PRIORITY_RANGE:
        return int(text)
    words = ", ".join(jobs.PRIORITIES)
    raise UsageError(
        f"--priority: '{text}' is not possible: use {words} or a number from -20 (first) to 19 (last)", EXIT_USAGE
    )


def _each_chosen(call: Invocation, verb: str, request: Callable[[int], tuple[Any, ...]]) -> int:
    """Make a call for each job named, or, after a question, for each in a state; gives the exit status."""
    selector, words = call.get("selector"), call.get("jobs", [])
    if bool(selector) == bool(words):
        line = call.command.line
        raise UsageError(f"{line} takes either job ids or one of --pending, --queued, --waiting", 1)
    numbers = [job_id(word) for word in words]
    if selector:
        numbers = _in_state(call, selector)
        if not numbers:
            raise ServerError("OpPrereqError", ["No jobs with the requested status have been found", WRONG_STATE])
        if not call.get("assume_yes"):
            question = confirm.listing("jobs", [str(number) for number in numbers], verb)
            confirm.require(question, "give -f to go on without the question.", EXIT_CONFIRMATION)
    status = 0
    for number in numbers:
        ok, message = call.client.call(*request(number))
        out(message)
        if not ok:
            for hint in _hints(call, number, message):
                err(hint)
            status = 1
    return status


def _hints(call: Invocation, number: int, message: str) -> list[str]:
    """What the sentences of 3.1 leave open about a job that nothing was done to."""
    if message.startswith(_RUNS):
        kill = f"gnt-job cancel --kill --yes-do-it {number}"
        return [f"Job {number} goes no further than to the end of its current opcode; '{kill}' ends it at once"]
    if message.endswith(_NOT_THERE):
        rows = call.client.call("QueryJobs", [number], ["status"])
        if rows and rows[0] and rows[0][0] in jobs.FINAL:
            return [f"Job {number} has ended: {rows[0][0]}"]
    return []


def _in_state(call: Invocation, selector: str) -> list[int]:
    condition = ["|", *(["==", "status", state] for state in JOB_STATES[selector])]
    return [row[0][1] for row in call.client.call("Query", "job", ["id"], condition)["data"]]

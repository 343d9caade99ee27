# SPDX-License-Identifier: BSD-2-Clause
"""Carrying out a plan: sets of jobs are submitted one after the other, each when the one before has ended (htools, 5).

An administrator stops a plan between two sets, by Ctrl-C or the file the scripts of ``-C`` look for. The jobs
themselves belong to the master daemon: whatever becomes of the tool, they run on.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from ganeti.base.errors import TransportError
from ganeti.base.version import RELEASE
from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.programs import commands
from ganeti.tools.htools.programs.commands import STOP_FILE as STOP_FILE
from ganeti.tools.htools.programs.session import Session
from ganeti.wire.job_file import FINAL_STATUSES, SUCCESS

if TYPE_CHECKING:
    from ganeti.placement.balance.steps import Step
    from ganeti.placement.kernel.state import ClusterState

EXIT_TERMINATED = 2
PRIORITIES = {"low": 10, "normal": 0, "high": -10}
_FIRST_POLL_S, _LONGEST_POLL_S = 0.5, 15.0
GONE = "gone"

Opcode = dict[str, Any]
Job = Sequence[Opcode]


@dataclass(frozen=True)
class JobSet:
    """Jobs that may run at the same time, and the words for what they are about."""

    title: str
    jobs: Sequence[Job]


def job_set(state: "ClusterState", steps: "Sequence[Step]", deed: str = "Executing jobset for instances") -> JobSet:
    """Steps of a plan that may be carried out side by side, a job each."""
    names = ",".join(state.instances[step.instance].name for step in steps)
    return JobSet(f"{deed} {names}", [commands.opcodes(state, step) for step in steps])


@dataclass(frozen=True)
class Origin:
    """Who submits jobs and why: every opcode tells it, in its comment and in its trail of reasons.

    *purpose* is the comment up to the program's name, or up to its version if *named* is false; *priority* is one of
    `PRIORITIES`, None for the normal one.
    """

    tool: str
    purpose: str
    reason: str | None = None
    priority: str | None = None
    named: bool = True

    def told_by(self, opcode: Opcode, now_ns: int) -> Opcode:
        """The opcode with comment, trail and priority."""
        version = f"(ganeti) version {RELEASE}"
        program = f"{self.tool} {version}"
        reason = f"{program} called" if self.reason is None else self.reason
        return {
            **opcode,
            "priority": PRIORITIES[self.priority or "normal"],
            "comment": f"{self.purpose} {program if self.named else version}",
            "reason": [[self.tool, reason, now_ns]],
        }


class Refusal(ToolError):
    """The master daemon does not take a job, as *why* says, and never would: it knows no such opcode or parameter."""

    def __init__(self, sentence: str, why: str) -> None:
        super().__init__(sentence)
        self.why = why


def submit(session: Session, jobs: Sequence[Job], origin: Origin) -> list[int]:
    """Submit *jobs* in one call; gives their numbers. Raises `Refusal` if one of them is refused."""
    now_ns = time.time_ns()
    told = [[origin.told_by(opcode, now_ns) for opcode in job] for job in jobs]
    answers = _pairs(session.call("SubmitManyJobs", told))
    refusals = [str(answer) for accepted, answer in answers if not accepted]
    numbers = [number for accepted, number in answers if accepted]
    if refusals:
        others = f"; submitted were: {_joined(numbers)}" if numbers else ""
        raise Refusal(f"{origin.tool}: The master daemon refused a job: {refusals[0]}{others}", refusals[0])
    return numbers


def wait(session: Session, numbers: Sequence[int]) -> dict[int, str]:
    """Wait until jobs have ended; gives how. A job that is not there any more counts as `GONE`."""
    pause_s = _FIRST_POLL_S
    while True:
        found = statuses(session, numbers)
        if all(status in FINAL_STATUSES or status == GONE for status in found):
            return dict(zip(numbers, found, strict=True))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_POLL_S)


def statuses(session: Session, numbers: Sequence[int]) -> list[str]:
    """How jobs stand now; `GONE` for one that is not there any more."""
    if not numbers:
        return []
    rows = _rows(session.ask("QueryJobs", list(numbers), ["status"]), len(numbers))
    return [GONE if status is None else str(status) for (status,) in rows]


class _Stop:
    """Whether the administrator wants the plan to end."""

    def __init__(self) -> None:
        self.by_signal = False

    def interrupted(self, _number: int, _frame: FrameType | None) -> None:
        self.by_signal = True
        # The handler may run while the same stream is written to, which buffered writing does not allow.
        os.write(1, b"Cancel request registered, will exit at the end of the current job set...\n")

    def terminated(self, _number: int, _frame: FrameType | None) -> None:
        os._exit(EXIT_TERMINATED)


@contextmanager
def _watching_for_signals() -> Iterator[_Stop]:
    """While the block runs, SIGINT asks for an end after the current set, and SIGTERM ends the program at once."""
    stop = _Stop()
    wanted = {signal.SIGINT: stop.interrupted, signal.SIGTERM: stop.terminated}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def execute(path: str, sets: Sequence[JobSet], origin: Origin) -> None:
    """Submit the *sets* to the master daemon at *path*, each after the one before; says which jobs there are.

    Raises `ToolError` if a job fails: later sets build on what it should have done, so they are not submitted.
    Raises `TransportError` if the master daemon does not answer.
    """
    sys.stdout.flush()  # a signal ends the program without
    with _watching_for_signals() as stop, Session(path) as session:
        for done, chosen in enumerate(sets):
            if stop.by_signal or _stop_file_is_there():
                _say(_early_end(sets, done))
                return
            numbers = submit(session, chosen.jobs, origin)
            _say(f"Got job IDs {_joined(numbers)}")
            _check(session, wait(session, numbers), origin.tool)


def _check(session: Session, ended: dict[int, str], tool: str) -> None:
    failed = [number for number, status in ended.items() if status != SUCCESS]
    if failed:
        told = ", ".join(_failure(session, number, ended[number]) for number in failed)
        raise ToolError(f"{tool}: Not all jobs completed successfully: {told}\nAborting.")


def _failure(session: Session, number: int, status: str) -> str:
    """A failed job with the sentence of the opcode that failed, if it left one."""
    sentence = ""
    ((results,),) = _rows(session.ask("QueryJobs", [number], ["opresult"]), 1)
    if isinstance(results, list):
        sentence = next((found for found in map(_sentence, results) if found), "")
    return f"job {number} ({status}{': ' if sentence else ''}{sentence})"


def _sentence(result: Any) -> str:
    """What an opcode's result says of a failure: the wire form is the class of the error and what it was given."""
    match result:
        case [str(), [str(sentence), *_]]:
            return sentence
    return ""


def _early_end(sets: Sequence[JobSet], done: int) -> str:
    words = "user request" if not _stop_file_is_there() else f"the file {STOP_FILE}"
    return "\n".join(
        (
            f"Exiting early due to {words},",
            f"{done} jobset(s) submitted:",
            *(f"  {each.title}" for each in sets[:done]),
            f"{len(sets) - done} jobset(s) not submitted:",
            *(f"  {each.title}" for each in sets[done:]),
        )
    )


def _stop_file_is_there() -> bool:
    return os.path.exists(STOP_FILE)


def _pairs(answer: Any) -> list[tuple[bool, Any]]:
    """What became of each job that was submitted; raises `TransportError` for anything else."""
    try:
        return [(bool(accepted), result if not accepted else int(result)) for accepted, result in answer]
    except (TypeError, ValueError):
        raise TransportError("The master daemon's answer about new jobs cannot be understood") from None


def _rows(answer: Any, count: int) -> list[list[Any]]:
    """Rows of one field about as many jobs; raises `TransportError` for anything else."""
    if isinstance(answer, list) and len(answer) == count:
        return [row if isinstance(row, list) and len(row) == 1 else [None] for row in answer]
    raise TransportError("The master daemon's answer about jobs cannot be understood")


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _say(line: str) -> None:
    print(line)
    sys.stdout.flush()  # a user who stops the program wants to know which jobs run on

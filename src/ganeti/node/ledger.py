# SPDX-License-Identifier: BSD-2-Clause
"""Which calls a node still carries out, and the answers it has given (D5). A pure machine.

Invariant: a call that changes the node runs only if its epoch is the highest seen, its attempt has not been superseded,
and its number (job, attempt, step) has not been answered. `admit` says which of these holds; its caller makes
`fences` durable before a call that raised them begins, and answers durable before they are sent.
"""

from dataclasses import dataclass

from ganeti.base.errors import NodeCallError, ParameterError
from ganeti.node.promises import Promise

KEPT_ANSWERS = 512
KEPT_ANSWER_BYTES = 8 * 1024 * 1024
KEPT_JOBS = 4096

Number = tuple[int, int, int]
"""(job, attempt, step)."""


@dataclass(frozen=True)
class Answer:
    """What was answered to a numbered call; *digest* tells its arguments."""

    call: str
    digest: str
    body: bytes


@dataclass(frozen=True)
class Fences:
    """What must survive a restart: the promised epoch, and for each job the lowest attempt still served."""

    promise: Promise
    attempts: dict[int, int]


class CallLedger:
    def __init__(self, fences: Fences | None = None) -> None:
        self.promise = fences.promise if fences else Promise()
        self._attempts = dict(fences.attempts) if fences else {}
        self._answers: dict[Number, Answer] = {}
        self._bytes = 0

    @property
    def fences(self) -> Fences:
        return self.fences_with(self.promise)

    def fences_with(self, promise: Promise) -> Fences:
        """What must be on disk before *promise* may be told."""
        return Fences(promise, dict(self._attempts))

    @property
    def answers(self) -> dict[Number, Answer]:
        return dict(self._answers)

    def admit(self, epoch: int, number: Number) -> bool:
        """Let a changing call in; raises `NodeCallError` for one that comes too late.

        Gives whether `fences` have changed. Job 0 stands for the daemons of the master, which have no attempts.
        """
        job, attempt, _ = number
        promise = self.promise.admit_call(epoch)
        if promise is None:
            raise NodeCallError(
                f"The call comes from epoch {epoch}, which is over: another master has begun epoch {self.promise.epoch}"
            )
        lowest = self._attempts.get(job, 0)
        if job and attempt < lowest:
            raise NodeCallError(f"Attempt {attempt} of job {job} has been superseded by attempt {lowest}")
        raised = promise != self.promise
        self.promise = promise
        if job and attempt > max(lowest, 1):
            self._raise_attempt(job, attempt)
            raised = True
        return raised

    def supersede(self, job: int, attempt: int) -> bool:
        """Serve no attempt up to *attempt* of *job* any more; gives whether `fences` have changed."""
        if attempt < self._attempts.get(job, 0):
            return False
        self._raise_attempt(job, attempt + 1)
        return True

    def answered(self, number: Number, call: str, digest: str) -> bytes | None:
        """Give the answer to a repeated call; raises `ParameterError` if the number was another call's."""
        known = self._answers.get(number)
        if known is None:
            return None
        if (known.call, known.digest) != (call, digest):
            raise ParameterError(
                f"Step {number[2]} of job {number[0]} was the call {known.call} with other arguments: a number stands "
                "for one call"
            )
        return known.body

    def keep(self, number: Number, answer: Answer) -> None:
        """Remember an answer; the oldest go when there are too many."""
        previous = self._answers.pop(number, None)
        self._bytes += len(answer.body) - (len(previous.body) if previous else 0)
        self._answers[number] = answer
        while len(self._answers) > KEPT_ANSWERS or (self._bytes > KEPT_ANSWER_BYTES and len(self._answers) > 1):
            oldest = next(iter(self._answers))
            self._bytes -= len(self._answers.pop(oldest).body)

    def _raise_attempt(self, job: int, attempt: int) -> None:
        self._attempts.pop(job, None)
        self._attempts[job] = attempt
        while len(self._attempts) > KEPT_JOBS:
            del self._attempts[next(iter(self._attempts))]

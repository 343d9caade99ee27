# SPDX-License-Identifier: BSD-2-Clause
"""The steps of jobs that were commits, and their answers (D5).

A job that lost the connection repeats its step and must get the first answer; a successor that unwinds a dead job
asks for its last commit that settled. An attempt that has a successor commits nothing any more.
"""

from collections.abc import Iterable

from ganeti.base.errors import LockError
from ganeti.master.config.records import StepAnswer

_ANSWERS_KEPT = 64
"""A job sends one commit after the other, so only the newest can be repeated; some more for parallel ones."""


class Steps:
    """All remembered steps, by job."""

    def __init__(self, answers: Iterable[StepAnswer] = ()) -> None:
        self._by_job: dict[int, dict[tuple[int, int], StepAnswer]] = {}
        self._newest_attempt: dict[int, int] = {}
        for answer in answers:
            self.add(answer)

    def find(self, job: int, attempt: int, step: int) -> StepAnswer | None:
        return self._by_job.get(job, {}).get((attempt, step))

    def add(self, answer: StepAnswer) -> None:
        self._by_job.setdefault(answer.job, {})[answer.attempt, answer.step] = answer
        self.supersede(answer.job, answer.attempt)

    def supersede(self, job: int, attempt: int) -> None:
        """From now on no attempt before *attempt* is heard."""
        self._newest_attempt[job] = max(attempt, self._newest_attempt.get(job, attempt))

    def refuse_superseded(self, job: int, attempt: int) -> None:
        newest = self._newest_attempt.get(job, attempt)
        if attempt < newest:
            raise LockError(f"Attempt {attempt} of job {job} has a successor, attempt {newest}: it may not go on")

    def next_attempt(self, job: int, now_ns: int) -> int:
        """A number that nobody has used: those of daemons are the times they began at, and a clock may be set back."""
        return max(now_ns, self._newest_attempt.get(job, 0) + 1)

    def last_settling(self, job: int) -> tuple[int, int] | None:
        """(attempt, step) of the job's last commit that made its undo records moot."""
        return max((key for key, answer in self._by_job.get(job, {}).items() if answer.settles), default=None)

    def excess(self, job: int) -> list[StepAnswer]:
        """The answers of a job that nobody will ask for again; never one that settles."""
        held = self._by_job.get(job, {})
        return [held[key] for key in sorted(held)[:-_ANSWERS_KEPT] if not held[key].settles]

    def newest_by_job(self) -> dict[int, StepAnswer]:
        return {job: held[max(held)] for job, held in self._by_job.items() if held}

    def forget(self, answers: Iterable[StepAnswer]) -> None:
        for answer in answers:
            self._by_job.get(answer.job, {}).pop((answer.attempt, answer.step), None)

    def of_job(self, job: int) -> list[StepAnswer]:
        return list(self._by_job.get(job, {}).values())

    def forget_job(self, job: int) -> None:
        self._by_job.pop(job, None)
        self._newest_attempt.pop(job, None)

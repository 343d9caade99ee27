# SPDX-License-Identifier: BSD-2-Clause
"""Repeated steps, settled steps, superseded attempts."""

import pytest

from ganeti.base.errors import LockError
from ganeti.master.config.records import StepAnswer
from ganeti.master.config.steps import Steps


def answer(job: int, attempt: int, step: int, settles: bool = False) -> StepAnswer:
    return StepAnswer(job, attempt, step, settles, f"/livelocks/job_{job:06d}_{attempt}", b"answer %d" % step)


def test_a_repeated_step_finds_its_answer():
    steps = Steps([answer(1, 1, 3)])
    found = steps.find(1, 1, 3)
    assert found is not None
    assert found.answer == b"answer 3"
    assert steps.find(1, 2, 3) is None
    assert steps.find(2, 1, 3) is None


def test_the_last_settling_step_is_that_of_the_newest_attempt():
    steps = Steps([answer(1, 1, 9, True), answer(1, 2, 2, True), answer(1, 2, 5), answer(2, 1, 1)])
    assert steps.last_settling(1) == (2, 2)
    assert steps.last_settling(2) is None
    assert steps.last_settling(3) is None


def test_an_attempt_with_a_successor_is_refused():
    steps = Steps()
    steps.supersede(7, 2)
    with pytest.raises(LockError, match="Attempt 1 of job 7 has a successor, attempt 2"):
        steps.refuse_superseded(7, 1)
    steps.refuse_superseded(7, 2)
    steps.supersede(7, 1)
    with pytest.raises(LockError):
        steps.refuse_superseded(7, 1)


def test_what_nobody_repeats_is_excess_but_never_what_settles():
    steps = Steps([answer(1, 1, step, step == 1) for step in range(1, 101)])
    excess = steps.excess(1)
    assert [one.step for one in excess] == list(range(2, 37))
    steps.forget(excess)
    assert steps.excess(1) == []
    assert steps.last_settling(1) == (1, 1)


def test_a_finished_job_is_forgotten():
    steps = Steps([answer(1, 1, 1, True), answer(2, 3, 1)])
    assert {job: newest.attempt for job, newest in steps.newest_by_job().items()} == {1: 1, 2: 3}
    steps.forget_job(1)
    assert steps.last_settling(1) is None
    assert steps.newest_by_job().keys() == {2}

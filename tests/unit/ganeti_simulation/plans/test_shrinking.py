# SPDX-License-Identifier: BSD-2-Clause
"""Failing plans made short."""

import pytest

from ganeti_simulation.plans.plan import Plan, Step
from ganeti_simulation.plans.shrinking import kind_of, shrink

PLAN = Plan(3, 1, 60.0, tuple(Step(float(number), f"step {number}") for number in range(1, 21)))


def _has(*wanted):
    return lambda plan: {step.what for step in plan.steps} >= {f"step {number}" for number in wanted}


@pytest.mark.parametrize("wanted", [(1,), (20,), (3, 4), (2, 11, 19), (1, 7, 8, 20)])
def test_what_is_needed_is_left(wanted):
    assert [step.what for step in shrink(PLAN, _has(*wanted)).steps] == [f"step {number}" for number in wanted]


def test_the_end_comes_soon_after_the_last_step():
    assert shrink(PLAN, _has(3)).duration_s == 8.0


def test_the_end_stays_where_it_is_needed():
    assert shrink(PLAN, lambda plan: _has(3)(plan) and plan.duration_s > 10).duration_s == 60.0


def test_a_plan_that_does_not_fail_is_refused():
    with pytest.raises(ValueError, match="does not fail"):
        shrink(PLAN, lambda _: False)


def test_the_same_violation_of_others_is_of_one_kind():
    lost = kind_of("(1, 3), acknowledged by node1.example.com, is not what node2.example.com has")
    assert lost == kind_of("(2, 17), acknowledged by node3.example.com, is not what node1.example.com has")
    assert lost != kind_of("job 3 (user sets limit 9) was accepted and is unknown in the end")
    assert kind_of("job 3 (user removes one) was accepted and is unknown in the end") == kind_of(
        "job 12 (user sets limit 9) was accepted and is unknown in the end"
    )
    assert kind_of("no rest within 900 seconds: 2 machines serve as master: node1, node2") == kind_of(
        "no rest within 900 seconds: 0 machines serve as master: none"
    )

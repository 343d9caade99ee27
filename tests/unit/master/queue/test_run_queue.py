# SPDX-License-Identifier: BSD-2-Clause
"""The run queue as a task list: priorities are fixed until a task runs, ties go in order, a deferred one comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti.master.queue.run_queue import RunQueue


@pytest.mark.requirement("S1.78", "S1.88")
def test_lower_numbers_go_first_and_ties_in_the_order_of_arrival():
    queue = RunQueue()
    for job_id, priority in [(1, 0), (2, -10), (3, 0), (4, 10), (5, -10)]:
        queue.push(job_id, priority)
    assert queue.in_order() == [2, 5, 1, 3, 4] == [queue.pop() for _ in range(5)]
    assert queue.pop() is None and not queue


def test_a_task_that_defers_itself_comes_back_with_its_new_priority():
    queue = RunQueue()
    queue.push(1, 0)
    queue.push(2, 0)
    assert queue.pop() == 1
    queue.push(1, 5)
    assert queue.in_order() == [2, 1]
    queue.push(1, -20)
    assert queue.in_order() == [1, 2]


@given(st.lists(st.tuples(st.sampled_from(["push", "pop", "discard"]), st.integers(1, 9), st.integers(-20, 19))))
def test_it_does_what_a_sorted_list_would(steps):
    queue, model = RunQueue(), {}
    for kind, job_id, priority in steps:
        if kind == "push":
            queue.push(job_id, priority)
            model[job_id] = priority
        elif kind == "discard":
            queue.discard(job_id)
            model.pop(job_id, None)
        else:
            best = min(model, key=lambda each: (model[each], each), default=None)
            assert queue.pop() == best
            model.pop(best, None)
        assert queue.in_order() == sorted(model, key=lambda each: (model[each], each))
        assert len(queue) == len(model)

# SPDX-License-Identifier: BSD-2-Clause
"""Work in real processes of their own."""

import os
import signal
import threading

import pytest

from ganeti_simulation.apart import WorkFailedError, each_apart


def _results(work, items, at_once=2):
    return {item: result for item, result in each_apart(work, items, str, at_once)}


def test_each_item_gets_its_result():
    assert _results(lambda item: f"<{item}>", list(range(7))) == {item: f"<{item}>" for item in range(7)}


def test_each_has_a_process_of_its_own():
    assert len({*_results(lambda _: str(os.getpid()), [1, 2, 3], 1).values(), str(os.getpid())}) == 4


def test_a_long_result_is_taken_while_it_is_written():
    assert _results(lambda _: "x" * 1_000_000, [1]) == {1: "x" * 1_000_000}


def test_what_fails_is_said_and_harms_no_other():
    def work(item):
        if item == 1:
            raise KeyError("gone")
        if item == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return "fine"

    found = _results(work, [1, 2, 3])
    assert found[3] == "fine"
    assert isinstance(found[1], WorkFailedError) and "KeyError: 'gone'" in str(found[1])
    assert str(found[2]) == "the simulation itself ended with -9"


def test_one_that_turns_in_circles_is_ended(monkeypatch):
    monkeypatch.setattr("ganeti_simulation.apart.CPU_LIMIT_S", 1)

    def work(_):
        while True:
            pass

    assert "did not end within 1 seconds" in str(_results(work, [1])[1])


@pytest.mark.skipif(threading.active_count() > 1, reason="other threads may start processes")
def test_processes_go_when_nobody_wants_more():
    results = each_apart(lambda item: str(os.getpid()) if item == 1 else str(signal.pause()), [1, 2], str, 2)
    next(results)
    results.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)

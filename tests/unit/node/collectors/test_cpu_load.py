# SPDX-License-Identifier: BSD-2-Clause
"""How busy processors are, by counters that only grow."""

import os

import pytest

from ganeti.node.collectors.cpu_load import busy_s, loads
from ganeti.node.collectors.growth import Window
from ganeti.node.collectors.report import UnreadableError

STAT = """cpu  300 100 100 5000 70 0 0 0 90 0
cpu0 200 0 100 2500 70 0 0 0 90 0
cpu1 100 100 0 2500 0 0 0 0 0 0
intr 12345
"""


def test_idle_time_and_the_guests_share_do_not_count():
    tick = os.sysconf("SC_CLK_TCK")
    assert busy_s(STAT) == {"cpu": 500 / tick, "cpu0": 300 / tick, "cpu1": 200 / tick}


@pytest.mark.parametrize("text", ["", "intr 5", "cpu0 1 2 3 4", "cpu 1 2 x 4"])
def test_nonsense(text):
    with pytest.raises(UnreadableError):
        busy_s(text)


def test_the_mean_over_the_window():
    window = Window(window_s=10)
    for now_s, busy in ((0, 0), (5, 5), (10, 5), (15, 5)):
        window.add(now_s, {"cpu": busy, "cpu0": busy})
    assert window.growth() == {"cpu": 0, "cpu0": 0}
    window.add(20, {"cpu": 10, "cpu0": 5})
    assert loads(window.growth()) == {"cpu_number": 1, "cpus": [0.0], "cpu_total": 0.5}


def test_no_more_samples_than_the_buffer_has():
    window = Window(most=3)
    for now_s in range(10):
        window.add(now_s, {"one": now_s * now_s})
    assert window.growth() == {"one": (81 - 49) / 2}


def test_a_guest_that_was_started_anew_counts_from_there():
    window = Window()
    for now_s, seen in ((0, {"one": 50.0}), (5, {"one": 0.5, "two": 1.0}), (10, {"one": 3.0, "two": 1.0})):
        window.add(now_s, seen)
    assert window.growth() == {"one": 0.5, "two": 0.0}
    window.add(15, {"two": 6.0})
    assert window.growth() == {"two": 0.5}


def test_nothing_is_known_at_first():
    window = Window()
    assert window.growth() == {} and loads(window.growth()) == {"cpu_number": 0, "cpus": [], "cpu_total": 0.0}
    window.add(0, {"cpu": 5.0})
    assert window.growth() == {"cpu": 0.0}

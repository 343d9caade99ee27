# SPDX-License-Identifier: BSD-2-Clause
"""Node calls are held back when that is asked for, and by the same times for the same seed."""

import pytest

from ganeti.system import call_delay


def some(monkeypatch: pytest.MonkeyPatch, seed: str | None) -> list[float]:
    """As a process that begins does."""
    call_delay._made.clear()
    monkeypatch.setenv(call_delay.DELAY, "500")
    monkeypatch.delenv(call_delay.SEED, raising=False)
    if seed is not None:
        monkeypatch.setenv(call_delay.SEED, seed)
    return [call_delay.delay_s(node, "version") for node in ("node1", "node2", "node1") for _ in range(5)]


def test_nothing_is_held_back_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(call_delay.DELAY, raising=False)
    assert call_delay.delay_s("node1", "version") == 0.0


def test_delays_are_within_the_bound_and_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    times = some(monkeypatch, None)
    assert len(set(times)) == len(times)
    assert all(0 <= time <= 0.5 for time in times)


def test_a_seed_repeats_them(monkeypatch: pytest.MonkeyPatch) -> None:
    first = some(monkeypatch, "7")
    assert some(monkeypatch, "7") == first != some(monkeypatch, "8")

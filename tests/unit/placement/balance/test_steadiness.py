# SPDX-License-Identifier: BSD-2-Clause
"""Balancing by measured load does not move instances to and fro."""

from __future__ import annotations

import itertools
import random

import pytest

from ganeti.placement.balance.steadiness import cooling, unevenness
from ganeti.placement.cluster.picture import Node

THRESHOLD, COOL_DOWN_S, ROUND_S = 0.2, 3600.0, 300.0


def nodes(*loads: float | None, unavailable: str = "") -> list[Node]:
    return [Node(f"n{k}", "one", total_cpus=8, cpu_load=load, unavailable=unavailable) for k, load in enumerate(loads)]


def test_the_busiest_and_the_mean() -> None:
    found = unevenness([*nodes(4.0, 2.0), *nodes(8.0, unavailable="offline")])
    assert found is not None
    assert (found.busiest, found.share, found.mean, found.above_mean) == ("n0", 0.5, 0.375, 0.125)
    assert unevenness(nodes(None, None)) is None and unevenness([]) is None


def test_who_has_just_moved_stays() -> None:
    changed = {"old": 0.0, "new": 5000.0, "future": 9999.0}
    assert cooling(changed, 5100.0, COOL_DOWN_S) == {"new", "future"}
    assert cooling(changed, 5100.0, 0.0) == {"future"}


@pytest.mark.parametrize("seed", range(5))
def test_a_day_of_noise_moves_nothing_and_a_swinging_load_moves_little(seed: int) -> None:
    """Two nodes; what moves is an instance whose load jumps between them faster than the cool-down."""
    chance = random.Random(seed)
    moves: list[float] = []
    on_first = True
    for number in range(288):
        now_s = number * ROUND_S
        noise = [chance.uniform(2.0, 3.0) for _ in range(2)]
        hot = 4.0 if number >= 144 else 0.0  # in the afternoon one instance is busy, wherever it is
        found = unevenness(nodes(noise[0] + (hot if on_first else 0.0), noise[1] + (0.0 if on_first else hot)))
        assert found is not None
        changed = {"hot": moves[-1]} if moves else {}
        if found.above_mean >= THRESHOLD and "hot" not in cooling(changed, now_s, COOL_DOWN_S):
            moves.append(now_s)
            on_first = not on_first
    assert all(at_s >= 144 * ROUND_S for at_s in moves), "noise alone moved it"
    assert all(later - earlier >= COOL_DOWN_S for earlier, later in itertools.pairwise(moves))
    assert 1 <= len(moves) <= 12

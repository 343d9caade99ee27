# SPDX-License-Identifier: BSD-2-Clause
"""Mirrored disks through kills, cuts, losses of power and failovers by force, seed after seed."""

from __future__ import annotations

from unittest import mock

import pytest
from tests.fakes.thoroughness import examples
from tests.simulation.mirrored_cluster import play
from tests.simulation.mirrored_pair import Violation

from ganeti.model.objects import Disk


def test_one_writer_is_left_and_both_copies_are_equal() -> None:
    """No write is lost that both copies had, nor to a failover when the configuration knew that a copy lacks it."""
    for seed in range(1, examples(120, quick=15, campaign=5000) + 1):
        play(seed)


def test_a_failover_by_force_that_raises_no_generation_is_found() -> None:
    """The rule is broken on purpose: both nodes take their copy for the newest one."""
    with mock.patch.object(Disk, "promoted", lambda disk: disk), pytest.raises(Violation):
        for seed in range(1, 60):
            play(seed)

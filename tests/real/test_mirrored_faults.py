# SPDX-License-Identifier: BSD-2-Clause
"""Mirrored disks while nodes and daemons fail at each step of what is done with them: twice, 100 times in a campaign.

A seeded list of operation, fault and step. Jobs stop themselves at each of their steps (`system/pause_points.py`); at
the one wanted something is killed, stopped, cut off or full, the job goes on for a while, and what failed is healed. A
guest writes numbered blocks meanwhile. Afterwards none that was acknowledged is lost, one node writes, both copies are
identical, the cluster verifies, nothing is left behind, and where the operation failed its second try succeeds.
GANETI_SEED draws another list, GANETI_ROUNDS=17,31 plays some of it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.fakes.thoroughness import CAMPAIGN
from tests.real.mirrored_bed import kept, made
from tests.real.mirrored_rounds import Player, RoundError, drawn, sampled

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")]
SEED = os.environ.get("GANETI_SEED", "2026")
CHOSEN = os.environ.get("GANETI_ROUNDS", "")
SAMPLES, CASES = 2, 100


@pytest.fixture
def directory() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="gntf", dir="/tmp"))  # sockets have short names
    yield place
    shutil.rmtree(place)


def test_faults_at_steps_of_operations_cost_no_acknowledged_write(directory: Path) -> None:
    cases = drawn(SEED, CASES)
    left = [int(each) for each in CHOSEN.split(",")] if CHOSEN else list(range(CASES))
    if not CHOSEN and not CAMPAIGN:
        left = sampled(cases, SAMPLES)
    failures: list[str] = []
    hits = played = 0
    while left:
        with closing(made(directory / f"bed{len(failures)}")) as bed:
            player = Player(bed, SEED)
            try:
                while left:
                    player.play(left[0], cases[left.pop(0)])
                player.check_logs()
            except RoundError as err:
                failures.append(f"{err}\n{kept(bed)}")  # the other cases are played on a new cluster
                player.tell(f"FAILED: {failures[-1]}")
            hits, played = hits + player.hit_while_running, played + len(player.outcomes)
            if failures and not CAMPAIGN:
                break
    assert not failures, "\n\n".join([f"{len(failures)} of {played} failed", *failures])
    assert 2 * hits >= played, "half of the faults came too late to meet anything"

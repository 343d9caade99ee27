# SPDX-License-Identifier: BSD-2-Clause
"""The master's plug is pulled over and over under load, another takes over, the first comes back: nothing is lost.

A few rounds by default; 100 with GANETI_CAMPAIGN, or GANETI_ROUNDS. GANETI_SEED repeats a campaign: when the plug is
pulled, who takes over and what users ask for follow from it, though not how the processes' own timing falls.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest
from tests.campaign.acknowledged import AcknowledgedJobs
from tests.campaign.invariants import require
from tests.campaign.load import History
from tests.campaign.machines import Machines, machines
from tests.campaign.observer import Observer
from tests.campaign.users import User

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
LONG = bool(os.environ.get("GANETI_CAMPAIGN"))
ROUNDS = int(os.environ.get("GANETI_ROUNDS", "100" if LONG else "2"))
USERS = 3
BACK_WITHIN_S = 90.0
SLOW_S = 9.0
LINES_KEPT = 12


class Campaign:
    def __init__(self, bed: Machines, seed: str) -> None:
        self.bed = bed
        self.history = History()
        self._choice = random.Random(seed)
        self._pause = threading.Event()
        self.users = [User(bed, f"user{number}", f"{seed}/{number}", self.history) for number in range(USERS)]
        self.observer = Observer(bed, self.history)
        self.acknowledged = AcknowledgedJobs(bed, self.users, self.history)
        self.rounds = 0
        self.takeovers_s: list[float] = []
        self.returns_s: list[float] = []

    def run(self, rounds: int) -> None:
        for thread in (*self.users, self.observer):
            thread.start()
        try:
            while self.rounds < rounds:
                self.rounds += 1
                self._round()
        finally:
            for thread in (*self.users, self.observer):
                thread.end()

    def _round(self) -> None:
        choice, bed, old = self._choice, self.bed, self.bed.master
        assert old is not None
        new = choice.choice([node for node in bed.names if node != old])
        for user in self.users:
            user.work()
        self._pass(choice.uniform(0.3, 2.0))
        self._tell(f"round {self.rounds}: the plug of {old} is pulled")
        bed.pull_plug(old)
        comes_back = threading.Thread(target=self._come_back, args=(old, choice.choice([0.0, 0.3, 1.0, 4.0])))
        comes_back.start()
        try:
            self._pass(choice.uniform(0.0, 1.5))
            begun_s = time.monotonic()
            said = bed.become_master(new)
            self.takeovers_s.append(time.monotonic() - begun_s)
            self._tell(f"{new} is the master after {self.takeovers_s[-1]:.2f} s: {' '.join(said.split())}")
            self._pass(choice.uniform(0.3, 1.0))
        finally:
            comes_back.join()
        require(self.returns_s[-1] < BACK_WITHIN_S, f"{old} took {self.returns_s[-1]:.0f} s to start its daemons")
        bed.settle()
        self._tell("all are in sync")
        for user in self.users:
            user.pause()
        for user in self.users:
            require(user.idle.wait(60), f"jobs of {user.name} do not end")
        self.acknowledged.check()
        require(not self.observer.faults, f"{self.observer.faults}")
        self._tell("all is well")

    def _come_back(self, node: str, after_s: float) -> None:
        self._pass(after_s)
        self._tell(f"{node} is switched on")
        begun_s = time.monotonic()
        self.bed.switch_on(node)
        self.returns_s.append(time.monotonic() - begun_s)
        self._tell(f"{node} is on after {self.returns_s[-1]:.1f} s")
        if self.returns_s[-1] > SLOW_S:
            log = self.bed.layout.node(node).upper / "var/log/ganeti/wconf-daemon.log"
            for line in log.read_text().splitlines()[-LINES_KEPT:]:
                self._tell(f"its log: {line}")

    def _tell(self, text: str) -> None:
        self.history.tell(text)

    def _pass(self, seconds: float) -> None:
        """Let the load go on: when the plug is pulled is what chance decides here."""
        self._pause.wait(seconds)


def test_the_master_dies_over_and_over(tmp_path: Path) -> None:
    seed = os.environ.get("GANETI_SEED") or ("20261122" if not LONG else str(random.randrange(10**9)))
    began_s = time.monotonic()
    with machines((tmp_path / "bed").resolve()) as bed:
        campaign = Campaign(bed, seed)
        try:
            campaign.run(ROUNDS)
        except Exception as err:
            kept = tempfile.mkdtemp(prefix="ganeti-campaign-")
            Path(kept, "history").write_text(campaign.history.last(10**6))
            for node in bed.layout.nodes:
                with contextlib.suppress(shutil.Error):  # files that come and go: the nodes are still on
                    shutil.copytree(node.upper / "var", f"{kept}/{node.name}", dirs_exist_ok=True, symlinks=True)
            pytest.fail(
                f"{type(err).__name__}: {err}\n{campaign.history.last()}\n"
                f"GANETI_SEED={seed} round {campaign.rounds}, {kept} has all files: {err}",
                pytrace=not isinstance(err, AssertionError),
            )
    if os.environ.get("GANETI_HISTORY"):
        Path(os.environ["GANETI_HISTORY"]).write_text(campaign.history.last(10**6))
    took_s = time.monotonic() - began_s
    statuses = campaign.acknowledged.statuses
    takeovers, returns = sorted(campaign.takeovers_s), sorted(campaign.returns_s)
    print(
        f"seed {seed}: {campaign.rounds} plugs pulled in {took_s:.0f} s, {sum(statuses.values())} jobs: "
        f"{dict(statuses)}; fail-over p50 {takeovers[len(takeovers) // 2]:.2f} s, worst {takeovers[-1]:.2f} s; "
        f"daemons of who came back p50 {returns[len(returns) // 2]:.1f} s, worst {returns[-1]:.1f} s; "
        f"{campaign.observer.looks} looks, {campaign.observer.refusals} refusals of others"
    )

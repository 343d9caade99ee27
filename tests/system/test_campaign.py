# SPDX-License-Identifier: BSD-2-Clause
"""Daemons and jobs are killed over and over under load (`docs/design/never-lost.md`).

A short campaign by default; with GANETI_CAMPAIGN at least 500 kills. GANETI_SEED repeats a campaign: whom to kill, when
and what is submitted follow from it, though not how the processes' own timing falls.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from tests.campaign.invariants import Invariants, Violated
from tests.campaign.killing import Cluster, Killer, points_in_turn
from tests.campaign.load import Client, History
from tests.campaign.opcode import GROUPS, group_name
from tests.fakes.master_daemons import Master
from tests.fakes.wconfd import fast_directory

pytestmark = [pytest.mark.daemons]
TREE = Path(__file__).resolve().parents[2]
LONG = bool(os.environ.get("GANETI_CAMPAIGN"))
KILLS = 500 if LONG else 15
KILLS_PER_ROUND = 25 if LONG else 15
CLIENTS = 3


def make_master(root: Path) -> Master:
    """A cluster whose daemons know the counted opcode and whose configuration has room for its marks."""
    master = Master(root)
    inject = [str(TREE / "tests/campaign/inject"), str(TREE), os.environ.get("PYTHONPATH", "")]
    master.environment["PYTHONPATH"] = os.pathsep.join(filter(None, inject))
    path = Path(master.paths.config_file)
    config = json.loads(path.read_text())
    (pattern, *_) = config["nodegroups"].values()
    for uuid in GROUPS:
        config["nodegroups"][uuid] = {**pattern, "uuid": uuid, "name": group_name(uuid, 0), "tags": []}
    path.write_text(json.dumps(config))
    return master


class Campaign:
    """Rounds of load and kills, each followed by a look at everything."""

    def __init__(self, master: Master, seed: str) -> None:
        self.seed = seed
        self.history = History()
        self.cluster = Cluster(master)
        self.traces = str(master.root / "traces")
        os.makedirs(self.traces)
        self.invariants = Invariants(self.cluster, self.traces, self.history)
        self.clients: list[Client] = []
        self.kills = 0
        self.points = points_in_turn(seed)
        self.reached: set[str] = set()

    def round(self, number: int, kills: int) -> None:
        """Strike until there were *kills*, let everything come to rest, and look."""
        self.history.tell(f"round {number}")
        seed = f"{self.seed}/{number}"
        clients = [
            Client(
                self.cluster.master,
                f"{seed}/{each}",
                self.traces,
                self.history,
                groups=range(each, len(GROUPS), CLIENTS),
            )
            for each in range(CLIENTS)
        ]
        killer = Killer(self.cluster, seed, self.history, self.points)
        for client in clients:
            client.start()
        try:
            while killer.kills < kills:
                killer.strike()
        finally:
            for client in clients:
                client.stop()
            self.cluster.let_go_on()
            for client in clients:
                client.join()
        self.kills += killer.kills
        self.reached |= killer.reached
        self.clients += clients
        self.invariants.check(self.clients)


@pytest.mark.requirement("S2.21")
def test_killed_over_and_over():
    seed = os.environ.get("GANETI_SEED") or ("20261122" if not LONG else str(random.randrange(10**9)))
    began_s = time.monotonic()
    with fast_directory() as directory:
        master = make_master(directory / "cluster")
        try:
            master.start("wconfd")
            master.start("luxid")
            campaign = Campaign(master, seed)
            try:
                number = 0
                while campaign.kills < KILLS:
                    number += 1
                    campaign.round(number, min(KILLS_PER_ROUND, KILLS - campaign.kills))
            except Exception as err:
                kept = tempfile.mkdtemp(prefix="ganeti-campaign-")
                shutil.copytree(master.root, kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("socket"))
                pytest.fail(
                    f"GANETI_SEED={seed}: {type(err).__name__}: {err}\n{campaign.history.last()}\n"
                    f"GANETI_SEED={seed} round {number}, {kept} has all files: {err}",
                    pytrace=not isinstance(err, Violated),
                )
        finally:
            master.stop_all()
    if os.environ.get("GANETI_HISTORY"):
        Path(os.environ["GANETI_HISTORY"]).write_text(campaign.history.last(10**6))
    statuses = campaign.invariants.statuses()
    took_s = time.monotonic() - began_s
    print(f"seed {seed}: {campaign.kills} kills in {took_s:.0f} s, {sum(statuses.values())} jobs: {dict(statuses)}")
    print(f"killed at {len(campaign.reached)} pause points: {', '.join(sorted(campaign.reached))}")
    assert statuses["success"] > statuses.total() / 5, f"too few jobs succeed: {statuses}"

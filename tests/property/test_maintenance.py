# SPDX-License-Identifier: BSD-2-Clause
"""Laws of maintenance: a year of a cluster of 40 nodes with random faults (S4.15-S4.42), on the machine as it decides.

Time passes by the hour. Administrators come by after days, and mend what is tagged; the daemon dies in the middle of a
submission, the master moves, clocks jump, MonDs keep silent, jobs fail.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.maintained_cluster import MIRRORED, SHARED, MaintainedCluster
from tests.fakes.thoroughness import examples

from ganeti.master.maintenance.changes import COMPLETED, FAILED, CancelIncident, ChangeMaintenance
from ganeti.master.maintenance.incidents import SeenObjects
from ganeti.master.maintenance.sameness import EVACUATE_FAILOVER, identity

HOUR_S = 3600.0
SEEDS = examples(2, quick=1, campaign=200)
STATUSES = ("live-repair", "evacuate", "evacuate", "evacuate-failover")


class Year:
    """One cluster with its faults, its administrators, and what must hold after each hour."""

    def __init__(self, seed: int, hours: int, template: str, guests_per_node: int) -> None:
        self.random = Random(seed)
        self.hours = hours
        self.cluster = MaintainedCluster(40, guests_per_node, seed, fails=0.01, template=template)
        self.seen_for: Counter[tuple[str, str]] = Counter()
        self.commands: Counter[str] = Counter()
        self.handled = 0
        self.counted = 0

    def run(self) -> None:
        for _ in range(self.hours):
            self._break_something()
            self._administrate()
            self._disturb()
            was_redundant = self.cluster.is_redundant()
            self.cluster.step(HOUR_S)
            self._check(was_redundant)

    def _chance(self, per_year: float) -> bool:
        return self.random.random() < per_year / 8760

    def _break_something(self) -> None:
        for node in self.cluster.config.nodes():
            if node.name not in self.cluster.defects and self._chance(4):
                number = self.random.randrange(10**6)
                defect: dict[str, Any] = {"status": self.random.choice(STATUSES), "details": {"number": number}}
                self.cluster.defects[node.name] = defect | {"command": "fix"}
            elif node.name in self.cluster.defects and self._chance(100):
                worse = self.cluster.defects[node.name]
                self.cluster.defects[node.name] = worse | {"status": EVACUATE_FAILOVER, "details": "worse"}
            elif node.name in self.cluster.defects and self._chance(40):
                del self.cluster.defects[node.name]

    def _administrate(self) -> None:
        for incident in self.cluster.maintenance.incidents:
            ended = incident.repair_status in (COMPLETED, FAILED)
            if ended and self._chance(300):
                self.cluster.defects.pop(incident.node, None)
                self.cluster.remove_tag(incident.node, incident.tag)
                self.cluster.set_node(incident.node, offline=False, drained=False)
            elif self._chance(5):
                self.cluster.commit(CancelIncident(uuid=incident.uuid))
                self.cluster.set_node(incident.node, offline=False, drained=False)

    def _disturb(self) -> None:
        self.cluster.dies_submitting = self._chance(500)
        if self._chance(50):
            self.cluster.seen = SeenObjects()  # the master moves
        if self._chance(20):
            self.cluster.now_s += self.random.choice((-1, 1)) * 86400
        self.cluster.silent = {node.name for node in self.cluster.config.nodes() if self._chance(200)}

    def _check(self, was_redundant: bool) -> None:
        cluster = self.cluster
        incidents = cluster.maintenance.incidents
        keys = Counter((each.node, identity(each.original)) for each in incidents)
        assert all(count == 1 for count in keys.values()), "a defect of a node is one incident"
        for name in [node.name for node in cluster.config.nodes()]:
            self._check_seen(name, keys)
        for _, job in list(cluster.jobs.values())[self.counted :]:
            self._check_job(job)
        self.counted = len(cluster.jobs)
        if was_redundant:
            assert cluster.is_redundant(), "no node leaves that the others need"
        for node in cluster.config.nodes():
            if node.offline and not cluster.maintenance.submitting:
                tags = [tag for tag in node.tags if tag.startswith("maintd:")]
                leaves = [each for each in incidents if each.node == node.uuid and each.jobs]
                assert tags or leaves, f"{node.name} is out of service, and nobody knows why"
                assert not cluster.config.primary_instances(node.uuid)

    def _check_seen(self, name: str, keys: Counter[tuple[str, str]]) -> None:
        """A defect that a node tells of is known two hours later at the latest."""
        cluster = self.cluster
        if name in cluster.defects and name not in cluster.silent:
            key = (name, identity(cluster.defects[name]))
            self.seen_for[key] = 0 if keys[key] else self.seen_for[key] + 1
            assert self.seen_for[key] <= 2, f"nobody remembers the defect of {name}"

    def _check_job(self, job: list[dict[str, Any]]) -> None:
        by_id = {each.uuid: each for each in self.cluster.maintenance.incidents}
        of = [by_id[entry[1]] for entry in job[0]["reason"] if entry[1] in by_id]
        for opcode in job:
            if opcode["OP_ID"] == "OP_REPAIR_COMMAND":
                for incident in of:
                    self.commands[incident.uuid] += 1
                    assert self.commands[incident.uuid] == 1, "a repair command runs once"
            if any(each.action == EVACUATE_FAILOVER for each in of):
                assert opcode["OP_ID"] != "OP_INSTANCE_MIGRATE", "evacuate-failover never moves a running guest"
        self.handled += bool(of)


@pytest.mark.requirement("S4.19", "S4.22", "S4.32", "S4.40")
@settings(max_examples=SEEDS, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from((SHARED, MIRRORED)))
def test_a_year_of_forty_nodes(seed: int, template: str) -> None:
    year = Year(seed, 8760 if SEEDS > 1 else 1500, template, guests_per_node=3)
    year.run()
    assert year.handled, "something has happened"


@settings(max_examples=examples(20, quick=5, campaign=500), deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 12), st.integers(2, 14), st.integers(1, 4))
def test_no_evacuation_takes_redundancy_and_none_waits_that_could_go(
    seed: int, nodes: int, guests: int, at_once: int
) -> None:
    """Nodes are full to any degree; several ask to leave."""
    cluster = MaintainedCluster(nodes, guests, seed)
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": at_once}))
    random = Random(seed)
    for guest in cluster.config.instances():
        if random.random() < 0.3:
            cluster._put_guest(guest, f"n{random.randrange(nodes)}", guest.primary_node)
    asking = random.sample([f"n{number}" for number in range(1, nodes)], min(nodes - 1, 3))
    cluster.defects = {name: {"status": "evacuate"} for name in asking}
    was_redundant = cluster.is_redundant()
    for _ in range(10):
        cluster.step()
    assert cluster.is_redundant() or not was_redundant or not cluster.jobs
    out = [node.name for node in cluster.config.nodes() if node.offline]
    assert len(out) <= at_once
    waiting = [name for name in asking if name not in out]
    if was_redundant and len(out) < at_once and waiting:
        for name in waiting:
            assert any(each.about == name and each.why for each in cluster.planned.held), "it says why"

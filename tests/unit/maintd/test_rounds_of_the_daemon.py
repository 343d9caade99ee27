# SPDX-License-Identifier: BSD-2-Clause
"""The daemon's own loop: what it asks and when, what it submits, and what it does when an answer is lost."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.fakes.maintained_cluster import MaintainedCluster

from ganeti.base.errors import GanetiError, TransportError
from ganeti.maintd.rounds import Maintenance, interval_s
from ganeti.master.maintenance.changes import BeginRound, CancelIncident, ChangeMaintenance, RecordRound
from ganeti.model.objects import Node, Plain
from ganeti.ports.luxid import AnswerPlacement, CancelUnbegun, Placement

EVACUATE = {"status": "evacuate"}


class Done(NamedTuple):
    position: tuple[int, int] = (1, 1)


class World:
    """Stands for WConfD, LuxiD and all MonDs, over one cluster in memory."""

    def __init__(self) -> None:
        self.cluster = MaintainedCluster()
        self.configuration = self.cluster.config
        self.settings(diagnose_data_collector_filename="check")
        self.looked = self.loads_asked = 0
        self.found: dict[str, Plain] = {}
        self.calls: list[str] = []
        self.loses_answer = False
        self.refuses = ""

    def settings(self, **values: Any) -> None:
        cluster = self.configuration.cluster
        self.configuration.put("cluster", "cluster", msgspec.structs.replace(cluster, **values))

    # the follower, the commits

    async def reached(self, position: tuple[int, int], timeout_s: float) -> bool:
        return True

    async def commit(self, change: Any) -> Done:
        self.calls.append(type(change).__name__)
        self.cluster.commit(change)
        self.configuration.position = (1, self.configuration.position[1] + 1)
        return Done()

    # MonDs

    async def poll(self, nodes: list[Node], within_s: float) -> dict[str, Plain]:
        self.looked += 1
        return {node.uuid: self.found.get(node.name, {"status": "Ok"}) for node in nodes}

    async def loads(self, nodes: list[Node]) -> dict[str, float]:
        self.loads_asked += 1
        return {"i0": 0.5}

    # LuxiD

    async def ask(self, question: Any) -> Any:
        if isinstance(question, CancelUnbegun):
            for job in question.jobs:
                self.cluster.jobs[job] = ("canceled", self.cluster.jobs[job][1])
            return question.jobs
        assert isinstance(question, AnswerPlacement)
        rooms = self.cluster.ask(question.request)  # type: ignore[arg-type]
        return Placement(True, "", msgspec.to_builtins(rooms))

    async def call(self, method: str, *arguments: Any, **_: Any) -> Any:
        self.calls.append(method)
        if method == "QueryJobs":
            numbers = arguments[0] if arguments[0] is not None else list(self.cluster.jobs)
            if arguments[1] == ["status"]:
                return [[self.cluster.jobs[job][0]] if job in self.cluster.jobs else None for job in numbers]
            return [[job, self.cluster.jobs[job][1]] for job in numbers]
        assert method == "SubmitManyJobs"
        if self.refuses:
            return [[False, self.refuses] for _ in arguments[0]]
        numbers = [self.cluster._run(job) for job in arguments[0]]
        if self.loses_answer:
            self.loses_answer = False
            raise TransportError("the connection broke")
        return [[True, number] for number in numbers]


@pytest.fixture
def world() -> World:
    return World()


def daemon(world: World) -> Maintenance:
    return Maintenance(world, world, world, world)  # type: ignore[arg-type]


def steps(own: Maintenance, world: World, count: int) -> None:
    """A minute passes before each."""

    async def go() -> None:
        for _ in range(count):
            world.cluster.commit(ChangeMaintenance(values={"round_began_s": 0.0}))
            await own.step()

    asyncio.run(go())


@pytest.mark.requirement("S4.38")
def test_nodes_are_looked_at_as_often_as_the_collector_works(world: World) -> None:
    assert interval_s(world.configuration) == 5.0
    for interval_us, seconds in ((30_000_000, 30.0), (1000, 1.0), (0, 5.0), ("x", 5.0), (None, 5.0)):
        world.settings(data_collectors={"diagnose": {"active": True, "interval": interval_us}})
        assert interval_s(world.configuration) == seconds
    own = daemon(world)
    steps(own, world, 3)
    assert world.looked == 3 and world.loads_asked == 0
    world.cluster.commit(ChangeMaintenance(values={"balance": True, "balance_dynamic": True}))
    steps(own, world, 1)
    assert world.loads_asked == 1


def test_without_a_command_nobody_is_asked(world: World) -> None:
    world.settings(diagnose_data_collector_filename=None)
    steps(daemon(world), world, 3)
    assert not world.looked and not world.calls


@pytest.mark.requirement("S4.42")
def test_all_jobs_of_a_round_are_submitted_by_one_call(world: World) -> None:
    world.found = {"n3": EVACUATE, "n4": {"status": "live-repair", "command": "fix"}}
    steps(daemon(world), world, 4)
    assert world.calls.count("SubmitManyJobs") == 2, "the first moves and repairs, the second takes the node offline"
    assert sorted(each.repair_status for each in world.cluster.maintenance.incidents) == ["completed", "completed"]


def test_a_lost_answer_to_a_submission_is_no_second_submission(world: World) -> None:
    own = daemon(world)
    world.found = {"n4": {"status": "live-repair", "command": "fix"}}
    steps(own, world, 1)
    world.loses_answer = True
    with pytest.raises(GanetiError):
        steps(own, world, 1)
    assert world.cluster.maintenance.submitting
    steps(daemon(world), world, 3)
    assert len(world.cluster.opcodes("OP_REPAIR_COMMAND")) == 1
    assert [each.repair_status for each in world.cluster.maintenance.incidents] == ["completed"]


def test_a_queue_that_refuses_jobs_leaves_the_incident_for_the_next_round(world: World) -> None:
    own = daemon(world)
    world.found, world.refuses = {"n3": EVACUATE}, "the queue is full"
    steps(own, world, 4)
    assert [each.repair_status for each in world.cluster.maintenance.incidents] == ["noted"] and not world.cluster.jobs
    world.refuses = ""
    steps(own, world, 4)
    assert [each.repair_status for each in world.cluster.maintenance.incidents] == ["completed"]


@pytest.mark.requirement("S4.16")
def test_what_was_submitted_while_its_incident_was_canceled_is_canceled_where_it_has_not_begun(world: World) -> None:
    own = daemon(world)
    world.found = {"n4": {"status": "live-repair", "command": "fix"}}
    steps(own, world, 1)
    [incident] = world.cluster.maintenance.incidents
    world.cluster.jobs |= {70: ("queued", []), 71: ("running", []), 72: ("waiting", [])}
    world.cluster.commit(CancelIncident(uuid=incident.uuid))
    world.cluster.commit(BeginRound(token="t"))
    world.cluster.commit(RecordRound(token="t", jobs=[70, 71, 72], of_incidents={incident.uuid: [70, 71, 72]}))
    steps(own, world, 1)
    assert [world.cluster.jobs[job][0] for job in (70, 71, 72)] == ["canceled", "running", "canceled"]
    assert world.cluster.maintenance.jobs == [70, 71, 72], "the round ends with the job that runs"


def test_a_job_that_left_the_queue_counts_as_failed(world: World) -> None:
    own = daemon(world)
    world.found = {"n4": {"status": "live-repair", "command": "fix"}}
    steps(own, world, 2)
    world.cluster.jobs.clear()
    steps(own, world, 1)
    assert [each.repair_status for each in world.cluster.maintenance.incidents] == ["failed"]


@pytest.mark.requirement("S4.31", "S4.36")
def test_an_instance_that_moved_is_remembered_until_its_load_is_known(world: World) -> None:
    own = daemon(world)
    world.cluster.commit(ChangeMaintenance(values={"balance": True, "balance_dynamic": True}))
    world.found = {"n3": EVACUATE}
    steps(own, world, 2)
    moved = world.cluster.maintenance.evacuated
    assert len(moved) == 3 and "i0" not in moved
    world.cluster.commit(ChangeMaintenance(values={"evacuated": [*moved, "i0"]}))
    steps(own, world, 1)
    assert world.cluster.maintenance.evacuated == moved, "of i0 the load is known"

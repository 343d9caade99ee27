# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's placements over a real WConfD and a real worker; the nodes answer from the test."""

import asyncio
import dataclasses
import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.node_answers import facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration
from tests.fakes.wconfd import fast_directory, prepare, running_wconfd, until

from ganeti.base.errors import GanetiError, LockError, NodeUnreachableError
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.reservation_calls import list_reservations, reserve_room
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.placement.placements import Placements
from ganeti.master.operations.changes import AddInstance, FinishInstance
from ganeti.model.ipolicy import full_policy
from ganeti.model.locks import node_lock
from ganeti.model.node_calls.instances import AllInstancesInfo
from ganeti.model.objects import Instance
from ganeti.model.placement_requests import Allocate, BalanceStep, Relocate
from ganeti.model.reservations import Reservation
from ganeti.ports.luxid import DescribeForAllocator
from ganeti.ports.nodes import NodeAnswer
from ganeti.system.event_loop import Background

FREE_MIB = 4096


class Asker:
    """Stands for `NodeAsker`: every node has the same memory, and says what it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.dead: set[str] = set()
        self.free_mib = FREE_MIB

    async def ask(self, uuids: Any, request: Any) -> list[NodeAnswer]:
        if isinstance(request, AllInstancesInfo):
            self.asked += uuids
        spaces = [(9, 9)] * len(getattr(request, "storage", ()))
        info = facts(memory_free_mib=self.free_mib, spaces=spaces, memory_dom0=0, cpu_total=64, cpu_dom0=0)
        value = [] if isinstance(request, AllInstancesInfo) else info
        await asyncio.sleep(0)
        return [
            NodeAnswer(uuid, error=NodeUnreachableError(f"Node {uuid} has no power"))
            if uuid in self.dead
            else NodeAnswer(uuid, value)
            for uuid in uuids
        ]


REQUEST = Allocate(
    name="x", memory=3072, vcpus=1, disks=[], disk_template="diskless", disk_space_total=0, required_nodes=1
)


class Bed:
    def __init__(self, daemon: Any, placements: Placements, asker: Asker, clock: list[float]) -> None:
        self.daemon = daemon
        self.placements = placements
        self.asker = asker
        self.clock = clock

    async def place(self, name: str, memory: int = 3072, owner: Any = None, **more: Any) -> dict[str, Any]:
        request = replace(REQUEST, name=name, memory=memory)
        return await self.placements.place(request, None if owner is None else owner.for_locks, **more)


@asynccontextmanager
async def bed(root: Path):
    config = configuration()
    changes = {
        "hvparams": {"pretend": {}},
        "ipolicy": full_policy(["diskless"]),
        "default_iallocator_params": {"no-capacity-checks": ""},
    }
    config.put("cluster", "cluster", replace(config.cluster, **changes))
    Path(prepare(root, fresh=False).config_file).write_text(json.dumps(config.to_plain()))
    async with running_wconfd(root) as daemon:
        client, background, asker, clock = WConfdClient(daemon.paths.wconfd_socket), Background(), Asker(), [0.0]
        follower = ConfigFollower(client)
        background.start(follower.run(), "following")
        assert await follower.filled(10.0)
        socket = daemon.paths.wconfd_socket
        placements = Placements(follower, client, asker, catalogue(), socket, now_s=lambda: clock[0])
        await until(lambda: placements.cache._serial is not None)  # what was said before would be asked again
        try:
            yield Bed(daemon, placements, asker, clock)
        finally:
            await placements.close()
            await background.cancel()
            await client.close()


def run(scenario):
    async def go(root: Path):
        async with bed(root) as found:
            await scenario(found)

    with fast_directory() as root:
        asyncio.run(go(root))


def test_jobs_that_ask_at_once_get_different_room():
    async def scenario(found):
        owners = [found.daemon.job(number) for number in range(1, 6)]
        answers = await asyncio.gather(
            *(found.place(f"web{number}", owner=owner) for number, owner in enumerate(owners))
        )
        chosen = [answer["result"][0] for answer in answers if answer["success"]]
        assert sorted(chosen) == ["node1", "node2", "node3"]
        assert sum(not answer["success"] for answer in answers) == 2
        loser = next(answer for answer in answers if not answer["success"])
        assert any("2,049 MiB short" in line for line in loser["reasons"])
        found.daemon.die(owners[[answer["success"] for answer in answers].index(True)])
        assert (await found.place("late"))["result"] == chosen[:1], "the room of the dead is free"

    run(scenario)


def test_who_asks_again_gets_its_own_room_again():
    """LuxiD may die after the reservation and before the answer: the job asks once more."""

    async def scenario(found):
        owner = found.daemon.job(1)
        first = await found.place("web1", owner=owner)
        assert await found.place("web1", owner=owner) == first
        reservations = await list_reservations(found.daemon.client)
        assert [reservation.instance for _, reservation in reservations.held] == ["web1"]
        found.daemon.die(owner)
        with pytest.raises(LockError):
            await found.place("web1", owner=owner)

    run(scenario)


def test_what_would_be_stopped_to_move_is_not_balanced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(found):
        asked: list[Any] = []

        async def place(request: Any, *_: Any) -> dict[str, Any]:
            asked.append(request)
            return {"success": True}

        placements, known = found.placements, catalogue()
        config = configuration()
        for name, state in (("web1", "up"), ("web2", "down")):
            add_instance(config, name, admin_state=state)
        monkeypatch.setattr(Placements, "_view", config)
        monkeypatch.setattr(placements, "_place", place)
        await placements.place(BalanceStep(stay=["web9"]), None)
        traits = dataclasses.replace(known.hypervisors["pretend"], can_migrate=False)
        placements._catalogue = dataclasses.replace(known, hypervisors={"pretend": traits})
        await placements.place(BalanceStep(stay=["web9"]), None)
        assert [each.stay for each in asked] == [["web9"], ["web9", "web1"]]

    run(scenario)


def test_what_a_commit_shows_is_counted_once():
    async def scenario(found):
        owner = found.daemon.job(1)
        await found.place("web1", owner=owner)
        (_, reservation), *_ = (await list_reservations(found.daemon.client)).held
        instance = Instance(
            uuid="i1",
            name="web1",
            primary_node=reservation.nodes[0],
            hypervisor="pretend",
            beparams={"maxmem": 3072, "minmem": 3072},
            forthcoming=True,
        )
        await found.daemon.client.commit(owner, 1, AddInstance(instance=instance, disks=[]), False)
        assert (await list_reservations(found.daemon.client)).held == []
        other = found.daemon.job(2)
        full = [
            Reservation(instance=node, nodes=[node], memory_mib=FREE_MIB - 1) for node in others(reservation.nodes[0])
        ]
        await reserve_room(found.daemon.client, other.for_locks, full, 10**6)
        for memory, fitting in ((1023, True), (1024, False)):  # something must stay free
            assert (await found.place("web2", memory))["success"] is fitting
        found.daemon.die(other)
        await found.daemon.client.commit(owner, 2, FinishInstance(instance_uuid="i1", admin_state="up"), False)
        assert (await found.place("web2", FREE_MIB - 1))["result"][0] not in reservation.nodes[0]

    run(scenario)


def others(uuid: str) -> list[str]:
    return [node for node in ("uuid-node1", "uuid-node2", "uuid-node3") if node != uuid]


@pytest.mark.requirement("S1.52")
def test_nodes_are_asked_when_their_reports_are_old_and_before_a_refusal():
    async def scenario(found):
        await found.place("web1")
        assert len(found.asker.asked) == 3
        await found.place("web1")
        assert len(found.asker.asked) == 3, "fresh"
        found.clock[0] = 29.0
        found.asker.free_mib = 100
        assert (await found.place("web1"))["success"], "nobody looked again"
        assert not (await found.place("web1", 5000))["success"]
        assert len(found.asker.asked) == 6
        found.asker.free_mib = 5000
        found.clock[0] = 32.0
        assert (await found.place("web1", 4500))["success"], "it looked again before it refused"

    run(scenario)


def test_a_node_is_asked_again_when_a_job_gives_up_what_it_had_for_itself():
    async def scenario(found):
        await found.place("web1")
        owner, client = found.daemon.job(1), found.daemon.client
        wanted = {node_lock("uuid-node2"): "exclusive", node_lock("uuid-node3"): "shared"}
        assert await client.try_locks(owner.for_locks, list(wanted.items())) == []
        await client.free_locks(owner.for_locks)
        reports = found.placements._reports
        await until(lambda: bool(reports.stale(["uuid-node2"], found.clock[0])))
        found.asker.asked.clear()
        await found.place("web1")
        assert found.asker.asked == ["uuid-node2"]

    run(scenario)


def test_a_report_older_than_an_hour_stands_in_no_picture():
    async def scenario(found):
        one = replace(REQUEST, group_name="nowhere")
        await found.place("web1")
        found.placements._concerned = lambda request: []
        found.clock[0] = 3599.0
        assert found.placements._stale(one, 30.0) == []
        found.clock[0] = 3600.0
        assert len(found.placements._stale(one, 30.0)) == 3

    run(scenario)


def test_a_silent_node_takes_nothing_and_the_answer_says_so():
    async def scenario(found):
        found.asker.dead = {"uuid-node2"}
        answer = await found.place("web1", why=True)
        assert answer["result"] != ["node2"]
        assert any("node2" in line and "not answering" in line and "no power" in line for line in answer["reasons"])
        await found.place("web1", 10**6)
        assert found.asker.asked.count("uuid-node2") == 1, "nobody waits for it again so soon"

    run(scenario)


def test_the_worker_is_started_again_and_told_everything():
    async def scenario(found):
        await found.place("web1")
        process = found.placements._worker._process
        assert process is not None
        process.kill()
        process.wait()
        assert (await found.place("web1"))["success"]
        assert len(found.asker.asked) == 3, "the reports were still there"

    run(scenario)


def test_a_program_is_told_the_same_cluster():
    async def scenario(found):
        owner = found.daemon.job(1)
        await found.place("web1", owner=owner)
        described = await found.placements.describe(DescribeForAllocator(REQUEST))
        told = json.loads(bytes(described.input))
        assert described.serial == 1
        assert [node["free_memory"] for node in told["nodes"].values()].count(1024) == 1
        assert "web1" in told["instances"]

    run(scenario)


def test_a_question_that_makes_no_sense_is_refused_in_words():
    async def scenario(found):
        with pytest.raises(GanetiError, match="mars") as caught:
            await found.placements.place(Relocate(name="mars", relocate_from=[], disk_space_total=0), None)
        assert "failed" not in str(caught.value), caught.value

    run(scenario)

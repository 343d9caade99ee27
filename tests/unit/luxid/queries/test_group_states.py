# SPDX-License-Identifier: BSD-2-Clause
"""A node group's state renewed over a real WConfD, by pretended nodes: what they say is kept, and nothing of before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace
from tests.fakes.node_answers import facts, found_instance
from tests.fakes.sample_cluster import add_instance, catalogue, configuration
from tests.fakes.wconfd import Running, fast_directory, prepare, running_wconfd, until

from ganeti.base.errors import GanetiError, NodeTimeoutError
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.queries.group_states import GroupStates
from ganeti.luxid.queries.sources import QuerySources
from ganeti.luxid.queue.driver import QueueDriver
from ganeti.master.query.nodes import NODES
from ganeti.master.query.running import run_query
from ganeti.model.capacity import Capacity
from ganeti.model.locks import instance_lock, node_lock
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.objects import NodeGroup
from ganeti.ports.luxid import RenewGroupState
from ganeti.ports.nodes import NodeAnswer, NodesPort
from ganeti.system.event_loop import Background

ONE, TWO, THREE = "uuid-node1", "uuid-node2", "uuid-node3"
GROUP, OTHER, EMPTY = "uuid-group1", "uuid-group2", "uuid-group3"
COUNTED = Capacity({"tspecs": []}, 5.0)


class Nodes:
    """Stands for the node daemons; each call is counted, and *during* happens while nodes are asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.free_mib = 4096
        self.guests: dict[str, list[FoundInstance]] = {ONE: [found_instance("web1")]}
        self.late: set[str] = set()
        self.partial: set[str] = set()
        self.during: Callable[[], Awaitable[None]] | None = None

    async def call_many(
        self, uuids: Any, call: str, *, deadline_s: float | None = None, **arguments: Any
    ) -> list[NodeAnswer]:
        named = list(uuids)
        self.calls += [(uuid, call) for uuid in named]
        answers = [self._answer(uuid, arguments) for uuid in named]
        during, self.during = self.during, None
        if during is not None:
            await during()
        return answers

    def _answer(self, uuid: str, arguments: Any) -> NodeAnswer:
        if uuid in self.late:
            return NodeAnswer(uuid, error=NodeTimeoutError(f"Node {uuid} has not answered in time"))
        told = facts(
            memory_free_mib=self.free_mib,
            spaces=[(100, 50)] * len(arguments["storage"]),
            boot_id=f"boot of {uuid}",
            answered=uuid not in self.partial,
            guests=self.guests.get(uuid, []),
        )
        return NodeAnswer(uuid, msgspec.to_builtins(told))


class Bed:
    def __init__(self, daemon: Running, sources: QuerySources, groups: GroupStates, nodes: Nodes) -> None:
        self.daemon = daemon
        self.sources = sources
        self.cache = sources.cache
        self.groups = groups
        self.nodes = nodes

    async def listed(self) -> dict[str, Any]:
        """Free memory of each node, as a list that takes what is in the cache."""
        rows = await self.sources.rows(NODES, None)
        _, data = await run_query(NODES, rows, ["name", "mfree"], None, self.sources.collector())
        return {name[1]: free[1] for name, free in data}

    def stale(self) -> list[str]:
        return self.cache.reports.stale([ONE, TWO, THREE], self.cache.now_s())


@asynccontextmanager
async def bed(root: Path) -> AsyncIterator[Bed]:
    config = configuration()
    config.put("cluster", "cluster", replace(config.cluster, hvparams={"pretend": {}}))
    for uuid, name in ((OTHER, "other"), (EMPTY, "empty")):
        config.put("nodegroups", uuid, NodeGroup(uuid=uuid, name=name))
    config.put("nodes", THREE, replace(config.node(THREE), group=OTHER))
    for name, node in (("web1", ONE), ("web2", TWO), ("web3", THREE)):
        add_instance(config, name, node, template="none")
    Path(prepare(root, fresh=False).config_file).write_text(json.dumps(config.to_plain()))
    async with running_wconfd(root) as daemon:
        client, background, nodes = WConfdClient(daemon.paths.wconfd_socket), Background(), Nodes()
        follower = ConfigFollower(client)
        background.start(follower.run(), "following")
        assert await follower.filled(10.0)
        sources = QuerySources(follower, cast(QueueDriver, None), client, catalogue(), cast(NodesPort, nodes))
        sources.cache.follow(follower, client, daemon.paths.wconfd_socket)
        await until(lambda: sources.cache._serial is not None)
        try:
            yield Bed(daemon, sources, GroupStates(follower, client, sources), nodes)
        finally:
            await sources.cache.close()
            await background.cancel()
            await client.close()


def run(scenario: Callable[[Bed], Awaitable[None]]) -> None:
    async def go(root: Path) -> None:
        async with bed(root) as found:
            await scenario(found)

    with fast_directory() as root:
        asyncio.run(go(root))


@pytest.mark.requirement("S1.39", "S1.43", "S1.54")
def test_each_node_of_the_group_is_asked_once_and_what_it_says_is_given_and_kept() -> None:
    async def scenario(found: Bed) -> None:
        state = await found.groups.renew(RenewGroupState(GROUP))
        assert found.nodes.calls == [(ONE, "node_info"), (TWO, "node_info")]
        assert state["group"] == {"name": "default", "uuid": GROUP}
        assert list(state["nodes"]) == ["node1", "node2"]
        assert state["nodes"]["node1"] == {
            "offline": False,
            "bootid": f"boot of {ONE}",
            "mtotal": 8192,
            "mnode": 1,
            "mfree": 4096,
            "ctotal": 4,
            "cnos": 1,
            "dtotal": 100,
            "dfree": 50,
        }
        assert state["instances"] == {
            "web1": {"pnode": "node1", "status": "running", "admin_state": "up", "oper_ram": 128},
            "web2": {"pnode": "node2", "status": "ERROR_down", "admin_state": "up", "oper_ram": None},
        }
        assert found.stale() == [THREE], "placement takes what was said"
        found.nodes.calls.clear()
        assert await found.listed() == {"node1": 4096, "node2": 4096, "node3": 4096}
        assert found.nodes.calls == [(THREE, "node_info")], "so do lists"

    run(scenario)


@pytest.mark.requirement("S1.39", "S1.54")
def test_what_was_kept_of_the_group_is_void_and_of_others_is_not() -> None:
    async def scenario(found: Bed) -> None:
        assert (await found.listed())["node1"] == 4096
        for group in (GROUP, OTHER):
            assert found.cache.capacity.keep(
                group, {}, COUNTED, begun=found.cache.capacity.begin(), reservations=[], asked_at_s=found.cache.now_s()
            )
        found.nodes.free_mib = 1000
        await found.groups.renew(RenewGroupState(GROUP))
        assert await found.listed() == {"node1": 1000, "node2": 1000, "node3": 4096}
        kept = [found.cache.capacity.find(group, {}, [], found.cache.now_s()) for group in (GROUP, OTHER)]
        assert kept == [None, COUNTED]

    run(scenario)


def test_what_was_counted_is_void_though_nothing_has_changed() -> None:
    async def scenario(found: Bed) -> None:
        await found.listed()
        found.nodes.calls.clear()
        capacity = found.cache.capacity
        begun, now_s = capacity.begin(), found.cache.now_s()
        assert capacity.keep(GROUP, {}, COUNTED, begun=begun, reservations=[], asked_at_s=now_s)
        await found.groups.renew(RenewGroupState(GROUP))
        assert found.nodes.calls == [(ONE, "node_info"), (TWO, "node_info")]
        assert capacity.find(GROUP, {}, [], found.cache.now_s()) is None

    run(scenario)


def test_the_nodes_are_asked_even_where_a_fresh_answer_has_come_in_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a list had been answered after what was known became void."""

    async def scenario(found: Bed) -> None:
        monkeypatch.setattr(found.cache, "void_group", lambda uuid: None)
        await found.listed()
        found.nodes.calls.clear()
        await found.groups.renew(RenewGroupState(GROUP))
        assert found.nodes.calls == [(ONE, "node_info"), (TWO, "node_info")]

    run(scenario)


def test_a_node_that_answers_too_late_has_no_values_and_nothing_of_before_counts() -> None:
    async def scenario(found: Bed) -> None:
        await found.listed()
        found.nodes.late = {ONE}
        state = await found.groups.renew(RenewGroupState(GROUP))
        assert set(state["nodes"]["node1"].values()) == {False, None}
        assert state["instances"]["web1"] == {
            "pnode": "node1",
            "status": "ERROR_nodedown",
            "admin_state": "up",
            "oper_ram": None,
        }
        assert state["nodes"]["node2"]["mfree"] == 4096
        found.nodes.calls.clear()
        assert (await found.listed())["node1"] is None
        assert found.nodes.calls == [(ONE, "node_info")], "it is asked again"
        report = found.cache.reports.report(ONE)
        assert report is not None and report.silence

    run(scenario)


def test_a_partial_answer_is_not_kept() -> None:
    async def scenario(found: Bed) -> None:
        found.nodes.partial = {ONE}
        await found.groups.renew(RenewGroupState(GROUP))
        assert found.stale() == [ONE, THREE]

    run(scenario)


def test_what_ended_before_does_not_make_void_what_is_asked_now() -> None:
    """A job had the lock for itself until a moment ago, and news of locks come late: they are waited for."""

    async def scenario(found: Bed) -> None:
        client, settled, owner = found.daemon.client, found.cache.settled, found.daemon.job(1).for_locks
        waited: list[str] = []

        async def settle() -> list[str] | None:
            waited.extend(found.stale())
            assert found.nodes.calls == [(ONE, "node_info"), (TWO, "node_info")], "nobody was asked anew so far"
            return await settled()

        await found.groups.renew(RenewGroupState(GROUP))
        assert await client.try_locks(owner, [(node_lock(ONE), "exclusive")]) == []
        await client.free_locks(owner)
        found.cache.settled = settle  # type: ignore[method-assign]
        await found.groups.renew(RenewGroupState(GROUP))
        assert TWO not in waited, "nothing was made void before"
        assert THREE in waited
        assert found.stale() == [THREE]

    run(scenario)


def test_giving_up_the_jobs_own_locks_makes_nothing_void() -> None:
    async def scenario(found: Bed) -> None:
        client, owner = found.daemon.client, found.daemon.job(1).for_locks
        locks = [node_lock(ONE), node_lock(TWO), instance_lock("web1"), instance_lock("web2")]
        assert await client.try_locks(owner, [(lock, "shared") for lock in locks]) == []
        await found.groups.renew(RenewGroupState(GROUP))
        await client.free_locks(owner)
        assert await found.cache.settled() == []
        assert found.stale() == [THREE]

    run(scenario)


def test_of_two_at_once_what_was_asked_for_later_is_kept() -> None:
    async def scenario(found: Bed) -> None:
        async def another() -> None:
            found.nodes.free_mib = 1000
            assert (await found.groups.renew(RenewGroupState(GROUP)))["nodes"]["node1"]["mfree"] == 1000

        found.nodes.during = another
        assert (await found.groups.renew(RenewGroupState(GROUP)))["nodes"]["node1"]["mfree"] == 4096
        assert (await found.listed())["node1"] == 1000

    run(scenario)


def test_an_empty_group_asks_nobody_and_one_that_is_gone_is_an_error() -> None:
    async def scenario(found: Bed) -> None:
        state = await found.groups.renew(RenewGroupState(EMPTY))
        assert state == {"group": {"name": "empty", "uuid": EMPTY}, "nodes": {}, "instances": {}}
        with pytest.raises(GanetiError, match="uuid-group9"):
            await found.groups.renew(RenewGroupState("uuid-group9"))
        assert found.nodes.calls == []

    run(scenario)

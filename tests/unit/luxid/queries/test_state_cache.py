# SPDX-License-Identifier: BSD-2-Clause
"""The cache hears of what jobs give up in time, over a real WConfD: what ended before a question is known to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.node_answers import facts
from tests.fakes.sample_cluster import add_instance, configuration
from tests.fakes.wconfd import Running, fast_directory, prepare, running_wconfd, until

from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.queries.report_listener import ReportListener
from ganeti.luxid.queries.state_cache import StateCache
from ganeti.master.cache.node_reports import NodeReport, silent
from ganeti.master.operations.changes import RemoveInstance
from ganeti.master.query.collecting import Mark
from ganeti.model.capacity import Capacity
from ganeti.model.locks import instance_lock, node_lock
from ganeti.model.node_calls.node import NodeInfo
from ganeti.ports.nodes import NodeAnswer
from ganeti.system.event_loop import Background

ONE, TWO, THREE = "uuid-node1", "uuid-node2", "uuid-node3"
GROUP = "uuid-group1"
QUESTION = NodeInfo(storage=[], hypervisors={})
WHOLE = facts(memory_free_mib=4, guests=[])
COUNTED = Capacity({"tspecs": []}, 5.0)


@asynccontextmanager
async def bed(root: Path) -> AsyncIterator[tuple[Running, StateCache]]:
    config = configuration()
    config.put("cluster", "cluster", replace(config.cluster, hvparams={"pretend": {}}))
    add_instance(config, "web1", TWO, template="none")
    Path(prepare(root, fresh=False).config_file).write_text(json.dumps(config.to_plain()))
    async with running_wconfd(root) as daemon:
        client, background, cache = WConfdClient(daemon.paths.wconfd_socket), Background(), StateCache(lambda: 0.0)
        follower = ConfigFollower(client)
        background.start(follower.run(), "following")
        assert await follower.filled(10.0)
        cache.follow(follower, client, daemon.paths.wconfd_socket)
        try:
            yield daemon, cache
        finally:
            await cache.close()
            await background.cancel()
            await client.close()


def run(scenario: Callable[[Running, StateCache], Awaitable[None]]) -> None:
    async def go(root: Path) -> None:
        async with bed(root) as (daemon, cache):
            await until(lambda: cache._serial is not None)
            for node in (ONE, TWO, THREE):
                cache.live.keep(QUESTION, node, WHOLE, cache.live.begin(), 0.0)
            await scenario(daemon, cache)

    with fast_directory() as root:
        asyncio.run(go(root))


def served(cache: StateCache) -> list[str]:
    return list(cache.live.fresh(QUESTION, [ONE, TWO, THREE], 0.0))


@pytest.mark.requirement("S1.39", "S1.46")
def test_what_a_job_holds_is_changing_and_what_it_gave_up_has_changed() -> None:
    async def scenario(daemon: Running, cache: StateCache) -> None:
        owner = daemon.job(1)
        wanted = [(node_lock(TWO), "exclusive"), (node_lock(THREE), "shared")]
        assert await daemon.client.try_locks(owner.for_locks, wanted) == []
        assert await cache.settled() == [TWO]
        await daemon.client.free_locks(owner.for_locks)
        assert await cache.settled() == []
        assert served(cache) == [ONE, THREE]

    run(scenario)


def test_a_job_that_came_and_went_unseen_is_known_of() -> None:
    """Many in a row: the news come over another connection than the answers."""

    async def scenario(daemon: Running, cache: StateCache) -> None:
        for number in range(1, 31):
            owner = daemon.job(number)
            cache.live.keep(QUESTION, ONE, WHOLE, cache.live.begin(), 0.0)
            assert await daemon.client.try_locks(owner.for_locks, [(node_lock(ONE), "exclusive")]) == []
            await daemon.client.free_locks(owner.for_locks)
            assert await cache.settled() == []
            assert ONE not in served(cache)

    run(scenario)


def test_the_nodes_of_an_instance_that_is_gone_are_changing_until_its_job_ends() -> None:
    async def scenario(daemon: Running, cache: StateCache) -> None:
        owner = daemon.job(1)
        assert await daemon.client.try_locks(owner.for_locks, [(instance_lock("web1"), "exclusive")]) == []
        assert await cache.settled() == [TWO]
        await daemon.client.commit(owner, 1, RemoveInstance(instance_uuid="uuid-web1"), False)
        await until(lambda: served(cache) == [ONE, THREE])
        cache.live.keep(QUESTION, TWO, WHOLE, cache.live.begin(), 0.0)
        assert await cache.settled() == [TWO]
        await daemon.client.free_locks(owner.for_locks)
        assert await cache.settled() == []
        assert served(cache) == [ONE, THREE]

    run(scenario)


def test_without_wconfd_nothing_is_settled() -> None:
    async def scenario(daemon: Running, cache: StateCache) -> None:
        assert await cache.settled() == []
        await daemon.service.stop()
        await until(lambda: cache._serial is None)
        assert await cache.settled() is None

    run(scenario)


@pytest.mark.requirement("S1.39")
def test_what_was_said_before_wconfd_was_away_counts_no_more() -> None:
    """Jobs may have come and gone meanwhile, with another WConfD."""

    async def scenario(daemon: Running, cache: StateCache) -> None:
        assert served(cache) == [ONE, TWO, THREE]
        cache._locks_lost()
        assert await cache.settled() is None
        cache._locks_known([], [])
        assert served(cache) == []

    run(scenario)


def test_silence_ends_what_a_node_said() -> None:
    async def scenario(daemon: Running, cache: StateCache) -> None:
        cache.note_answering(TWO, True)
        assert served(cache) == [ONE, TWO, THREE]
        cache.note_answering(TWO, False)
        assert served(cache) == [ONE, THREE]

    run(scenario)


def test_capacity_follows_reports_locks_and_commits() -> None:
    async def scenario(daemon: Running, cache: StateCache) -> None:
        def is_void_after(step: Callable[[], Any]) -> bool:
            begun = cache.capacity.begin()
            step()
            return cache.capacity.begin() > begun

        def report(free: int) -> Callable[[], None]:
            told = NodeReport(memory_total_mib=8, memory_free_mib=free)
            return lambda: cache.reports.take(ONE, told, cache.reports.begin(), 0.0)

        assert not is_void_after(report(4)), "nothing was known"
        assert not is_void_after(report(5))
        assert is_void_after(report(3))
        assert is_void_after(lambda: cache.reports.take(ONE, silent("away"), cache.reports.begin(), 0.0))
        assert not is_void_after(report(4)), "it is back"
        assert is_void_after(lambda: cache.reports.changed([ONE]))
        begun = cache.capacity.begin()
        await daemon.client.commit(daemon.job(1), 1, RemoveInstance(instance_uuid="uuid-web1"), False)
        await until(lambda: cache.capacity.begin() > begun)

    run(scenario)


def test_what_left_the_cluster_is_forgotten_and_does_not_come_back() -> None:
    """By a commit, or by a snapshot, which does not say what is gone."""

    async def scenario(daemon: Running, cache: StateCache) -> None:
        def tell(event: dict[str, Any], node: str) -> None:
            begun, capacity = Mark(cache.reports.begin(), cache.live.begin(), 1.0), cache.capacity.begin()
            ReportListener(cache).whole([NodeAnswer(node, WHOLE)], QUESTION, begun, frozenset([node]))
            assert cache.reports.report(node)
            assert cache.capacity.keep(GROUP, {}, COUNTED, begun=capacity, reservations=[], asked_at_s=0.0) == (
                node == ONE
            )
            taken_in = cache._observe(event)
            config = cache._view
            config.remove("nodes", node)
            if node == ONE:
                config.remove("nodegroups", GROUP)
            taken_in()
            ReportListener(cache).whole([NodeAnswer(node, WHOLE)], QUESTION, begun, frozenset([node]))
            cache.note_answering(node, False)

        tell({"event": "commit", "put": [], "remove": [["nodes", ONE], ["nodegroups", GROUP]]}, ONE)
        tell({"event": "snapshot"}, TWO)
        assert not cache.capacity.keep(
            GROUP, {}, COUNTED, begun=cache.capacity.begin(), reservations=[], asked_at_s=0.0
        )
        assert (cache.capacity._kept, cache.capacity._lessened) == ({}, {})
        assert [cache.reports.report(node) for node in (ONE, TWO)] == [None, None]
        assert list(cache.live._kept) == [(THREE, NodeInfo.call)]
        assert [list(kept._changed) for kept in (cache.live, cache.reports)] == [[THREE], [THREE]]

    run(scenario)


def test_only_what_is_held_is_remembered() -> None:
    async def scenario(daemon: Running, cache: StateCache) -> None:
        first, second = daemon.job(1), daemon.job(2)
        assert await daemon.client.try_locks(first.for_locks, [(node_lock(ONE), "exclusive")]) == []
        waiting = asyncio.create_task(daemon.client.call("waitLocks", *_asking(second, node_lock(ONE))))
        await cache.settled()
        assert list(cache._under) == [node_lock(ONE)]
        await daemon.client.free_locks(first.for_locks)
        await waiting
        assert await cache.settled() == [ONE], "the next one has it"
        await daemon.client.free_locks(second.for_locks)
        assert await cache.settled() == []
        assert cache._under == {}

    run(scenario)


def _asking(owner: Any, lock: str) -> tuple[Any, ...]:
    return owner.for_locks.to_wire(), 0, [[lock, "exclusive"]]

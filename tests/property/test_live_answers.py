# SPDX-License-Identifier: BSD-2-Clause
"""A list served from the cache shows what nodes would say now, as long as only jobs change anything.

News of locks come late, as over another connection, which begins late and is lost at times; answers of nodes are under
way while jobs begin and end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.node_answers import facts
from tests.fakes.sample_cluster import add_instance, configuration
from tests.fakes.thoroughness import examples

from ganeti.luxid.queries.report_listener import ReportListener
from ganeti.luxid.queries.state_cache import StateCache
from ganeti.master.cache.live_answers import LIVE_FRESH_S
from ganeti.master.query.collecting import Mark
from ganeti.model.locks import ALL_NODES, BGL, instance_lock, node_lock, node_res_lock
from ganeti.model.node_calls.node import NodeInfo
from ganeti.ports.nodes import NodeAnswer

NODES = ("uuid-node1", "uuid-node2", "uuid-node3")
QUESTION = NodeInfo(storage=[], hypervisors={}, guests=True)
CONFIGURATION = configuration()
add_instance(CONFIGURATION, "web1", NODES[0], template="none")
LOCKS = {
    node_lock(NODES[0]): NODES[:1],
    node_res_lock(NODES[1]): NODES[1:2],
    instance_lock("web1"): NODES[:1],
    ALL_NODES: NODES,
    BGL: NODES,
}


class World:
    """What nodes would say, who holds what, and LuxiD, which hears of both late. Stands for WConfD, too."""

    configuration = CONFIGURATION

    def __init__(self) -> None:
        self.truth = dict.fromkeys(NODES, 0)
        self.held: dict[str, int] = {}
        self.clock, self.serial, self.jobs = 0.0, 0, 0
        self.news: list[tuple[int, list[Any]]] = []
        self.under_way: list[tuple[list[NodeAnswer], Mark]] = []
        self.cache = StateCache(lambda: self.clock)
        self.cache._follower = self.cache._wconfd = self  # type: ignore[assignment]
        self.connected = False
        self.listener = ReportListener(self.cache)
        self.served = 0

    async def call(self, name: str) -> int:
        assert name == "lockSerial"
        asyncio.get_running_loop().call_soon(self.hear, len(self.news))
        return self.serial

    def connect(self, _: str) -> None:
        """LuxiD is told of the locks that are held, and nothing of those that were."""
        if not self.connected:
            self.connected = True
            held = [[lock, [[[job, f"job{job}", 1], "exclusive"]]] for lock, job in self.held.items()]
            self.cache._locks_known(held, [])
            self.cache._locks_changed(self.serial, [])

    def lose(self, _: str) -> None:
        if self.connected:
            self.connected = False
            self.news.clear()
            self.cache._locks_lost()

    def hear(self, number: int) -> None:
        for serial, changes in self.news[:number]:
            self.cache._locks_changed(serial, changes)
        del self.news[:number]

    def _tell(self, what: str, job: int, lock: str, state: str) -> None:
        self.serial += 1
        if self.connected:
            self.news.append((self.serial, [[what, [job, f"job{job}", 1], {lock: state}]]))

    def take(self, lock: str) -> None:
        if any(set(LOCKS[lock]) & set(LOCKS[other]) for other in self.held):
            return
        self.jobs += 1
        self.held[lock] = self.jobs
        self._tell("granted", self.jobs, lock, "exclusive")

    def change(self, lock: str) -> None:
        for node in LOCKS[lock] if lock in self.held else ():
            self.truth[node] += 1

    def give_up(self, lock: str) -> None:
        if lock in self.held:
            self._tell("freed", self.held.pop(lock), lock, "exclusive")

    def whole_job(self, lock: str) -> None:
        self.take(lock)
        self.change(lock)
        self.give_up(lock)

    def ask(self, _: str) -> None:
        """A list begins: the nodes have said what they know, and LuxiD has not read it yet."""
        self.under_way.append(([self._answer(node) for node in NODES], self.listener.begin()))

    def read(self, _: str) -> None:
        if self.under_way:
            answers, begun = self.under_way.pop(0)
            self.listener.whole(answers, QUESTION, begun, frozenset(NODES))

    def list(self, _: str) -> None:
        """What is known is what nodes would say; of the others, they are asked."""
        known = asyncio.run(self.listener.known(QUESTION, NODES))
        assert {node: found.boot_id for node, found in known.items()} == {node: str(self.truth[node]) for node in known}
        self.served += len(known)
        begun = self.listener.begin()
        missing = [self._answer(node) for node in NODES if node not in known]
        self.listener.whole(missing, QUESTION, begun, frozenset(NODES))

    def _answer(self, node: str) -> NodeAnswer:
        return NodeAnswer(node, facts(boot_id=str(self.truth[node]), answered=False, guests=[]))

    def time_passes(self, _: str) -> None:
        self.clock += LIVE_FRESH_S / 3

    def some_news(self, _: str) -> None:
        self.hear(1)


STEPS: tuple[Callable[[World, str], None], ...] = (
    World.connect,
    World.lose,
    World.take,
    World.change,
    World.give_up,
    World.whole_job,
    World.ask,
    World.read,
    World.list,
    World.time_passes,
    World.some_news,
)


@settings(max_examples=examples(400), deadline=None)
@given(st.booleans(), st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(list(LOCKS))), max_size=40))
def test_what_is_served_is_what_nodes_would_say(connected: bool, steps: list[Any]) -> None:
    world = World()
    if connected:
        world.connect("")
    for step, lock in steps:
        step(world, lock)
    world.list("")


def test_something_is_served() -> None:
    world = World()
    world.connect("")
    world.list("")
    world.list("")
    assert world.served == len(NODES)
    world.whole_job(node_lock(NODES[0]))
    world.list("")
    assert world.served == 2 * len(NODES) - 1


def test_what_was_said_before_the_first_connection_is_asked_again() -> None:
    """WConfD and LuxiD begin anew while a job runs: nobody told LuxiD of its lock, and nobody will."""
    world = World()
    world.take(node_lock(NODES[0]))
    world.list("")
    world.change(node_lock(NODES[0]))
    world.give_up(node_lock(NODES[0]))
    world.connect("")
    world.list("")
    assert world.served == 0

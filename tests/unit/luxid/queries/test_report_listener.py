# SPDX-License-Identifier: BSD-2-Clause
"""What queries hear of nodes reaches the cache of the state, and serves the next query."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.node_answers import facts, found_instance
from tests.fakes.sample_cluster import configuration

from ganeti.base.errors import NodeUnreachableError
from ganeti.luxid.queries.report_listener import ReportListener
from ganeti.luxid.queries.state_cache import StateCache
from ganeti.master.cache.live_answers import LIVE_FRESH_S
from ganeti.master.cache.node_reports import Space
from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_calls.instances import AllInstancesInfo
from ganeti.model.node_calls.node import NodeFacts, NodeInfo
from ganeti.model.node_calls.storage import StorageUnit
from ganeti.ports.nodes import NodeAnswer

GUEST = found_instance(memory_mib=512)
GUESTS = AllInstancesInfo(hypervisors={"pretend": {}})
UNITS = [StorageUnit(template="local", setting="/srv")]
WHOLE = NodeInfo(storage=UNITS, hypervisors=GUESTS.hypervisors, guests=True)
ALL = frozenset("abc")


class Follower:
    configuration = configuration()


class Cache(StateCache):
    """One whose jobs and WConfD are the test's."""

    def __init__(self) -> None:
        self.clock = 5.0
        super().__init__(lambda: self.clock)
        self._follower = Follower()  # type: ignore[assignment]
        self.busy: list[str] | None = []
        self.asked = 0

    def _has_node(self, uuid: str) -> bool:
        return uuid in ALL

    async def settled(self) -> list[str] | None:
        self.asked += 1
        return self.busy


def info(**more: Any) -> NodeFacts:
    return facts(**{"memory_free_mib": 4, "spaces": [(9, 7)], "guests": [GUEST], **more})


def listener() -> tuple[ReportListener, Cache]:
    cache = Cache()
    return ReportListener(cache), cache


def known(heard: ReportListener, request: NodeRequest[Any] = WHOLE) -> list[str]:
    return list(asyncio.run(heard.known(request, ["a", "b", "c"])))


@pytest.mark.requirement("S1.42")
def test_a_whole_answer_is_a_report() -> None:
    heard, cache = listener()
    begun = heard.begin()
    cache.clock = 9.0
    cache.reports.changed(["b"])
    heard.whole([NodeAnswer("a", info()), NodeAnswer("b", info())], WHOLE, begun, ALL)
    report = cache.reports.report("a")
    assert report is not None
    assert (report.memory_free_mib, report.space, report.guests) == (
        4,
        {"local": Space(9, 7)},
        [("web1", 512, "running")],
    )
    assert cache.reports.stale(["a", "b"], 5.0 + 29) == ["b"], "b changed while it was asked"
    assert cache.reports.stale(["a"], 5.0 + 30) == ["a"], "its age counts from the question"


@pytest.mark.requirement("S1.42")
def test_less_than_the_whole_is_none() -> None:
    heard, cache = listener()
    answers = [NodeAnswer("a", info(guests=None)), NodeAnswer("b", info(answered=False))]
    heard.whole(answers, WHOLE, heard.begin(), ALL)
    assert cache.reports.report("a") is cache.reports.report("b") is None


def test_a_node_that_takes_no_instances_has_no_report_and_serves_lists() -> None:
    heard, cache = listener()
    heard.whole([NodeAnswer("a", info())], WHOLE, heard.begin(), frozenset())
    assert cache.reports.report("a") is None
    assert known(heard) == ["a"]


def test_silence_is_noted_and_asked_about_again() -> None:
    heard, cache = listener()
    heard.whole([NodeAnswer("a", info())], WHOLE, heard.begin(), ALL)
    assert known(heard) == ["a"]
    heard.whole([NodeAnswer("a", error=NodeUnreachableError("Node a has no power"))], WHOLE, heard.begin(), ALL)
    report = cache.reports.report("a")
    assert report is not None and "no power" in report.silence
    assert known(heard) == []


@pytest.mark.requirement("S1.45")
def test_guests_are_compared() -> None:
    heard, cache = listener()
    heard.whole([NodeAnswer("a", info()), NodeAnswer("b", info())], WHOLE, heard.begin(), ALL)
    heard.guests([NodeAnswer("a", [GUEST]), NodeAnswer("b", [])], GUESTS, heard.begin())
    heard.guests([NodeAnswer("a", error=NodeUnreachableError("away"))], GUESTS, heard.begin())
    assert cache.reports.stale(["a", "b"], 5.0) == ["b"]


@pytest.mark.requirement("S1.50")
def test_an_answer_serves_the_same_question_for_seconds() -> None:
    heard, cache = listener()
    heard.whole([NodeAnswer("a", info())], WHOLE, heard.begin(), ALL)
    heard.guests([NodeAnswer("c", [])], GUESTS, heard.begin())
    assert known(heard) == ["a"]
    assert known(heard, GUESTS) == ["a", "c"], "a whole answer has the guests, too"
    assert known(heard, replace(WHOLE, storage=[])) == [], "other parameters are another question"
    cache.clock += LIVE_FRESH_S
    assert known(heard) == known(heard, GUESTS) == []


def test_nothing_is_served_of_nodes_that_jobs_are_changing_or_changed() -> None:
    heard, cache = listener()
    heard.whole([NodeAnswer("a", info()), NodeAnswer("b", info())], WHOLE, heard.begin(), ALL)
    cache.busy = ["b"]
    assert known(heard) == ["a"]
    cache.reports.changed(["a"])
    cache.busy = []
    assert known(heard) == ["b"]
    cache.busy = None
    assert known(heard) == [], "without WConfD nobody knows"


def test_a_change_while_a_node_is_asked_voids_its_answer() -> None:
    heard, cache = listener()
    begun = heard.begin()
    cache.live.changed(["a"])
    heard.whole([NodeAnswer("a", info())], WHOLE, begun, ALL)
    assert known(heard) == []


def test_a_change_while_wconfd_is_asked_is_seen() -> None:
    heard, cache = listener()
    heard.whole([NodeAnswer("a", info())], WHOLE, heard.begin(), ALL)

    async def settled() -> list[str]:
        cache.reports.changed(["a"])
        return []

    cache.settled = settled  # type: ignore[method-assign]
    assert known(heard) == []


@pytest.mark.requirement("S1.51")
def test_without_the_cache_every_node_is_asked_and_the_next_list_is_served() -> None:
    heard, cache = listener()
    heard.whole([NodeAnswer("a", info())], WHOLE, heard.begin(), ALL)
    unserved = ReportListener(cache, serves=False)
    assert known(unserved) == []
    assert cache.asked == 0
    cache.clock += LIVE_FRESH_S
    unserved.whole([NodeAnswer("a", info())], WHOLE, unserved.begin(), ALL)
    assert known(heard) == ["a"]

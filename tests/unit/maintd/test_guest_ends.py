# SPDX-License-Identifier: BSD-2-Clause
"""A node tells that guests have ended: when the watcher is made to look, and when not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.base.errors import NodeCallError, TransportError
from ganeti.maintd import guest_ends
from ganeti.maintd.guest_ends import GuestEndReceiver, exclusively_held
from ganeti.model.locks import instance_lock
from ganeti.model.objects import NodeGroup
from ganeti.wire.guest_report import GuestReport, write_guest_report

KEY = b"the key of the cluster"
NOW_S = 1_700_000_000.0


class Watched:
    """Instances web1 and web2 on node1, and how often the watcher has looked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.config = configuration()
        for name in ("web1", "web2"):
            add_instance(self.config, name, template="local")
        self.looked: list[str] = []
        self.held: frozenset[str] = frozenset()
        self.ends = GuestEndReceiver(lambda: self.config, self._busy, self._look, lambda: KEY)
        monkeypatch.setattr(guest_ends, "SETTLE_S", 0.0)
        monkeypatch.setattr(guest_ends, "AFTER_JOB_S", 0.0)
        monkeypatch.setattr(guest_ends.time, "time", lambda: NOW_S)

        self.luxid_fails = False
        self.others_at_work = False
        self.look: Callable[[str], Awaitable[None]] | None = None

    async def _busy(self) -> frozenset[str]:
        if self.luxid_fails:
            raise TransportError("LuxiD does not answer")
        return self.held

    async def _look(self, group: str) -> bool:
        self.looked.append(group)
        if self.look is not None:
            await self.look(group)
        return not self.others_at_work

    def change(self, name: str, **values: Any) -> None:
        old = self.config.find_instance(name)
        self.config.put("instances", old.uuid, msgspec.structs.replace(old, **values))

    def hear(
        self,
        ended: list[str] | None,
        node: str = "node1",
        key: bytes = KEY,
        now_s: float = NOW_S,
        running: tuple[str, ...] = ("web2",),
    ) -> str:
        return self.ends.hear(write_guest_report(GuestReport(node, ended, running, now_s), key))

    async def step(self) -> None:
        await self.ends._step()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    def second_group(self) -> str:
        """web2 lives on node2, of another group: its uuid."""
        node = self.config.node("uuid-node2")
        self.config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
        self.config.put("nodes", node.uuid, msgspec.structs.replace(node, group="uuid-green"))
        self.change("web2", primary_node="uuid-node2")
        return "uuid-green"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_a_guest_that_should_run_is_looked_after_once(watched: Watched) -> None:
    assert watched.hear(["web1", "unknown"]) == ""
    asyncio.run(watched.step())
    asyncio.run(watched.step())
    assert watched.looked == [watched.config.node("uuid-node1").group]


def test_as_a_node_begins_what_does_not_run_there_is_missed(watched: Watched) -> None:
    watched.hear(None)
    watched.change("web1", admin_state="down")
    asyncio.run(watched.step())
    assert watched.looked == [], "web2 runs, and web1 is not to run any more"
    watched.change("web1", admin_state="up")
    watched.hear(None)
    asyncio.run(watched.step())
    assert len(watched.looked) == 1


def test_what_a_job_is_at_work_on_waits_for_its_end(watched: Watched) -> None:
    watched.held = frozenset((instance_lock("web1"),))
    watched.hear(["web1"])
    asyncio.run(watched.step())
    assert watched.looked == []
    watched.held = frozenset()
    asyncio.run(watched.step())
    assert len(watched.looked) == 1


def test_one_that_was_moved_away_has_not_died(watched: Watched) -> None:
    watched.hear(["web1"])
    watched.change("web1", primary_node="uuid-node2")
    asyncio.run(watched.step())
    assert watched.looked == []


def test_deaths_that_follow_each_other_are_looked_at_together(watched: Watched) -> None:
    for _ in range(3):
        watched.hear(["web1"])
        asyncio.run(watched.step())
    assert len(watched.looked) == 1


def test_one_group_neither_fails_nor_waits_for_another(watched: Watched) -> None:
    own, green = watched.config.node("uuid-node1").group, watched.second_group()
    reached = asyncio.Event()

    async def look(group: str) -> None:
        if group == green:
            reached.set()
            return
        await asyncio.wait_for(reached.wait(), 60)
        raise NodeCallError("the node daemon does not answer")

    async def scenario() -> None:
        watched.look = look
        watched.hear(["web1"])
        watched.hear(["web2"], node="node2", running=())
        await watched.step()

    asyncio.run(scenario())
    assert sorted(watched.looked) == sorted((own, green)), "each is looked at, whatever comes of the other"


def test_a_guest_that_a_job_holds_outlives_the_failure_of_another_group(watched: Watched) -> None:
    green = watched.second_group()

    async def fail(group: str) -> None:
        raise NodeCallError("the node daemon does not answer")

    watched.look, watched.held = fail, frozenset((instance_lock("web2"),))
    watched.hear(["web1"])
    watched.hear(["web2"], node="node2", running=())
    asyncio.run(watched.step())
    watched.held = frozenset()
    asyncio.run(watched.step())
    assert watched.looked[-1] == green


def test_they_wait_until_luxid_answers(watched: Watched) -> None:
    watched.luxid_fails = True
    watched.hear(["web1"])
    asyncio.run(watched.step())
    watched.luxid_fails = False
    asyncio.run(watched.step())
    assert len(watched.looked) == 1


def test_where_another_watcher_is_at_work_it_is_looked_again(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_ends, "APART_S", 0.0)
    watched.others_at_work = True
    watched.hear(["web1"])
    asyncio.run(watched.step())
    watched.others_at_work = False
    for _ in range(2):
        asyncio.run(watched.step())
    assert len(watched.looked) == 2
    watched.others_at_work = True
    watched.hear(["web1"])
    asyncio.run(watched.step())
    monkeypatch.setattr(guest_ends, "BUSY_FOR_S", -1.0)
    asyncio.run(watched.step())
    assert len(watched.looked) == 3, "in the end it is for the watcher's next round"


@pytest.fixture
def quick(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Nobody waits for anything."""
    monkeypatch.setattr(guest_ends, "APART_S", 0.0)
    monkeypatch.setattr(guest_ends, "CONFIRMED_WITHIN_S", 0.0)
    return watched


def test_one_look_is_not_trusted(quick: Watched) -> None:
    """The watcher may have found the guest as it was before, or its start may have failed."""
    quick.hear(["web1"])
    for _ in range(guest_ends.MOST_LOOKS + 2):
        asyncio.run(quick.step())
    assert len(quick.looked) == guest_ends.MOST_LOOKS, "then it is for the watcher's next round"
    quick.hear(["web1"])
    asyncio.run(quick.step())
    assert len(quick.looked) == guest_ends.MOST_LOOKS + 1, "it has ended once more"


def test_an_end_stays_open_until_the_node_says_that_the_guest_runs(quick: Watched) -> None:
    quick.hear(["web1"])
    asyncio.run(quick.step())
    quick.hear([], running=("web1", "web2"), node="node2")
    quick.hear([], running=("web1", "web2"), now_s=NOW_S - 5)
    asyncio.run(quick.step())
    assert len(quick.looked) == 2, "another node's report counts for nothing, nor one from before the end"
    quick.hear([], running=("web1", "web2"), now_s=NOW_S + 5)
    asyncio.run(quick.step())
    assert len(quick.looked) == 2


def test_an_end_is_closed_when_the_configuration_wants_no_guest_there(quick: Watched) -> None:
    quick.hear(["web1"])
    asyncio.run(quick.step())
    quick.change("web1", admin_state="down")
    asyncio.run(quick.step())
    assert len(quick.looked) == 1


def test_a_guest_that_a_job_has_started_is_given_time_to_be_seen(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_ends, "AFTER_JOB_S", 3600.0)
    watched.held = frozenset((instance_lock("web1"),))
    watched.hear(["web1"])
    asyncio.run(watched.step())
    watched.held = frozenset()
    asyncio.run(watched.step())
    assert watched.looked == []


def test_a_look_that_fails_is_made_again(quick: Watched) -> None:
    async def fail(group: str) -> None:
        quick.look = None
        raise NodeCallError("the node daemon does not answer")

    quick.look = fail
    quick.hear(["web1"])
    for _ in range(2):
        asyncio.run(quick.step())
    assert len(quick.looked) == 2


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"key": b"another"}, "signature"),
        ({"now_s": NOW_S - 1000}, "time"),
        ({"now_s": NOW_S + 1000}, "time"),
        ({"node": "stranger"}, "node"),
    ],
)
def test_what_is_not_believed_is_refused_and_counted(watched: Watched, values: dict[str, Any], kind: str) -> None:
    assert watched.hear(["web1"], **values)
    asyncio.run(watched.step())
    assert watched.looked == [] and watched.ends.refused == {kind: 1}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"signed": 3}', b"[" * 100_000])
def test_nonsense_is_refused(watched: Watched, body: bytes) -> None:
    assert watched.ends.hear(body) and watched.ends.refused.total() == 1


def test_locks_that_are_shared_hold_nothing_back() -> None:
    rows = [[[0, "instance/web1"], [0, "exclusive"]], [[0, "instance/web2"], [0, "shared"]]]
    assert exclusively_held(rows) == {"instance/web1"}

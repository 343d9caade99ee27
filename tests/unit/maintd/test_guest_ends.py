# SPDX-License-Identifier: BSD-2-Clause
"""A node tells that guests have ended: when the watcher is made to look, and when not."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.maintd import guest_ends
from ganeti.maintd.guest_ends import GuestEndsHeard, exclusively_held
from ganeti.model.locks import instance_lock
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
        self.ends = GuestEndsHeard(lambda: self.config, self._busy, self._look, lambda: KEY)
        monkeypatch.setattr(guest_ends, "SETTLE_S", 0.0)
        monkeypatch.setattr(guest_ends.time, "time", lambda: NOW_S)

    async def _busy(self) -> frozenset[str]:
        return self.held

    async def _look(self, group: str) -> None:
        self.looked.append(group)

    def change(self, name: str, **values: Any) -> None:
        old = self.config.find_instance(name)
        self.config.put("instances", old.uuid, msgspec.structs.replace(old, **values))

    def hear(self, ended: list[str] | None, node: str = "node1", key: bytes = KEY, now_s: float = NOW_S) -> str:
        return self.ends.hear(write_guest_report(GuestReport(node, ended, ["web2"]), now_s, key))

    async def step(self) -> None:
        await self.ends._step()


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

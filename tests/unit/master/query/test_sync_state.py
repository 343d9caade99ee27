# SPDX-License-Identifier: BSD-2-Clause
"""`sync_state` and `sync_position` of nodes: what WConfD says of the copies, asked once and only when wanted."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import GanetiError, TransportError
from ganeti.master.query.collecting import Inquiry, NodeAsker, collector
from ganeti.master.query.fields import QueryWorld, Status
from ganeti.master.query.nodes import NODES
from ganeti.master.query.running import describe_fields, run_query
from ganeti.model.copies import Copies, read_copies
from ganeti.ports.nodes import NodeAnswer

Cell = tuple[Status, Any]


def state(state: str, position: list[int] | None, reason: str = "") -> dict[str, Any]:
    return {"state": state, "position": position, "reason": reason, "since_s": 10.0}


def answer(**nodes: dict[str, Any]) -> dict[str, Any]:
    return {
        "epoch": 2,
        "membership": {"version": [2, 1], "members": ["uuid-node1", "uuid-node2"]},
        "position": [2, 7],
        "nodes": {f"uuid-{name}": value for name, value in nodes.items()},
    }


SAID = answer(
    node1=state("master", [2, 7]),
    node2=state("in-sync", [2, 7]),
    node3=state("behind", [2, 4], "disk"),
    node4=state("away", None, "does not answer"),
    node5=state("catching-up", [1, 90]),
)


class Nodes:
    """Counts who is asked for live data."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def call_many(self, uuids: Iterable[str], call: str, **arguments: Any) -> list[NodeAnswer]:
        asked = list(uuids)
        self.asked += asked
        return [NodeAnswer(uuid, error=GanetiError("not now")) for uuid in asked]


class Asked:
    def __init__(self, said: Any) -> None:
        self.said = said
        self.copies_asked = 0
        self.nodes = Nodes()
        self.config = configuration(7)
        for index, flags in ((6, {"master_candidate": False}), (7, {"offline": True})):
            node = self.config.node(f"uuid-node{index}")
            self.config.put("nodes", node.uuid, replace(node, **flags))

    async def copies(self) -> Copies:
        self.copies_asked += 1
        if isinstance(self.said, Exception):
            raise self.said
        return read_copies(self.said)

    def rows(self, *fields: str, qfilter: Any = None) -> dict[str, list[Cell]]:
        world = QueryWorld(self.config, catalogue())
        collect = collector(Inquiry(world, NodeAsker(self.nodes), self.copies))  # type: ignore[arg-type]
        names = ["name", *fields]
        _, data = asyncio.run(run_query(NODES, NODES.rows(world), names, qfilter, collect))
        return {row[0][1]: [(Status(status), value) for status, value in row[1:]] for row in data}


def test_each_state_has_its_words() -> None:
    asked = Asked(SAID)
    assert asked.rows("sync_state", "sync_position") == {
        "node1": [(Status.NORMAL, "master"), (Status.NORMAL, "2.7")],
        "node2": [(Status.NORMAL, "in-sync"), (Status.NORMAL, "2.7")],
        "node3": [(Status.NORMAL, "behind: disk is full or fails"), (Status.NORMAL, "2.4")],
        "node4": [(Status.NORMAL, "away"), (Status.NODATA, None)],
        "node5": [(Status.NORMAL, "catching-up"), (Status.NORMAL, "1.90")],
        "node6": [(Status.UNAVAILABLE, None), (Status.UNAVAILABLE, None)],
        "node7": [(Status.OFFLINE, None), (Status.OFFLINE, None)],
    }
    assert asked.copies_asked == 1
    assert asked.nodes.asked == [], "the nodes themselves know nothing of this"


def test_who_does_not_ask_costs_wconfd_nothing() -> None:
    asked = Asked(SAID)
    asked.rows("pip", "bootid")
    assert (asked.copies_asked, len(asked.nodes.asked)) == (0, 6)


def test_a_filter_can_ask_for_it() -> None:
    """What a node has no value for does not decide, as everywhere in filters."""
    asked = Asked(SAID)
    candidates = ["&", ["?", "master_candidate"], ["!", ["?", "offline"]]]
    assert list(asked.rows(qfilter=["&", candidates, ["=", "sync_state", "in-sync"]])) == ["node2"]
    assert list(asked.rows("sync_state", qfilter=["&", candidates, ["=~", "sync_state", "^behind"]])) == ["node3"]
    assert asked.copies_asked == 2


@pytest.mark.parametrize(
    "said",
    [
        TransportError("away"),
        GanetiError("No such method: replicationState"),
        {"epoch": 2},
        answer(node1=state("confused", [2, 7])),
        answer(node1=state("in-sync", [2])),
        None,
    ],
)
def test_where_wconfd_cannot_say_there_is_no_data(said: Any) -> None:
    rows = Asked(said).rows("sync_state", "sync_position")
    assert rows["node1"] == rows["node2"] == [(Status.NODATA, None), (Status.NODATA, None)]
    assert rows["node6"][0] == (Status.UNAVAILABLE, None)


def test_a_candidate_that_wconfd_does_not_know_yet_has_no_data() -> None:
    assert Asked(answer(node1=state("master", [2, 7]))).rows("sync_state")["node2"] == [(Status.NODATA, None)]


def test_other_reasons_are_told_as_they_are() -> None:
    said = answer(node3=state("behind", [2, 4], "it is 12 records away"), node2=state("behind", None))
    rows = Asked(said).rows("sync_state")
    assert rows["node3"] == [(Status.NORMAL, "behind: it is 12 records away")]
    assert rows["node2"] == [(Status.NORMAL, "behind")]


def test_both_fields_are_listed() -> None:
    listed = {field["name"]: field for field in describe_fields(NODES, None)["fields"]}
    assert listed["sync_state"]["kind"] == listed["sync_position"]["kind"] == "text"
    assert '"behind: REASON"' in listed["sync_state"]["doc"]

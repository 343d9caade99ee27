# SPDX-License-Identifier: BSD-2-Clause
"""Long lists made in slices say what one list at one moment says, and give others a turn."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.context import FakeNodes
from tests.fakes.node_answers import guest
from tests.fakes.sample_cluster import catalogue, configuration
from tests.fakes.turns import turns_beside

from ganeti.base.errors import PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.luxid.queries import slices
from ganeti.luxid.queries.answers import answered
from ganeti.luxid.queries.slices import of_objects, written
from ganeti.luxid.queries.sources import QuerySources
from ganeti.luxid.query_calls import QueryCalls
from ganeti.master.query.fields import NODATA, TEXT, Field, Resource
from ganeti.master.query.filters import compile_filter
from ganeti.master.query.instances import INSTANCES
from ganeti.master.query.running import run_query
from ganeti.model.objects import Instance
from ganeti.wire.job_file import JobFile

FIELDS = [Field("name", "Name", TEXT, "", lambda row: row), Field("odd", "Odd", TEXT, "", lambda row: NODATA)]
MANY = 1200


class Following:
    def __init__(self) -> None:
        self.configuration = configuration()
        self.observers: list[Any] = []
        for number in range(MANY):
            uuid = f"uuid-{number}"
            instance = Instance(
                uuid=uuid, name=f"web{number}", os="noop", hypervisor="pretend", primary_node="uuid-node1", tags=["a"]
            )
            self.configuration.put("instances", uuid, instance)


def test_rows_are_those_that_pass_in_their_order_and_forgotten() -> None:
    rows = [f"web{number}" for number in range(50)]
    predicate, _ = compile_filter(["=~", "name", "[05]$"], {field.name: field for field in FIELDS})
    found = asyncio.run(written(of_objects(rows, FIELDS, predicate)))
    wanted = [[[0, f"web{number}"], [2, None]] for number in range(0, 50, 5)]
    assert json.loads(b"".join(found.parts)) == wanted
    assert rows == []


def test_others_have_a_turn_while_a_long_list_is_made() -> None:
    slow = Field("name", "Name", TEXT, "", lambda row: time.sleep(0.0005))
    turns: list[float] = []

    async def beside() -> None:
        while True:
            turns.append(time.monotonic())
            await asyncio.sleep(0)

    async def both() -> None:
        other = asyncio.ensure_future(beside())
        predicate, _ = compile_filter(None, {})
        await written(of_objects(list(range(100)), [slow], predicate))
        other.cancel()

    asyncio.run(both())
    assert len(turns) > 5


def test_a_list_of_very_many_is_the_same_as_one_made_at_once() -> None:
    follower: Any = Following()
    sources = QuerySources(follower, None, None, catalogue(), None)  # type: ignore[arg-type]
    names = ["name", "pnode", "tags", "be/vcpus", "no_such_field"]
    resource = sources.resource("instance")

    async def asked(qfilter: Any) -> Any:
        return await sources.long_list(resource, names, qfilter)

    async def at_once(qfilter: Any) -> Any:
        rows = await sources.rows(resource, qfilter)
        return (await run_query(resource, rows, names, qfilter, sources.collector()))[1]

    for qfilter in (None, ["=~", "name", "7$"], ["=[]", "tags", "b"]):
        fields, rows = asyncio.run(asked(qfilter))
        assert [field.name for field in fields] == names
        assert json.loads(b"".join(rows.parts)) == json.loads(json.dumps(asyncio.run(at_once(qfilter))))
    assert asyncio.run(asked(["==", "name", "web7"])) is None, "names are an error where there is no such instance"
    assert INSTANCES.fields["oper_state"].live
    assert asyncio.run(asked(["?", "oper_state"])) is None, "nodes are asked"


def test_nothing_of_a_configuration_is_kept_that_another_takes_the_place_of() -> None:
    follower: Any = Following()
    sources = QuerySources(follower, None, None, catalogue(), None)  # type: ignore[arg-type]
    resource = sources.resource("instance")
    assert asyncio.run(sources.long_list(resource, ["name"], None)) is not None
    old = weakref.ref(follower.configuration)
    for tell in [observer({"event": "snapshot"}) for observer in follower.observers]:
        follower.configuration = configuration()
        tell()
    gc.collect()
    assert old() is None


def test_calls_from_before_the_query_language_say_nothing_of_unknown_names() -> None:
    """As Debian's Ganeti answers them: rows in their natural order, each once."""
    follower: Any = Following()
    sources = QuerySources(follower, None, None, catalogue(), None)  # type: ignore[arg-type]
    calls = QueryCalls(Paths("/nowhere"), sources).of_resources()

    def ask(call: str, *arguments: Any) -> Any:
        return json.loads(b"".join(asyncio.run(calls[call](list(arguments))).parts))

    assert ask("QueryInstances", ["gone"], ["name"], False) == []
    assert ask("QueryInstances", ["web20", "gone", "web3", "web20"], ["name"], False) == [["web3"], ["web20"]]
    assert ask("QueryNodes", ["gone", "node1"], ["name"], False) == [["node1"]]
    assert ask("QueryGroups", ["gone"], ["name"], False) == []
    assert ask("QueryNetworks", ["gone"], ["name"], False) == []
    assert len(ask("QueryInstances", [], ["name"], False)) == MANY


def test_unknown_jobs_that_are_asked_for_have_a_row_without_values() -> None:
    """As Debian's Ganeti answers them; names of other objects that there are not are an error."""
    follower: Any = Following()
    known = {3: JobFile(id=3, ops=[])}
    queue: Any = SimpleNamespace(
        readable_job=known.get, job_ids=lambda **_: list(known), machine=SimpleNamespace(status_of=known.get)
    )
    queries = QueryCalls(Paths("/nowhere"), QuerySources(follower, queue, None, catalogue(), None))  # type: ignore[arg-type]

    def ask(qfilter: Any) -> Any:
        return json.loads(b"".join(asyncio.run(queries.query("job", ["id", "status"], qfilter)).parts))["data"]

    unavailable = [3, None]
    assert ask(["|", ["==", "id", 9], ["==", "id", 3]]) == [[[0, 9], unavailable], [[0, 3], [0, "success"]]]
    assert ask(["==", "id", 9]) == [[[0, 9], unavailable]]


@pytest.mark.parametrize("call", ["Query", "QueryInstances"])
def test_others_have_a_turn_while_a_list_is_made_for_which_nodes_are_asked(call: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(slices, "_SLICE_S", 0.0)
    follower: Any = Following()
    nodes: Any = FakeNodes(follower.configuration, [])
    nodes.handlers["all_instances_info"] = lambda name, **_: [guest("web7")] if name == "node1" else []
    sources = QuerySources(follower, None, None, catalogue(), nodes)  # type: ignore[arg-type]
    queries = QueryCalls(Paths("/nowhere"), sources)

    async def go() -> tuple[Any, int]:
        with turns_beside() as turns:
            if call == "Query":
                found = await queries.query("instance", ["name", "oper_state"], ["?", "oper_state"])
            else:
                found = await queries.of_resources()[call]([[], ["name", "oper_state"], False])
        return json.loads(b"".join(found.parts)), turns.count

    monkeypatch.setattr(sources.asker, "_copies", None)
    monkeypatch.setattr(sources.cache, "_follower", follower, raising=False)
    told, turns = asyncio.run(go())
    if call == "Query":
        assert told["data"] == [[[0, "web7"], [0, True]]]
    else:
        assert len(told) == MANY and told[7] == ["web7", True]
    assert turns > MANY


def test_a_list_is_made_at_one_moment_where_what_it_names_goes_meanwhile() -> None:
    moments = iter([True, False, *[True] * 10])

    def get(row: str) -> str:
        if not next(moments):
            raise PrerequisiteError("Group with UUID gone not known")
        return row

    async def collect(rows: Any, fields: Any) -> None: ...

    field = Field("name", "Name", TEXT, "", get)
    resource = Resource("thing", "name", {"name": field}, "Thing")
    _, told = asyncio.run(answered(resource, ["a", "b"], ["name"], None, collect))
    assert json.loads(b"".join(told.parts)) == [[[0, "a"]], [[0, "b"]]]

# SPDX-License-Identifier: BSD-2-Clause
"""Tags of every kind of object: set, deleted, given and searched for by opcodes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import GanetiError, PrerequisiteError, TagError
from ganeti.master.operation import decode
from ganeti.master.operations import load
from ganeti.master.operations.tags.tagged import AddTags, RemoveTags
from ganeti.model.configuration import Draft
from ganeti.model.locks import BGL, LockPlan
from ganeti.model.objects import CLUSTER_KEY, Network
from ganeti.model.tags import MOST

load()
OBJECTS = {
    "cluster": (None, "cluster", CLUSTER_KEY),
    "nodegroup": ("default", "nodegroups", "uuid-group1"),
    "node": ("node2", "nodes", "uuid-node2"),
    "instance": ("web", "instances", "uuid-web"),
    "network": ("lan", "networks", "uuid-lan"),
}
KINDS = list(OBJECTS)


def make(**tags: list[str]) -> FakeContext:
    """A cluster with one object of each kind to look at; *tags* by the kind of object."""
    config = configuration()
    add_instance(config, "web")
    config.put("networks", "uuid-lan", Network(uuid="uuid-lan", name="lan", network="10.0.0.0/24"))
    for kind, values in tags.items():
        _, container, uuid = OBJECTS[kind]
        config.put(container, uuid, replace(config.get(container, uuid), tags=values))  # type: ignore[type-var]
    return FakeContext(config, catalogue())


def opcode(verb: str, kind: str, **values: Any) -> Any:
    name = OBJECTS[kind][0]
    return decode({"OP_ID": f"OP_TAGS_{verb}", "kind": kind, "name": name, **values})


def stored(ctx: FakeContext, kind: str) -> Any:
    _, container, uuid = OBJECTS[kind]
    return ctx.config.view().get(container, uuid)


@pytest.mark.parametrize("kind", KINDS)
def test_tags_are_added_in_order_and_nothing_else_changes(kind: str) -> None:
    ctx = make(**{kind: ["b"]})
    before = stored(ctx, kind)
    assert run(opcode("SET", kind, tags=["c", "a", "b", "a"]), ctx) is None
    after = stored(ctx, kind)
    assert after.tags == ["a", "b", "c"]
    assert after == replace(before, tags=after.tags, serial_no=after.serial_no, mtime=after.mtime)
    assert after.serial_no == before.serial_no + 1
    assert ctx.config.settled == [True]


@pytest.mark.parametrize("kind", KINDS)
def test_tags_are_taken_away(kind: str) -> None:
    ctx = make(**{kind: ["a", "b", "c"]})
    assert run(opcode("DEL", kind, tags=["c", "a", "c"]), ctx) is None
    assert stored(ctx, kind).tags == ["b"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_missing_stops_the_removal(kind: str) -> None:
    ctx = make(**{kind: ["a"]})
    with pytest.raises(PrerequisiteError) as caught:
        run(opcode("DEL", kind, tags=["a", "y", "x"]), ctx)
    assert str(caught.value).startswith("Tag(s) 'x', 'y' not found: ")
    assert caught.value.code == "unknown_entity"
    assert stored(ctx, kind).tags == ["a"]


@pytest.mark.parametrize("values", [["a"], ["a", "a"], []])
def test_what_is_there_already_commits_nothing(values: list[str]) -> None:
    ctx = make(node=["a"])
    run(opcode("SET", "node", tags=values), ctx)
    run(opcode("DEL", "node", tags=[]), ctx)
    assert ctx.story == []


def test_an_odd_tag_of_an_imported_configuration_can_be_removed() -> None:
    ctx = make(node=["a b"])
    run(opcode("DEL", "node", tags=["a b"]), ctx)
    assert stored(ctx, "node").tags == []


@pytest.mark.parametrize("tags", [["good", "a b"], [""], ["x" * 129], ["a\n"], [str(each) for each in range(MOST)]])
def test_a_tag_that_cannot_be_stops_all(tags: list[str]) -> None:
    ctx = make(node=["a"])
    with pytest.raises(TagError) as caught:
        run(opcode("SET", "node", tags=tags), ctx)
    assert caught.value.to_wire()[0] == "TagError"
    assert stored(ctx, "node").tags == ["a"]


@pytest.mark.parametrize(
    ("kind", "lock"),
    [
        ("cluster", None),
        ("nodegroup", "nodegroup/uuid-group1"),
        ("node", "node/uuid-node2"),
        ("instance", "instance/web"),
        ("network", "network/uuid-lan"),
    ],
)
def test_the_object_is_locked(kind: str, lock: str | None) -> None:
    view = make().config.view()
    locks = {lock} if lock else set()
    for verb in ("SET", "DEL"):
        assert opcode(verb, kind, tags=["a"]).locks(view) == LockPlan.of(shared=[BGL], exclusive=locks)
    assert opcode("GET", kind).locks(view) == LockPlan.of(shared=[BGL])
    assert opcode("GET", kind, use_locking=True).locks(view) == LockPlan.of(shared=[BGL, *locks])


@pytest.mark.parametrize("kind", KINDS)
def test_tags_are_given(kind: str) -> None:
    assert run(opcode("GET", kind), make(**{kind: ["b", "a"]})) == ["a", "b"]


def test_the_cluster_has_one_name_whatever_is_given() -> None:
    ctx = make()
    run(decode({"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": "whatever", "tags": ["a"]}), ctx)
    assert ctx.config.view().cluster.tags == ["a"]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"kind": "node", "tags": ["a"]}, "Name the node whose tags are meant"),
        ({"kind": "node", "name": "", "tags": ["a"]}, "Name the node whose tags are meant"),
        ({"kind": "node", "name": "nosuch", "tags": ["a"]}, "Node 'nosuch' not known"),
        ({"kind": "network", "name": "x", "tags": ["a"]}, "Network 'x' not known"),
        ({"kind": "disk", "name": "x", "tags": ["a"]}, "parameter 'kind'"),
        ({"kind": "node", "name": "node1"}, "the parameter 'tags' is missing"),
        ({"kind": "node", "name": "node1", "tags": "a"}, "parameter 'tags': it must be a list, not text"),
        ({"kind": "node", "name": "node1", "tags": [1]}, "it must be text, not a whole number"),
    ],
)
@pytest.mark.parametrize("verb", ["SET", "DEL"])
def test_what_is_wrong_is_refused_in_a_sentence(verb: str, values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GanetiError) as caught:
        run(decode({"OP_ID": f"OP_TAGS_{verb}", **values}), make())
    assert sentence in str(caught.value)


ALL = {kind: [f"{kind}:x", "common"] for kind in KINDS}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (
            "^common$",
            [
                ("/cluster", "common"),
                ("/nodegroup/default", "common"),
                ("/nodes/node2", "common"),
                ("/instances/web", "common"),
                ("/networks/lan", "common"),
            ],
        ),
        ("node:", [("/nodes/node2", "node:x")]),
        ("NODE", []),
        ("(?i)NODE:", [("/nodes/node2", "node:x")]),
        ("(in|net).*:x", [("/instances/web", "instance:x"), ("/networks/lan", "network:x")]),
    ],
)
def test_tags_are_searched_for_anywhere(pattern: str, found: list[tuple[str, str]]) -> None:
    assert run(decode({"OP_ID": "OP_TAGS_SEARCH", "pattern": pattern}), make(**ALL)) == found


@pytest.mark.parametrize("pattern", ["(", "*a", "[", "a{99999999999999999999}", "(a+)+b"])
def test_a_pattern_that_is_none(pattern: str) -> None:
    with pytest.raises(PrerequisiteError, match=r"Invalid search pattern '.*': .*; put a backslash before"):
        run(decode({"OP_ID": "OP_TAGS_SEARCH", "pattern": pattern}), make())


def test_an_empty_pattern_is_refused() -> None:
    with pytest.raises(PrerequisiteError, match="parameter 'pattern': it must not be empty"):
        decode({"OP_ID": "OP_TAGS_SEARCH", "pattern": ""})


def test_changes_of_different_tags_do_not_undo_each_other() -> None:
    """The cluster is not locked: two jobs may have looked at it before either commits."""
    draft = Draft(make(cluster=["old"]).config.view(), 1.0)
    uuid = draft.cluster.uuid
    AddTags(kind="cluster", uuid=uuid, tags=["a"]).apply(draft)
    AddTags(kind="cluster", uuid=uuid, tags=["b"]).apply(draft)
    RemoveTags(kind="cluster", uuid=uuid, tags=["old"]).apply(draft)
    assert draft.cluster.tags == ["a", "b"]
    with pytest.raises(PrerequisiteError, match="'old' not found"):
        RemoveTags(kind="cluster", uuid=uuid, tags=["old"]).apply(draft)


@pytest.mark.parametrize("change", [AddTags, RemoveTags])
def test_what_is_gone_cannot_be_changed(change: type[AddTags | RemoveTags]) -> None:
    draft = Draft(make().config.view(), 1.0)
    with pytest.raises(PrerequisiteError, match="not known"):
        change(kind="node", uuid="uuid-gone", tags=["a"]).apply(draft)


def test_summaries() -> None:
    assert opcode("SET", "node", tags=[]).summary() == "TAGS_SET"
    assert opcode("DEL", "node", tags=[]).summary() == "TAGS_DEL"
    assert opcode("GET", "node").summary() == "TAGS_GET(node2)"
    assert decode({"OP_ID": "OP_TAGS_SEARCH", "pattern": "a.b"}).summary() == "TAGS_SEARCH(a.b)"

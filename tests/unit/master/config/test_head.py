# SPDX-License-Identifier: BSD-2-Clause
"""A change gets into the head whole or not at all, and can be taken back."""

import msgspec
import pytest
from msgspec.structs import replace

from ganeti.base.errors import ConfigVerifyError, PrerequisiteError
from ganeti.master.config.head import Head
from ganeti.master.config.invariants import index_all, verify_all
from ganeti.model.configuration import Configuration, Draft
from ganeti.model.objects import Node
from ganeti.ports.config import Change

NOW_S = 1_800_000_000.0
NODE1, NODE3 = "00000020-0000-4000-8000-000000000020", "00000022-0000-4000-8000-000000000022"
WEB1, WEB2 = "00000040-0000-4000-8000-000000000040", "00000041-0000-4000-8000-000000000041"


class GiveNames(Change, frozen=True, kw_only=True):
    names: dict[str, str]

    def apply(self, draft: Draft) -> list[str]:
        for uuid, name in self.names.items():
            draft.put("instances", replace(draft.instance(uuid), name=name))
        return sorted(self.names.values())


class DropNode(Change, frozen=True, kw_only=True):
    uuid: str

    def apply(self, draft: Draft) -> None:
        draft.remove("nodes", self.uuid)


class RefuseHalfWay(Change, frozen=True, kw_only=True):
    def apply(self, draft: Draft) -> None:
        draft.put("cluster", replace(draft.cluster, cluster_name="half-way"))
        raise PrerequisiteError("no")


@pytest.fixture
def head(golden) -> Head:
    config = Configuration.from_plain(golden)
    config.position = (1, 41)
    return Head(config)


def consistent(head: Head) -> bool:
    fresh = index_all(head.config)
    return fresh.holders == head.indexes.holders and fresh.needed_by == head.indexes.needed_by


def test_a_change_advances_the_position_the_serial_and_the_time(head):
    staged = head.stage(GiveNames(names={WEB1: "renamed"}), NOW_S)
    assert (staged.position, staged.result) == ((1, 42), ["renamed"])
    web1 = head.config.find_instance("renamed")
    assert (web1.uuid, web1.serial_no, web1.mtime) == (WEB1, 5, NOW_S)
    put = staged.puts[0]
    assert msgspec.json.decode(put.data) == web1.to_plain()
    assert consistent(head)


def test_names_can_be_exchanged_in_one_change(head):
    before = {WEB1: head.config.instance(WEB1).name, WEB2: head.config.instance(WEB2).name}
    head.stage(GiveNames(names={WEB1: before[WEB2], WEB2: before[WEB1]}), NOW_S)
    assert head.config.uuid_by_name("instances", before[WEB1]) == WEB2
    assert head.config.uuid_by_name("instances", before[WEB2]) == WEB1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (GiveNames(names={WEB1: "web2.example.com"}), "The name web2.example.com is taken among instances"),
        (GiveNames(names={WEB1: "same", WEB2: "same"}), "The name same is taken"),
        (DropNode(uuid=NODE1), "node 00000020-.* cannot be removed: needed by cluster cluster.example.com, disk"),
    ],
)
def test_a_change_that_breaks_an_invariant_leaves_no_trace(head, change, complaint):
    before = head.config.to_plain()
    with pytest.raises(ConfigVerifyError, match=complaint):
        head.stage(change, NOW_S)
    assert head.config.to_plain() == before
    assert head.position == (1, 41)
    assert consistent(head)
    assert head.config.find_instance("web2.example.com").uuid == WEB2


def test_a_change_that_refuses_itself_leaves_no_trace(head):
    with pytest.raises(PrerequisiteError, match="no"):
        head.stage(RefuseHalfWay(), NOW_S)
    assert head.config.cluster.cluster_name == "cluster.example.com"
    assert consistent(head)


def test_what_was_staged_is_taken_back_last_first(head):
    before = head.config.to_plain()
    staged = [
        head.stage(GiveNames(names={WEB1: "a"}), NOW_S),
        head.stage(GiveNames(names={WEB1: "b", WEB2: "a"}), NOW_S),
        head.stage(DropNode(uuid=NODE3), NOW_S),
    ]
    for one in reversed(staged):
        head.revert(one)
    assert head.position == (1, 41)
    assert consistent(head)
    restored = head.config.to_plain()
    assert restored == before
    assert verify_all(head.config) == []


def test_a_change_without_effect_keeps_the_position(head):
    staged = head.stage(DropNode(uuid="not there"), NOW_S)
    assert staged.position == (1, 41)
    assert not staged.commit(None).changes_objects


def test_a_commit_looks_only_at_what_it_touches(head, monkeypatch):
    """The cost of a change must not grow with the cluster: no walk over all objects of a kind."""

    def walked(*_: object) -> None:
        raise AssertionError("all objects of a kind were walked over")

    monkeypatch.setattr(Configuration, "uuids", walked)
    monkeypatch.setattr(Configuration, "names", walked)
    head.stage(GiveNames(names={WEB1: "renamed"}), NOW_S)
    with pytest.raises(ConfigVerifyError, match="needed by"):
        head.stage(DropNode(uuid=NODE1), NOW_S)
    assert isinstance(head.config.get("nodes", NODE1), Node)

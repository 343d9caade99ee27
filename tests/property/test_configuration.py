# SPDX-License-Identifier: BSD-2-Clause
"""Laws of the configuration: any changes, in any order, refused or not, give what a rebuild from the file gives."""

import json
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.fakes.thoroughness import examples

from ganeti.base.errors import GanetiError
from ganeti.master.config.head import Head, Staged
from ganeti.master.config.importing import import_commit
from ganeti.master.config.invariants import hard_problems, index_all
from ganeti.master.config.publication import PublishedForm, ssconf_files
from ganeti.master.config.stream import event_of
from ganeti.model.configuration import Configuration, Draft
from ganeti.model.objects import KINDS, Disk, Instance, Nic, Node, Plain
from ganeti.ports.config import Change

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "config" / "config-3.1.json"
EXAMPLES = examples(40, quick=16, campaign=2000)
NAMES = ["web1.example.com", "a", "b", "c"]
NODES = [f"0000002{index}-0000-4000-8000-00000000002{index}" for index in range(3)] + ["new-node"]
INSTANCES = [f"0000004{index}-0000-4000-8000-00000000004{index}" for index in range(3)] + ["i1", "i2"]
DISKS = [f"0000005{index}-0000-4000-8000-00000000005{index}" for index in range(4)] + ["d1", "d2"]


class DoAll(Change, frozen=True, kw_only=True):
    """Several edits as one change."""

    edits: list[tuple[str, str, dict]]

    def apply(self, draft: Draft) -> int:
        for verb, uuid, fields in self.edits:
            _EDITS[verb](draft, uuid, fields)
        return len(self.edits)


def _edit_instance(draft: Draft, uuid: str, fields: Plain) -> None:
    nics = [Nic(mac=mac) for mac in fields["macs"]]
    changes = {"name": fields["name"], "primary_node": fields["node"], "disks": fields["disks"], "nics": nics}
    old = draft.get("instances", uuid)
    draft.put("instances", replace(old, **changes) if old is not None else Instance(uuid=uuid, **changes))


def _edit_disk(draft: Draft, uuid: str, fields: Plain) -> None:
    draft.put(
        "disks",
        Disk(uuid=uuid, dev_type="plain", nodes=[fields["node"]], logical_id=["vg", fields["name"]], iv_name="disk/0"),
    )


def _edit_node(draft: Draft, uuid: str, fields: Plain) -> None:
    old = draft.get("nodes", uuid)
    group = next(draft.uuids("nodegroups"))
    if old is None:
        old = Node(uuid=uuid, name=fields["name"], primary_ip="10.0.0.1", secondary_ip="10.0.0.1", group=group)
    draft.put("nodes", replace(old, offline=fields["flag"], drained=len(fields["macs"]) > 1))


def _remove(kind: str):
    return lambda draft, uuid, fields: draft.remove(kind, uuid)


_EDITS = {
    "instance": _edit_instance,
    "disk": _edit_disk,
    "node": _edit_node,
    "no instance": _remove("instances"),
    "no disk": _remove("disks"),
    "no node": _remove("nodes"),
}
_UUIDS = {"instance": INSTANCES, "disk": DISKS, "node": NODES}

fields = st.fixed_dictionaries(
    {
        "name": st.sampled_from(NAMES),
        "node": st.sampled_from(NODES),
        "disks": st.lists(st.sampled_from(DISKS), max_size=2, unique=True),
        "macs": st.lists(st.sampled_from(["aa:00:00:00:00:01", "aa:00:00:00:00:09"]), max_size=2),
        "flag": st.booleans(),
    }
)
edits = st.sampled_from(sorted(_EDITS)).flatmap(
    lambda verb: st.tuples(st.just(verb), st.sampled_from(_UUIDS[verb.removeprefix("no ")]), fields)
)
changes = st.lists(st.builds(DoAll, edits=st.lists(edits, min_size=1, max_size=4)), max_size=12)


def start() -> tuple[Head, PublishedForm]:
    config = Configuration.from_plain(json.loads(GOLDEN.read_bytes()))
    config.position = (1, 41)
    commit = import_commit(config, 5.0)
    form = PublishedForm(config, {(put.kind, put.uuid): put.data for put in commit.puts}, 5.0)
    return Head(config), form


def play(head: Head, form: PublishedForm, sequence: list[DoAll]) -> list[bytes]:
    """Apply what is not refused; gives the messages followers would get."""
    events = []
    for number, change in enumerate(sequence):
        try:
            staged = head.stage(change, 100.0 + number)
        except GanetiError:
            continue
        commit = staged.commit(None)
        if commit.changes_objects:
            form.apply(commit)
            events.append(event_of(commit))
    return events


def rebuilt(form: PublishedForm) -> Configuration:
    return Configuration.from_plain(json.loads(b"".join(form.config_parts())))


def objects(config: Configuration) -> Plain:
    return {kind: {uuid: config.get(kind, uuid) for uuid in config.uuids(kind)} for kind in KINDS}


@settings(deadline=None, max_examples=EXAMPLES)
@given(changes)
def test_what_is_published_is_what_is_in_memory(sequence):
    head, form = start()
    play(head, form, sequence)
    again = rebuilt(form)
    assert objects(again) == objects(head.config)
    for kind in KINDS:
        assert sorted(again.names(kind)) == sorted(head.config.names(kind))
        assert {name: again.uuid_by_name(kind, name) for name in again.names(kind)} == {
            name: head.config.uuid_by_name(kind, name) for name in head.config.names(kind)
        }
    assert ssconf_files(form.ssconf_source()) == ssconf_files(
        PublishedForm(again, {(p.kind, p.uuid): p.data for p in import_commit(again, 0.0).puts}, 0.0).ssconf_source()
    )


@settings(deadline=None, max_examples=EXAMPLES)
@given(changes)
def test_the_invariants_hold_after_every_change_and_the_indexes_are_those_of_a_rebuild(sequence):
    head, form = start()
    for change in sequence:
        play(head, form, [change])
        fresh = index_all(head.config)
        assert fresh.holders == head.indexes.holders
        assert fresh.needed_by == head.indexes.needed_by
        assert hard_problems(head.config, fresh) == []


@settings(deadline=None, max_examples=EXAMPLES)
@given(changes)
def test_a_follower_of_the_stream_has_the_same_configuration(sequence):
    head, form = start()
    follower = rebuilt(form)
    for event in map(msgspec.json.decode, play(head, form, sequence)):
        for kind, uuid, plain in event["put"]:
            follower.put(kind, uuid, KINDS[kind].from_plain(plain))
        for kind, uuid in event["remove"]:
            follower.remove(kind, uuid)
    assert objects(follower) == objects(head.config)


@settings(deadline=None, max_examples=EXAMPLES)
@given(changes)
def test_taking_everything_back_gives_the_beginning(sequence):
    head, _ = start()
    before, position = objects(head.config), head.position
    staged: list[Staged] = []
    for number, change in enumerate(sequence):
        try:
            staged.append(head.stage(change, 100.0 + number))
        except GanetiError:
            continue
    for one in reversed(staged):
        head.revert(one)
    assert objects(head.config) == before
    assert head.position == position
    fresh = index_all(head.config)
    assert (fresh.holders, fresh.needed_by) == (head.indexes.holders, head.indexes.needed_by)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
unknown_keys = st.dictionaries(st.text(min_size=1, max_size=6).map(lambda text: "x_" + text), json_values, max_size=3)


@settings(deadline=None, max_examples=EXAMPLES)
@given(unknown_keys, unknown_keys, unknown_keys, unknown_keys)
def test_keys_of_other_versions_survive_import_and_publication(top, in_cluster, in_instance, in_nic):
    data = json.loads(GOLDEN.read_bytes())
    data |= top
    data["cluster"] |= in_cluster
    web1 = data["instances"][INSTANCES[0]]
    web1 |= in_instance
    web1["nics"][0] |= in_nic
    config = Configuration.from_plain(data)
    form = PublishedForm(config, {(p.kind, p.uuid): p.data for p in import_commit(config, 0.0).puts}, 0.0)
    published = json.loads(b"".join(form.config_parts()))
    assert top.items() <= published.items()
    assert in_cluster.items() <= published["cluster"].items()
    assert in_instance.items() <= published["instances"][INSTANCES[0]].items()
    assert in_nic.items() <= published["instances"][INSTANCES[0]]["nics"][0].items()

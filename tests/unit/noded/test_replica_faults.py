# SPDX-License-Identifier: BSD-2-Clause
"""A copy on a bad disk: rot is found and named, a full disk refuses and changes nothing, and both can be mended."""

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.following_node import FollowingNode, with_node
from tests.fakes.sending_master import SendingMaster, SetTags, sound_configuration

from ganeti.model.membership import Kept, Membership
from ganeti.noded import calls as node_calls
from ganeti.stores.config_store import SqliteStore
from ganeti.stores.replica_store import ReplicaStore, damaged_path

OWN = "uuid-node2"


async def follow(node: FollowingNode, master: SendingMaster) -> None:
    assert (await node.call("replica_snapshot", master.snapshot(("uuid-node1", OWN))))["refused"] is None


def make_copy(root: Path, master: SendingMaster) -> Path:
    """A copy with one record, its daemon gone; gives the database."""

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        await node.call("replica_append", master.append(master.position, master.record(SetTags(("tag-to-rot",)))))

    with_node(root, story)
    return Path(FollowingNode(root).paths.config_database)


def flip_in_object(path: Path) -> None:
    """One letter of an object, where SQLite has no sum over its pages."""
    data = bytearray(path.read_bytes())
    places = [at for at in range(len(data)) if data.startswith(b"tag-to-rot", at)]
    assert places
    for at in places:
        data[at] ^= 1
    path.write_bytes(data)


def flip_to_no_text(path: Path) -> None:
    """A key of an object that is no UTF-8 any more, of which SQLite itself says nothing."""
    data = path.read_bytes()
    assert data.count(b"uuid-node") > 1
    path.write_bytes(data.replace(b"uuid-node", b"uuid\xffnode"))


def flip_in_schema(path: Path) -> None:
    """The name of a column as the database has it."""
    data = path.read_bytes()
    assert b"digest" in data[:4096]
    path.write_bytes(data[:4096].replace(b"digest", b"digesu") + data[4096:])


def flip_header(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0:8] = b"nonsense"
    path.write_bytes(data)


def flip_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data), 4096):
        data[at : at + 16] = b"\xff" * 16
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 2 * 4096])


def change_epoch(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("UPDATE meta SET value = '9' WHERE key = 'epoch'")
    db.commit()
    db.close()


def flip_in_members(path: Path) -> None:
    """The members are no part of the configuration, which has a fingerprint."""
    db = sqlite3.connect(path)
    db.execute("UPDATE meta SET value = replace(value, 'uuid-node2', 'uuid-node6') WHERE key = 'membership'")
    db.commit()
    db.close()


def flip_whose_it_is(path: Path) -> None:
    """Seed 10876 with 5 nodes: it looks like a copy of another cluster, which nobody may make anew."""
    db = sqlite3.connect(path)
    changed = db.execute(
        "UPDATE objects SET data = replace(data, '\"uuid\":\"', '\"uuid\":\"m') WHERE kind = 'cluster'"
    )
    assert changed.rowcount == 1
    db.commit()
    db.close()


def flip_in_answer(path: Path) -> None:
    """Seed 8159 with 7 nodes: what a job was answered is in no fingerprint, and went to other nodes as no text."""
    db = sqlite3.connect(path)
    ((answer,),) = db.execute("SELECT answer FROM steps LIMIT 1").fetchall()
    db.execute("UPDATE steps SET answer = ?", (bytes(answer)[:-1] + b"\xf5",))
    db.commit()
    db.close()


def flip_in_layout(path: Path) -> None:
    """Seed 11520 with 3 nodes: it looked like a later program's, which nobody may make anew."""
    data = bytearray(path.read_bytes())
    data[60] ^= 0x80
    data[4096 * 2 :: 4096] = b"\xff" * len(data[4096 * 2 :: 4096])
    path.write_bytes(data)


ROTS = [
    flip_in_layout,
    flip_in_answer,
    flip_whose_it_is,
    flip_in_object,
    flip_to_no_text,
    flip_in_schema,
    flip_header,
    flip_pages,
    truncate,
    change_epoch,
    flip_in_members,
]


@pytest.mark.parametrize("rot", ROTS)
def test_rot_is_named_promises_nothing_and_is_mended_by_a_snapshot(tmp_path: Path, rot: Callable[[Path], None]) -> None:
    master, new = SendingMaster(), SendingMaster(epoch=3, uuid="uuid-node3")
    path = make_copy(tmp_path, master)
    rot(path)
    rotten = path.read_bytes()

    async def story(node: FollowingNode) -> None:
        for name, arguments in (
            ("replica_state", master.caller),
            ("replica_append", master.append(master.position)),
            ("replica_members", master.caller | {"membership": master.membership(("x",), 9)}),
            ("promise", new.caller | {"ask_only": True}),
            ("promise", new.caller | {"ask_only": False}),
        ):
            answer = await node.call(name, arguments)
            assert (answer["refused"], answer.get("granted", False)) == ("damaged", False), name
            assert "damaged" in answer["sentence"]
        assert node.calls.promise.epoch == 2
        await follow(node, master)
        assert Path(damaged_path(str(path))).read_bytes() == rotten
        state = await node.call("replica_state", master.caller)
        assert (state["position"], state["digest"]) == (list(master.position), master.form.digest)
        assert (await node.call("promise", new.caller | {"ask_only": False}))["granted"]

    with_node(tmp_path, story)


def test_rot_under_an_open_copy_is_found_before_it_is_promised_from(tmp_path: Path) -> None:
    master, new = SendingMaster(), SendingMaster(epoch=3, uuid=OWN)

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        await node.call("replica_append", master.append(master.position, master.record(SetTags(("tag-to-rot",)))))
        path = Path(node.paths.config_database)
        for place in (path, Path(f"{path}-wal")):
            data = place.read_bytes()
            place.write_bytes(data.replace(b"tag-to-rot", b"tag-to-rob"))
        answer = await node.call("promise", new.caller | {"ask_only": False})
        assert (answer["refused"], answer["granted"]) == ("damaged", False)
        assert (await node.call("replica_append", master.append(master.position)))["refused"] == "damaged"
        await follow(node, master)

    with_node(tmp_path, story)


def test_a_database_that_was_set_aside_and_never_made_anew_is_damaged_still(tmp_path: Path) -> None:
    """What this node knew of the members is gone with it, so an empty copy must not pass for a new one."""
    master = SendingMaster()
    path = make_copy(tmp_path, master)
    os.rename(path, damaged_path(str(path)))

    async def story(node: FollowingNode) -> None:
        assert (await node.call("replica_state", master.caller))["refused"] == "damaged"
        assert (await node.call("promise", master.caller | {"epoch": 9, "ask_only": False}))["refused"] == "damaged"
        await follow(node, master)
        assert (await node.call("replica_state", master.caller))["refused"] is None

    with_node(tmp_path, story)


def test_a_store_of_a_later_release_is_named_and_left_alone(tmp_path: Path) -> None:
    master = SendingMaster()
    path = make_copy(tmp_path, master)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()

    async def story(node: FollowingNode) -> None:
        for name, arguments in (("replica_snapshot", master.snapshot()), ("replica_append", master.append((2, 2)))):
            answer = await node.call(name, arguments)
            assert (answer["refused"], "has layout 99" in answer["sentence"]) == ("software", True)
        assert not Path(damaged_path(str(path))).exists()

    with_node(tmp_path, story)


def test_a_full_disk_refuses_records_and_the_copy_goes_on_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = SendingMaster()
    full = [False]
    apply = ReplicaStore.apply

    def refuse(store: ReplicaStore, *arguments: Any) -> None:
        if full[0]:
            store._db.execute("PRAGMA max_page_count = 1")
            big: Any = SetTags(tuple("x" * 100 + str(number) for number in range(2000)))
            commit = SendingMaster(sound_configuration()).head.stage(big, 1.0).commit(None)
            return apply(store, [commit, *arguments[0]], *arguments[1:])
        store._db.execute("PRAGMA max_page_count = 1000000")
        return apply(store, *arguments)

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        after = master.position
        append = master.append(after, master.record(SetTags(("a",))), files={"job-1": "x"})
        full[0] = True
        answer = await node.call("replica_append", append)
        assert answer["refused"] == "disk"
        assert "full" in answer["sentence"]
        assert (await node.call("replica_state", master.caller))["position"] == list(after)
        full[0] = False
        assert (await node.call("replica_append", append))["position"] == list(master.position)

    monkeypatch.setattr(ReplicaStore, "apply", refuse)
    with_node(tmp_path, story)


@pytest.mark.parametrize("place", ["epoch", "queue"])
def test_a_full_disk_under_promise_or_queue_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    master, new = SendingMaster(), SendingMaster(epoch=3, uuid="uuid-node3")

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        with monkeypatch.context() as patched:
            if place == "epoch":
                patched.setattr(node_calls, "_write_fences", refuse)
                answer = await node.call("promise", new.caller | {"ask_only": False})
                assert answer["granted"] is False
                assert (await node.call("replica_append", new.append((2, 1))))["refused"] == "disk"
                assert node.calls.promise.epoch == 2
            else:
                patched.setattr("ganeti.noded.replica_queue._write_synced", refuse)
                after = master.position
                record = master.record(SetTags(("a",)))
                answer = await node.call("replica_append", master.append(after, record, files={"job-1": "x"}))
        assert (answer["refused"], "No space left" in answer["sentence"]) == ("disk", True)
        assert (await node.call("replica_state", master.caller))["position"] == [2, 1]
        if place == "epoch":
            assert (await node.call("promise", new.caller | {"ask_only": False}))["granted"]
        else:
            answer = await node.call("replica_append", master.append(after, record, files={"job-1": "x"}))
            assert answer == {"refused": None, "position": [2, 2]}

    with_node(tmp_path, story)


def test_the_epoch_of_a_copy_without_records_is_checked_too(tmp_path: Path) -> None:
    master = SendingMaster()

    async def begin(node: FollowingNode) -> None:
        await follow(node, master)

    async def story(node: FollowingNode) -> None:
        assert (await node.call("replica_state", master.caller))["refused"] == "damaged"

    with_node(tmp_path, begin)
    change_epoch(Path(FollowingNode(tmp_path).paths.config_database))
    with_node(tmp_path, story)


def test_a_former_masters_database_passes_with_the_members_it_wrote_itself(tmp_path: Path) -> None:
    master = SendingMaster()
    path = make_copy(tmp_path, master)
    membership = Membership((2, 7), ("uuid-node1", OWN))
    store = SqliteStore(str(path))
    store.set_membership(Kept(membership))
    store.close()

    async def story(node: FollowingNode) -> None:
        state = await node.call("replica_state", master.caller)
        assert (state["refused"], state["membership"]["version"]) == (None, [2, 7])
        newer = master.membership(("uuid-node1",), 8)
        await node.call("replica_members", master.caller | {"membership": newer})
        assert (await node.call("promise", master.caller | {"epoch": 3, "ask_only": True}))["membership"] == newer

    with_node(tmp_path, story)

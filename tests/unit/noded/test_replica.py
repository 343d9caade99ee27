# SPDX-License-Identifier: BSD-2-Clause
"""A candidate's copy: what it takes over, whom it refuses, what it promises."""

import asyncio
import fcntl
import json
import os
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.following_node import FollowingNode, with_node
from tests.fakes.sending_master import AddNode, RemoveNode, SendingMaster, SetTags, sound_configuration

from ganeti.base.errors import ConfigurationError
from ganeti.master.config.fingerprint import fingerprint_of
from ganeti.model.replica_records import Caller
from ganeti.noded import master_ending
from ganeti.noded.master_ending import Ended
from ganeti.noded.replica_place import ReplicaPlace
from ganeti.wconfd.start import open_configuration

OWN = "uuid-node2"
MEMBERS = ("uuid-node1", OWN)


async def follow(node: FollowingNode, master: SendingMaster) -> None:
    assert (await node.call("replica_snapshot", master.snapshot(MEMBERS)))["refused"] is None


def test_records_are_taken_over_and_the_content_is_the_masters(tmp_path: Path) -> None:
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        after = master.position
        records = [
            master.record(SetTags(("ü", "b"))),
            master.record(AddNode("node9")),
            master.record(RemoveNode("node9")),
        ]
        assert await node.call("replica_append", master.append(after, *records)) == {
            "refused": None,
            "position": list(master.position),
        }
        state = await node.call("replica_state", master.caller)
        assert state["digest"] == master.form.digest
        assert state["membership"] == master.membership(MEMBERS, 1)
        assert (state["promised"], state["holder"], state["established"]) == (2, "uuid-node1", 2)
        await node.call("replica_state", master.caller | {"acknowledged": master.acknowledged})
        await node.replica.flush()
        assert fingerprint_of(Path(node.paths.config_file).read_bytes()) == master.form.digest
        assert Path(node.paths.config_file).stat().st_mode & 0o777 == 0o640
        assert Path(node.paths.ssconf_file("cluster_tags")).read_text() == "b\nü\n"
        assert Path(node.paths.ssconf_file("master_node")).read_text() == "node1\n"

    with_node(tmp_path, story)


def test_the_state_of_an_open_copy_is_told_at_once_and_of_another_in_its_turn(tmp_path: Path) -> None:
    """A question that comes every few seconds from the master that is followed waits for nothing."""
    master = SendingMaster()

    async def told_at_once(node: FollowingNode, caller: dict[str, Any]) -> bool:
        asking = asyncio.ensure_future(node.replica.state(Caller(**caller)))
        await asyncio.sleep(0)
        is_done, answer = asking.done(), await asking
        if is_done:
            assert answer["refused"] is None
            assert (answer["position"], answer["digest"]) == (master.position, master.form.digest)
        return is_done

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        assert await told_at_once(node, master.caller)
        after = master.position
        await node.call("replica_append", master.append(after, master.record(SetTags(("a",)))))
        assert await told_at_once(node, master.caller), "and it is what the copy has now"
        for other in ({"epoch": 1}, {"epoch": 3}, {"master": "uuid-node9"}, {"cluster": "other"}, {"software": "0"}):
            assert not await told_at_once(node, master.caller | other), other
        assert not await told_at_once(node, master.caller | {"time_s": master.caller["time_s"] + 1000.0})

    with_node(tmp_path, story)


def test_the_stored_database_is_one_that_wconfd_starts_with(tmp_path: Path) -> None:
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        record = master.record(SetTags(("a",)), job=12)
        await node.call("replica_append", master.append((2, 1), record, acknowledged=master.acknowledged))
        new = SendingMaster(epoch=3, uuid=OWN)
        assert (await node.call("promise", new.caller | {"ask_only": False}))["granted"]
        opened = open_configuration(node.paths)
        opened.store.close()
        assert opened.imported is None
        assert opened.outdated_file is None
        assert opened.loaded.config.position == (2, 2)
        assert opened.file_digest == master.form.digest
        assert sorted((step.job, step.step) for step in opened.loaded.steps) == [(7, 99), (12, 1)]
        assert opened.loaded.events[-1][0] == (2, 2)

    with_node(tmp_path, story)


def test_records_that_do_not_continue_the_copy_are_refused_with_its_position(tmp_path: Path) -> None:
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        lost = master.record(SetTags(("lost",)))
        answer = await node.call("replica_append", master.append((2, 1), lost))
        assert (answer["refused"], answer["position"]) == ("gap", None)
        await follow(node, master)
        after = master.position
        first = master.append(after, master.record(SetTags(("a",))))
        assert (await node.call("replica_append", first))["position"] == [2, 3]
        answer = await node.call("replica_append", first)
        assert (answer["refused"], answer["position"]) == ("gap", [2, 3])
        skipped = master.record(SetTags(("b",)))
        later = master.record(SetTags(("c",)))
        answer = await node.call("replica_append", master.append((2, 3), later))
        assert answer["refused"] == "gap"
        assert (await node.call("replica_append", master.append((2, 3), skipped, later)))["position"] == [2, 5]

    with_node(tmp_path, story)


def test_a_step_that_comes_again_is_the_same(tmp_path: Path) -> None:
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        step = {"position": master.position, "time_s": 0.0, "digest": "", "put": [], "remove": []}
        step["step"] = [5, 1, 1, True, "/run/ganeti/livelocks/job_000005_1", '{"position":[2,1]}']
        for _ in range(2):
            answer = await node.call("replica_append", master.append(master.position, step))
            assert answer == {"refused": None, "position": [2, 1]}

    with_node(tmp_path, story)


def test_a_snapshot_comes_after_the_marks_of_the_jobs_that_made_it(tmp_path: Path) -> None:
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        mark = tmp_path / "var/lib/ganeti/queue/job-7"
        damaged = master.snapshot(MEMBERS) | {"digest": "0" * 64, "files": {"job-7": "begun"}}
        assert (await node.call("replica_snapshot", damaged))["refused"] == "damaged"
        assert mark.read_text() == "begun", "it is written first"
        whole = master.snapshot(MEMBERS) | {"files": {"job-7": "begun again"}}
        assert (await node.call("replica_snapshot", whole))["refused"] is None
        assert mark.read_text() == "begun again"

    with_node(tmp_path, story)


def test_a_record_with_another_fingerprint_changes_nothing(tmp_path: Path) -> None:
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        before = await node.call("replica_state", master.caller)
        record = master.record(SetTags(("a",))) | {"digest": "0" * 64}
        assert (await node.call("replica_append", master.append((2, 1), record)))["refused"] == "damaged"
        absent = master.record(SetTags(("b",))) | {"position": (2, 2), "remove": [("nodes", "nobody")]}
        assert (await node.call("replica_append", master.append((2, 1), absent)))["refused"] == "gap"
        assert await node.call("replica_state", master.caller) == before
        assert (await node.call("replica_snapshot", master.snapshot()))["position"] == list(master.position)

    with_node(tmp_path, story)


@pytest.mark.parametrize(
    ("change", "reason", "sentence"),
    [
        ({"cluster": "other"}, "cluster", "holds a copy of another cluster"),
        ({"software": "9.9"}, "software", "upgrade the older one"),
        ({"time_s": 0.0}, "clock", "seconds ahead of that of the caller: set the clocks right"),
        ({"epoch": 1}, "epoch", "Epoch 1 is over"),
        ({"master": "uuid-node3"}, "epoch", "Epoch 2 is promised to node uuid-node1"),
    ],
)
def test_who_is_not_the_master_of_this_copy_is_refused(
    tmp_path: Path, change: dict[str, Any], reason: str, sentence: str
) -> None:
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        before = await node.call("replica_state", master.caller)
        epoch_file = Path(node.paths.epoch_file).read_bytes()
        own_position = {"position": (1, 1)} if reason == "epoch" else {}
        append = master.append((2, 1), membership=master.membership(("x",), 9)) | change
        for name, arguments in (
            ("replica_append", append),
            ("replica_snapshot", master.snapshot() | own_position | change),
            ("replica_members", master.caller | {"membership": master.membership(("x",), 9)} | change),
            ("replica_state", master.caller | change),
            ("replica_queue_list", master.caller | change),
        ):
            answer = await node.call(name, arguments)
            assert answer["refused"] == reason
            assert sentence in answer["sentence"]
            assert (answer["promised"], answer["holder"], answer["established"]) == (2, "uuid-node1", 2)
        assert await node.call("replica_state", master.caller) == before
        assert Path(node.paths.epoch_file).read_bytes() == epoch_file
        if reason != "epoch":
            answer = await node.call("promise", master.caller | {"ask_only": False} | change | {"epoch": 9})
            assert (answer["granted"], answer["refused"]) == (False, reason)

    with_node(tmp_path, story)


def test_bad_arguments_are_named_at_the_door(tmp_path: Path) -> None:
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        for name, arguments, sentence in (
            ("replica_append", master.append((2, 1), files={"../x": ""}), "not the name of a replicated file"),
            ("replica_append", master.append((2, 1), files={"job-01": ""}), "not the name of a replicated file"),
            ("replica_append", master.append((2, 1), archived=[0]), "not the number of a job"),
            ("replica_append", master.append((2, 1), master.record(SetTags(("a",))), later=1), "unknown field"),
            ("replica_append", master.append((2, 1), {"position": [3, 1], "time_s": 0, "digest": ""}), "up to epoch 2"),
            ("replica_state", master.caller | {"epoch": 0}, "epoch of 1 or more"),
            ("replica_snapshot", master.snapshot() | {"digest": "x"}, "no fingerprint"),
            ("replica_snapshot", master.snapshot() | {"files": {"../x": ""}}, "not the name of a replicated file"),
        ):
            succeeded, error = await node.raw(name, arguments)
            assert not succeeded
            assert sentence in error[1][0]

    with_node(tmp_path, story)


def test_a_snapshot_that_is_nonsense_is_refused_and_the_copy_stays(tmp_path: Path) -> None:
    master = SendingMaster()

    def packed(text: str) -> dict[str, Any]:
        return master.snapshot() | {"config": b64encode(zlib.compress(text.encode())).decode()}

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        good = json.loads(b"".join(master.form.config_parts()))
        for arguments in (
            master.snapshot() | {"config": "no base64"},
            packed("[]"),
            packed("{}"),
            packed(json.dumps(good | {"serial_no": 77})),
        ):
            assert (await node.call("replica_snapshot", arguments))["refused"] == "damaged"
        state = await node.call("replica_state", master.caller)
        assert (state["position"], state["digest"]) == ([2, 1], master.form.digest)

    with_node(tmp_path, story)


def test_a_newer_membership_stays_whatever_comes_later(tmp_path: Path) -> None:
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        newer = master.membership(("a", "b"), 5)
        assert (await node.call("replica_members", master.caller | {"membership": newer}))["refused"] is None
        await follow(node, master)  # with number 1
        assert (await node.call("replica_state", master.caller))["membership"] == newer
        await node.call("replica_append", master.append((2, 1), membership=master.membership(("c",), 4)))
        assert (await node.call("replica_state", master.caller))["membership"] == newer
        await node.call("replica_append", master.append((2, 1), membership=master.membership(("c",), 6)))

    async def again(node: FollowingNode) -> None:
        assert (await node.call("replica_state", master.caller))["membership"] == master.membership(("c",), 6)

    with_node(tmp_path, story)
    with_node(tmp_path, again)


def test_a_promise_is_kept_by_the_next_daemon_and_given_once(tmp_path: Path) -> None:
    master, new = SendingMaster(), SendingMaster(epoch=7, uuid="uuid-node3")

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        await node.replica.flush()
        asked = await node.call("promise", new.caller | {"ask_only": True})
        assert (asked["granted"], asked["promised"], asked["names"]) == (True, 2, "node1")
        assert (await node.call("promise", new.caller | {"ask_only": False, "position": [2, 1]}))["granted"]

    async def again(node: FollowingNode) -> None:
        assert not (await node.call("promise", new.caller | {"ask_only": False}))["granted"]
        answer = await node.call("replica_append", master.append((2, 1)))
        assert (answer["refused"], answer["promised"], answer["holder"]) == ("epoch", 7, "uuid-node3")
        assert answer["established"] == 2
        _, (_, (sentence, *_)) = await node.raw_changing("write_ssconf_files", epoch=6, values={})
        assert "epoch 6, which is over" in sentence

    with_node(tmp_path, story)
    with_node(tmp_path, again)


def test_an_epoch_file_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    async def story(node: FollowingNode) -> None:
        assert (node.calls.promise.epoch, node.calls.promise.holder) == (4, None)
        master = SendingMaster(epoch=4)
        assert not (await node.call("promise", master.caller | {"ask_only": False}))["granted"]
        await follow(node, master)
        assert json.loads(Path(node.paths.epoch_file).read_text()) == {
            "epoch": 4,
            "attempts": {"7": 2},
            "holder": "uuid-node1",
            "certificate": None,
        }

    paths = FollowingNode(tmp_path).paths
    Path(paths.epoch_file).write_text('{"epoch":4,"attempts":{"7":2}}')
    with_node(tmp_path, story)


def test_a_returning_master_ends_its_daemons_before_it_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock on the pid file is what says that they run."""
    old, new = SendingMaster(epoch=2, uuid=OWN), SendingMaster(epoch=3)
    ended = asyncio.Event()

    async def end(_: object) -> None:
        ended.set()

    async def story(node: FollowingNode) -> None:
        monkeypatch.setattr(master_ending, "end_master_daemons", end)
        await follow(node, old)
        pid_file = os.open(node.paths.pid_file("ganeti-wconfd"), os.O_RDWR | os.O_CREAT)
        fcntl.flock(pid_file, fcntl.LOCK_EX)
        answer = await node.call("replica_snapshot", new.snapshot())
        assert (answer["refused"], answer["promised"], answer["holder"]) == ("master", 3, "uuid-node1")
        await asyncio.wait_for(ended.wait(), 10)
        os.close(pid_file)
        assert (await node.call("replica_snapshot", new.snapshot()))["position"] == [3, 1]

    with_node(tmp_path, story)


def test_daemons_that_outlive_a_deposed_wconfd_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """WConfD ends by itself where it learns first that another node is the master; nothing else may serve on."""
    old, new = SendingMaster(epoch=2), SendingMaster(epoch=3)
    ended = asyncio.Event()

    async def end(_: object) -> Ended:
        ended.set()
        return Ended(("ganeti-luxid",), 0)

    async def story(node: FollowingNode) -> None:
        monkeypatch.setattr(master_ending, "end_master_daemons", end)
        await follow(node, old)
        assert not ended.is_set()
        pid_file = os.open(node.paths.pid_file("ganeti-luxid"), os.O_RDWR | os.O_CREAT)
        fcntl.flock(pid_file, fcntl.LOCK_EX)
        assert (await node.call("replica_state", new.caller))["refused"] is None
        await asyncio.wait_for(ended.wait(), 10)
        os.close(pid_file)

    with_node(tmp_path, story)


def test_a_start_with_a_full_disk_is_no_fault_of_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    master = SendingMaster(epoch=2)

    async def full(_: object) -> None:
        raise ConfigurationError("The configuration database cannot be written: database or disk is full")

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        await node.replica.forget()
        with monkeypatch.context() as patched:
            patched.setattr(ReplicaPlace, "open", full)
            await node.replica.resume()
        assert "cannot be opened before the master's next record" in caplog.text
        assert (await node.call("replica_state", master.caller))["refused"] is None

    with_node(tmp_path, story)


def test_a_node_that_is_no_candidate_loads_nothing(tmp_path: Path) -> None:
    """Asked and promised as every node is, it never opens a database."""
    new = SendingMaster(epoch=7, uuid="uuid-node3")

    async def story(node: FollowingNode) -> None:
        await node.replica.resume()
        assert (await node.call("replica_state", new.caller))["position"] is None
        assert (await node.call("promise", new.caller | {"ask_only": False}))["granted"]
        assert not Path(node.paths.config_database).exists()

    with_node(tmp_path, story)


def test_files_left_behind_by_a_dead_daemon_are_brought_up_when_the_master_is_heard(tmp_path: Path) -> None:
    master = SendingMaster(sound_configuration())

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        await node.replica.flush()

    async def again(node: FollowingNode) -> None:
        for key in ("master_node", "node_list"):
            os.unlink(node.paths.ssconf_file(key))
        os.unlink(node.paths.config_file)
        await node.replica.resume()
        await node.call("replica_state", master.caller | {"acknowledged": master.acknowledged})
        await node.replica.flush()
        assert Path(node.paths.ssconf_file("master_node")).read_text() == "node1\n"
        assert fingerprint_of(Path(node.paths.config_file).read_bytes()) == master.form.digest

    with_node(tmp_path, story)
    with_node(tmp_path, again)


def tags_published(node: FollowingNode) -> str:
    return Path(node.paths.ssconf_file("cluster_tags")).read_text()


def test_what_is_not_acknowledged_is_kept_and_not_published(tmp_path: Path) -> None:
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        told = master.acknowledged
        records = [master.record(SetTags((tag,))) for tag in ("a", "b", "c")]
        digests = [record["digest"] for record in records]
        await node.call("replica_append", master.append((2, 1), *records, acknowledged=told))
        await node.replica.flush()
        assert tags_published(node) == ""
        state = await node.call("replica_state", master.caller | {"acknowledged": ((2, 3), digests[1])})
        assert (state["position"], state["digest"]) == ([2, 4], digests[2]), "it has them all the same"
        await node.replica.flush()
        assert tags_published(node) == "b\n"
        for other in (((2, 4), digests[0]), ((2, 9), digests[2]), told, None):
            await node.call("replica_state", master.caller | {"acknowledged": other})
        await node.replica.flush()
        assert tags_published(node) == "b\n", "that is another configuration, or nothing new"
        more = master.record(RemoveNode("node3")), master.record(SetTags(("d",)))
        await node.call("replica_append", master.append((2, 4), *more, acknowledged=((2, 5), more[0]["digest"])))
        await node.replica.flush()
        assert tags_published(node) == "c\n"
        assert fingerprint_of(Path(node.paths.config_file).read_bytes()) == more[0]["digest"]

    with_node(tmp_path, story)


def test_a_daemon_that_begins_publishes_nothing_before_it_knows_what_is_acknowledged(tmp_path: Path) -> None:
    master = SendingMaster()

    async def before(node: FollowingNode) -> None:
        await follow(node, master)
        await node.replica.flush()
        await node.call("replica_append", master.append((2, 1), master.record(SetTags(("lost",)))))

    async def story(node: FollowingNode) -> None:
        await node.replica.resume()
        await node.call("replica_state", master.caller)
        await node.replica.flush()
        assert tags_published(node) == ""
        await node.call("replica_state", master.caller | {"acknowledged": master.acknowledged})
        await node.replica.flush()
        assert tags_published(node) == "lost\n"

    with_node(tmp_path, before)
    with_node(tmp_path, story)


@pytest.mark.parametrize("found", [None, b"{", b'{"cluster":{"cluster_name":"restored"}}'])
def test_who_takes_over_finds_no_file_that_it_would_import(tmp_path: Path, found: bytes | None) -> None:
    """Where nothing could be published, since nobody has said what is acknowledged."""
    master, new = SendingMaster(), SendingMaster(epoch=3, uuid=OWN)

    async def before(node: FollowingNode) -> None:
        await follow(node, master)
        await node.replica.flush()
        await node.call("replica_append", master.append((2, 1), master.record(SetTags(("a",)))))

    async def story(node: FollowingNode) -> None:
        if found is not None:
            Path(node.paths.config_file).write_bytes(found)
        await node.replica.resume()
        assert (await node.call("promise", new.caller | {"ask_only": False}))["granted"]
        opened = open_configuration(node.paths)
        opened.store.close()
        assert opened.imported is None
        assert opened.loaded.config.position == (2, 2)
        assert tags_published(node) == "", "it is not the master yet"

    with_node(tmp_path, before)
    with_node(tmp_path, story)


def test_ssconf_that_comes_late_does_not_replace_what_the_copy_has_published(tmp_path: Path) -> None:
    """The master sends it to a node that is not in sync, and the node may be in sync before it comes."""
    master = SendingMaster()
    cluster = {"cluster_name": "cluster\n"}

    async def send(node: FollowingNode, serial: int, tags: str) -> None:
        values = cluster | {"cluster_tags": tags}
        succeeded, told = await node.raw_changing("write_ssconf_files", epoch=2, values=values, position=[2, serial])
        assert succeeded, told

    async def publish(node: FollowingNode, tags: str) -> None:
        record = master.record(SetTags((tags,)))
        after = (2, record["position"][1] - 1)
        await node.call("replica_append", master.append(after, record, acknowledged=master.acknowledged))
        await node.replica.flush()

    async def story(node: FollowingNode) -> None:
        await follow(node, master)
        await publish(node, "second")
        await send(node, 1, "first\n")
        assert tags_published(node) == "second\n"
        await send(node, 4, "fourth\n")
        await publish(node, "third")
        assert tags_published(node) == "fourth\n", "the master had sent a newer one"
        await publish(node, "fourth")
        assert tags_published(node) == "fourth\n"
        Path(node.paths.ssconf_file("cluster_tags")).unlink()
        await publish(node, "fourth")
        assert tags_published(node) == "fourth\n", "what is on the disk counts"

    with_node(tmp_path, story)


def test_what_was_under_way_for_long_does_not_undo_what_came_since(tmp_path: Path) -> None:
    """A file of the queue has no position: what was sent earlier is known by the sender's clock."""
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        early_snapshot = master.snapshot()
        await follow(node, master)
        early = master.append((2, 1), files={"job-3": "old"})
        await asyncio.sleep(0.001)
        assert (await node.call("replica_append", master.append((2, 1), files={"job-3": "new"})))["refused"] is None
        answer = await node.call("replica_append", early)
        assert (answer["refused"], "later than this: send it again" in answer["sentence"]) == ("clock", True)
        assert Path(node.paths.queue_dir, "job-3").read_text() == "new"
        await node.call("replica_append", master.append((2, 1), master.record(SetTags(("a",)))))
        answer = await node.call("replica_snapshot", early_snapshot | {"time_s": master.caller["time_s"]})
        assert (answer["refused"], answer["position"]) == ("gap", [2, 2])
        assert (await node.call("replica_snapshot", early_snapshot))["refused"] == "clock"
        master.clock_ahead_s = -100.0  # set back: records have positions, and go on
        record = master.record(SetTags(("b",)))
        assert (await node.call("replica_append", master.append((2, 2), record)))["position"] == [2, 3]
        assert (await node.call("replica_append", master.append((2, 3), archived=[3])))["refused"] == "clock"

    with_node(tmp_path, story)


def test_a_master_that_runs_here_is_asked_for_its_state_and_only_a_later_one_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = SendingMaster(epoch=2, uuid=OWN), SendingMaster(epoch=2, uuid="uuid-node3")
    later = SendingMaster(epoch=3, uuid="uuid-node3")
    ended = asyncio.Event()

    async def end(_: object) -> None:
        ended.set()

    async def story(node: FollowingNode) -> None:
        monkeypatch.setattr(master_ending, "end_master_daemons", end)
        pid_file = os.open(node.paths.pid_file("ganeti-wconfd"), os.O_RDWR | os.O_CREAT)
        fcntl.flock(pid_file, fcntl.LOCK_EX)
        assert (await node.call("replica_state", own.caller))["position"] == [1, 1]
        await node.raw_changing("write_ssconf_files", epoch=2, values={})  # of epoch 2, whose holder is not told
        answer = await node.call("replica_append", other.append((1, 1)))
        assert (answer["refused"], answer["promised"], answer["holder"]) == ("master", 2, None)
        assert not ended.is_set()
        answer = await node.call("replica_state", later.caller)
        assert (answer["refused"], answer["promised"], answer["holder"]) == ("master", 3, "uuid-node3")
        await asyncio.wait_for(ended.wait(), 10)
        os.close(pid_file)

    first = SendingMaster(epoch=1, uuid="uuid-node1")

    async def before(node: FollowingNode) -> None:
        await follow(node, first)

    with_node(tmp_path, before)
    os.unlink(FollowingNode(tmp_path).paths.epoch_file)
    with_node(tmp_path, story)


def test_a_node_that_leaves_the_cluster_publishes_nothing_any_more(tmp_path: Path) -> None:
    master = SendingMaster()

    async def story(node: FollowingNode) -> None:
        await follow(node, master)  # what is to be published is not yet
        node.stop_after_answer = lambda: None  # type: ignore[method-assign]
        succeeded, _ = await node.raw_changing("node_leave_cluster", epoch=2)
        assert succeeded
        assert os.listdir(node.paths.data_dir) == []
        await node.replica.close()
        assert os.listdir(node.paths.data_dir) == []

    with_node(tmp_path, story)

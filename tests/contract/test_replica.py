# SPDX-License-Identifier: BSD-2-Clause
"""What a master relies on in a candidate's copy: the calls `replica_*` and `promise`, one suite for every way of it.

An implementation is a `Subject` in `SUBJECTS`: it is made in a directory, and answers calls as they come over the wire.
"""

import asyncio
import base64
import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
from msgspec.structs import replace
from tests.fakes import sample_cluster
from tests.fakes.following_node import OnDisk
from tests.fakes.replica import FakeReplica

from ganeti.base.clocks import CLOCK_SKEW_S
from ganeti.base.errors import GanetiError
from ganeti.base.version import RELEASE
from ganeti.master.config.importing import import_commit
from ganeti.master.config.publication import PublishedForm
from ganeti.master.config.records import Commit, StepAnswer, make_put
from ganeti.model.membership import Membership
from ganeti.model.objects import CLUSTER_KEY
from ganeti.wconfd.replication_log import encode_commit, encode_step

NOW_S = 1_700_000_000.0
MASTER, OTHER = "uuid-node1", "uuid-node3"


class Subject(Protocol):
    """A candidate, uuid-node2 of the sample cluster, whose clock stands at `NOW_S`."""

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]: ...

    async def restart(self) -> None:
        """End it and start it again on the same disk."""
        ...

    async def close(self) -> None: ...


class InMemory:
    def __init__(self, _: Path) -> None:
        self._replica = FakeReplica("uuid-node2", now_s=lambda: NOW_S)

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return json.loads(json.dumps(self._replica.answer(name, json.loads(json.dumps(arguments)))))

    async def restart(self) -> None:
        """What it has answered to is there."""

    async def close(self) -> None:
        """Nothing is open."""


SUBJECTS: dict[str, Callable[[Path], Subject]] = {
    "in memory": InMemory,
    "on disk": lambda root: OnDisk(root, NOW_S),
}


class Source:
    """A master's configuration, and what it sends of it."""

    def __init__(self) -> None:
        config = sample_cluster.configuration()
        config.position = (1, 10)
        whole = import_commit(config, NOW_S)
        self.config = config
        self.form = PublishedForm(config, {(put.kind, put.uuid): put.data for put in whole.puts}, NOW_S)
        self.epoch, self.master = 1, MASTER

    def caller(self, **changes: Any) -> dict[str, Any]:
        named = {"cluster": "cluster-uuid", "software": RELEASE, "epoch": self.epoch, "master": self.master}
        return {**named, "time_s": NOW_S, **changes}

    def snapshot(self, **changes: Any) -> dict[str, Any]:
        config = base64.b64encode(zlib.compress(b"".join(self.form.config_parts()), 1)).decode()
        sent = {"position": list(self.form.position), "config": config, "steps": [], "digest": self.form.digest}
        return {**self.caller(), **sent, "membership": None, **changes}

    def commit(self, tag: str | None = None, step: int | None = None) -> dict[str, Any]:
        """The next record: a tag of the cluster, and the step of a job."""
        puts = ()
        position = self.form.position
        if tag is not None:
            cluster = replace(self.config.cluster, tags=[*self.config.cluster.tags, tag])
            self.config.put("cluster", CLUSTER_KEY, cluster)
            puts = (make_put("cluster", CLUSTER_KEY, cluster),)
            position = (position[0], position[1] + 1)
        answer = StepAnswer(7, 1, step, False, "/lock", b'{"position": [1, 1]}') if step is not None else None
        commit = Commit(position, NOW_S + 1, puts, step=answer)
        commit = Commit(position, NOW_S + 1, puts, step=answer, digest=next(self.form.fingerprint.after([commit])))
        self.form.apply(commit)
        return json.loads(bytes(encode_commit(commit)))

    def append(self, after: tuple[int, int], commits: list[Any], **changes: Any) -> dict[str, Any]:
        sent = {"after": list(after), "commits": commits, "files": {}, "archived": [], "serial": 0, "membership": None}
        return {**self.caller(), **sent, **changes}


@pytest.fixture(params=SUBJECTS)
def run(request, tmp_path):
    """Run a scenario with a candidate, which has the master's configuration unless it is *empty*."""

    def go(scenario, *, empty=False):
        async def whole():
            subject, source = SUBJECTS[request.param](tmp_path), Source()
            try:
                if not empty:
                    assert (await subject.call("replica_snapshot", **source.snapshot()))["refused"] is None
                await scenario(subject, source)
            finally:
                await subject.close()

        asyncio.run(whole())

    return go


async def state(subject, source, **changes):
    return await subject.call("replica_state", **source.caller(**changes))


def short_digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def test_who_has_nothing_says_so_and_a_snapshot_changes_that(run):
    async def scenario(subject, source):
        before = await state(subject, source)
        assert (before["refused"], before["position"], before["membership"]) == (None, None, None)
        membership = Membership((1, 3), (MASTER, "uuid-node2")).to_plain()
        answer = await subject.call("replica_snapshot", **source.snapshot(membership=membership))
        assert answer == {"refused": None, "position": [1, 10]}
        after = await state(subject, source)
        assert (after["position"], after["digest"], after["membership"]) == ([1, 10], source.form.digest, membership)
        assert (after["promised"], after["holder"], after["established"]) == (1, MASTER, 1)

    run(scenario, empty=True)


def test_records_are_applied_and_durable_when_answered(run):
    async def scenario(subject, source):
        commits = [source.commit("a", 1), source.commit(None, 2), source.commit("b", 3)]
        answer = await subject.call("replica_append", **source.append((1, 10), commits))
        assert (answer["refused"], answer["position"]) == (None, [1, 12])
        await subject.restart()
        after = await state(subject, source)
        assert (after["position"], after["digest"]) == ([1, 12], source.form.digest)

    run(scenario)


def test_records_after_another_one_are_refused_with_the_position(run):
    async def scenario(subject, source):
        first, second = source.commit("a"), source.commit("b")
        answer = await subject.call("replica_append", **source.append((1, 11), [second]))
        assert (answer["refused"], answer["position"]) == ("gap", [1, 10])
        await subject.call("replica_append", **source.append((1, 10), [first]))
        again = await subject.call("replica_append", **source.append((1, 10), [first]))
        assert (again["refused"], again["position"]) == ("gap", [1, 11]), "its answer was lost"
        assert (await subject.call("replica_append", **source.append((1, 11), [second])))["refused"] is None

    run(scenario)


def test_a_step_without_objects_leaves_the_position_and_may_come_again(run):
    async def scenario(subject, source):
        step = source.commit(None, 1)
        for _ in range(2):
            answer = await subject.call("replica_append", **source.append((1, 10), [step]))
            assert (answer["refused"], answer["position"]) == (None, [1, 10])

    run(scenario)


def test_records_that_do_not_give_the_fingerprint_are_damage_and_a_snapshot_heals_it(run):
    async def scenario(subject, source):
        wrong = {**source.commit("a"), "digest": "0" * 64}
        answer = await subject.call("replica_append", **source.append((1, 10), [wrong]))
        assert answer["refused"] == "damaged"
        steps = [encode_step(StepAnswer(7, 1, 1, False, "/lock", b"{}"))]
        answer = await subject.call("replica_snapshot", **source.snapshot(steps=steps))
        assert answer == {"refused": None, "position": [1, 11]}
        assert (await state(subject, source))["digest"] == source.form.digest

    run(scenario)


def test_a_snapshot_that_comes_late_takes_nothing_back(run):
    async def scenario(subject, source):
        late = source.snapshot()
        await subject.call("replica_append", **source.append((1, 10), [source.commit("a")]))
        assert (await subject.call("replica_snapshot", **late))["refused"] is not None
        assert (await state(subject, source))["position"] == [1, 11]

    run(scenario)


def test_a_tail_that_the_new_master_does_not_have_goes_with_its_snapshot(run):
    async def scenario(subject, source):
        other = Source()
        await subject.call("replica_append", **source.append((1, 10), [source.commit("a")]))
        other.epoch, other.master = 2, OTHER
        other.config.position = other.form.position = (2, 1)
        answer = await subject.call("replica_snapshot", **other.snapshot())
        assert answer == {"refused": None, "position": [2, 1]}
        assert (await state(subject, other))["digest"] == other.form.digest

    run(scenario)


def test_files_are_as_they_were_sent_last(run):
    async def scenario(subject, source):
        files = {"job-1": "one", "job-1.undo": "undo", "job-2": "two", "drain": ""}
        await subject.call("replica_append", **source.append((9, 9), [], files=files, serial=2))
        changed = {"job-1": "new ü", "job-1.undo": None, "drain": None, "job-3": None}
        await subject.call("replica_append", **source.append((9, 9), [], files=changed))
        await subject.restart()
        listed = await subject.call("replica_queue_list", **source.caller())
        assert listed["files"] == {"job-1": short_digest("new ü"), "job-2": short_digest("two")}
        await subject.call("replica_append", **source.append((9, 9), [], archived=[2, 77]))
        assert list((await subject.call("replica_queue_list", **source.caller()))["files"]) == ["job-1"]

    run(scenario)


@pytest.mark.parametrize("name", ["job-0", "../config.data", "job-1/x", "serial", "job-1.undo.undo", ""])
def test_other_names_are_no_files_of_the_queue(run, name):
    async def scenario(subject, source):
        with pytest.raises(GanetiError):
            await subject.call("replica_append", **source.append((1, 10), [], files={name: "x"}))

    run(scenario)


def test_only_newer_memberships_are_taken(run):
    async def scenario(subject, source):
        for version, kept in (((1, 4), (1, 4)), ((1, 3), (1, 4)), ((2, 1), (2, 1)), ((1, 9), (2, 1))):
            source.epoch = max(source.epoch, version[0])
            membership = Membership(version, (MASTER,)).to_plain()
            answer = await subject.call("replica_members", **source.caller(), membership=membership)
            assert answer["refused"] is None
            await subject.restart()
            assert (await state(subject, source))["membership"]["version"] == list(kept)

    run(scenario)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cluster": "another"}, "cluster"),
        ({"software": "2.16"}, "software"),
        ({"time_s": NOW_S + CLOCK_SKEW_S + 1}, "clock"),
    ],
)
def test_strangers_are_refused_and_nothing_changes(run, changes, reason):
    async def scenario(subject, source):
        before = await state(subject, source)
        sent = source.append((1, 10), [source.commit("a")])
        answer = await subject.call("replica_append", **{**sent, **changes})
        assert answer["refused"] == reason
        assert answer["sentence"]
        assert await state(subject, source) == before

    run(scenario)


def test_an_epoch_is_promised_once_and_survives_a_restart(run):
    async def scenario(subject, source):
        async def ask(epoch, master, ask_only):
            return await subject.call("promise", **source.caller(epoch=epoch, master=master), ask_only=ask_only)

        assert (await ask(5, OTHER, True))["granted"]
        assert (await state(subject, source))["refused"] is None, "asking changes nothing"
        granted = await ask(5, OTHER, False)
        assert (granted["granted"], granted["promised"], granted["holder"]) == (True, 5, OTHER)
        assert (granted["position"], granted["established"]) == ([1, 10], 1)
        await subject.restart()
        assert not (await ask(5, MASTER, False))["granted"]
        answer = await subject.call("replica_append", **source.append((1, 10), [source.commit("a")]))
        assert (answer["refused"], answer["promised"], answer["holder"]) == ("epoch", 5, OTHER)

    run(scenario)


def test_the_first_record_of_an_epoch_is_a_promise(run):
    async def scenario(subject, source):
        source.epoch, source.master = 3, OTHER
        assert (await subject.call("replica_append", **source.append((1, 10), [])))["refused"] is None
        after = await state(subject, source)
        assert (after["promised"], after["holder"]) == (3, OTHER)
        source.epoch, source.master = 3, MASTER
        assert (await subject.call("replica_append", **source.append((1, 10), [])))["refused"] == "epoch"

    run(scenario)

# SPDX-License-Identifier: BSD-2-Clause
"""WConfD with followers in memory: what is acknowledged is on all of them, and nobody waits for who is away."""

import asyncio
import dataclasses
import json
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.fakes import sample_cluster
from tests.fakes.replica import FakeNodes, FakeReplica
from tests.fakes.wconfd import AddDisk, TagCluster, fast_directory, prepare, running_wconfd, until

from ganeti.base.errors import ConfigurationError, DeposedError, GanetiError, JobQueueError, LockError
from ganeti.master.replication.followers import Timing
from ganeti.model.configuration import Draft
from ganeti.model.objects import Disk
from ganeti.ports.config import Change
from ganeti.stores.job_files import JobFiles
from ganeti.wconfd.commits import JobStep

TIMING = Timing(
    first_s=0.3,
    take_s=0.3,
    long_take_s=2.0,
    quick_s=0.05,
    heartbeat_s=0.1,
    retry_first_s=0.02,
    retry_longest_s=0.1,
    ask_again_s=0.05,
)
NODE1, NODE2, NODE3 = "uuid-node1", "uuid-node2", "uuid-node3"


class SetCandidate(Change, frozen=True, kw_only=True):
    node: str
    candidate: bool

    def apply(self, draft: Draft) -> None:
        draft.put("nodes", replace(draft.node(self.node), master_candidate=self.candidate))


@pytest.fixture
def root():
    with fast_directory() as path:
        paths = prepare(path, fresh=False)
        plain = sample_cluster.configuration().to_plain()
        plain["cluster"] |= {"enabled_hypervisors": ["fake"], "hvparams": {"fake": {}}}
        plain["cluster"] |= {"enabled_disk_templates": ["diskless"]}
        Path(paths.config_file).write_text(json.dumps(plain))
        yield path


def network() -> FakeNodes:
    return FakeNodes([FakeReplica(uuid, now_s=time.time) for uuid in (NODE2, NODE3)])


@asynccontextmanager
async def master(root, nodes, *, timing=TIMING, **more):
    async with running_wconfd(root, nodes, fresh=False, timing=timing, **more) as daemon:
        yield daemon


def run(scenario, root, nodes, **more):
    async def go():
        async with asyncio.timeout(30), master(root, nodes, **more) as daemon:
            return await scenario(daemon)

    return asyncio.run(go())


async def in_sync(daemon, *nodes):
    await until(lambda: all(daemon.service.replicator.is_in_sync(node) for node in nodes))


async def nothing_to_tell(daemon, nodes):
    """Wait until all know who the members are, and what is acknowledged: that makes appends of its own."""
    machine = daemon.service.replicator._machine
    await until(lambda: all(each.membership == machine.membership.version for each in machine.followers.values()))
    await until(lambda: all(replica.acknowledged == replica.position for replica in nodes.replicas.values()))


def test_an_acknowledged_commit_is_on_every_member(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        job = daemon.job(1)
        for number in range(5):
            position, _ = await daemon.client.commit(job, number, TagCluster(tag=f"t{number}"), True)
            for replica in nodes.replicas.values():
                assert replica.position == position
                assert replica.digest == daemon.service.form.digest
                assert (1, 1, number) in replica.steps
        state = daemon.service.replicator.state()
        assert sorted(state["membership"]["members"]) == [NODE1, NODE2, NODE3]
        assert [node["state"] for node in state["nodes"].values()] == ["master", "in-sync", "in-sync"]

    run(scenario, root, nodes)


def test_no_member_has_a_commit_without_the_files_of_the_queue_that_go_with_it(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        job = daemon.job(1)
        queue = Path(daemon.paths.queue_dir)
        queue.mkdir(exist_ok=True)
        (queue / "job-1").write_text("begun")
        (queue / "job-1.undo").write_text("")
        await nothing_to_tell(daemon, nodes)
        requests = len(nodes.calls)
        position, _ = await daemon.client.commit(job, 1, TagCluster(tag="t"), True, ("job-1", "job-1.undo"))
        for replica in nodes.replicas.values():
            assert replica.position == position
            assert replica.files == {"job-1": "begun", "job-1.undo": ""}
        sent = [call for _, call in nodes.calls[requests:] if call == "replica_append"]
        assert len(sent) == 2, "one trip to each does for both"
        with pytest.raises(JobQueueError, match="no file of the queue that is copied"):
            await daemon.client.commit(job, 2, TagCluster(tag="u"), True, ("../job-1",))

    run(scenario, root, nodes)


def test_a_snapshot_brings_the_marks_of_the_jobs_whose_commits_it_has(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        job = daemon.job(1)
        queue = Path(daemon.paths.queue_dir)
        queue.mkdir(exist_ok=True)
        (queue / "job-1").write_text("begun")
        await daemon.client.commit(job, 1, TagCluster(tag="t"), False)
        replica = nodes.replicas[NODE2]
        assert not replica.files
        replica.damaged = True
        await daemon.client.commit(job, 2, TagCluster(tag="u"), False)
        await in_sync(daemon, NODE2)
        assert replica.marks_of_snapshot == {"job-1": "begun"}

    run(scenario, root, nodes)


def test_nothing_is_shown_before_every_member_has_it(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        gate = nodes.held[NODE3] = asyncio.Event()
        before = daemon.service.form.position
        job = daemon.job(1)
        commits = [asyncio.ensure_future(daemon.client.commit(job, 1, TagCluster(tag="t"), True))]
        await until(lambda: nodes.replicas[NODE2].position != before)
        assert daemon.service.store.store.load().config.position != before, "it is durable here"
        assert daemon.service.form.position == daemon.service.committer.stream.end == before
        assert not commits[0].done()
        gate.set()
        (position, _), *_ = await asyncio.gather(*commits)
        assert daemon.service.form.position == position

    run(scenario, root, nodes)


def test_batches_go_on_while_one_is_on_its_way_and_finish_in_order(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        gate = nodes.held[NODE3] = asyncio.Event()
        order = []

        async def commit(number):
            await daemon.service.committer.commit(JobStep(number, 1, 1, "/l", False), TagCluster(tag=f"t{number}"))
            order.append(number)

        commits = []
        for number in range(1, 4):
            commits.append(asyncio.ensure_future(commit(number)))
            await until(lambda number=number: len(daemon.service.committer._unfinished) == number)
        gate.set()
        await asyncio.gather(*commits)
        assert order == [1, 2, 3]
        assert nodes.replicas[NODE3].digest == daemon.service.form.digest

    run(scenario, root, nodes)


@pytest.mark.parametrize("fault", ["away", "silent"])
def test_a_member_that_is_gone_is_left_out_and_comes_back(root, fault, caplog):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        getattr(nodes, fault)[NODE3] = None
        job = daemon.job(1)
        begun_s = time.monotonic()
        await daemon.client.commit(job, 1, TagCluster(tag="a"), True)
        assert time.monotonic() - begun_s < 1.5
        membership = daemon.service.replicator.state()["membership"]
        assert membership["members"] == [NODE1, NODE2] == nodes.replicas[NODE2].membership["members"]
        getattr(nodes, fault).clear()
        await in_sync(daemon, NODE3)
        assert nodes.replicas[NODE3].digest == daemon.service.form.digest
        assert (1, 1, 1) in nodes.replicas[NODE3].steps
        await until(lambda: nodes.replicas[NODE3].membership["version"] > membership["version"])

    run(scenario, root, nodes)
    assert "The copy at node node3 is left out of those in sync, with the knowledge of 2 of 3 candidates" in caplog.text


def test_without_enough_candidates_nothing_is_acknowledged_and_it_goes_on_when_they_return(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        nodes.away |= {NODE2: None, NODE3: None}
        commit = asyncio.ensure_future(daemon.client.commit(daemon.job(1), 1, TagCluster(tag="a"), True))
        await until(lambda: daemon.service.replicator._machine._members.changing is not None)
        await asyncio.sleep(3 * TIMING.take_s)
        assert not commit.done()
        del nodes.away[NODE2]
        await commit
        assert daemon.service.replicator.state()["membership"]["members"] == [NODE1, NODE2]

    run(scenario, root, nodes)


def test_what_a_killed_master_had_on_disk_alone_is_handed_over_before_it_serves(root):
    nodes = network()

    async def killed(daemon):
        await in_sync(daemon, NODE2, NODE3)
        nodes.silent |= {NODE2: None, NODE3: None}
        before = daemon.service.form.position
        commit = asyncio.ensure_future(daemon.client.commit(daemon.job(1), 1, TagCluster(tag="a"), True))
        await until(lambda: daemon.service.store.store.load().config.position != before)
        commit.cancel()

    async def again(daemon):
        for node in (NODE2, NODE3):
            assert nodes.replicas[node].digest == daemon.service.form.digest
            assert (1, 1, 1) in nodes.replicas[node].steps

    run(killed, root, nodes)
    nodes.silent.clear()
    run(again, root, nodes)


def test_a_candidate_that_lacks_more_than_is_held_gets_everything(root, monkeypatch):
    monkeypatch.setattr("ganeti.wconfd.replication_log.COMMITS_KEPT", 5)
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        nodes.away[NODE3] = None
        job = daemon.job(1)
        for number in range(1, 20):
            await daemon.client.commit(job, number, TagCluster(tag=f"t{number}"), number == 3)
        del nodes.away[NODE3]
        nodes.calls.clear()
        await in_sync(daemon, NODE3)
        assert (NODE3, "replica_snapshot") in nodes.calls
        assert nodes.replicas[NODE3].digest == daemon.service.form.digest
        assert sorted(nodes.replicas[NODE3].steps) == sorted(nodes.replicas[NODE2].steps)

    run(scenario, root, nodes)


def test_files_of_the_queue_are_on_every_member_as_they_are_now(root):
    nodes = network()
    queue = Path(prepare(root, fresh=False).queue_dir)
    queue.mkdir(exist_ok=True)

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        client = daemon.client
        (queue / "job-7").write_text("old")
        (queue / "job-7.undo").write_text("undo")
        (queue / "serial").write_text("7\n")
        await client.replicate_queue(["job-7", "job-7.undo"])
        (queue / "job-7").write_text("new")
        (queue / "job-7.undo").unlink()
        await client.replicate_queue(["job-7", "job-7.undo", "drain"])
        for replica in nodes.replicas.values():
            assert replica.files == {"job-7": "new"}
            assert replica.serial == 7
        await client.replicate_queue([], [7])
        assert [replica.archive for replica in nodes.replicas.values()] == [{7: "new"}] * 2

    run(scenario, root, nodes)


def test_files_that_a_dead_life_of_the_queue_removed_and_told_nobody_of_go_when_the_next_begins(root):
    """Seed 14096 with 7 nodes: jobs were not taken, their files were removed here, and LuxiD died."""
    nodes = network()
    queue = Path(prepare(root, fresh=False).queue_dir)
    queue.mkdir(exist_ok=True)

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        for number in (7, 8):
            (queue / f"job-{number}").write_text("new")
            await daemon.client.replicate_queue([f"job-{number}"])
        (queue / "job-7").unlink()
        nodes.calls.clear()
        await daemon.client.compare_queue()
        await daemon.client.replicate_queue(["drain"])
        assert [replica.files for replica in nodes.replicas.values()] == [{"job-8": "new"}] * 2
        assert sorted(node for node, call in nodes.calls if call == "replica_queue_list") == [NODE2, NODE3]
        assert all(daemon.service.replicator.is_in_sync(node) for node in (NODE2, NODE3))

    run(scenario, root, nodes)


def test_files_of_the_queue_that_every_member_has_are_not_sent_again(root):
    nodes = network()
    queue = Path(prepare(root, fresh=False).queue_dir)
    queue.mkdir(exist_ok=True)

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        await nothing_to_tell(daemon, nodes)

        async def appends_for(*names):
            nodes.calls.clear()
            await daemon.client.replicate_queue(list(names))
            return sorted(node for node, call in nodes.calls if call == "replica_append")

        (queue / "job-7").write_text("old")
        assert await appends_for("job-7", "job-7.undo") == [NODE2, NODE3]
        assert await appends_for("job-7", "job-7.undo") == []
        (queue / "job-7").write_text("new")
        assert await appends_for("job-7", "job-7.undo") == [NODE2, NODE3]
        (queue / "job-7").write_text("old")
        assert await appends_for("job-7") == [NODE2, NODE3]
        (queue / "job-7").unlink()
        assert await appends_for("job-7") == [NODE2, NODE3]
        assert [replica.files for replica in nodes.replicas.values()] == [{}, {}]

    run(scenario, root, nodes)


def test_a_member_that_was_away_is_asked_anew_for_what_it_had(root):
    nodes = network()
    queue = Path(prepare(root, fresh=False).queue_dir)
    queue.mkdir(exist_ok=True)

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        (queue / "job-7").write_text("old")
        await daemon.client.replicate_queue(["job-7"])
        nodes.away[NODE2] = None
        await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="t"), True)
        await until(lambda: not daemon.service.replicator.is_in_sync(NODE2))
        nodes.replicas[NODE2].files.clear()
        nodes.away.clear()
        await in_sync(daemon, NODE2)
        await daemon.client.replicate_queue(["job-7"])
        assert [replica.files for replica in nodes.replicas.values()] == [{"job-7": "old"}] * 2

    run(scenario, root, nodes)


def test_a_queue_is_compared_when_a_candidate_comes_and_sent_in_pieces(root):
    nodes = network()
    files = JobFiles(prepare(root, fresh=False))
    files.prepare()
    queue = Path(files.directory)
    long = "x" * (1024 * 1024)
    for number in range(1, 8):
        (queue / f"job-{number}").write_text(f"{number}{long}")
    (queue / "job-9").write_text("ended")
    assert files.archive([9]) == 1
    nodes.replicas[NODE2].files |= {"job-1": f"1{long}", "job-2": "older", "job-9": "ended", "job-10": "gone"}

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        for replica in nodes.replicas.values():
            assert replica.files == {f"job-{number}": f"{number}{long}" for number in range(1, 8)}
        assert nodes.replicas[NODE2].archive == {9: "ended"}
        assert nodes.longest_append < 5 * 1024 * 1024

    run(scenario, root, nodes)


@pytest.mark.parametrize("name", ["job-0", "job-1/../x", "../config.data", "serial", "job-1.undo\n", "", "job-٣"])
def test_other_files_are_no_part_of_the_queue(root, name):
    async def scenario(daemon):
        with pytest.raises(GanetiError, match="no file of the queue"):
            await daemon.client.replicate_queue([name])

    run(scenario, root, None)


def test_without_other_candidates_the_queue_is_answered_for_at_once(root):
    async def scenario(daemon):
        await daemon.client.replicate_queue(["job-1"], [2])
        assert daemon.service.replicator.log.last == 1, "there is nobody to remember it for"

    run(scenario, root, None)


@pytest.mark.parametrize(
    ("spoil", "state", "reason"),
    [
        ({"full": True}, "behind", "The disk is full"),
        ({"software": "2.16"}, "behind", "runs 2.16"),
        ({"cluster": "another"}, "behind", "copy of cluster another"),
        ({"now_s": lambda: time.time() - 200}, "behind", "clocks"),
        ({"acts_as_master": True}, "behind", "runs ganeti-wconfd"),
    ],
)
def test_a_candidate_that_cannot_hold_a_copy_is_named_and_left_out(root, spoil, state, reason):
    nodes = network()
    for key, value in spoil.items():
        setattr(nodes.replicas[NODE3], key, value)

    async def scenario(daemon):
        await in_sync(daemon, NODE2)
        await until(lambda: daemon.service.replicator.state()["nodes"][NODE3]["state"] == state)
        told = (await daemon.client.call("replicationState"))["nodes"][NODE3]
        assert reason in told["reason"]
        assert abs(told["since_s"] - time.time()) < 10
        await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="a"), True)

    run(scenario, root, nodes)


def test_a_damaged_copy_is_made_anew(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        nodes.replicas[NODE3].damaged = True
        await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="a"), True)
        assert not nodes.replicas[NODE3].damaged
        assert nodes.replicas[NODE3].digest == daemon.service.form.digest

    run(scenario, root, nodes)


def test_a_deposed_master_answers_nobody(root):
    nodes = network()
    sentences = []

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        replica = nodes.replicas[NODE2]
        replica.promised, replica.holder, replica.position = 2, NODE3, (2, 1)
        with pytest.raises(DeposedError, match="node node3 is the master since epoch 2"):
            await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="a"), True)
        with pytest.raises(DeposedError):
            await daemon.client.replicate_queue(["job-1"])
        assert len(sentences) == 1

    run(scenario, root, nodes, on_deposed=sentences.append)


def test_a_promise_alone_deposes_nobody(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        nodes.replicas[NODE2].promised, nodes.replicas[NODE2].holder = 2, NODE3
        await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="a"), True)
        assert daemon.service.replicator.state()["membership"]["members"] == [NODE1, NODE3]

    run(scenario, root, nodes)


def test_nodes_that_are_made_candidates_come_in_and_others_leave(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        job = daemon.job(1)
        await daemon.client.commit(job, 1, SetCandidate(node=NODE3, candidate=False), True)
        await until(lambda: NODE3 not in daemon.service.replicator.state()["nodes"])
        await until(lambda: NODE3 not in daemon.service.replicator.state()["membership"]["members"])
        assert nodes.replicas[NODE3].digest == daemon.service.form.digest, "it was told"
        await daemon.client.commit(job, 2, SetCandidate(node=NODE3, candidate=True), True)
        await in_sync(daemon, NODE3)
        kept = daemon.service.store.store.load().kept
        assert sorted(kept.membership.members) == [NODE1, NODE2, NODE3]

    run(scenario, root, nodes)


def test_a_change_of_the_candidates_waits_until_every_member_has_the_one_before(root):
    """Of two on their way at once, majorities of the first and the last set need not meet."""
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        committer = daemon.service.committer
        order = []

        async def commit(number, change):
            await committer.commit(JobStep(number, 1, 1, "/l", False), change)
            order.append(number)

        gate = nodes.held[NODE2] = asyncio.Event()
        changes = [
            SetCandidate(node=NODE3, candidate=False),
            TagCluster(tag="between"),
            SetCandidate(node=NODE3, candidate=True),
            TagCluster(tag="after"),
        ]
        commits = [asyncio.ensure_future(commit(number, change)) for number, change in enumerate(changes)]
        await until(lambda: len(committer._unfinished) == 2)
        await until(lambda: committer._must_settle is False and bool(committer._held))
        assert order == [] and len(committer._unfinished) == 2
        gate.set()
        await asyncio.gather(*commits)
        assert order == [0, 1, 2, 3]
        await in_sync(daemon, NODE3)
        assert nodes.replicas[NODE2].digest == daemon.service.form.digest

    run(scenario, root, nodes)


def test_who_waits_to_change_the_candidates_hears_that_another_is_master(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        nodes.held[NODE2] = asyncio.Event()
        committer = daemon.service.committer
        changes = [SetCandidate(node=NODE3, candidate=candidate) for candidate in (False, True)]
        commits = [
            asyncio.ensure_future(committer.commit(JobStep(number, 1, 1, "/l", False), change))
            for number, change in enumerate(changes)
        ]
        await until(lambda: bool(committer._held) and bool(committer._unfinished))  # the first is durable, too
        committer.give_up(DeposedError("node2 is"))
        answers = await asyncio.gather(*commits, return_exceptions=True)
        assert [type(answer) for answer in answers] == [DeposedError, DeposedError]
        del nodes.held[NODE2]

    run(scenario, root, nodes, timing=dataclasses.replace(TIMING, take_s=20.0))


def test_the_successor_of_a_dead_job_sees_what_was_on_its_way_when_it_died(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        committer = daemon.service.committer
        before = daemon.service.form.position
        gate = nodes.held[NODE2] = asyncio.Event()
        dying = asyncio.ensure_future(committer.commit(JobStep(7, 1, 4, "/l", False), TagCluster(tag="late")))
        await until(lambda: len(committer._unfinished) == 1)
        taking_over = asyncio.ensure_future(committer.supersede(7, 2))
        await asyncio.sleep(0)
        assert not taking_over.done()
        with pytest.raises(LockError):
            await committer.commit(JobStep(7, 1, 5, "/l", False), TagCluster(tag="later"))
        gate.set()
        await taking_over
        assert dying.done() and daemon.service.form.position > before

    run(scenario, root, nodes)


class Swap(Change, frozen=True, kw_only=True):
    def apply(self, draft: Draft) -> None:
        for node in (NODE2, NODE3):
            draft.put("nodes", replace(draft.node(node), master_candidate=False))


def test_two_candidates_do_not_go_in_one_commit(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        before = daemon.service.form.digest
        with pytest.raises(ConfigurationError, match="2 nodes would become master candidates or cease to be any"):
            await daemon.service.committer.commit(JobStep(1, 1, 1, "/l", False), Swap())
        assert daemon.service.form.digest == before
        await daemon.service.committer.commit(JobStep(1, 1, 2, "/l", False), TagCluster(tag="next"))
        assert nodes.replicas[NODE2].digest == daemon.service.form.digest != before

    run(scenario, root, nodes)


def test_a_candidate_in_sync_is_sent_no_ssconf(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        nodes.calls.clear()
        await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="a"), True)
        await daemon.client.call("flushConfig")
        assert "write_ssconf_files" not in [call for _, call in nodes.calls]
        nodes.replicas[NODE3].full = True
        await daemon.client.commit(daemon.job(2), 1, TagCluster(tag="b"), True)
        await daemon.client.call("flushConfig")
        assert (NODE3, "write_ssconf_files") in nodes.calls

    run(scenario, root, nodes)


def test_a_batch_that_is_written_while_another_finishes_counts_for_the_next_fingerprint(root, caplog):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        store, go_on, writing = daemon.service.store.store, threading.Event(), threading.Event()
        write = store.commit

        def write_slowly(commits):
            if commits[0].step.job == 2:
                writing.set()
                assert go_on.wait(10)
            write(commits)

        store.commit = write_slowly
        gate = nodes.held[NODE3] = asyncio.Event()

        def commit(number):
            disk = Disk(uuid=f"d{number}", dev_type="plain", logical_id=["xenvg", f"d{number}"], iv_name="disk/0")
            step = JobStep(number, 1, 1, "/l", False)
            return asyncio.ensure_future(daemon.service.committer.commit(step, AddDisk(disk=disk)))

        first = commit(1)
        await until(lambda: len(daemon.service.committer._unfinished) == 1)
        second = commit(2)
        await asyncio.to_thread(writing.wait, 10)
        gate.set()
        await first
        gate.clear()
        go_on.set()
        await until(lambda: len(daemon.service.committer._unfinished) == 1)
        third = commit(3)
        await until(lambda: len(daemon.service.committer._unfinished) == 2)
        gate.set()
        await asyncio.gather(second, third)
        assert nodes.replicas[NODE2].digest == nodes.replicas[NODE3].digest == daemon.service.form.digest

    run(scenario, root, nodes)
    assert "damaged" not in caplog.text

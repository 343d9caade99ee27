# SPDX-License-Identifier: BSD-2-Clause
"""Publication and distribution: files follow commits and are known by their fingerprints, nodes are tried again."""

import asyncio
import errno
import json
import os
import threading
from pathlib import Path

import pytest
from tests.fakes.wconfd import TagCluster, fast_directory, running_wconfd, until

from ganeti.base.errors import ConfigurationError, NodeUnreachableError
from ganeti.job.world import JobWorld
from ganeti.master.config.fingerprint import fingerprint_of
from ganeti.model.objects import Disk
from ganeti.stores.config_file import ConfigFile
from ganeti.stores.config_store import SqliteStore
from ganeti.system.environment import Environment
from ganeti.system.livelock import LiveLock, job_lock_path
from ganeti.wconfd import distribution
from ganeti.wire.job_file import JobFile
from ganeti.wire.ssconf import KEYS

DISK = Disk(uuid="d", dev_type="plain", logical_id=["xenvg", "new"], iv_name="disk/0")
NODE2, NODE3 = "00000021-0000-4000-8000-000000000021", "00000022-0000-4000-8000-000000000022"


@pytest.fixture
def root():
    with fast_directory() as path:
        yield path


class RecordingNodes:
    """Takes what is sent; nodes in `away` do not answer."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, dict]] = []
        self.away: set[str] = set()
        self.tried = asyncio.Event()

    def distributed(self):
        """What does not belong to the copies."""
        return [call for call in self.calls if call[1] == "write_ssconf_files"]

    async def call(self, node_uuid, call, /, *, timeout_s=None, **arguments):
        self.tried.set()
        if node_uuid in self.away:
            raise NodeUnreachableError("Node is away")
        self.calls.append((node_uuid, call, arguments))

    async def call_many(self, node_uuids, call, /, *, timeout_s=None, **arguments):
        raise AssertionError("not used")


def run(scenario, root, nodes=None):
    async def go():
        async with running_wconfd(root, nodes() if nodes else None) as daemon:
            return await scenario(daemon)

    return asyncio.run(go())


def test_files_have_their_modes_and_the_store_knows_the_fingerprint(root):
    async def scenario(daemon):
        await daemon.client.call("flushConfig")
        config_file = Path(daemon.paths.config_file)
        assert config_file.stat().st_mode & 0o777 == 0o640
        for key in KEYS:
            assert os.stat(daemon.paths.ssconf_file(key)).st_mode & 0o777 == 0o444
        return fingerprint_of(config_file.read_bytes())

    digest = run(scenario, root)
    store = SqliteStore(f"{root}/var/lib/ganeti/config.sqlite")
    assert digest in store.load().published
    store.close()


def test_only_changed_ssconf_files_are_written(root):
    async def scenario(daemon):
        client = daemon.client
        await client.call("flushConfig")
        before = {key: os.stat(daemon.paths.ssconf_file(key)).st_ino for key in KEYS}
        position, _ = await client.commit(daemon.job(1), 1, TagCluster(tag="new"), False)
        await client.wait_published(position)
        after = {key: os.stat(daemon.paths.ssconf_file(key)).st_ino for key in KEYS}
        assert {key for key in KEYS if before[key] != after[key]} == {"cluster_tags"}

    run(scenario, root)


def test_many_commits_are_published_at_once(root, monkeypatch):
    written = []

    async def scenario(daemon):
        await daemon.client.call("flushConfig")
        publish = daemon.service.publisher.publish

        async def counted():
            written.append(1)
            await publish()

        monkeypatch.setattr(daemon.service.publisher, "publish", counted)
        owner = daemon.job(1)
        await asyncio.gather(
            *(daemon.client.commit(owner, step, TagCluster(tag=f"t{step}"), False) for step in range(1, 41))
        )
        await daemon.client.wait_published(await daemon.client.position())
        assert len(json.loads(Path(daemon.paths.config_file).read_bytes())["cluster"]["tags"]) == 41

    run(scenario, root)
    assert 1 <= len(written) < 40


def test_a_file_that_cannot_be_written_is_told_to_those_who_wait_and_tried_again(root, monkeypatch):
    monkeypatch.setattr("ganeti.stores.publisher._RETRY_FIRST_S", 0.05)

    async def scenario(daemon):
        client = daemon.client
        await client.call("flushConfig")
        from ganeti.stores import config_file

        write = config_file._write_at
        full = [True]

        def write_if_room(*arguments, **more):
            if full[0]:
                raise OSError(28, "No space left on device")
            write(*arguments, **more)

        monkeypatch.setattr(config_file, "_write_at", write_if_room)
        position, _ = await client.commit(daemon.job(1), 1, TagCluster(tag="new"), False)
        with pytest.raises(ConfigurationError, match="committed but not published: No space left"):
            await client.wait_published(position)
        full[0] = False
        await client.wait_published(position)
        assert "new" in json.loads(Path(daemon.paths.config_file).read_bytes())["cluster"]["tags"]
        loaded = SqliteStore(daemon.paths.config_database).load()
        assert fingerprint_of(Path(daemon.paths.config_file).read_bytes()) in loaded.published

    run(scenario, root)


def test_a_cluster_about_to_be_destroyed_is_published_no_more(root):
    async def scenario(daemon):
        client = daemon.client
        await client.call("flushConfig")
        owner = daemon.job(1)
        await client.call("prepareClusterDestruction", owner.for_locks.to_wire())
        os.unlink(daemon.paths.config_file)
        position, _ = await client.commit(owner, 1, TagCluster(tag="last"), False)
        await client.wait_published(position)
        assert not os.path.exists(daemon.paths.config_file)

    run(scenario, root)


def test_a_candidate_whose_copy_is_not_in_sync_is_sent_ssconf(root):
    async def scenario(daemon):
        await daemon.client.call("flushConfig")
        nodes = daemon.service._distributor._nodes
        sent = nodes.distributed()
        assert [(uuid, call) for uuid, call, _ in sent] == [(NODE2, "write_ssconf_files")], "node3 is offline"
        assert sent[0][2]["values"]["master_node"] == "node1.example.com\n"

    run(scenario, root, RecordingNodes)


@pytest.mark.requirement("S2.11")
def test_a_node_that_is_away_holds_up_nothing_and_gets_the_newest_when_it_returns(root, monkeypatch):
    monkeypatch.setattr(distribution, "RETRY_FIRST_S", 0.02)
    monkeypatch.setattr(distribution, "RETRY_LONGEST_S", 0.02)

    async def scenario(daemon):
        client, nodes = daemon.client, daemon.service._distributor._nodes
        await client.call("flushConfig")
        nodes.away.add(NODE2)
        nodes.calls.clear()
        owner = daemon.job(1)
        for step in (1, 2, 3):
            await client.commit(owner, step, TagCluster(tag=f"t{step}"), False)
        await client.call("flushConfig")
        assert nodes.distributed() == []
        nodes.away.clear()
        await until(lambda: bool(nodes.distributed()))
        assert "t3" in nodes.distributed()[0][2]["values"]["cluster_tags"]

    run(scenario, root, RecordingNodes)


def test_a_commit_tells_the_store_what_was_published_before(root):
    """So that an older state put back is told from the newest."""

    async def scenario(daemon):
        await daemon.client.call("flushConfig")
        states = [fingerprint_of(Path(daemon.paths.config_file).read_bytes())]
        for step in (1, 2, 3):
            position, _ = await daemon.client.commit(daemon.job(step), 1, TagCluster(tag=f"t{step}"), False)
            await daemon.client.wait_published(position)
            states.append(fingerprint_of(Path(daemon.paths.config_file).read_bytes()))
        loaded = SqliteStore(daemon.paths.config_database).load()
        assert loaded.published == tuple(states[-2:]), "the last one may not have been published before a kill"
        assert loaded.earlier[-2:] == tuple(states[1:3])
        assert states[0] in loaded.earlier, "nothing was synced since: a loss of power may leave it"

    run(scenario, root)


def test_what_could_not_be_synced_is_not_told_as_durable(root, monkeypatch):
    monkeypatch.setattr("ganeti.stores.publisher._SYNC_AFTER_COMMITS", 1)

    async def scenario(daemon):
        await daemon.client.call("flushConfig")
        published = daemon.service.committer
        await until(lambda: published.published.synced == (1, 42))
        refused, loop = asyncio.Event(), asyncio.get_running_loop()

        def refuse(file):
            loop.call_soon_threadsafe(refused.set)
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(ConfigFile, "sync", refuse)
        await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="a"), False)
        await refused.wait()
        assert published.published[0::2] == ((1, 43), (1, 42))
        monkeypatch.undo()
        monkeypatch.setattr("ganeti.stores.publisher._SYNC_AFTER_COMMITS", 1)
        await daemon.client.commit(daemon.job(2), 1, TagCluster(tag="b"), False)
        await until(lambda: published.published[0::2] == ((1, 44), (1, 44)))

    run(scenario, root)


def test_a_fault_of_our_own_at_one_node_keeps_nobody_waiting(root, monkeypatch, caplog):
    monkeypatch.setattr(distribution, "RETRY_FIRST_S", 0.02)

    class Faulty(RecordingNodes):
        faults = 1

        async def call(self, node_uuid, call, /, **arguments):
            if node_uuid == NODE2 and self.faults:
                self.faults -= call == "write_ssconf_files"
                raise ZeroDivisionError("a mistake")
            await super().call(node_uuid, call, **arguments)

    nodes = Faulty()

    async def scenario(daemon):
        async with asyncio.timeout(5):
            await daemon.client.flush(5.0)
        await until(lambda: any(uuid == NODE2 and call == "write_ssconf_files" for uuid, call, _ in nodes.calls))

    run(scenario, root, lambda: nodes)
    assert "ZeroDivisionError" in caplog.text


def test_a_job_has_all_sent_or_goes_on(root, monkeypatch, caplog):
    """Whoever asks wants to look at the copies: one that may differ is better than none."""
    nodes = RecordingNodes()

    async def refuse():
        raise ConfigurationError("No space left on device")

    async def scenario(daemon):
        lock = LiveLock(job_lock_path(daemon.paths.livelock_dir, 7, 1))
        world = JobWorld(Environment(daemon.paths, "node1"), JobFile(id=7, ops=[], attempt=1), lock)
        await world.config.flush()
        sent = {(uuid, call) for uuid, call, _ in nodes.calls}
        assert (NODE2, "write_ssconf_files") in sent
        monkeypatch.setattr(daemon.service.publisher, "flush", refuse)
        await world.config.flush()
        await world.close()
        lock.remove()

    run(scenario, root, lambda: nodes)
    assert "job 7 continues" in caplog.text


def test_a_stop_in_the_midst_of_a_publication_waits_for_what_is_being_written(root, monkeypatch):
    """The file must not be closed under the thread that writes it."""
    order: list[str] = []
    writing, go_on = threading.Event(), threading.Event()
    write, close = ConfigFile.write, ConfigFile.close

    def slow_write(file: ConfigFile) -> None:
        writing.set()
        assert go_on.wait(10)
        write(file)
        order.append("written")

    def noted_close(file: ConfigFile) -> None:
        order.append("closed")
        close(file)

    async def scenario(daemon):
        await daemon.client.call("flushConfig")
        monkeypatch.setattr(ConfigFile, "write", slow_write)
        monkeypatch.setattr(ConfigFile, "close", noted_close)
        await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="new"), False)
        await asyncio.to_thread(writing.wait, 10)
        asyncio.get_running_loop().call_later(0.05, go_on.set)

    run(scenario, root)
    assert order[:2] == ["written", "closed"]

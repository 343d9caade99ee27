# SPDX-License-Identifier: BSD-2-Clause
"""WConfD over its socket: commits, steps, the stream, bad clients."""

import asyncio
import json
import re
import socket
import sqlite3
from functools import partial
from pathlib import Path

import pytest
from tests.fakes.wconfd import AddDisk, AnswerNonsense, FailByFault, TagCluster, fast_directory, running_wconfd, until

from ganeti.base.errors import (
    ConfigurationError,
    ConfigVerifyError,
    GanetiError,
    LockError,
    PrerequisiteError,
    TransportError,
)
from ganeti.model.objects import Disk
from ganeti.stores.config_view import ConfigReader
from ganeti.system.unix_socket import connect, serve


@pytest.fixture
def root():
    with fast_directory() as path:
        yield path


def run(scenario, root):
    async def go():
        async with running_wconfd(root) as daemon:
            return await scenario(daemon)

    return asyncio.run(go())


def test_a_commit_is_seen_by_views_and_in_the_file_when_published(root):
    async def scenario(daemon):
        owner = daemon.job(1)
        position, result = await daemon.client.commit(owner, 1, TagCluster(tag="new"), False)
        assert (position, result) == ((1, 43), 2)
        reader = ConfigReader(daemon.paths.config_database)
        view = reader.view()
        assert view.position == position
        assert view.cluster.tags == ["prod", "new"]
        await daemon.client.wait_published(position)
        published = json.loads(Path(daemon.paths.config_file).read_bytes())
        assert published["cluster"]["tags"] == ["prod", "new"]
        assert published["serial_no"] == 43
        assert Path(daemon.paths.ssconf_file("cluster_tags")).read_text() == "new\nprod\n"
        assert await daemon.client.call("readConfig") == published
        assert await daemon.client.call("verifyConfig") == []

    run(scenario, root)


def test_a_repeated_step_gets_the_first_answer_even_after_a_restart(root):
    async def first(daemon):
        owner = daemon.job(1)
        daemon.undo_records(1)
        change = TagCluster(tag="once")
        answers = await asyncio.gather(*(daemon.client.commit(owner, 1, change, True) for _ in range(5)))
        assert len(set(answers)) == 1
        with pytest.raises(PrerequisiteError, match="there already"):
            await daemon.client.commit(owner, 2, change, False)
        return answers[0]

    async def second(daemon):
        owner = daemon.job(1)
        assert await daemon.client.last_step(1) == (1, 1)
        assert await daemon.client.last_step(2) is None
        return await daemon.client.commit(owner, 1, TagCluster(tag="once"), True)

    assert run(first, root) == run(second, root)


def test_commits_that_come_together_are_one_transaction(root):
    async def scenario(daemon):
        statements = []
        await daemon.client.wait_published(await daemon.client.position())
        daemon.service.publisher.stop_publishing()
        daemon.service.store.store.on_statement(statements.append)
        owner = daemon.job(1)
        await daemon.client.commit(owner, 1, TagCluster(tag="alone"), False)
        assert statements.count("COMMIT") == 1
        statements.clear()
        tags = [TagCluster(tag=f"t{number}") for number in range(20)]
        results = await asyncio.gather(
            *(daemon.client.commit(owner, 10 + number, tag, False) for number, tag in enumerate(tags))
        )
        daemon.service.store.store.on_statement(None)
        assert sorted(result for _, result in results) == list(range(3, 23))
        writes = [text for text in statements if text.startswith("INSERT INTO commits")]
        assert len(writes) == 20
        assert 1 <= sum(text == "COMMIT" for text in statements) < 20

    run(scenario, root)


def test_refused_changes_leave_no_trace(root):
    async def scenario(daemon):
        owner = daemon.job(1)
        with pytest.raises(GanetiError, match="FailByFault failed with an internal error: ZeroDivisionError"):
            await daemon.client.commit(owner, 1, FailByFault(), False)
        with pytest.raises(ConfigVerifyError, match="refers to node 'gone'"):
            await daemon.client.commit(owner, 2, AddDisk(disk=Disk(uuid="d", dev_type="plain", nodes=["gone"])), False)
        assert await daemon.client.position() == (1, 42)
        disk = await daemon.client.commit(owner, 3, AddDisk(disk=Disk(uuid="d", dev_type="plain")), False)
        assert disk.position == (1, 43)
        assert disk.result["serial_no"] == 1
        assert "unknown" not in disk.result

    run(scenario, root)


def test_only_the_living_and_the_newest_attempt_may_commit(root):
    async def scenario(daemon):
        old = daemon.job(1, attempt=1)
        await daemon.client.commit(old, 1, TagCluster(tag="a"), False)
        daemon.die(old)
        with pytest.raises(LockError, match="nobody holds its lock file"):
            await daemon.client.commit(old, 2, TagCluster(tag="b"), False)
        new = daemon.job(1, attempt=2)
        await daemon.client.hand_over_locks(old.for_locks, new.for_locks)
        revived = daemon.job(1, attempt=1)
        with pytest.raises(LockError, match="has a successor, attempt 2"):
            await daemon.client.commit(revived, 2, TagCluster(tag="b"), False)
        await daemon.client.commit(new, 1, TagCluster(tag="b"), False)

    run(scenario, root)


def test_a_full_disk_takes_the_change_back_and_the_daemon_goes_on(root):
    async def scenario(daemon):
        owner = daemon.job(1)
        database = daemon.service.store.store._db
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(GanetiError, match="cannot be written: database or disk is full"):
            await daemon.client.commit(owner, 1, TagCluster(tag="x" * 100_000), False)
        database.execute("PRAGMA max_page_count = 100000")
        _, count = await daemon.client.commit(owner, 1, TagCluster(tag="small"), False)
        assert count == 2

    run(scenario, root)


def test_followers_get_what_they_missed_then_every_commit(root):
    async def scenario(daemon):
        owner = daemon.job(1)
        for step in (1, 2):
            await daemon.client.commit(owner, step, TagCluster(tag=f"t{step}"), False)
        seen = []
        position = [(1, 42)]

        async def follow():
            async for event in daemon.client.events(lambda: position[0]):
                seen.append((event["event"], event["position"][1]))
                position[0] = tuple(event["position"])
                if len(seen) == 3:
                    return event
            return None

        follower = asyncio.ensure_future(follow())
        await until(lambda: len(seen) == 2)
        await daemon.client.commit(owner, 3, TagCluster(tag="t3"), False)
        last = await follower
        assert seen == [("commit", 43), ("commit", 44), ("commit", 45)]
        assert last["put"][0][:2] == ["cluster", "cluster"]
        assert last["put"][0][2]["tags"] == ["prod", "t1", "t2", "t3"]
        assert last["remove"] == []

    run(scenario, root)


def test_a_follower_without_a_position_gets_everything_first(root):
    async def scenario(daemon):
        async for event in daemon.client.events(lambda: (0, 0)):
            assert event["event"] == "snapshot"
            assert event["position"] == [1, 42]
            assert event["config"]["cluster"]["cluster_name"] == "cluster.example.com"
            return

    run(scenario, root)


BAD_REQUESTS = [
    (b"nonsense", "This is not a request"),
    (b'{"method": 1, "args": []}', "This is not a request"),
    (b'{"method": "burn", "args": []}', "No such method: burn"),
    (b'{"method": "echo", "args": []}', "echo takes 1 arguments, not 0"),
    (b'{"method": "listLocks", "args": ["me"]}', "is not a client"),
    (b'{"method": "tryUpdateLocks", "args": [[1, "/l", 1], [["moon/x", "shared"]]]}', "is not a lock"),
    (b'{"method": "tryUpdateLocks", "args": [[1, "/l", 1], "node/x"]}', "must be a list"),
    (b'{"method": "freeLocksLevel", "args": [[1, "/l", 1], "moon"]}', "'moon' is not a lock level"),
    (b'{"method": "updateLocksWaiting", "args": [[1, "/l", 1], "high", []]}', "priority must be a whole number"),
    (
        b'{"method": "tryUpdateLocks", "args": [[1, "/%s", 1], []]}' % (b"l" * 300),
        "tryUpdateLocks could not be carried out: File name too long",
    ),
    (b'{"method": "waitPublished", "args": ["now"]}', "is not a position"),
    (b'{"method": "waitPublished", "args": [[1, 9999]]}', "no commit 1.9999"),
    (b'{"method": "subscribe", "args": [["x"]]}', "is not a position"),
    (b'{"method": "commit", "args": [[1e99, "/l", 1], 1, "TagCluster", {}, false]}', "job id must be a whole"),
    (b'{"method": "commit", "args": [[9999999999999999999, "/l", 1], 1, "Burn", {}, false]}', "must be a whole number"),
    (b'{"method": "commit", "args": [[1, "/l"], 1, "TagCluster", {}, false]}', "A commit needs"),
    (
        b'{"method": "commit", "args": [[1, "/l", 1], 1, "Burn", {}, false]}',
        "no change of the configuration called",
    ),
    (b'{"method": "commit", "args": [[1, "/l", 1], 1, "TagCluster", {"tag": 5}, false]}', "cannot be read: .*tag"),
    (b'{"method": "commit", "args": [[1, "/l", 1], 1, "TagCluster", {"tga": ""}, false]}', "has no field 'tga'"),
    (
        b'{"method": "commit", "args": [[1, "/l", 1], true, "TagCluster", {"tag": ""}, false]}',
        "step must be a whole",
    ),
]


@pytest.mark.requirement("S2.10", "S2.42")
def test_bad_requests_are_answered_and_the_connection_goes_on(root):
    async def scenario(daemon):
        connection = await connect(daemon.paths.wconfd_socket)
        lock_file = daemon.job(1).lock_file.encode()
        for request, complaint in BAD_REQUESTS:
            await connection.send_bytes(request.replace(b"/l", lock_file) + b"\x03")
            answer = await connection.receive()
            assert answer["success"] is False
            assert re.search(complaint, answer["result"][1][0]), (request, answer)
        await connection.send({"method": "echo", "args": ["still here"], "version": 3010000})
        assert await connection.receive() == {"success": True, "result": "still here"}
        await connection.close()

    run(scenario, root)


def test_an_endless_message_is_refused_and_harms_nobody(root, monkeypatch):
    monkeypatch.setattr("ganeti.wconfd.service.serve", partial(serve, limit_bytes=10_000))

    async def scenario(daemon):
        greedy = await connect(daemon.paths.wconfd_socket)
        half = await connect(daemon.paths.wconfd_socket)
        await half.send_bytes(b'{"method": "ec')
        await greedy.send_bytes(b"x" * 20_000)
        answer = await greedy.receive()
        assert "longer than 10000 bytes" in answer["result"][1][0]
        with pytest.raises(TransportError):
            await greedy.receive()
        assert await daemon.client.call("echo", "hello") == "hello"
        half.abort()

    run(scenario, root)


def test_a_message_that_does_not_end_is_refused_in_time_and_idle_clients_are_left_alone(root, monkeypatch):
    monkeypatch.setattr("ganeti.wconfd.server.Server.message_s", 0.1)

    async def scenario(daemon):
        idle = await connect(daemon.paths.wconfd_socket)
        await idle.send({"method": "echo", "args": ["before"]})
        assert (await idle.receive())["result"] == "before"
        slow = await connect(daemon.paths.wconfd_socket)
        await slow.send_bytes(b'{"method": "ec')
        async with asyncio.timeout(5.0):
            assert "not complete within 0.1 s" in (await slow.receive())["result"][1][0]
            with pytest.raises(TransportError):
                await slow.receive()
        await idle.send({"method": "echo", "args": ["after"]})
        assert (await idle.receive())["result"] == "after"
        idle.abort()

    run(scenario, root)


def test_a_follower_that_does_not_read_is_dropped(root, monkeypatch):
    monkeypatch.setattr("ganeti.wconfd.server._SUBSCRIBER_LAG_BYTES", 1000)

    async def scenario(daemon):
        lazy = socket.socket(socket.AF_UNIX)
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        lazy.connect(daemon.paths.wconfd_socket)
        lazy.sendall(b'{"method": "subscribe", "args": [[1, 42]]}\x03')
        server = daemon.service.server
        await until(lambda: bool(server._subscribers))
        owner = daemon.job(1)
        for step in range(1, 30):
            await daemon.client.commit(owner, step, TagCluster(tag=f"{step}" + "x" * 50_000), False)
            if not server._subscribers:
                break
        assert not server._subscribers
        lazy.close()

    run(scenario, root)


def test_a_client_survives_a_restart_of_the_daemon(root):
    async def go():
        async with running_wconfd(root) as first:
            owner = first.job(1)
            client = first.client
            assert (await client.commit(owner, 1, TagCluster(tag="a"), False)).result == 2
            await first.service.stop()
            waiting = asyncio.ensure_future(client.commit(owner, 2, TagCluster(tag="b"), False))
            await asyncio.sleep(0.06)
            assert not waiting.done()
            async with running_wconfd(root):
                assert (await waiting).result == 3

    asyncio.run(go())


def test_nobody_there_is_an_error_in_the_end(root):
    async def go():
        async with running_wconfd(root, patience_s=0.2) as daemon:
            await daemon.service.stop()
            with pytest.raises(TransportError, match="does not answer the call echo: Cannot connect"):
                await daemon.client.call("echo", "x")

    asyncio.run(go())


def test_a_reused_job_number_is_not_answered_for_its_predecessor(root):
    """After a restored queue, job numbers are given again."""

    async def first(daemon):
        owner = daemon.job(1)
        await daemon.client.commit(owner, 1, TagCluster(tag="before"), True)
        daemon.die(owner)

    async def second(daemon):
        assert (await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="after"), True)).result == 3

    run(first, root)
    run(second, root)


def test_an_answer_that_is_no_json_is_a_fault_of_the_change_alone(root):
    async def scenario(daemon):
        owner = daemon.job(1)
        answers = await asyncio.gather(
            daemon.client.commit(owner, 1, AnswerNonsense(), False),
            daemon.client.commit(owner, 2, TagCluster(tag="good"), False),
            return_exceptions=True,
        )
        assert "AnswerNonsense failed with an internal error" in str(answers[0])
        assert answers[1].result == 2
        assert await daemon.client.position() == (1, 43)

    run(scenario, root)


def test_damage_under_the_master_names_the_way_out(root, monkeypatch):
    async def scenario(daemon):
        damage = sqlite3.DatabaseError("database disk image is malformed")
        damage.sqlite_errorcode = 11

        def broken(commits):
            raise ConfigurationError(f"The database cannot be written: {damage}") from damage

        monkeypatch.setattr(daemon.service.store.store, "commit", broken)
        with pytest.raises(GanetiError, match="malformed; run gnt-cluster master-failover on another candidate"):
            await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="x"), False)

    run(scenario, root)


def test_a_fault_of_the_store_fails_the_batch_and_not_the_daemon(root, monkeypatch):
    async def scenario(daemon):
        owner = daemon.job(1)
        store = daemon.service.store.store
        write = store.commit

        def broken(commits):
            monkeypatch.setattr(store, "commit", write)
            raise OverflowError("too large")

        monkeypatch.setattr(store, "commit", broken)
        with pytest.raises(GanetiError, match="cannot be written: OverflowError: too large"):
            await daemon.client.commit(owner, 1, TagCluster(tag="x"), False)
        assert (await daemon.client.commit(owner, 2, TagCluster(tag="x"), False)).result == 2

    run(scenario, root)


def test_steps_of_finished_jobs_are_forgotten_and_stale_lock_files_removed(root):
    async def scenario(daemon):
        done, undoing, alive = daemon.job(1), daemon.job(2), daemon.job(3)
        for owner in (done, undoing, alive):
            await daemon.client.commit(owner, 1, TagCluster(tag=f"t{owner.job_id}"), True)
        daemon.undo_records(2)
        daemon.die(done)
        daemon.die(undoing)
        await daemon.client.clean_up_locks()
        assert await daemon.client.last_step(1) is None
        assert await daemon.client.last_step(2) == (1, 1)
        assert await daemon.client.last_step(3) == (1, 1)
        assert not Path(done.lock_file).exists()
        assert Path(alive.lock_file).exists()

    run(scenario, root)

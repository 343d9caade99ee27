# SPDX-License-Identifier: BSD-2-Clause
"""Locks over the socket: waiting, death, hand-over, restart."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.fakes.wconfd import fast_directory, running_wconfd, until

from ganeti.base.errors import ConfigurationError, LockError, LockOrderError
from ganeti.calls.lock_follower import LockFollower
from ganeti.master.locks.owners import Owner
from ganeti.stores import lock_journal
from ganeti.stores.lock_journal import load_locks
from ganeti.wconfd import locks as wconfd_locks
from ganeti.wconfd.lock_stream import LockStream

NODE = [("node/a", "exclusive")]


@pytest.fixture
def root():
    with fast_directory() as path:
        yield path


def run(scenario, root):
    async def go():
        async with running_wconfd(root) as daemon:
            return await scenario(daemon)

    return asyncio.run(go())


async def until_waiting(daemon):
    await until(lambda: bool(daemon.service.locks.table.waiting()))


def test_locks_are_taken_listed_and_given_up(root):
    async def scenario(daemon):
        one, two = daemon.job(1).for_locks, daemon.job(2).for_locks
        client = daemon.client
        assert await client.try_locks(one, [("instance/i", "exclusive"), ("node/a", "shared")]) == []
        assert await client.try_locks(two, NODE) == [one]
        assert await client.list_locks(one) == {"instance/i": "exclusive", "node/a": "shared"}
        assert await client.call("listAllLocks") == ["instance/i", "node/a"]
        assert await client.call("listAllLocksOwners") == [
            ["instance/i", [[one.to_wire(), "exclusive"]]],
            ["node/a", [[one.to_wire(), "shared"]]],
        ]
        await client.downgrade_level(one, "instance")
        assert (await client.list_locks(one))["instance/i"] == "shared"
        await client.intersect_locks(one, ["node/a"])
        assert await client.list_locks(one) == {"node/a": "shared"}
        assert await client.opportunistic_union(two, [("node/a", "exclusive"), ("node/b", "exclusive")]) == ["node/b"]
        assert await client.opportunistic_union(one, [("node/b", "shared")], at_least=1) == []
        await client.call("freeLocksLevel", one.to_wire(), "node")
        await client.release_locks(two, ["node/b"])
        assert await client.call("listAllLocks") == []

    run(scenario, root)


def test_a_wrong_order_is_an_error_and_not_a_wait(root):
    async def scenario(daemon):
        one = daemon.job(1).for_locks
        await daemon.client.try_locks(one, NODE)
        answer = await daemon.client.call("hasPendingRequest", one.to_wire())
        assert answer is False
        with pytest.raises(Exception, match='Order violation: requesting BGL while holding Node "a"') as caught:
            await daemon.client.wait_locks(one, 0, [("cluster/BGL", "shared")])
        assert caught.value.to_wire()[0] == LockOrderError.wire_name

    run(scenario, root)


@pytest.mark.requirement("S2.12")
def test_who_waits_gets_the_lock_when_it_is_free(root):
    async def scenario(daemon):
        one, two = daemon.job(1).for_locks, daemon.job(2).for_locks
        await daemon.client.try_locks(one, NODE)
        waiting = asyncio.ensure_future(daemon.client.wait_locks(two, 0, NODE))
        await until_waiting(daemon)
        assert await daemon.client.waiting_locks() == [(0, two, dict(NODE))]
        await daemon.client.free_locks(one)
        await waiting
        assert await daemon.client.list_locks(two) == dict(NODE)

    run(scenario, root)


def test_a_request_of_3_1_is_queued_and_answered_at_once(root):
    async def scenario(daemon):
        one, two = daemon.job(1).for_locks, daemon.job(2).for_locks
        await daemon.client.try_locks(one, NODE)
        request = [list(element) for element in NODE]
        assert await daemon.client.call("updateLocksWaiting", two.to_wire(), 0, request) == [one.to_wire()]
        assert await daemon.client.call("hasPendingRequest", two.to_wire()) is True
        status = await daemon.client.call("listLocksWaitingStatus")
        assert status == [[one.to_wire(), two.to_wire()], [[0, two.to_wire(), request]]]
        await daemon.client.free_locks(one)
        assert await daemon.client.call("hasPendingRequest", two.to_wire()) is False

    run(scenario, root)


def test_a_withdrawn_request_ends_the_wait(root):
    async def scenario(daemon):
        one, two = daemon.job(1).for_locks, daemon.job(2).for_locks
        await daemon.client.try_locks(one, NODE)
        waiting = asyncio.ensure_future(daemon.client.wait_locks(two, 0, NODE))
        await until_waiting(daemon)
        await daemon.client.cancel_lock_request(two)
        with pytest.raises(LockError, match="request of job 2 was withdrawn"):
            await waiting
        cancelled = asyncio.ensure_future(daemon.client.wait_locks(two, 0, NODE))
        await until_waiting(daemon)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert await daemon.client.waiting_locks() == []

    run(scenario, root)


@pytest.mark.requirement("S2.12")
def test_the_dead_in_the_way_are_found_and_their_locks_freed(root, monkeypatch):
    monkeypatch.setattr(wconfd_locks, "PROBE_BLOCKERS_EVERY_S", 0.02)

    async def scenario(daemon):
        dead, idle, waiter = daemon.job(1), daemon.job(2), daemon.job(3)
        await daemon.client.try_locks(dead.for_locks, NODE)
        await daemon.client.try_locks(idle.for_locks, [("node/b", "exclusive")])
        daemon.die(dead)
        daemon.die(idle)
        async with asyncio.timeout(5):
            await daemon.client.wait_locks(waiter.for_locks, 0, NODE)
        assert await daemon.client.list_locks(idle.for_locks), "nobody waits for it, so nobody has looked"
        await daemon.client.clean_up_locks()
        assert not await daemon.client.list_locks(idle.for_locks)

    run(scenario, root)


def test_a_clean_up_that_fails_does_not_end_the_watching(root, monkeypatch):
    monkeypatch.setattr(wconfd_locks, "PROBE_BLOCKERS_EVERY_S", 0.02)
    monkeypatch.setattr(wconfd_locks, "PROBE_ALL_EVERY_S", 0.02)
    failing = [OSError(28, "No space left on device"), ConfigurationError("The database cannot be written")]
    free = wconfd_locks.LockService.free_the_dead

    async def fail_first(self, owners=None):
        if failing and self.table.owners():
            raise failing.pop()
        return await free(self, owners)

    monkeypatch.setattr(wconfd_locks.LockService, "free_the_dead", fail_first)

    async def scenario(daemon):
        dead, waiter = daemon.job(1), daemon.job(2)
        await daemon.client.try_locks(dead.for_locks, NODE)
        daemon.die(dead)
        async with asyncio.timeout(5):
            await daemon.client.wait_locks(waiter.for_locks, 0, NODE)
        assert not failing

    run(scenario, root)


def test_a_dead_job_with_undo_records_keeps_its_locks_for_its_successor(root):
    async def scenario(daemon):
        old, other = daemon.job(7), daemon.job(8)
        await daemon.client.try_locks(old.for_locks, NODE)
        records = daemon.undo_records(7)
        daemon.die(old)
        await daemon.client.clean_up_locks()
        assert await daemon.client.try_locks(other.for_locks, NODE) == [old.for_locks]
        new = daemon.job(7, attempt=2)
        for _ in range(2):
            await daemon.client.hand_over_locks(old.for_locks, new.for_locks)
        assert await daemon.client.list_locks(new.for_locks) == dict(NODE)
        assert await daemon.client.list_locks(old.for_locks) == {}
        records.unlink()
        daemon.die(new)
        await daemon.client.clean_up_locks()
        assert await daemon.client.try_locks(other.for_locks, NODE) == []

    run(scenario, root)


def test_nothing_is_taken_from_the_living(root):
    async def scenario(daemon):
        old = daemon.job(7)
        await daemon.client.try_locks(old.for_locks, NODE)
        with pytest.raises(LockError, match="job 7 is alive"):
            await daemon.client.hand_over_locks(old.for_locks, daemon.job(7, attempt=2).for_locks)
        await daemon.client.clean_up_locks()
        assert await daemon.client.list_locks(old.for_locks) == dict(NODE)

    run(scenario, root)


def test_the_dead_get_no_locks(root):
    async def scenario(daemon):
        dead = daemon.job(7)
        daemon.die(dead)
        with pytest.raises(LockError, match="job 7 gets no locks: nobody holds its lock file"):
            await daemon.client.try_locks(dead.for_locks, NODE)
        with pytest.raises(LockError, match="gets no locks"):
            await daemon.client.wait_locks(dead.for_locks, 0, NODE)

    run(scenario, root)


@pytest.mark.requirement("S2.13", "S2.43")
def test_locks_and_waiters_outlive_a_restart(root):
    async def go():
        async with running_wconfd(root) as first:
            one, two, dead = (first.job(number) for number in (1, 2, 3))
            client = first.client
            await client.try_locks(one.for_locks, NODE)
            await client.try_locks(dead.for_locks, [("node/b", "exclusive")])
            waiting = asyncio.ensure_future(client.wait_locks(two.for_locks, 0, NODE))
            await until_waiting(first)
            await first.service.stop()
            first.die(dead)
            async with running_wconfd(root) as second:
                assert await second.client.list_locks(one.for_locks) == dict(NODE)
                assert await second.client.list_locks(dead.for_locks) == {}
                assert not waiting.done()
                await second.client.free_locks(one.for_locks)
                await waiting
                assert await second.client.list_locks(two.for_locks) == dict(NODE)

    asyncio.run(go())


@pytest.mark.requirement("S2.13")
def test_a_lock_is_on_disk_before_it_is_granted(root):
    async def scenario(daemon):
        await daemon.client.try_locks(daemon.job(1).for_locks, NODE)
        saved = load_locks(f"{daemon.paths.data_dir}/locks.data")
        assert saved.table.locks() == ["node/a"]

    run(scenario, root)


def test_what_cannot_be_written_is_refused_or_told_later(root, monkeypatch, caplog):
    monkeypatch.setattr(wconfd_locks, "PROBE_BLOCKERS_EVERY_S", 0.02)
    full = [True]
    write = lock_journal.write_atomically

    def write_if_there_is_room(*arguments, **named):
        if full[0]:
            raise OSError(28, "No space left on device")
        write(*arguments, **named)

    monkeypatch.setattr(lock_journal, "write_atomically", write_if_there_is_room)

    async def scenario(daemon):
        path, client = f"{daemon.paths.data_dir}/locks.data", daemon.client
        one, two = daemon.job(1).for_locks, daemon.job(2).for_locks
        full[0] = False
        await client.try_locks(one, NODE)
        waiting = asyncio.ensure_future(client.wait_locks(two, 0, NODE))
        await until_waiting(daemon)
        full[0] = True
        os.unlink(path)
        for _ in range(2):
            with pytest.raises(
                LockError, match=r"written \(No space left on device\): see that its file system has room"
            ):
                await client.try_locks(one, [("node/b", "shared")])
            with pytest.raises(LockError, match="cannot be written"):
                await client.ask_locks([(daemon_owner(daemon), 0, [("node/c", "shared")])])
        await client.release_locks(one, ["node/b"])
        await client.free_locks(one)
        assert not waiting.done(), "a grant that is not on disk is told to nobody"
        full[0] = False
        await waiting
        assert load_locks(path).table.held(two) == dict(NODE)
        said = [line.rpartition("locks.data ")[2] for line in caplog.messages if line.startswith(path)]
        assert said == ["cannot be written: No space left on device", "can be written again"], (
            "once, however often tried"
        )

    caplog.set_level("INFO")
    run(scenario, root)


def daemon_owner(daemon):
    return Owner(9, daemon.locks[0].path)


def test_a_fault_in_telling_others_keeps_no_answer_back(root):
    async def scenario(daemon):
        def fail(news):
            raise ZeroDivisionError("a mistake")

        heard = []
        locks = daemon.service.locks
        locks.listeners |= {fail: None, heard.append: None}
        async with asyncio.timeout(5):
            assert await daemon.client.try_locks(daemon.job(1).for_locks, NODE) == []
        assert len(heard) == 1
        assert fail not in locks.listeners

    run(scenario, root)


def test_a_follower_that_cannot_be_told_is_dropped_and_comes_back(root, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("a mistake")

    async def scenario(daemon):
        monkeypatch.setattr(LockStream, "_tell_grants", fail)
        snapshots = []
        owner = daemon.job(1)
        follower = LockFollower(
            daemon.paths.wconfd_socket, owner.lock_file, snapshot=lambda held, waiting: snapshots.append(held)
        )
        task = asyncio.ensure_future(follower.run())
        await until(lambda: len(snapshots) == 1)

        assert await daemon.client.try_locks(owner.for_locks, NODE) == []
        await until(lambda: len(snapshots) > 1)
        assert snapshots[-1] == [owner.for_locks]
        task.cancel()

    run(scenario, root)


@pytest.mark.requirement("S2.30")
def test_stale_lock_files_go_and_those_in_use_stay(root):
    for name in ("job_000001_1", "job_000002_1"):
        (root / name).touch()
    removed = wconfd_locks.remove_stale_lock_files(str(root), {str(root / "job_000002_1")})
    assert [Path(path).name for path in removed] == ["job_000001_1"]

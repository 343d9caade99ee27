# SPDX-License-Identifier: BSD-2-Clause
"""Waiting for locks without a process: asking in a job's name, grants told by a stream, claims, and LuxiD's death."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.fakes.wconfd import fast_directory, running_wconfd, until

from ganeti.base.errors import GanetiError, LockError
from ganeti.calls.lock_follower import LockFollower
from ganeti.master.locks.owners import Owner
from ganeti.system.livelock import LiveLock
from ganeti.wconfd import locks as wconfd_locks

NODE = [("node/a", "exclusive")]
OTHER = [("node/b", "exclusive")]


@pytest.fixture
def root():
    with fast_directory() as path:
        yield path


def run(scenario, root):
    async def go():
        async with running_wconfd(root) as daemon:
            return await scenario(daemon)

    return asyncio.run(go())


class Luxid:
    """LuxiD's lock file, and what its follower is told: one entry of *told* each."""

    def __init__(self, daemon, name="luxid_1"):
        self.path = f"{daemon.paths.livelock_dir}/{name}"
        self.lock = LiveLock(self.path)
        self.told = asyncio.Queue()
        self.follower = LockFollower(
            daemon.paths.wconfd_socket,
            self.path,
            snapshot=lambda held, waiting: self.told.put_nowait(("locks", held, waiting)),
            granted=lambda clients: self.told.put_nowait(("granted", clients)),
        )

    def parked(self, job):
        return Owner(job, self.path, 0)

    @asynccontextmanager
    async def following(self):
        task = asyncio.ensure_future(self.follower.run())
        try:
            yield await self.next()
        finally:
            task.cancel()

    async def next(self):
        async with asyncio.timeout(5):
            return await self.told.get()


def test_what_is_asked_is_held_or_waits_and_the_grant_is_told(root):
    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        one, two, three = (luxid.parked(job) for job in (1, 2, 3))
        async with luxid.following() as first:
            assert first == ("locks", [], [])
            answers = await client.ask_locks([(one, 0, NODE), (two, 0, NODE), (three, -10, NODE)])
            assert answers == [[], [one], [one]]
            await client.withdraw_locks([one])
            assert await luxid.next() == ("granted", [three])
            await client.withdraw_locks([three])
            assert await luxid.next() == ("granted", [two])
            await client.withdraw_locks([two, luxid.parked(99)])
            assert await client.all_locks() == []
            assert luxid.told.empty(), "nobody else is told, and no grant that an answer has told already"

    run(scenario, root)


def test_asking_again_is_harmless_and_asking_something_else_gives_up_the_former(root):
    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        one, two = luxid.parked(1), luxid.parked(2)
        for _ in range(2):
            assert await client.ask_locks([(one, 0, NODE)]) == [[]]
        for _ in range(2):
            assert await client.ask_locks([(two, 0, NODE)]) == [[one]]
        assert await client.ask_locks([(two, 0, OTHER)]) == [[]]
        assert await client.waiting_locks() == []
        assert await client.ask_locks([(one, 0, OTHER)]) == [[two]]
        assert await client.all_locks() == [("node/b", [(two, "exclusive")])]
        assert await client.ask_locks([(one, -10, OTHER)]) == [[two]]
        assert await client.waiting_locks() == [(-10, one, dict(OTHER))]

    run(scenario, root)


def test_one_bad_item_does_not_spoil_the_others(root):
    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        dead = Owner(3, f"{daemon.paths.livelock_dir}/nobody")
        items = [[luxid.parked(1).to_wire(), 0, [["disk/x", "shared"]]], 7, [dead.to_wire(), 0, []]]
        items += [[luxid.parked(2).to_wire(), "high", []], [luxid.parked(2).to_wire(), 0, [["node/a", "shared"]]]]
        answers = await client.call("askLocks", items)
        assert answers[-1] == {"blockers": []}
        messages = [answer["error"][1][0] for answer in answers[:-1]]
        assert "'disk/x' is not a lock" in messages[0]
        assert "7 asks for nothing" in messages[1]
        assert "job 3 gets no locks: nobody holds its lock file" in messages[2]
        assert "priority must be a whole number" in messages[3]
        (bad,) = await client.ask_locks([(dead, 0, NODE)])
        assert isinstance(bad, LockError)
        for method in ("askLocks", "withdrawLocks"):
            with pytest.raises(GanetiError, match="takes a list"):
                await client.call(method, 7)

    run(scenario, root)


def test_the_process_claims_what_luxid_was_given(root):
    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        parked, process = luxid.parked(1), daemon.job(1).for_locks
        await client.ask_locks([(parked, 0, NODE), (luxid.parked(2), 0, NODE)])
        for _ in range(2):
            assert await client.claim_locks(parked, process, 0, NODE) == []
        assert await client.all_locks() == [("node/a", [(process, "exclusive")])]
        more = [*NODE, ("node/b", "shared")]
        assert await client.claim_locks(None, process, 0, more) == []
        assert await client.list_locks(process) == dict(more)

    run(scenario, root)


def test_a_claim_never_waits_and_goes_before_nobody_of_its_priority(root):
    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        holder, waiter, late = luxid.parked(1), luxid.parked(2), daemon.job(3).for_locks
        await client.ask_locks([(holder, 0, [("node/a", "shared")]), (waiter, 0, NODE)])
        assert await client.claim_locks(None, late, 0, [("node/a", "shared")]) == [waiter]
        assert not await client.call("hasPendingRequest", late.to_wire())
        assert await client.claim_locks(None, late, -10, [("node/a", "shared")]) == []

    run(scenario, root)


def test_a_claim_of_what_still_waits_withdraws_it(root):
    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        holder, parked, process = luxid.parked(1), luxid.parked(2), daemon.job(2).for_locks
        await client.ask_locks([(holder, 0, NODE), (parked, 0, NODE)])
        assert await client.claim_locks(parked, process, 0, NODE) == [holder]
        assert await client.waiting_locks() == []

    run(scenario, root)


def test_a_plan_that_changed_between_asking_and_claiming_is_claimed_in_order(root):
    """What is not in the plan any more goes; a lock below those that were given is had all the same."""

    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        parked, process = luxid.parked(1), daemon.job(1).for_locks
        await client.ask_locks([(parked, 0, [*NODE, ("node/c", "shared")])])
        plan = [("instance/i", "exclusive"), ("node/a", "shared"), ("node/b", "shared")]
        assert await client.claim_locks(parked, process, 0, plan) == []
        assert await client.list_locks(process) == dict(plan)
        with pytest.raises(GanetiError, match="Order violation"):
            await client.claim_locks(None, process, 0, [("cluster/BGL", "shared")])

    run(scenario, root)


def test_a_claim_repeated_after_the_queue_asked_anew_is_harmless(root):
    """The answer was lost; meanwhile LuxiD, that had not yet heard of its grant, asked again as it does."""

    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        parked, process = luxid.parked(1), daemon.job(1).for_locks
        await client.ask_locks([(parked, 0, NODE)])
        assert await client.claim_locks(parked, process, 0, NODE) == []
        assert await client.ask_locks([(parked, 0, NODE)]) == [[process]]
        assert await client.claim_locks(parked, process, 0, NODE) == []
        assert await client.list_locks(process) == dict(NODE)
        assert not daemon.service.locks.table.has_pending(parked)

    run(scenario, root)


def test_a_better_priority_passes_and_its_grant_is_told(root):
    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        holder, first, second = (luxid.parked(job) for job in (1, 2, 3))
        shared = [("node/a", "shared")]
        await client.ask_locks([(holder, 0, shared), (first, 0, NODE), (second, 0, shared)])
        async with luxid.following() as start:
            assert start == ("locks", [holder], [first, second])
            assert await client.change_lock_priority(second, 0) is True
            assert await client.change_lock_priority(second, -10) is True
            assert await luxid.next() == ("granted", [second])
            assert await client.change_lock_priority(second, -10) is False

    run(scenario, root)


def test_who_is_in_the_way_is_explained_with_times(root):
    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        daemon.service.locks._now_s = iter(range(100, 200)).__next__
        holder, ahead, asker = (luxid.parked(job) for job in (1, 2, 3))
        await client.ask_locks([(holder, 0, NODE)])
        await client.ask_locks([(ahead, 5, [("node/[lockset]", "exclusive")])])
        await client.ask_locks([(asker, 5, [("instance/i", "shared"), ("node/a", "shared")])])
        assert await client.explain_locks(asker) == {
            "holders": [["node/a", "shared", "node/a", holder.to_wire(), "exclusive", 100]],
            "ahead": [["node/a", ahead.to_wire(), 5]],
            "waiting_since_s": 102,
        }
        process = daemon.job(1).for_locks
        await client.claim_locks(holder, process, 0, NODE)
        explained = await client.explain_locks(ahead)
        held = [["node/[lockset]", "exclusive", "node/a", process.to_wire(), "exclusive", 100]]
        assert (explained["holders"], explained["ahead"]) == (held, [])
        await client.change_lock_priority(asker, 7)
        assert (await client.explain_locks(asker))["waiting_since_s"] == 102, "its time does not begin anew"
        assert await client.explain_locks(process) == {"holders": [], "ahead": [], "waiting_since_s": None}

    run(scenario, root)


def test_everything_that_happens_is_told_to_the_event_api(root):
    async def scenario(daemon):
        luxid, client, told = Luxid(daemon), daemon.client, asyncio.Queue()
        one, two, process = luxid.parked(1), luxid.parked(2), daemon.job(1).for_locks
        await client.ask_locks([(one, 0, NODE)])
        follower = LockFollower(
            daemon.paths.wconfd_socket,
            None,
            snapshot=lambda held, waiting: told.put_nowait((held, waiting)),
            changed=lambda serial, changes: [told.put_nowait(change) for change in changes],
        )
        task = asyncio.ensure_future(follower.run())
        assert await told.get() == ([["node/a", [[one.to_wire(), "exclusive"]]]], [])
        node = dict(NODE)
        await client.ask_locks([(two, 3, NODE)])
        assert await told.get() == ["waiting", two.to_wire(), node, 3]
        await client.claim_locks(one, process, 0, NODE)
        assert await told.get() == ["freed", one.to_wire(), node]
        assert await told.get() == ["granted", process.to_wire(), node]
        await client.free_locks(process)
        assert await told.get() == ["freed", process.to_wire(), node]
        assert await told.get() == ["granted", two.to_wire(), node]
        await client.downgrade_level(two, "node")
        assert await told.get() == ["granted", two.to_wire(), {"node/a": "shared"}]
        await client.ask_locks([(one, 3, NODE)])
        await client.withdraw_locks([one])
        assert await told.get() == ["waiting", one.to_wire(), node, 3]
        assert await told.get() == ["withdrawn", one.to_wire(), node]
        assert told.empty()
        task.cancel()

    run(scenario, root)


def test_the_stream_comes_back_with_what_is_after_a_restart(root):
    async def go():
        async with running_wconfd(root) as first:
            luxid = Luxid(first)
            one, two = luxid.parked(1), luxid.parked(2)
            async with luxid.following():
                await first.client.ask_locks([(one, 0, NODE), (two, 0, NODE)])
                await first.service.stop()
                async with running_wconfd(root) as second:
                    assert await luxid.next() == ("locks", [one], [two])
                    await second.client.withdraw_locks([one])
                    assert await luxid.next() == ("granted", [two])

    asyncio.run(go())


def test_a_dead_luxid_leaves_no_request_and_no_unclaimed_lock(root, monkeypatch):
    """A thousand requests are one lock file: one probe. What its jobs' processes hold stays theirs."""
    monkeypatch.setattr(wconfd_locks, "PROBE_BLOCKERS_EVERY_S", 0.02)
    probed = []

    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        process = daemon.job(5).for_locks
        daemon.undo_records(1)
        await client.claim_locks(None, process, 0, OTHER)
        requests = [(luxid.parked(job), 0, NODE) for job in range(1, 1001) if job != 5]
        await client.ask_locks(requests)
        alive = wconfd_locks.is_alive
        monkeypatch.setattr(wconfd_locks, "is_alive", lambda path: probed.append(path) or alive(path))
        luxid.lock.close()
        await until(lambda: not daemon.service.locks.table.waiting())
        assert probed.count(luxid.path) == 1
        assert await client.all_locks() == [("node/b", [(process, "exclusive")])]

    run(scenario, root)


def test_the_end_of_the_stream_shows_a_dead_luxid_at_once(root, monkeypatch):
    monkeypatch.setattr(wconfd_locks, "PROBE_BLOCKERS_EVERY_S", 1000)

    async def scenario(daemon):
        luxid, client = Luxid(daemon), daemon.client
        async with luxid.following():
            await client.ask_locks([(luxid.parked(job), 0, NODE) for job in (1, 2)])
            luxid.lock.close()
        await until(lambda: not daemon.service.locks.table.owners())

    run(scenario, root)


def test_a_new_luxid_does_not_queue_behind_the_dead_one(root, monkeypatch):
    monkeypatch.setattr(wconfd_locks, "PROBE_BLOCKERS_EVERY_S", 1000)

    async def scenario(daemon):
        old, new, client = Luxid(daemon), Luxid(daemon, "luxid_2"), daemon.client
        await client.ask_locks([(old.parked(job), 0, NODE) for job in (1, 2)])
        old.lock.close()
        async with new.following() as first:
            assert first == ("locks", [], [])
            assert await client.ask_locks([(new.parked(2), 0, NODE)]) == [[]]

    run(scenario, root)


@pytest.mark.requirement("S2.52")
def test_some_locks_are_waited_for_until_there_are_enough(root):
    """S2.52: with a count and a timeout."""

    async def scenario(daemon):
        client = daemon.client
        holder, chooser = daemon.job(1).for_locks, daemon.job(2).for_locks
        wanted = [("node/a", "exclusive"), ("node/b", "exclusive"), ("node/c", "exclusive")]
        await client.try_locks(holder, [*NODE, *OTHER])
        assert await client.opportunistic_union_waiting(chooser, wanted, 2, 0.02) == []
        assert await client.list_locks(chooser) == {}
        waiting = asyncio.ensure_future(client.opportunistic_union_waiting(chooser, wanted, 2, 60))
        await until(lambda: bool(daemon.service.locks.choosers))
        await client.release_locks(holder, ["node/b"])
        assert await waiting == ["node/b", "node/c"]
        assert await client.opportunistic_union_waiting(daemon.job(3).for_locks, wanted, 0, 60) == []
        with pytest.raises(GanetiError, match="timeout must be a number of seconds"):
            await client.call("opportunisticLockUnionWaiting", 1, "soon", chooser.to_wire(), [])

    run(scenario, root)


def test_the_dead_choose_nothing(root):
    async def scenario(daemon):
        holder, dead = daemon.job(1), daemon.job(2)
        await daemon.client.try_locks(holder.for_locks, NODE)
        waiting = asyncio.ensure_future(daemon.client.opportunistic_union_waiting(dead.for_locks, NODE, 1, 60))
        await until(lambda: bool(daemon.service.locks.choosers))
        daemon.die(dead)
        await daemon.client.free_locks(holder.for_locks)
        with pytest.raises(LockError, match="job 2 died while it waited"):
            await waiting

    run(scenario, root)


@pytest.mark.parametrize("argument", [[7], [""], [], ["/a", "/b"]])
def test_a_malformed_wish_to_follow_is_refused(root, argument):
    async def scenario(daemon):
        with pytest.raises(GanetiError, match="lock file"):
            await daemon.client.call("followLocks", *argument)

    run(scenario, root)

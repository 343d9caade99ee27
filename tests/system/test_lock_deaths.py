# SPDX-License-Identifier: BSD-2-Clause
"""A real WConfD is killed again and again while jobs come to a lock in turn: each gets it once, in order."""

import asyncio
import signal

import pytest
from tests.fakes.master_daemons import Master
from tests.fakes.wconfd import fast_directory

from ganeti.calls.lock_follower import LockFollower
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.master.locks.owners import Owner
from ganeti.system.livelock import LiveLock

pytestmark = pytest.mark.daemons
JOBS = 60
KILL_EVERY = 7
WITHIN_S = 60
REQUEST = [("cluster/BGL", "shared"), ("instance/web", "exclusive")]


@pytest.fixture
def master():
    with fast_directory() as directory:
        master = Master(directory / "root")
        try:
            master.start("wconfd")
            yield master
        finally:
            master.stop_all()


class Queue:
    """What LuxiD does with locks: it asks, hears, and starts a process that claims."""

    def __init__(self, master):
        self.master = master
        self.lock = LiveLock(f"{master.paths.livelock_dir}/luxid_1")
        self.client = WConfdClient(master.paths.wconfd_socket)
        self.heard = asyncio.Queue()
        self.follower = LockFollower(
            master.paths.wconfd_socket,
            self.lock.path,
            snapshot=lambda held, waiting: [self.heard.put_nowait(owner.name) for owner in held],
            granted=lambda clients: [self.heard.put_nowait(client.name) for client in clients],
        )

    def parked(self, job):
        return Owner(job, self.lock.path)

    async def run_job(self, job):
        """As its process does; gives who held the lock meanwhile."""
        attempt = LiveLock(f"{self.master.paths.livelock_dir}/job_{job:06d}_1")
        process = Owner(job, attempt.path, 1)
        assert await self.client.claim_locks(self.parked(job), process, 0, REQUEST) == []
        holders = dict(await self.client.all_locks())["instance/web"]
        if job % KILL_EVERY == 0:
            await self.restart()
        await self.client.free_locks(process)
        attempt.remove()
        return holders == [(process, "exclusive")]

    async def restart(self):
        await asyncio.to_thread(self.master.kill, "wconfd", signal.SIGKILL)
        await asyncio.to_thread(self.master.start, "wconfd")


def test_each_job_gets_the_lock_once_and_in_order_whatever_happens_to_wconfd(master):
    async def scenario():
        queue = Queue(master)
        following = asyncio.ensure_future(queue.follower.run())
        asked = [(queue.parked(job), 10 if job % 2 else 0, REQUEST) for job in range(1, JOBS + 1)]
        await queue.client.ask_locks([(queue.parked(1000), 0, REQUEST)])
        for first in range(0, JOBS, 20):
            await queue.client.ask_locks(asked[first : first + 20])
            await queue.restart()
        await queue.client.withdraw_locks([queue.parked(1000)])
        ended = []
        while len(ended) < JOBS:
            job = await queue.heard.get()
            if job in ended or job == 1000:
                continue
            assert await queue.run_job(job)
            ended.append(job)
        following.cancel()
        assert await queue.client.all_locks() == []
        assert await queue.client.waiting_locks() == []
        await queue.client.close()
        queue.lock.remove()
        return ended

    async def in_time():
        async with asyncio.timeout(WITHIN_S):
            return await scenario()

    ended = asyncio.run(in_time())
    assert ended == [*range(2, JOBS + 1, 2), *range(1, JOBS + 1, 2)]

# SPDX-License-Identifier: BSD-2-Clause
"""WConfD's CPU for a lock request made in a job's name, and for jobs that wait for one lock and come to it in turn.

The daemon is a real one; all calls go over its socket, with a follower that is told of each grant. A job's life here is
that of the job engine: asked for, granted, claimed by its process, freed. Bar: a job's CPU does not grow with the
number of those that wait (< 1.5 times from 250 to 1,000).

    bench/lock_requests.py [WAITING]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import private_mib, report
from tests.fakes.master_daemons import Master

from ganeti.calls.lock_follower import LockFollower
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.master.locks.owners import Owner
from ganeti.system.livelock import LiveLock

ASKS = 2000
CLAIMED = 100
REQUEST = [("cluster/BGL", "shared"), ("instance/web1.example.com", "exclusive")]


def run_ms(pid: int) -> float:
    """Milliseconds of CPU, finer than the kernel's ticks."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


class Bench:
    def __init__(self, master: Master) -> None:
        self.pid = master.daemons["wconfd"].pid
        self.client = WConfdClient(master.paths.wconfd_socket)
        self.directory = master.paths.livelock_dir
        self.lock = LiveLock(f"{self.directory}/luxid_1")
        self.granted: asyncio.Queue[Owner] = asyncio.Queue()
        self.ready = asyncio.Event()
        self.follower = LockFollower(
            master.paths.wconfd_socket,
            self.lock.path,
            snapshot=lambda held, waiting: self.ready.set(),
            granted=self._note,
        )

    def _note(self, clients: list[Owner]) -> None:
        for client in clients:
            self.granted.put_nowait(client)

    def job(self, number: int) -> Owner:
        return Owner(number, self.lock.path)

    async def asks(self, batch: int) -> float:
        """Microseconds for each request that is granted at once."""
        before = run_ms(self.pid)
        for first in range(0, ASKS, batch):
            jobs = range(first, first + batch)
            items = [(self.job(n), 0, [REQUEST[0], (f"instance/web{n}.example.com", "exclusive")]) for n in jobs]
            assert not any(await self.client.ask_locks(items))
        spent = run_ms(self.pid) - before
        await self.client.withdraw_locks(map(self.job, range(ASKS)))
        return spent * 1000 / ASKS

    async def queue(self, waiting: int) -> float:
        """Microseconds for each of *waiting* jobs, from asking to freeing; they wait behind one another."""
        before = run_ms(self.pid)
        for first in range(0, waiting + 1, 50):
            await self.client.ask_locks([(self.job(n), 0, REQUEST) for n in range(first, min(first + 50, waiting + 1))])
        parked_mib = private_mib(self.pid)
        job = self.job(0)
        for number in range(waiting + 1):
            attempt = LiveLock(f"{self.directory}/job_{number:06d}_1")
            process = Owner(number, attempt.path, 1)
            assert await self.client.claim_locks(job, process, 0, REQUEST) == []
            await self.client.free_locks(process)
            attempt.remove()
            if number < waiting:
                job = await self.granted.get()
                assert job.name == number + 1
        spent = run_ms(self.pid) - before
        print(f"# private memory of WConfD with {waiting} requests waiting: {parked_mib:.1f} MiB")
        return spent * 1000 / (waiting + 1)


async def measure(master: Master, waiting: int) -> None:
    bench = Bench(master)
    following = asyncio.ensure_future(bench.follower.run())
    await bench.ready.wait()
    for batch in (1, 50):
        report(f"CPU of a request, {batch} a call", await bench.asks(batch), "us")
    few = await bench.queue(waiting // 4)
    many = await bench.queue(waiting)
    report(f"CPU of a job that waits with {waiting // 4} others", few, "us")
    report(f"CPU of a job that waits with {waiting} others", many, "us")
    report("growth", many / few, "times", bar="< 1.5", met=many / few < 1.5)
    following.cancel()
    await bench.client.close()
    bench.lock.remove()


def main() -> None:
    waiting = int(next(iter(sys.argv[1:]), 1000))
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as directory:
        master = Master(Path(directory) / "root")
        try:
            master.start("wconfd")
            asyncio.run(measure(master, waiting))
        finally:
            master.stop_all()


if __name__ == "__main__":
    main()

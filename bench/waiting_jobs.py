# SPDX-License-Identifier: BSD-2-Clause
"""Very many jobs that wait for one lock: what they cost, and in which order they get it.

    bench/waiting_jobs.py [JOBS]

The lock is that of a node, held by this program. While the jobs wait: processes, slots, memory of LuxiD and WConfD.
Then the lock is freed, and the jobs take it one after another, the more urgent first, then the older. (The node is
offline, so each job ends, once it has the lock, with the error that says so.)
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import memory_mib, pss_mib, report
from tests.fakes.master_daemons import Master, children_of, running_master

from ganeti.calls.wconfd_client import WConfdClient
from ganeti.master.locks.owners import Owner
from ganeti.system.livelock import LiveLock
from ganeti.wire.job_file import JobFile

JOBS = int(next((word for word in sys.argv[1:] if word.isdigit()), "1000"))
PRIORITIES = (0, 10, -10)
HOLDER = 10**9
WITHIN_S = 300.0


def waiting_job(number: int) -> list[dict[str, object]]:
    delay = {"OP_ID": "OP_TEST_DELAY", "duration": 0, "on_nodes": ["node2.example.com"], "no_locks": False}
    return [{**delay, "priority": PRIORITIES[number % len(PRIORITIES)]}]


async def take_lock(client: WConfdClient, holder: Owner, lock: str) -> None:
    if blockers := await client.try_locks(holder, [(lock, "exclusive")]):
        sys.exit(f"the lock is held by {blockers}")
    await client.close()


async def free_lock(client: WConfdClient, holder: Owner) -> None:
    await client.free_locks(holder)
    await client.close()


async def waiting(client: WConfdClient) -> int:
    found = len(await client.waiting_locks())
    await client.close()
    return found


def begun_s(file: JobFile) -> float:
    seconds, microseconds = file.ops[0].exec_timestamp or [0, 0]
    return seconds + microseconds / 1e6


def measure_waiting(master: Master) -> None:
    luxid, wconfd = master.daemons["luxid"].pid, master.daemons["wconfd"].pid
    (spawner,) = children_of(luxid)
    report(f"{JOBS} waiting jobs, processes", len(children_of(spawner)), "", bar="0", met=not children_of(spawner))
    with_process = sum(master.file(job_id).process_id is not None for job_id in master.files.ids())
    report(f"{JOBS} waiting jobs, slots", with_process, "", bar="0", met=not with_process)
    resident = memory_mib(luxid, "Rss") + memory_mib(wconfd, "Rss")
    proportional = pss_mib(luxid) + pss_mib(wconfd)
    report(f"{JOBS} waiting jobs, LuxiD + WConfD, RSS", resident, "MiB", bar="120 MB", met=resident <= 120)
    report(f"{JOBS} waiting jobs, LuxiD + WConfD, PSS", proportional, "MiB")
    started_s = time.monotonic()
    file = master.wait(master.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0}))
    report("meanwhile a job that needs no lock takes", 1000 * (time.monotonic() - started_s), "ms")
    if file.status != "success":
        sys.exit(f"a job that needs no lock ended with {file.status}")


def main() -> None:
    with TemporaryDirectory(prefix="bench-", dir="/var/tmp") as root, running_master(Path(root) / "cluster") as master:
        client = WConfdClient(master.paths.wconfd_socket)
        lock = LiveLock(f"{master.paths.livelock_dir}/bench")
        holder = Owner(HOLDER, lock.path)
        node = "node/00000000-0000-4000-8000-000000000003"
        asyncio.run(take_lock(client, holder, node))
        started_s = time.monotonic()
        answers = master.luxi("SubmitManyJobs", [waiting_job(number) for number in range(JOBS)])
        master.until(lambda: asyncio.run(waiting(client)) >= JOBS, "all jobs wait for the lock", WITHIN_S)
        report(f"{JOBS} jobs submitted and waiting", time.monotonic() - started_s, "s")
        measure_waiting(master)

        started_s = time.monotonic()
        asyncio.run(free_lock(client, holder))
        files = [master.wait(job_id, WITHIN_S) for _, job_id in answers]
        took_s = time.monotonic() - started_s
        report(f"{JOBS} jobs after each other through one lock", took_s, "s")
        ran = sorted(files, key=begun_s)
        if any(file.ops[0].exec_timestamp is None for file in files):
            sys.exit("a job has ended without having had the lock")
        wrong = sum(
            a is not b for a, b in zip(ran, sorted(files, key=lambda f: (f.ops[0].priority, f.id)), strict=True)
        )
        report(f"{JOBS} waiting jobs, out of their order", wrong, "jobs", bar="0", met=not wrong)
        lock.remove()


if __name__ == "__main__":
    main()

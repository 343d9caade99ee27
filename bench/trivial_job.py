# SPDX-License-Identifier: BSD-2-Clause
"""Trivial jobs, each with its own process: jobs per second, CPU per job by daemon, memory of a running job.

Bars: CPU ≤ 16 ms a job over all daemons and the job; ≤ 4 MB private memory of a running job; submit to running
p50 ≤ 15 ms.

    bench/trivial_job.py [JOBS]
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.fakes.master_daemons import Master, children_of, running_master

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_ms(pid: int, *, with_children: bool = False) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = sum(int(value) for value in fields[11 : 15 if with_children else 13])
    return 1000 * ticks / TICKS


def memory_kib(pid: int, key: str) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0


def private_kib(pid: int) -> int:
    return memory_kib(pid, "Private_Clean:") + memory_kib(pid, "Private_Dirty:")


def bulk(master: Master, count: int) -> None:
    luxid, wconfd = master.daemons["luxid"].pid, master.daemons["wconfd"].pid
    (spawner,) = children_of(luxid)
    job = [{"OP_ID": "OP_TEST_DELAY", "duration": 0}]
    master.wait(master.submit(*job))

    def costs() -> list[float]:
        return [cpu_ms(luxid), cpu_ms(wconfd), cpu_ms(spawner, with_children=True)]

    before, begun = costs(), time.monotonic()
    ids = [job_id for _, job_id in master.luxi("SubmitManyJobs", [job] * count)]
    assert all(master.wait(job_id, 600).status == "success" for job_id in ids)
    took_s = time.monotonic() - begun
    per_job = [(after - start) / count for after, start in zip(costs(), before, strict=True)]
    print(f"bulk of {count}: {count / took_s:.0f} jobs/s")
    print(
        f"CPU per job: {sum(per_job):.1f} ms (luxid {per_job[0]:.1f}, wconfd {per_job[1]:.1f}, jobs {per_job[2]:.1f})"
    )


def latency(master: Master, count: int) -> None:
    taken = []
    for _ in range(count):
        begun = time.time()
        file = master.wait(master.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0}))
        seconds, microseconds = file.ops[0].exec_timestamp or [0, 0]
        taken.append(1000 * (seconds + microseconds / 1e6 - begun))
    print(f"submit to running: p50 {statistics.median(taken):.1f} ms, worst {max(taken):.1f} ms")


def running_pid(master: Master, job_id: int) -> int:
    master.until(lambda: master.file(job_id).status == "running", "it runs")
    return master.file(job_id).process_id or 0


def memory(master: Master) -> None:
    (spawner,) = children_of(master.daemons["luxid"].pid)
    ids = [master.submit({"OP_ID": "OP_TEST_DELAY", "duration": 60}) for _ in range(5)]
    pids = [running_pid(master, job_id) for job_id in ids]
    print(f"private memory of a running job: {statistics.median(private_kib(pid) for pid in pids) / 1024:.1f} MB")
    for name, pid in [*((name, each.pid) for name, each in master.daemons.items()), ("spawner", spawner)]:
        print(f"PSS of {name}: {memory_kib(pid, 'Pss:') / 1024:.1f} MB")
    for job_id in ids:
        master.luxi("CancelJob", job_id, True)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory(prefix="trivial-job-") as root, running_master(Path(root) / "cluster") as master:
        bulk(master, count)
        latency(master, 30)
        memory(master)


if __name__ == "__main__":
    main()

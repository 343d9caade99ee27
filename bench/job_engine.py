# SPDX-License-Identifier: BSD-2-Clause
"""The job engine with trivial jobs, each with its own process: throughput, CPU, delay, growth.

Real WConfD and LuxiD in a directory of their own. Name figures to have only those, and N=… for other numbers:

    bench/job_engine.py [bulk[=JOBS]] [submit[=JOBS]] [growth[=JOBS]]

bulk     jobs per second of one bulk, CPU per job of daemons and jobs together; the peer's in turns, where it is up
submit   from just before the submission to the execution timestamp in the job file, one job after another, all
         at real-time priority: the figure is about an idle machine
growth   memory of LuxiD before and after many jobs
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import peer_jobs
from measure import TICKS_PER_S, cpu_s, memory_mib, precedence, pss_mib, report
from tests.fakes.master_daemons import Master, children_of, running_master

TRIVIAL = [{"OP_ID": "OP_TEST_DELAY", "duration": 0}]
ROUNDS = 3
PEER_JOBS = 40
BATCH = 500
WARM_UP_JOBS = 50
SLOW_MS = 250.0
WITHIN_S = 600.0


@contextmanager
def master_in_a_directory() -> Iterator[Master]:
    with TemporaryDirectory(prefix="bench-", dir="/var/tmp") as root, running_master(Path(root) / "cluster") as master:
        yield master


def run_bulk(master: Master, count: int) -> float:
    """Submit many jobs in one call and wait for all; gives the seconds it took. Waiting is for the last to end."""
    begun_s = time.monotonic()
    ids = [job_id for _, job_id in master.luxi("SubmitManyJobs", [TRIVIAL] * count)]
    for job_id in ids:
        if (status := master.wait(job_id, WITHIN_S).status) != "success":
            sys.exit(f"job {job_id} ended with {status}")
    return time.monotonic() - begun_s


def daemons_cpu_ms(master: Master) -> dict[str, float]:
    """CPU of each daemon, and of the spawner with all jobs that have ended."""
    luxid, wconfd = master.daemons["luxid"].pid, master.daemons["wconfd"].pid
    (spawner,) = children_of(luxid)
    return {"luxid": own_cpu_ms(luxid), "wconfd": own_cpu_ms(wconfd), "jobs": 1000 * cpu_s(spawner)}


def own_cpu_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * sum(int(value) for value in fields[11:13]) / TICKS_PER_S


def bulk(count: int) -> None:
    with master_in_a_directory() as master:
        run_bulk(master, WARM_UP_JOBS)
        rates, peers = [], []
        before = daemons_cpu_ms(master)
        for _ in range(ROUNDS):
            rates.append(count / run_bulk(master, count))
            if (other := peer_jobs.bulk(PEER_JOBS)) is not None:
                peers.append(other)
        jobs = ROUNDS * count
        spent = {name: (ms - before[name]) / jobs for name, ms in daemons_cpu_ms(master).items()}
    rate, cpu_ms = statistics.median(rates), sum(spent.values())
    peer_rate = statistics.median(each.jobs_per_s for each in peers) if peers else None
    peer_cpu_ms = statistics.median(each.cpu_ms for each in peers) if peers else None
    report(
        f"bulk of {count} trivial jobs, times the peer" if peer_rate else f"bulk of {count} trivial jobs",
        rate / peer_rate if peer_rate else rate,
        "times" if peer_rate else "jobs/s",
        bar="60 times the peer",
        met=rate >= 60 * peer_rate if peer_rate else None,
    )
    if peer_rate:
        report(f"bulk of {count} trivial jobs", rate, "jobs/s")
        report(f"bulk of {PEER_JOBS} trivial jobs on the peer", peer_rate, "jobs/s")
    report("CPU per trivial job", cpu_ms, "ms", peer=peer_cpu_ms, bar="16 ms", met=cpu_ms <= 16)
    for name, ms in spent.items():
        report(f"CPU per trivial job, {name}", ms, "ms")


def submit(count: int) -> None:
    with precedence(), master_in_a_directory() as master:
        run_bulk(master, WARM_UP_JOBS)
        taken_ms = []
        for _ in range(count):
            begun_s = time.time()
            file = master.wait(master.submit(*TRIVIAL))
            seconds, microseconds = file.ops[0].exec_timestamp or [0, 0]
            taken_ms.append(1000 * (seconds + microseconds / 1e6 - begun_s))
    median, slow = statistics.median(taken_ms), sum(ms > SLOW_MS for ms in taken_ms)
    report(f"submit to running, {count} submits, p50", median, "ms", bar="15 ms", met=median <= 15)
    report(f"submit to running, {count} submits, above 250 ms", slow, "jobs", bar="5", met=slow <= 5)
    report("submit to running, p99", statistics.quantiles(taken_ms, n=100)[98], "ms")
    report("submit to running, slowest", max(taken_ms), "ms")


def growth(count: int) -> None:
    with master_in_a_directory() as master:
        luxid = master.daemons["luxid"].pid
        run_bulk(master, BATCH)
        resident, proportional = memory_mib(luxid, "Rss"), pss_mib(luxid)
        for _ in range(count // BATCH):
            run_bulk(master, BATCH)
        grown = memory_mib(luxid, "Rss") - resident
        report(f"LuxiD after {count} jobs grows, RSS", grown, "MiB", bar="15 MB", met=grown < 15)
        report(f"LuxiD after {count} jobs grows, PSS", pss_mib(luxid) - proportional, "MiB")
        report("LuxiD before them, RSS", resident, "MiB")


FIGURES: dict[str, tuple[Callable[[int], None], int]] = {
    "bulk": (bulk, 500),
    "submit": (submit, 5000),
    "growth": (growth, 10000),
}


def main() -> None:
    asked = [word.partition("=") for word in sys.argv[1:] if not word.startswith("--")]
    for name, _, number in asked or [(name, "", "") for name in FIGURES]:
        if name not in FIGURES:
            sys.exit(f"there is no figure '{name}': use {', '.join(FIGURES)}")
        measure, usual = FIGURES[name]
        measure(int(number or usual))


if __name__ == "__main__":
    main()

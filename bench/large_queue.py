# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD with very many ended jobs: its restart, and how long lists and archiving keep other clients waiting.

    bench/large_queue.py [JOBS] [restart] [list] [archive]

While a list is answered or jobs are archived, another process asks a trivial question again and again: the longest it
waits is the longest stall of LuxiD's loop, and what the machine adds. Files are in the page cache.
"""

from __future__ import annotations

import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import queue_files
from measure import memory_mib, precedence, report
from tests.fakes.master_daemons import Master, running_master

from ganeti.base.errors import TransportError
from ganeti.wire.framing_sync import connect
from ganeti.wire.luxi import VERSION

JOBS = int(next((word for word in sys.argv[1:] if word.isdigit()), "20000"))
FIGURES = ("restart", "list", "archive")
ASKED = [word for word in sys.argv[1:] if word in FIGURES] or FIGURES
RESTARTS = 5
ROUNDS = 3
QUIET_S = 2.0
WITHIN_S = 120.0
EVERYTHING = ["id", "status", "ops", "opresult", "oplog", "opstatus", "received_ts", "start_ts", "end_ts", "summary"]


def ask(path: str, method: str, *arguments: Any) -> Any:
    connection = connect(path, WITHIN_S)
    connection.send({"method": method, "args": list(arguments), "version": VERSION})
    answer = connection.receive()
    connection.close()
    if not answer["success"]:
        sys.exit(f"{method}: {answer['result']}")
    return answer["result"]


def restart_s(master: Master) -> float:
    """From the start of the process to the first answer."""
    master.kill("luxid")
    with open(f"{master.paths.log_dir}/luxid.output", "ab") as log:
        begun_s = time.monotonic()
        master.daemons["luxid"] = subprocess.Popen(
            [sys.executable, "-m", "ganeti.daemons.luxid", "-f"], env=master.environment, stdout=log, stderr=log
        )
    while True:
        with suppress(TransportError):
            ask(master.paths.luxi_socket, "QueryJobs", [JOBS], ["status"])
            return time.monotonic() - begun_s
        if time.monotonic() - begun_s > WITHIN_S:
            sys.exit("LuxiD does not answer")
        time.sleep(0.002)


def watch(path: str, pipe: Pipe) -> None:
    """Ask until told to stop; gives the longest wait and the number of answers."""
    connection = connect(path, WITHIN_S)
    waits = []
    pipe.send("ready")
    while not pipe.poll():
        begun_s = time.monotonic()
        connection.send({"method": "QueryConfigValues", "args": [["cluster_name"]], "version": VERSION})
        connection.receive()
        waits.append(time.monotonic() - begun_s)
    pipe.send(waits)


@contextmanager
def watched(path: str) -> Any:
    """Watch while the block runs; the list it gives holds the waits (s) afterwards."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=watch, args=(path, theirs))
    with precedence():
        process.start()
    ours.recv()
    waits: list[float] = []
    yield waits
    ours.send("stop")
    waits += ours.recv()
    process.join()


def stalls(master: Master, what: str, work: Callable[[], Any], rounds: int = ROUNDS, bar: float | None = 20.0) -> None:
    longest, took = [], []
    for _ in range(rounds):
        with watched(master.paths.luxi_socket) as waits:
            begun_s = time.monotonic()
            work()
            took.append(time.monotonic() - begun_s)
        longest.append(1000 * max(waits))
    stall = statistics.median(longest)
    report(f"{what}, longest stall", stall, "ms", bar=f"{bar:g} ms" if bar else "", met=stall <= bar if bar else None)
    if bar:
        report(f"{what}, time", statistics.median(took), "s")


def main() -> None:
    with TemporaryDirectory(prefix="bench-", dir="/var/tmp") as root, running_master(Path(root) / "cluster") as master:
        empty = memory_mib(master.daemons["luxid"].pid, "Rss")
        master.kill("luxid")
        size = queue_files.fill(master.files, JOBS)
        report("a job file, on average", size / JOBS / 1024, "KiB")
        with precedence():
            master.start("luxid")
        if "restart" in ASKED:
            restarts(master, empty)
        stalls(master, "nothing", lambda: time.sleep(QUIET_S), bar=None)
        if "list" in ASKED:
            lists(master, master.paths.luxi_socket)
        if "archive" in ASKED:
            path = master.paths.luxi_socket
            stalls(master, f"archiving {JOBS} jobs", lambda: ask(path, "AutoArchiveJobs", -1, 600), rounds=1)


def restarts(master: Master, empty_mib: float) -> None:
    with precedence():
        took_s = statistics.median(restart_s(master) for _ in range(RESTARTS))
    report(f"restart with {JOBS} job files to the first answer", took_s, "s", bar="1.5 s", met=took_s <= 1.5)
    grown = memory_mib(master.daemons["luxid"].pid, "Rss") - empty_mib
    report(f"LuxiD with {JOBS} ended jobs, RSS beyond an empty queue", grown, "MiB")


def lists(master: Master, path: str) -> None:
    only_failed = ["=", "status", "error"]
    stalls(master, f"gnt-job list of {JOBS}", lambda: ask(path, "Query", "job", ["id", "status", "summary"], None))
    stalls(master, f"all about {JOBS} jobs", lambda: ask(path, "Query", "job", EVERYTHING, None))
    stalls(master, f"failed ones of {JOBS} jobs", lambda: ask(path, "Query", "job", ["id"], only_failed))
    stalls(master, f"QueryJobs of {JOBS}", lambda: ask(path, "QueryJobs", None, ["id", "status", "summary"]))


if __name__ == "__main__":
    main()

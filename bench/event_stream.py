# SPDX-License-Identifier: BSD-2-Clause
"""What events cost LuxiD: a job's life with nobody, one and twenty subscribed, and 2,000 clients that wait for one job.

bench/event_stream.py [WAITING]
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import cpu_s, memory_mib, report
from tests.fakes.master_daemons import running_master
from tests.fakes.sample_cluster import configuration

from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.serving import stream_of
from ganeti.luxid.event_stream import SUBSCRIBE, EventHub
from ganeti.luxid.server import LuxiServer
from ganeti.model.traits import Catalogue
from ganeti.system.unix_socket import connect
from ganeti.wire.job_file import JobFile, OpcodeEntry

WAITING = int(next((word for word in sys.argv[1:] if word.isdigit()), "2000"))
JOBS = 5000
QUIET_S = 5.0
BAR_MS = 0.2
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 600, "on_master": True}
READ = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(b'{"method": "Subscribe", "args": [["job"]]}\\x03')
while client.recv(1 << 20):
    pass
"""


class NoJobs:
    def unfinished_files(self) -> list[JobFile]:
        return []

    def ended_statuses(self) -> dict[int, str]:
        return {}


def live(hub: EventHub, job_id: int) -> None:
    """One trivial job, told as the queue tells it: seven times, and that it was archived."""
    entry = OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY", "duration": 0.0})
    file = JobFile(id=job_id, ops=[entry])
    for status in ("queued", "queued", "waiting", "running", "running"):
        entry.status = status
        hub.job_changed(file, job_id)
    entry.log = [[1, [0, 0], "message", "working"]]
    hub.job_changed(file, job_id)
    entry.status = "success"
    hub.job_changed(file, job_id)
    hub.job_changed(None, job_id)


@contextmanager
def subscribers(path: str, count: int) -> Iterator[None]:
    readers = [subprocess.Popen([sys.executable, "-c", READ, path]) for _ in range(count)]
    try:
        yield
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()


async def hub_costs(directory: str) -> dict[str, float]:
    """CPU milliseconds of the hub's process for one job."""
    follower = ConfigFollower(None)  # type: ignore[arg-type]  # fed by hand
    follower._take({"event": "snapshot", "position": [1, 5], "config": configuration().to_plain()})
    hub = EventHub(NoJobs(), follower, Catalogue(), f"{directory}/wconfd")
    server = LuxiServer({}, {SUBSCRIBE: stream_of(SUBSCRIBE, hub.serve)})
    path = f"{directory}/luxi"
    await server.listen(path)
    next_id = 1

    async def one_job_ms() -> float:
        nonlocal next_id
        begun_s = time.process_time()
        for _ in range(JOBS):
            live(hub, next_id)
            next_id += 1
            if next_id % 10 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0.3)
        return (time.process_time() - begun_s) * 1000 / JOBS

    costs = {"nobody has subscribed": await one_job_ms()}
    visitor = await connect(path)
    await visitor.send({"method": SUBSCRIBE, "args": [["job"]]})
    await visitor.receive()
    visitor.abort()
    costs["kept for one that went"] = await one_job_ms()
    for count in (1, 20):
        with subscribers(path, count):
            while len(hub._readers) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            costs[f"{count} subscribed"] = await one_job_ms()
    await server.close()
    await hub.close()
    return costs


def waiting_clients(directory: str) -> dict[str, Any]:
    """CPU seconds of LuxiD while many wait for a job that does nothing, and for the one change that ends it."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with running_master(Path(directory) / "root") as master:
        job = master.submit(DELAY)
        master.until(lambda: master.luxi("QueryJobs", [job], ["status"]) == [["running"]], "the job runs")
        pid = master.daemons["luxid"].pid
        clients = [master.connection() for _ in range(WAITING)]
        for client in clients:
            client.send({"method": "WaitForJobChange", "args": [job, ["status"], ["running"], 0, 60]})
        master.luxi("QueryConfigValues", ["cluster_name"])
        begun = cpu_s(pid)
        time.sleep(QUIET_S)
        quiet = cpu_s(pid)
        master.luxi("CancelJob", job, True)
        for client in clients:
            client.receive()
        return {
            "quiet_cpu_s": quiet - begun,
            "change_cpu_s": cpu_s(pid) - quiet,
            "memory_mib": memory_mib(pid, "Rss"),
        }


def main() -> int:
    with TemporaryDirectory() as directory:
        costs = asyncio.run(hub_costs(directory))
        waiting = waiting_clients(directory)
    for who, cost_ms in costs.items():
        alone = "subscribed" not in who or who.startswith("nobody")
        bar, met = (f"{BAR_MS} ms", cost_ms <= BAR_MS) if alone else ("", None)
        report(f"events of one job, {who}, CPU", cost_ms, "ms", bar=bar, met=met)
    report(f"{WAITING} clients wait, {QUIET_S:g} s of nothing, CPU of LuxiD", waiting["quiet_cpu_s"], "s")
    report(f"one change told to {WAITING}, CPU of LuxiD", waiting["change_cpu_s"], "s")
    report(f"LuxiD with {WAITING} waiting, memory", waiting["memory_mib"], "MiB")
    return 0 if costs["nobody has subscribed"] <= BAR_MS and costs["kept for one that went"] <= BAR_MS else 1


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-2-Clause
"""What copies cost a commit, and how soon a candidate that was away for 10,000 commits is in sync again.

A real WConfD and real node daemons of two candidates on loopback addresses, over mutual TLS; all three disks are one.
Bars: p50 with two candidates in sync ≤ 3 times that with none; back in sync ≤ 5 s after its node daemon serves.

    bench/replication.py [COMMITS]
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import report
from tests.fakes.master_daemons import HOST, NODE_UUID, OFFLINE_UUID, Master, configuration

from ganeti.base.paths import Paths
from ganeti.bootstrap.certificates import create_authority, digest, issue_node_certificate
from ganeti.master.operations.filter_changes import ReplaceFilterChange
from ganeti.model.objects import FilterRule
from ganeti.runtime.livelock import LiveLock, job_lock_path
from ganeti.runtime.wconfd_client import JobOwner, WConfdClient
from ganeti.runtime.wconfd_start import make_directories

AWAY_COMMITS = 10_000
AT_ONCE = 64
FACTOR = 3.0
BACK_S = 5.0
CANDIDATES = {
    OFFLINE_UUID: ("node2.example.com", "127.0.92.2"),
    OFFLINE_UUID[:-1] + "4": ("node3.example.com", "127.0.92.3"),
}


class Bed:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.master = Master(root / "master")
        self.paths = self.master.paths
        make_directories(self.paths)
        self.authority = create_authority("c")
        self.plain = configuration()
        del self.plain["nodes"][OFFLINE_UUID]
        pem = self.certify(self.paths, HOST, "127.0.0.1")
        self.plain["cluster"]["candidate_certs"] = {NODE_UUID: digest(pem)}
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    def certify(self, paths: Paths, name: str, address: str) -> str:
        pem = issue_node_certificate(self.authority, name, "c", [address])
        for path, text in (
            (paths.server_cert, pem),
            (paths.client_cert, pem),
            (paths.authority_cert, self.authority.certificate),
        ):
            Path(path).write_text(text)
        return pem

    def add_candidates(self) -> None:
        for uuid, (name, address) in CANDIDATES.items():
            own = self.plain["nodes"][NODE_UUID]
            self.plain["nodes"][uuid] = own | {
                "uuid": uuid,
                "name": name,
                "primary_ip": address,
                "secondary_ip": address,
            }
            paths = Paths(str(self.root / name))
            make_directories(paths)
            self.certify(paths, name, address)

    def start_node(self, uuid: str) -> None:
        name, address = CANDIDATES[uuid]
        environment = {**os.environ, "GANETI_ROOTDIR": str(self.root / name), "GANETI_HOSTNAME": name}
        arguments = [sys.executable, "-m", "ganeti.daemons.noded", "-f", "-b", address, "--no-mlock"]
        node = subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE)
        assert node.stderr is not None
        for line in node.stderr:
            if b"is ready" in line:
                break
        else:
            raise AssertionError(f"{name} does not start")
        self.nodes[uuid] = node

    def end_node(self, uuid: str) -> None:
        node = self.nodes.pop(uuid)
        node.send_signal(signal.SIGTERM)
        node.communicate()

    def start_master(self) -> None:
        Path(self.paths.config_file).write_text(json.dumps(self.plain))
        arguments = [sys.executable, "-m", "ganeti.daemons.wconfd", "-f", "--no-voting", "--yes-do-it"]
        log = open(f"{self.paths.log_dir}/output", "ab")  # noqa: SIM115
        self.master.daemons["wconfd"] = subprocess.Popen(arguments, env=self.master.environment, stdout=log, stderr=log)


class Load:
    """Commits of one job, each a filter rule."""

    def __init__(self, paths: Paths) -> None:
        self.client = WConfdClient(paths.wconfd_socket, 30.0)
        self._lock = LiveLock(job_lock_path(paths.livelock_dir, 1, time.time_ns() % 10**6 + 1))
        self._owner = JobOwner(1, self._lock.path, 1)
        self._paths = paths
        self._step = 0

    async def commit(self, client: WConfdClient | None = None) -> None:
        self._step += 1
        rule = FilterRule(
            uuid=f"00000000-0000-4000-8000-{self._step % 200:012x}", priority=self._step, predicates=[], action="ACCEPT"
        )
        await (client or self.client).commit(self._owner, self._step, ReplaceFilterChange(rule=rule), False)

    async def latencies_ms(self, count: int) -> list[float]:
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            await self.commit()
            times.append((time.perf_counter() - begun) * 1000)
        return times

    async def many(self, count: int) -> None:
        async def some() -> None:
            client = WConfdClient(self._paths.wconfd_socket, 30.0)
            for _ in range(count // AT_ONCE + 1):
                await self.commit(client)
            await client.close()

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))

    async def in_sync(self, *nodes: str) -> None:
        async with asyncio.timeout(60):
            while True:
                states: dict[str, Any] = (await self.client.call("replicationState"))["nodes"]
                if all(states[node]["state"] == "in-sync" for node in nodes):
                    return
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        await self.client.close()
        self._lock.close()


async def alone(bed: Bed, count: int) -> float:
    bed.start_master()
    load = Load(bed.paths)
    try:
        await load.latencies_ms(20)
        return statistics.median(await load.latencies_ms(count))
    finally:
        await load.close()
        bed.master.stop_all()


async def copied(bed: Bed, count: int) -> tuple[float, float]:
    """Give the p50 in ms with two copies, and the seconds until a candidate that was away is in sync again."""
    bed.add_candidates()
    for uuid in CANDIDATES:
        bed.start_node(uuid)
    bed.start_master()
    load = Load(bed.paths)
    try:
        await load.client.position()
        await load.in_sync(*CANDIDATES)
        await load.latencies_ms(20)
        p50_ms = statistics.median(await load.latencies_ms(count))
        away = list(CANDIDATES)[1]
        bed.end_node(away)
        await load.many(AWAY_COMMITS)
        bed.start_node(away)
        begun = time.perf_counter()
        await load.in_sync(away)
        return p50_ms, time.perf_counter() - begun
    finally:
        await load.close()
        bed.master.stop_all()
        for uuid in list(bed.nodes):
            bed.end_node(uuid)


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        alone_ms = asyncio.run(alone(Bed(Path(first)), count))
        with_ms, back_s = asyncio.run(copied(Bed(Path(second)), count))
    report("acknowledged commit with no other candidate, p50", alone_ms, "ms")
    report("acknowledged commit with two candidates in sync, p50", with_ms, "ms")
    factor = with_ms / alone_ms
    report("the one against the other", factor, "times", bar=f"{FACTOR:g} times", met=factor <= FACTOR)
    report(
        f"candidate away for {AWAY_COMMITS} commits, back in sync",
        back_s,
        "s",
        bar=f"{BACK_S:g} s",
        met=back_s <= BACK_S,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)

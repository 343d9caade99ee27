# SPDX-License-Identifier: BSD-2-Clause
"""What copies cost a commit, and how soon a candidate that was away for 10,000 commits is in sync again.

A real WConfD and real node daemons of two candidates on loopback addresses, over mutual TLS; all three disks are one.
With copies and without take turns under one daemon: the candidates are made ordinary nodes, and candidates again.
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
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import precedence, report
from msgspec.structs import replace
from tests.fakes.master_daemons import HOST, NODE_UUID, OFFLINE_UUID, Master, configuration
from tests.fakes.sample_cluster import add_instance

from ganeti.base.paths import Paths
from ganeti.calls.wconfd_client import JobOwner, WConfdClient
from ganeti.master.operations.filter_changes import ReplaceFilterChange
from ganeti.master.operations.node.changes import ReplaceNode
from ganeti.model.configuration import Configuration
from ganeti.model.objects import FilterRule, Node
from ganeti.node.certificates import create_authority, digest, issue_node_certificate
from ganeti.system.livelock import LiveLock, job_lock_path
from ganeti.wconfd.start import make_directories

AWAY_COMMITS = 10_000
AT_ONCE = 64
SIZES = (0, 1000)
TURNS = 5
WARM_UP = 20
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
        self.digests: dict[str, str] = {}

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
            self.digests[uuid] = digest(self.certify(paths, name, address))

    def add_instances(self, count: int) -> None:
        config = Configuration.from_plain(self.plain)
        for number in range(count):
            add_instance(config, f"instance{number}.example.com", NODE_UUID)
        self.plain = config.to_plain()

    def candidates(self) -> list[Node]:
        return [Node.from_plain(self.plain["nodes"][uuid]) for uuid in CANDIDATES]

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

    async def make_candidate(self, node: Node, digest: str | None) -> None:
        """Make *node* a candidate, known by its certificate's *digest*; without that, an ordinary node."""
        self._step += 1
        changed = replace(node, master_candidate=digest is not None)
        await self.client.commit(self._owner, self._step, ReplaceNode(node=changed, certificate_digest=digest), False)

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


async def in_turns(bed: Bed, load: Load, count: int) -> tuple[list[float], list[float]]:
    """Give the latencies in ms with no copy and with two."""
    alone_ms: list[float] = []
    copied_ms: list[float] = []
    for turn in range(TURNS * 2):
        with_copies = turn % 2 == 1
        for node in bed.candidates():
            await load.make_candidate(node, bed.digests[node.uuid] if with_copies else None)
        if with_copies:
            await load.in_sync(*CANDIDATES)
        await load.latencies_ms(WARM_UP)
        (copied_ms if with_copies else alone_ms).extend(await load.latencies_ms(count // TURNS))
    return alone_ms, copied_ms


async def away(bed: Bed, load: Load) -> float:
    """Give the seconds until a candidate that was away for many commits is in sync again."""
    uuid = list(CANDIDATES)[1]
    bed.end_node(uuid)
    await load.many(AWAY_COMMITS)
    bed.start_node(uuid)
    begun = time.perf_counter()
    await load.in_sync(uuid)
    return time.perf_counter() - begun


@asynccontextmanager
async def running(root: Path, instances: int) -> AsyncIterator[tuple[Bed, Load]]:
    bed = Bed(root)
    bed.add_candidates()
    bed.add_instances(instances)
    for uuid in CANDIDATES:
        bed.start_node(uuid)
    bed.start_master()
    load = Load(bed.paths)
    try:
        await load.client.position()
        await load.in_sync(*CANDIDATES)
        yield bed, load
    finally:
        await load.close()
        bed.master.stop_all()
        for uuid in list(bed.nodes):
            bed.end_node(uuid)


async def measure(count: int, instances: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("GANETI_BENCH_DIR")) as directory:
        async with running(Path(directory), instances) as (bed, load):
            alone_ms, copied_ms = await in_turns(bed, load, count)
            back_s = await away(bed, load)
    size = f"{instances} instances"
    for what, times_ms in (("with no other candidate", alone_ms), ("with two candidates in sync", copied_ms)):
        report(f"commit {what}, {size}, p50", statistics.median(times_ms), "ms")
        report(f"commit {what}, {size}, p99", statistics.quantiles(times_ms, n=100)[98], "ms")
    factor = statistics.median(copied_ms) / statistics.median(alone_ms)
    report(f"the one against the other, {size}", factor, "times", bar=f"{FACTOR:g} times", met=factor <= FACTOR)
    what = f"candidate away for {AWAY_COMMITS} commits, back in sync, {size}"
    report(what, back_s, "s", bar=f"{BACK_S:g} s", met=back_s <= BACK_S)


def main(count: int) -> None:
    with precedence():
        for instances in SIZES:
            asyncio.run(measure(count, instances))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 500)

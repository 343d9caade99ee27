# SPDX-License-Identifier: BSD-2-Clause
"""One change of the configuration at 100 and at 10,000 instances, side by side; and a batch of jobs at 10,000.

A change is one commit on one instance, over WConfD's socket, until `config.data` holds it; the two clusters take turns.
CPU is that of the whole WConfD process, publication included. The batch is of eight OP_INSTANCE_SHUTDOWN of instances
on offline nodes with ignore_offline_nodes: the cheapest job that changes an instance and needs no node.

Bars: WConfD CPU and wall p50 grow < 1.3 times; exactly one sync a change (checkpoints, once in some hundred changes,
counted by themselves); batch ≤ 0.6 s from submission to the last end.

    bench/config_change.py [CHANGES [INSTANCES]]
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import cpu_s
from tests.fakes.master_daemons import HOST, NODE_UUID, OFFLINE_UUID, Master, children_of, configuration

from ganeti.base.paths import NODED_PORT
from ganeti.calls.wconfd_client import JobOwner, WConfdClient
from ganeti.master.operations.changes import SetInstanceState
from ganeti.node import certificates
from ganeti.system.livelock import LiveLock, job_lock_path

SMALL = 100
SYNCS = "fsync,fdatasync,sync_file_range,syncfs,msync"
BATCH_JOBS = 8
NODES = 50
"""Offline, with the instances spread over them: jobs of one node would wait for each other."""
ADDRESS = "127.0.77.1"
"""Of the master's node daemon, which runs the hooks of the batch; both clusters have it, one after the other."""
JOB_ID = 1_000_000
TIMES = {"ctime": 1700000000.25, "mtime": 1700000000.25, "serial_no": 1}


def uuid(kind: int, number: int) -> str:
    return f"{kind:08x}-0000-4000-8000-{number:012x}"


def filled(instances: int) -> dict[str, Any]:
    """The configuration of `master_daemons` with instances of about 3 KB each, disks included."""
    plain: dict[str, Any] = configuration()
    plain["cluster"]["enabled_disk_templates"] = ["file", "diskless"]
    plain["nodes"][NODE_UUID] |= {"primary_ip": ADDRESS, "secondary_ip": ADDRESS}
    for index in range(NODES):
        address = f"127.0.78.{index + 1}"
        addresses = {"name": f"away{index:02d}.example.com", "primary_ip": address, "secondary_ip": address}
        plain["nodes"][uuid(0xE, index)] = plain["nodes"][OFFLINE_UUID] | {"uuid": uuid(0xE, index)} | addresses
    plain["instances"], plain["disks"] = {}, {}
    for number in range(instances):
        node = uuid(0xE, number % NODES)
        disks = [uuid(0xD + index, number) for index in range(2)]
        for index, disk in enumerate(disks):
            plain["disks"][disk] = {
                "uuid": disk, "dev_type": "file", "logical_id": ["loop", f"/srv/{disk}.disk{index}"], "size": 10240,
                "mode": "rw", "iv_name": f"disk/{index}", "nodes": [node], "children": [], **TIMES,
                "params": {"stripes": 1},
            }  # fmt: skip
        name = f"instance{number:05d}.some-department.example.com"
        plain["instances"][uuid(0xA, number)] = {
            "uuid": uuid(0xA, number), "name": name, "primary_node": node, "os": "debootstrap+default",
            "hypervisor": "fake", "hvparams": {"migration_mode": "live"}, "admin_state": "up", "disks_active": True,
            "beparams": {"minmem": 1024, "maxmem": 2048, "vcpus": 2, "auto_balance": True}, "disks": disks,
            "osparams": {f"parameter_{index}": "x" * 130 for index in range(12)},
            "nics": [{"uuid": uuid(0xB, number), "mac": f"aa:00:00:{number >> 16:02x}:{number >> 8 & 255:02x}:"
                      f"{number & 255:02x}", "nicparams": {"mode": "routed", "link": "br0"}}],
            "tags": ["service:web", "owner:somebody"], "admin_state_source": "admin", **TIMES,
        }  # fmt: skip
    return plain


class Cluster:
    """A master with its configuration, and a job that changes it."""

    def __init__(self, root: Path, instances: int) -> None:
        self.instances = instances
        self.master = Master(root)
        paths, plain = self.master.paths, filled(instances)
        authority = certificates.create_authority(plain["cluster"]["cluster_name"])
        pem = certificates.issue_node_certificate(authority, HOST, plain["cluster"]["cluster_name"], [ADDRESS])
        plain["cluster"]["candidate_certs"] = {NODE_UUID: certificates.digest(pem)}
        for path in (paths.server_cert, paths.client_cert):
            Path(path).write_text(pem)
        Path(paths.authority_cert).write_text(authority.certificate)
        Path(paths.config_file).write_text(json.dumps(plain))
        self.master.start("wconfd")
        self.pid = self.master.daemons["wconfd"].pid
        self.lock = LiveLock(job_lock_path(self.master.paths.livelock_dir, JOB_ID, 1))
        self.owner = JobOwner(JOB_ID, self.lock.path, 1, os.getpid())
        self.client = WConfdClient(self.master.paths.wconfd_socket)
        self.step = 0
        self.taken_s: list[float] = []
        self.cpu_s = 0.0

    def process_cpu_s(self) -> float:
        """CPU of all threads, in nanoseconds' resolution (the process's own CPU clock)."""
        return time.clock_gettime((~self.pid << 3) | 2)

    async def change(self) -> None:
        """One change of one instance, until it is published; never the same one twice in a row."""
        self.step += 1
        number = self.step * 7919 % self.instances
        state = ("down", "up")[self.step // self.instances % 2]
        change = SetInstanceState(instance_uuid=uuid(0xA, number), admin_state=state)
        begun, cpu_s = time.monotonic(), self.process_cpu_s()
        position, _ = await self.client.commit(self.owner, self.step, change, False)
        await self.client.wait_published(position)
        self.taken_s.append(time.monotonic() - begun)
        self.cpu_s += self.process_cpu_s() - cpu_s

    def stop(self) -> None:
        self.lock.close()
        self.master.stop_all()


@contextmanager
def counted_syncs(pid: int) -> Iterator[dict[str, int]]:
    """Counts what the process syncs in the meantime, by system call; empty without strace."""
    found: dict[str, int] = {}
    if shutil.which("strace") is None:
        yield found
        return
    with tempfile.NamedTemporaryFile(prefix="syncs-") as report:
        command = ["strace", "-f", "-q", "-e", f"trace={SYNCS}", "-o", report.name, "-p", str(pid)]
        strace = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text():
            assert strace.poll() is None, "strace cannot attach"
            time.sleep(0.01)
        try:
            yield found
        finally:
            strace.send_signal(signal.SIGINT)
            strace.wait()
        for line in Path(report.name).read_text().splitlines():
            call = line.split(None, 1)[1].partition("(")[0]
            if call in SYNCS.split(","):
                found[call] = found.get(call, 0) + 1


async def single_changes(clusters: list[Cluster], count: int) -> None:
    for _ in range(10):
        for cluster in clusters:
            await cluster.change()
    for cluster in clusters:
        cluster.taken_s.clear()
        cluster.cpu_s = 0.0
    for _ in range(count):
        for cluster in clusters:
            await cluster.change()
    for cluster in clusters:
        p50_ms, worst_ms = 1000 * statistics.median(cluster.taken_s), 1000 * max(cluster.taken_s)
        size_mib = os.path.getsize(cluster.master.paths.config_file) / 2**20
        print(
            f"{cluster.instances:>6} instances ({size_mib:.1f} MiB): WConfD CPU {1000 * cluster.cpu_s / count:.2f} ms "
            f"a change, wall p50 {p50_ms:.2f} ms, worst {worst_ms:.1f} ms"
        )
    small, large = clusters
    wall = statistics.median(large.taken_s) / statistics.median(small.taken_s)
    print(f"growth: CPU {large.cpu_s / small.cpu_s:.2f} times, wall p50 {wall:.2f} times   (bars: < 1.3)", flush=True)


async def syncs(clusters: list[Cluster], count: int) -> None:
    for cluster in clusters:
        with counted_syncs(cluster.pid) as found:
            for _ in range(count):
                await cluster.change()
        told = ", ".join(f"{calls} {call}" for call, calls in sorted(found.items())) or "not counted: no strace"
        each = sum(found.values()) / count
        print(f"{cluster.instances:>6} instances: syncs in {count} changes: {told}: {each:.3f} each", flush=True)


@contextmanager
def node_daemon(master: Master) -> Iterator[int]:
    command = [sys.executable, "-m", "ganeti.daemons.noded", "-f", "-b", ADDRESS, "--no-mlock"]
    with open(f"{master.paths.log_dir}/noded.output", "ab") as log:
        noded = subprocess.Popen(command, env=master.environment, stdout=log, stderr=log)
    try:
        master.until(lambda: socket.socket().connect_ex((ADDRESS, NODED_PORT)) == 0, "the node daemon listens")
        yield noded.pid
    finally:
        noded.terminate()
        noded.wait()


def one_batch(master: Master, names: list[str]) -> float:
    """Eight jobs at once, each of an instance of its own; gives seconds."""
    jobs = [[{"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": name, "ignore_offline_nodes": True}] for name in names]
    begun = time.monotonic()
    ids = [job_id for _, job_id in master.luxi("SubmitManyJobs", jobs)]
    files = [master.wait(job_id, 120) for job_id in ids]
    taken_s = time.monotonic() - begun
    assert all(file.status == "success" for file in files), [(file.status, file.ops[0].result) for file in files]
    return taken_s


def batch(cluster: Cluster, rounds: int) -> None:
    """Several batches; the first is not counted."""
    master = cluster.master
    luxid = master.start("luxid").pid
    names = (f"instance{number:05d}.some-department.example.com" for number in range(0, cluster.instances, 2))
    with node_daemon(master) as noded:
        (spawner,) = children_of(luxid)
        parts = {"luxid": luxid, "wconfd": cluster.pid, "noded": noded, "jobs": spawner}
        one_batch(master, list(islice(names, BATCH_JOBS)))
        before = {name: cpu_s(pid) for name, pid in parts.items()}
        taken_s = [one_batch(master, list(islice(names, BATCH_JOBS))) for _ in range(rounds)]
        each = {name: (cpu_s(pid) - before[name]) / rounds for name, pid in parts.items()}
    told = ", ".join(f"{name} {spent:.2f}" for name, spent in each.items())
    p50_s = statistics.median(taken_s)
    print(
        f"{BATCH_JOBS} jobs that each change an instance of {cluster.instances}: p50 {p50_s:.2f} s, "
        f"worst {max(taken_s):.2f} s from submission to the last end, CPU {sum(each.values()):.2f} s ({told})",
        flush=True,
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    instances = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    with tempfile.TemporaryDirectory(prefix="config-change-", dir="/var/tmp") as root, ExitStack() as ending:
        clusters = []
        for size in (SMALL, instances):
            clusters.append(Cluster(Path(root) / str(size), size))
            ending.callback(clusters[-1].stop)

        async def changes() -> None:
            await single_changes(clusters, count)
            await syncs(clusters, count)
            for cluster in clusters:
                await cluster.client.close()

        asyncio.run(changes())
        for cluster in clusters:
            batch(cluster, 5)
        print("(bar at 10,000 instances: 0.6 s)")


if __name__ == "__main__":
    main()

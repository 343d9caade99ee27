# SPDX-License-Identifier: BSD-2-Clause
"""What a master candidate's copy costs: an append of one commit to a real node daemon, a whole snapshot, its memory.

`--instances` gives the size of the cluster. Times are those of one connection that is kept, one request after another;
`empty_call` is that of a call that does nothing.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import cpu_s, precedence
from tests.fakes.sample_cluster import add_instance
from tests.fakes.sending_master import SendingMaster, SetTags, sound_configuration
from tests.system.test_noded import NODE, Noded

from ganeti.calls.node_client import NodeClient
from ganeti.node.certificates import digest

CANDIDATE = "uuid-node2"


def cluster_of(noded: Noded, instances: int) -> Any:
    config = sound_configuration()
    for number in range(instances):
        add_instance(config, f"instance{number}.example.com", f"uuid-node{number % 3 + 1}")
    config.put("nodes", CANDIDATE, msgspec.structs.replace(config.node(CANDIDATE), name=NODE))
    certs = {CANDIDATE: digest(noded.pem)}
    config.put("cluster", "cluster", msgspec.structs.replace(config.cluster, candidate_certs=certs))
    return config


def pss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} tells no Pss")


async def measure(noded: Noded, client: NodeClient, instances: int, appends: int) -> dict[str, float]:
    assert noded.process is not None
    pid = noded.process.pid
    figures = {"pss_without_copy_mib": pss_mib(pid)}
    master = SendingMaster(cluster_of(noded, instances))
    begun = time.perf_counter()
    answer = await client.call("uuid-1", "replica_snapshot", **master.snapshot())
    figures["snapshot_ms"] = (time.perf_counter() - begun) * 1000
    assert answer["refused"] is None, answer
    times, queue_times, state_times, empty_times = [], [], [], []
    cpu_begun = cpu_s(pid)
    for number in range(appends):
        begun = time.perf_counter()
        await client.call("uuid-1", "version")
        empty_times.append(time.perf_counter() - begun)
        after = master.position
        arguments = master.append(after, master.record(SetTags((f"tag{number}",))))
        begun = time.perf_counter()
        answer = await client.call("uuid-1", "replica_append", **arguments)
        times.append(time.perf_counter() - begun)
        assert answer["refused"] is None, answer
        arguments = master.append(master.position, files={f"job-{number + 1}": "x" * 2000}, serial=number + 1)
        begun = time.perf_counter()
        await client.call("uuid-1", "replica_append", **arguments)
        queue_times.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        await client.call("uuid-1", "replica_state", **master.caller)
        state_times.append(time.perf_counter() - begun)
    figures["cpu_per_round_ms"] = (cpu_s(pid) - cpu_begun) / appends * 1000
    for name, values in (
        ("empty_call", empty_times),
        ("append", times),
        ("queue_file", queue_times),
        ("state", state_times),
    ):
        figures[f"{name}_p50_ms"] = statistics.median(values) * 1000
        figures[f"{name}_p99_ms"] = statistics.quantiles(values, n=100)[98] * 1000
    figures["pss_with_copy_mib"] = pss_mib(pid)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--appends", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(dir=os.environ.get("GANETI_BENCH_DIR")))
        stack.enter_context(precedence())
        noded = Noded(Path(root))
        noded.start()
        try:
            figures = noded.run(lambda client: measure(noded, client, options.instances, options.appends), job=0)
        finally:
            noded.end(signal.SIGKILL)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:>24} {value:10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-2-Clause
"""What an allocation costs LuxiD's placement worker, which keeps the cluster between two of them.

    allocation.py                 1,000 nodes with 20,000 instances in one process: a mirrored pair (--groups 10)
    allocation.py creations       10 and 100 creations at once on a testbed of fake nodes (needs root)

"same picture": nothing has changed since the last question. "100 reservations": creations under way, all on two nodes,
or each on nodes of its own with a disk. "a creation ended": the instance and its disk are in the configuration, and
both of its nodes have reported anew. Nodes are nearly alike, the hard case: --noise says what their free memory and
disk differ by (few: 13 and 17 values; all: each its own; none), --racks N gives them location tags of N racks. CPU
seconds of the worker's own work, without what LuxiD and WConfD do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ganeti.master.cache.cluster_picture import ClusterPicture
from ganeti.master.cache.node_reports import NodeReport, Space
from ganeti.master.cache.placer import Placer
from ganeti.model.configuration import Configuration
from ganeti.model.ipolicy import full_policy
from ganeti.model.objects import Cluster, Disk, Instance, Node, NodeGroup
from ganeti.model.placement_requests import Allocate, WantedDisk
from ganeti.model.reservations import Reservation

TEMPLATE = "drbd"
BAR_MS = 5.0


def configuration(nodes: int, instances: int, groups: int, racks: int = 0) -> Configuration:
    """Instances spread evenly over mirrored pairs of each group."""
    config = Configuration()
    tags = ["htools:nlocation:rack"] if racks else []
    config.put("cluster", "cluster", replace(_cluster(), tags=tags))
    for group in range(groups):
        config.put("nodegroups", f"g{group}", NodeGroup(uuid=f"g{group}", name=f"group{group}"))
    for number in range(nodes):
        address = f"10.{number // 250}.{number % 250}.1"
        name = f"node{number:04d}"
        node = Node(uuid=name, name=name, primary_ip=address, secondary_ip=address, group=f"g{number % groups}")
        node = replace(node, tags=[f"rack:{number % racks}"] if racks else [])
        config.put("nodes", name, node)
    for number in range(instances):
        primary = number % nodes
        secondary = (primary + groups * (1 + number // nodes)) % nodes
        disk = Disk(
            uuid=f"d{number}", dev_type=TEMPLATE, size=20480, nodes=[f"node{primary:04d}", f"node{secondary:04d}"]
        )
        config.put("disks", disk.uuid, disk)
        config.put("instances", f"i{number}", _instance(number, f"node{primary:04d}"))
    return config


def _cluster() -> Cluster:
    return Cluster(
        uuid="c",
        cluster_name="c",
        master_node="node0000",
        master_ip="10.0.0.1",
        master_netdev="lo",
        enabled_hypervisors=["fake"],
        enabled_disk_templates=[TEMPLATE],
        ipolicy=full_policy([TEMPLATE]) | {"spindle-ratio": 1000.0},
        beparams={"default": {"maxmem": 1024, "minmem": 1024, "vcpus": 1}},
    )


def _instance(number: int, primary: str) -> Instance:
    return Instance(
        uuid=f"i{number}",
        name=f"instance{number}",
        primary_node=primary,
        hypervisor="fake",
        admin_state="up",
        disks=[f"d{number}"],
    )


def report(number: int, guests: int, noise: str = "few") -> NodeReport:
    memory_mib, disk_mib = {
        "few": (8 * (number % 13), 64 * (number % 17)),
        "all": (number * 7919 % 1009, number * 104729 % 4001),
        "none": (0, 0),
    }[noise]
    used = 1024 * guests + memory_mib
    return NodeReport(
        memory_total_mib=131072,
        memory_free_mib=131072 - 1024 - used,
        memory_node_mib=1024,
        cpu_total=64,
        cpu_node=1,
        space={TEMPLATE: Space(4_000_000, 3_000_000 - disk_mib)},
        guests=[],
    )


REQUEST = Allocate(
    name="new",
    memory=1024,
    vcpus=1,
    disks=[WantedDisk(size=20480)],
    disk_template=TEMPLATE,
    disk_space_total=20480 + 128,
    required_nodes=2,
)


def measured(what: Callable[[], Any], times: int) -> float:
    """Median CPU milliseconds."""
    costs = []
    for _ in range(times):
        begun = time.process_time()
        what()
        costs.append(1000 * (time.process_time() - begun))
    return statistics.median(costs)


def reservations_of_others(nodes: int, *, spread: bool) -> list[Reservation]:
    found = []
    for number in range(100):
        first, second = (number * 7 % nodes, (number * 7 + 13) % nodes) if spread else (1, 5)
        pair = [f"node{first:04d}", f"node{second:04d}"]
        disk_mib = 20480 + 128 if spread else 0
        found.append(
            Reservation(instance=f"p{number}", nodes=pair, memory_mib=1024, disk_mib=disk_mib, disk_template=TEMPLATE)
        )
    return found


def worker(nodes: int, instances: int, groups: int, times: int, noise: str = "few", racks: int = 0) -> dict[str, float]:
    config = configuration(nodes, instances, groups, racks)
    picture = ClusterPicture(lambda: config)
    guests = instances // nodes
    shown = {
        f"node{number:04d}": replace(
            report(number, guests, noise),
            guests=[(f"instance{other}", 1024, "running") for other in range(number, instances, nodes)],
        )
        for number in range(nodes)
    }
    picture.take_reports(shown)
    placer = Placer(picture)
    reservations = reservations_of_others(nodes, spread=False)
    spread = reservations_of_others(nodes, spread=True)

    def ask(held: list[Reservation], *, why: bool = False) -> None:
        response, _ = placer.answer(config, REQUEST, TEMPLATE, held, why=why)
        assert response["success"], response["info"]

    created = 0

    def changed() -> None:
        nonlocal created
        created += 1
        number = instances + created
        disk = Disk(uuid=f"d{number}", dev_type=TEMPLATE, size=20480, nodes=["node0009", "node0013"])
        told = picture.before(
            {"event": "commit", "put": [("disks", disk.uuid), ("instances", f"i{number}")], "remove": []}
        )
        config.put("disks", disk.uuid, disk)
        config.put("instances", f"i{number}", _instance(number, "node0009"))
        told()
        for name in disk.nodes:
            shown[name] = replace(shown[name], memory_free_mib=shown[name].memory_free_mib - 1)
        picture.take_reports({name: shown[name] for name in disk.nodes})
        ask([])

    first = measured(lambda: ask([]), 1)
    return {
        "first question (reads all)": first,
        "same picture": measured(lambda: ask([]), times),
        "same picture, 100 reservations of others": measured(lambda: ask(reservations), times),
        "same picture, 100 reservations on all nodes": measured(lambda: ask(spread), times),
        "same picture, and why not elsewhere": measured(lambda: ask([], why=True), max(1, times // 4)),
        "a creation ended": measured(changed, max(1, times // 4)),
    }


def creations(counts: list[int]) -> dict[str, float]:
    """Wall seconds a creation, all submitted in one call; what is made is removed between two rounds."""
    from ganeti.tools.testbed import bed, cluster, machine

    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="ganeti-bench-") as directory:
        layout = bed.up(Path(directory).resolve(), 3, "fake", watcher_interval_s=86400)
        try:
            cluster.create(layout)
            capacity = json.dumps({"memory_total": 1_000_000, "memory_dom0": 0, "cpu_total": 256})
            home = "/run/ganeti/fake-hypervisor"
            for node in layout.nodes:
                machine.run(layout, node.name, "sh", "-c", f"mkdir -p {home} && echo '{capacity}' > {home}/.capacity")
            for count in counts:
                opcodes = [
                    {
                        "OP_ID": "OP_INSTANCE_CREATE",
                        "instance_name": f"web{count}-{number}",
                        "mode": "create",
                        "disk_template": "diskless",
                        "os_type": "noop+default",
                        "disks": [],
                        "nics": [],
                        "iallocator": "hail",
                        "beparams": {"memory": "128m"},
                    }
                    for number in range(count)
                ]
                jobs = json.dumps(opcodes)
                machine.run(layout, "node1", "sh", "-c", f"cat > /root/jobs.json <<'END'\n{jobs}\nEND")
                begun = time.monotonic()
                done = machine.run(
                    layout, "node1", "gnt-debug", "submit-job", "--each", *_files(layout, count), timeout_s=600
                )
                took_s = time.monotonic() - begun
                assert done.returncode == 0, done.stdout + done.stderr
                found[f"{count} creations at once, each"] = 1000 * took_s / count
        finally:
            bed.down(layout)
    return found


def _files(layout: Any, count: int) -> list[str]:
    """One file a job: `gnt-debug submit-job` makes one job of each."""
    from ganeti.tools.testbed import machine

    program = (
        "import json; "
        "[open(f'/root/job{n}.json', 'w').write(json.dumps([op])) "
        "for n, op in enumerate(json.load(open('/root/jobs.json')))]"
    )
    machine.run(layout, "node1", sys.executable, "-c", program)
    return [f"/root/job{number}.json" for number in range(count)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("worker", "creations"), default="worker")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--instances", type=int, default=20000)
    parser.add_argument("--groups", type=int, default=1, help="of which any will do")
    parser.add_argument("--noise", choices=("few", "all", "none"), default="few")
    parser.add_argument("--racks", type=int, default=0)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.what == "worker":
        found = worker(options.nodes, options.instances, options.groups, options.times, options.noise, options.racks)
    else:
        found = creations([10, 100])
    if options.json:
        print(json.dumps(found))
        return 0
    for name, cost_ms in found.items():
        bar = f"  (bar {BAR_MS:g} ms)" if "why" not in name and "first" not in name else ""
        print(f"{name:40s} {cost_ms:9.2f} ms{bar}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-2-Clause
"""What it costs to say why nothing fits: CPU seconds at 1,000 nodes with 20,000 instances, for each kind of refusal.

    .venv/bin/python bench/why.py [worker] [hail] [growth] [--times N]

worker: LuxiD's placement worker, which keeps the cluster between two questions (bar 0.3 s). hail: the whole command
``hail --why`` beside ``hail`` without it (bar 1 s). growth: one refusal over the sizes, with the exponent.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import model_cluster
from measure import BIN, report

from ganeti.placement.cluster.picture import Cluster, Instance
from ganeti.placement.dispatch import answer_over
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.request.reading import read_cluster, read_request
from ganeti.placement.request.terms import Allocate, NoFit, Options
from ganeti.placement.service import response_to

WORKER_BAR_S, COMMAND_BAR_S = 0.3, 1.0
SIZE = "1000x20000u30"
SHARED, LOCAL = "rbd", "plain"


def message(size: str) -> dict[str, Any]:
    """The iallocator message of a model cluster with a request for a mirrored instance."""
    read: dict[str, Any] = json.loads(model_cluster.to_message(model_cluster.build(size), "allocate", 1))
    return read


def _with_memory(cluster: Cluster, asked: Allocate, memory_mib: int) -> tuple[Cluster, Allocate]:
    return cluster, replace(asked, instance=replace(asked.instance, memory_mib=memory_mib))


def _with_disk(cluster: Cluster, asked: Allocate) -> tuple[Cluster, Allocate]:
    size = 900_000_000
    disks = tuple(replace(disk, size_mib=size) for disk in asked.instance.disks[:1])
    return cluster, replace(asked, instance=replace(asked.instance, disks=disks, disk_mib=size + 128))


def _as_single(cluster: Cluster, asked: Allocate, template: str, memory_mib: int) -> tuple[Cluster, Allocate]:
    """Everything on one node each, as on shared or local storage."""

    def single(instance: Instance) -> Instance:
        return replace(instance, template=template, secondary="")

    changed = replace(cluster, instances=[single(instance) for instance in cluster.instances])
    new = replace(single(asked.instance), memory_mib=memory_mib)
    return changed, replace(asked, instance=new, required_nodes=1)


def _unabsorbed(cluster: Cluster, asked: Allocate) -> tuple[Cluster, Allocate]:
    """One node in ten has lost memory that it would need for the failure of another."""
    nodes = [
        replace(node, free_memory_mib=300, total_memory_mib=node.total_memory_mib - node.free_memory_mib + 300)
        if number % 10 == 0
        else node
        for number, node in enumerate(cluster.nodes)
    ]
    return replace(cluster, nodes=nodes), asked


def _drained(cluster: Cluster, asked: Allocate) -> tuple[Cluster, Allocate]:
    return replace(cluster, nodes=[replace(node, unavailable="drained") for node in cluster.nodes]), asked


def _many_tags(cluster: Cluster, asked: Allocate) -> tuple[Cluster, Allocate]:
    """Each node runs some of the service already."""
    instances = [replace(instance, tags=("service:web",)) for instance in cluster.instances]
    changed = replace(cluster, instances=instances, tags=("htools:iextags:service",))
    return _with_memory(changed, replace(asked, instance=replace(asked.instance, tags=("service:web",))), 9_000_000)


def _full(cluster: Cluster, asked: Allocate) -> tuple[Cluster, Allocate]:
    """Nodes that are as good as full, each a little different, and a request a little too large for all."""
    nodes = []
    for number, node in enumerate(cluster.nodes):
        free = 9000 + 7 * (number % 991)
        nodes.append(
            replace(node, free_memory_mib=free, total_memory_mib=node.total_memory_mib - node.free_memory_mib + free)
        )
    return _with_memory(replace(cluster, nodes=nodes), asked, 16200)


def _fills_the_last_gap(cluster: Cluster, asked: Allocate) -> tuple[Cluster, Allocate]:
    """Shared storage, and one spare node that can just take what the fullest other one runs."""
    changed, new = _as_single(cluster, asked, SHARED, 4096)
    spare = changed.nodes[-1].name
    instances = [instance for instance in changed.instances if instance.primary != spare]
    used = {node.name: 0 for node in changed.nodes}
    for instance in instances:
        used[instance.primary] += instance.memory_mib
    nodes = []
    for node in changed.nodes:
        free = max(used.values()) + 500 if node.name == spare else 400
        total = node.node_memory_mib + used[node.name] + free
        nodes.append(replace(node, total_memory_mib=total, free_memory_mib=free))
    return replace(changed, nodes=nodes, instances=instances), new


KINDS: dict[str, Callable[[Cluster, Allocate], tuple[Cluster, Allocate]]] = {
    "mirrored, too little memory": lambda cluster, asked: _with_memory(cluster, asked, 9_000_000),
    "mirrored, nodes all different": _full,
    "mirrored, too little disk": _with_disk,
    "mirrored, failures not absorbed now": _unabsorbed,
    "mirrored, all nodes drained": _drained,
    "mirrored, exclusion tags": _many_tags,
    "shared storage, too little memory": lambda cluster, asked: _as_single(cluster, asked, SHARED, 9_000_000),
    "shared storage, failures not absorbed": _fills_the_last_gap,
    "local storage, too little memory": lambda cluster, asked: _as_single(cluster, asked, LOCAL, 9_000_000),
}


def refused(kind: str, cluster: Cluster, asked: Allocate, times: int) -> float:
    """Median CPU seconds of one refusal over a state that is kept."""
    state = ClusterState(cluster)
    spent = []
    for _ in range(times):
        begun_s = time.process_time()
        found = answer_over(state, asked, Options())
        _, lines = response_to(asked, found)
        spent.append(time.process_time() - begun_s)
        assert isinstance(found, NoFit), (kind, found)
        assert lines
    return statistics.median(spent)


def worker(times: int) -> None:
    read = message(SIZE)
    cluster, asked = read_cluster(read), read_request(read["request"])
    assert isinstance(asked, Allocate)
    for kind, change in KINDS.items():
        cost_s = refused(kind, *change(cluster, asked), times)
        report(f"refusal, {kind}", 1000 * cost_s, "ms", bar="300 ms", met=cost_s <= WORKER_BAR_S)


def growth(times: int) -> None:
    points = []
    for size in ("80x1000u30", "200x4000u30", "500x10000u30", SIZE):
        read = message(size)
        asked = read_request(read["request"])
        assert isinstance(asked, Allocate)
        cost_s = refused(size, *_full(read_cluster(read), asked), times)
        points.append((int(size.split("x")[0]), cost_s))
        report(f"refusal, nodes all different, {size}", 1000 * cost_s, "ms")
    for (small, before_s), (large, after_s) in itertools.pairwise(points):
        report(f"  growth, {small} to {large} nodes", math.log(after_s / before_s) / math.log(large / small), "")


def hail(times: int) -> None:
    """A request that fits nowhere."""
    with tempfile.TemporaryDirectory(prefix="bench-why-") as directory:
        path = Path(directory) / "request"
        read = message(SIZE)
        read["request"]["memory"] = 9_000_000
        path.write_text(json.dumps(read))
        plain_s, why_s = (_command("hail", *words, str(path), times=times) for words in ((), ("--why",)))
    report(f"hail, nothing fits, {SIZE}", plain_s, "s")
    report(f"hail --why, nothing fits, {SIZE}", why_s, "s", bar="1 s", met=why_s <= COMMAND_BAR_S)


def _command(*words: str, times: int) -> float:
    """Median CPU seconds of one run."""
    spent = []
    for _ in range(times):
        before = os.times()
        subprocess.run([BIN / words[0], *words[1:]], stdin=subprocess.DEVNULL, capture_output=True, check=True)
        after = os.times()
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return statistics.median(spent)


PARTS = {"worker": worker, "hail": hail, "growth": growth}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    for name in options.what or PARTS:
        PARTS[name](options.times)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-2-Clause
"""The clusters that placement is timed on: NODESxINSTANCES[uSHARE], such as 80x1000 or 500x10000u30, always the same.

Mirrored instances of usual sizes on equal nodes, N+1 safe. Without a share the nodes use half of their memory and some
are far more popular than others; with ``u30`` they use 30 % and are nearly even, as a cluster that is cared for is.

    .venv/bin/python bench/model_cluster.py 20x200 [REQUEST] > FILE      text format, or a message with that request
"""

from __future__ import annotations

import bisect
import itertools
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MEMORY_MIB = ((512, 25), (1024, 30), (2048, 25), (4096, 14), (8192, 6))
DISK_MIB = ((10240, 30), (20480, 35), (40960, 20), (81920, 10), (163840, 5))
VCPUS = {512: (1, 1), 1024: (1, 2), 2048: (1, 2), 4096: (2, 4), 8192: (2, 4)}
METADATA_MIB, NODE_MEMORY_MIB = 128, 1024
GROUP = "00000000-0000-4000-8000-000000000001"
TEMPLATES = ("diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "rbd", "ext")
SPEC_KEYS = ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use")
STANDARD, SMALLEST, LARGEST = (1024, 1, 10240, 1, 1, 1), (128, 1, 1024, 1, 1, 1), (32768, 8, 1048576, 16, 8, 12)


@dataclass
class Node:
    name: str
    free_memory_mib: int
    free_disk_mib: int
    weight: float
    used_vcpus: int = 0
    used_memory_mib: int = 0
    reserved_mib: int = 0
    peers: dict[str, int] = field(default_factory=dict)


@dataclass
class Instance:
    name: str
    memory_mib: int
    disk_mib: int
    vcpus: int
    primary: Node | None = None
    secondary: Node | None = None


@dataclass
class Model:
    """The whole cluster; totals are those of each node."""

    nodes: list[Node]
    instances: list[Instance]
    memory_mib: int
    disk_mib: int
    cpus: int


def build(size: str, seed: int = 1) -> Model:
    """The cluster of *size*."""
    count, _, rest = size.partition("x")
    instance_count, _, share = rest.partition("u")
    skew, used = (0.5, int(share) / 100) if share else (2.5, 0.5)
    unit = random.Random(seed).random
    instances = [_instance(number, unit) for number in range(int(instance_count))]
    nodes = int(count)
    memory = _rounded(sum(one.memory_mib for one in instances) / nodes / used, 4096, 16384)
    disk = _rounded(2 * sum(one.disk_mib for one in instances) / nodes / 0.6, 102400, 409600)
    cpus = _rounded(sum(one.vcpus for one in instances) / nodes / 2.0, 4, 8)
    made = [
        Node(f"node{number:04d}.example.com", memory - NODE_MEMORY_MIB, disk, (1.0 - unit()) ** skew + 0.02)
        for number in range(nodes)
    ]
    model = Model(made, instances, memory, disk, cpus)
    _place(model, unit)
    return model


def _rounded(need: float, step: int, least: int) -> int:
    return int(max(least, -(-need // step) * step))


def _instance(number: int, unit: Callable[[], float]) -> Instance:
    memory = _pick(MEMORY_MIB, unit)
    low, high = VCPUS[memory]
    disk = _pick(DISK_MIB, unit) + METADATA_MIB
    return Instance(f"inst{number:05d}.example.com", memory, disk, low if unit() < 0.5 else high)


def _pick(weighted: tuple[tuple[int, int], ...], unit: Callable[[], float]) -> int:
    left = unit() * sum(weight for _, weight in weighted)
    for value, weight in weighted:
        left -= weight
        if left < 0:
            return value
    return weighted[-1][0]


def _place(model: Model, unit: Callable[[], float]) -> None:
    """Popular nodes first; after fifty refusals any node."""
    nodes = model.nodes
    weights = list(itertools.accumulate(node.weight for node in nodes))
    floor = 0.05 * model.disk_mib
    for one in model.instances:
        for attempt in itertools.count():
            popular = attempt < 50
            at = bisect.bisect_left(weights, unit() * weights[-1]) if popular else int(unit() * len(nodes))
            primary = nodes[min(at, len(nodes) - 1)]
            if (
                primary.free_memory_mib - one.memory_mib < primary.reserved_mib
                or primary.free_disk_mib - one.disk_mib < floor
                or primary.used_vcpus + one.vcpus > 4 * model.cpus
            ):
                continue
            secondary = nodes[int(unit() * len(nodes))]
            kept = secondary.peers.get(primary.name, 0) + one.memory_mib
            if (
                secondary is not primary
                and secondary.free_memory_mib >= max(secondary.reserved_mib, kept)
                and secondary.free_disk_mib - one.disk_mib >= floor
            ):
                break
        primary.free_memory_mib -= one.memory_mib
        primary.used_memory_mib += one.memory_mib
        primary.used_vcpus += one.vcpus
        primary.free_disk_mib -= one.disk_mib
        secondary.free_disk_mib -= one.disk_mib
        secondary.peers[primary.name] = kept
        secondary.reserved_mib = max(secondary.reserved_mib, kept)
        one.primary, one.secondary = primary, secondary


def to_text(model: Model) -> str:
    """The text format."""
    rows = [f"default|{GROUP}|preferred||", ""]
    for number, node in enumerate(model.nodes):
        role = "N" if number else "M"
        sizes = (model.memory_mib, NODE_MEMORY_MIB, node.free_memory_mib, model.disk_mib, node.free_disk_mib)
        rows.append("|".join(map(str, (node.name, *sizes, model.cpus, role, GROUP, 1, "", "N", 0, 1, "1.0"))))
    rows.append("")
    for one in model.instances:
        needs = (one.memory_mib, one.disk_mib, one.vcpus)
        rows.append("|".join(map(str, (one.name, *needs, "running", "Y", *_places(one), "drbd", "", 1, "-"))))
    words = [",".join(map(str, spec)) for spec in (STANDARD, SMALLEST, LARGEST)]
    policy = f"{words[0]}|{words[1]};{words[2]}|{','.join(TEMPLATES)}|4.0|32.0"
    return "\n".join([*rows, "", "", f"|{policy}", f"default|{policy}"]) + "\n"


def _places(one: Instance) -> list[str]:
    return [node.name for node in (one.primary, one.secondary) if node]


def to_message(model: Model, request: str, count: int = 10) -> str:
    """An allocator's message: allocate, multi-allocate of *count*, relocate, or node-evacuate of the fullest node."""
    nodes = {node.name: _node_object(number, node, model) for number, node in enumerate(model.nodes)}
    policy = {
        "std": dict(zip(SPEC_KEYS, STANDARD, strict=True)),
        "minmax": [
            {"min": dict(zip(SPEC_KEYS, SMALLEST, strict=True)), "max": dict(zip(SPEC_KEYS, LARGEST, strict=True))}
        ],
        "disk-templates": TEMPLATES,
        "vcpu-ratio": 4.0,
        "spindle-ratio": 32.0,
    }
    group = {"name": "default", "alloc_policy": "preferred", "networks": [], "ipolicy": policy, "tags": []}
    return json.dumps(
        {
            "version": 2,
            "cluster_name": "bench.example.com",
            "cluster_tags": [],
            "enabled_hypervisors": ["kvm"],
            "ipolicy": policy,
            "nodegroups": {GROUP: group},
            "nodes": nodes,
            "instances": {one.name: _instance_object(one) for one in model.instances},
            "request": _request(model, request, count),
        }
    )


def _node_object(number: int, node: Node, model: Model) -> dict[str, Any]:
    return {
        "tags": [],
        "primary_ip": f"192.0.{number // 250}.{number % 250 + 1}",
        "secondary_ip": f"198.51.{number // 250}.{number % 250 + 1}",
        "offline": False,
        "drained": False,
        "master_candidate": number < 10,
        "master_capable": True,
        "vm_capable": True,
        "group": GROUP,
        "ndparams": {"spindle_count": 1, "oob_program": None, "exclusive_storage": False, "cpu_speed": 1.0},
        "total_memory": model.memory_mib,
        "reserved_memory": NODE_MEMORY_MIB,
        "free_memory": node.free_memory_mib,
        "total_disk": model.disk_mib,
        "free_disk": node.free_disk_mib,
        "total_cpus": model.cpus,
        "reserved_cpus": 1,
        "i_pri_memory": node.used_memory_mib,
        "i_pri_up_memory": node.used_memory_mib,
        "total_spindles": 0,
        "free_spindles": 0,
    }


def _instance_object(one: Instance) -> dict[str, Any]:
    return {
        "tags": [],
        "admin_state": "up",
        "admin_state_source": "admin",
        "vcpus": one.vcpus,
        "memory": one.memory_mib,
        "spindle_use": 1,
        "os": "noop",
        "nodes": _places(one),
        "disks": [{"mode": "rw", "size": one.disk_mib - METADATA_MIB}],
        "disk_space_total": one.disk_mib,
        "disk_template": "drbd",
        "hypervisor": "kvm",
        "nics": [{"ip": None, "mac": "aa:00:01:00:00:01", "bridge": "br0", "mode": "bridged", "link": "br0"}],
    }


def _request(model: Model, request: str, count: int) -> dict[str, Any]:
    if request == "allocate":
        return allocation("new0.example.com")
    if request == "multi-allocate":
        asked = [allocation(f"new{number}.example.com") for number in range(count)]
        return {"type": "multi-allocate", "instances": asked}
    if request == "relocate":
        first = model.instances[0]
        return {
            "type": "relocate",
            "name": first.name,
            "required_nodes": 1,
            "disk_space_total": first.disk_mib,
            "relocate_from": _places(first)[1:],
        }
    fullest = max(model.nodes, key=lambda node: (node.used_memory_mib, node.name))
    names = [one.name for one in model.instances if one.primary is fullest]
    return {"type": "node-evacuate", "evac_mode": "primary-only", "instances": names}


def allocation(name: str) -> dict[str, Any]:
    """A request for one mirrored instance of a usual size."""
    return {
        "type": "allocate",
        "name": name,
        "required_nodes": 2,
        "disk_space_total": 20480 + METADATA_MIB,
        "disks": [{"mode": "rw", "size": 20480}],
        "nics": [{"ip": None, "mac": "aa:00:00:00:00:01", "bridge": "br0", "mode": "bridged", "link": "br0"}],
        "vcpus": 2,
        "disk_template": "drbd",
        "memory": 2048,
        "os": "noop",
        "tags": [],
        "hypervisor": "kvm",
        "spindle_use": 1,
    }


if __name__ == "__main__" and len(sys.argv) > 1:
    found = build(sys.argv[1])
    sys.stdout.write(to_message(found, sys.argv[2]) if len(sys.argv) > 2 else to_text(found))

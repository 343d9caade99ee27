# SPDX-License-Identifier: BSD-2-Clause
"""A drawn picture as a cluster's remote API tells of it (spec: htools, 1; rapi, 4)."""

import json
import random
from typing import Any

from tests.differential.other_cluster import Picture
from tests.differential.other_request import BUILT_IN, policy_of, split


def to_answers(picture: Picture, dice: random.Random) -> dict[str, str]:
    """The files that stand for a server, by name."""
    policies = {row[0]: policy_of(row) for row in picture.policies}
    built_in = policy_of(BUILT_IN)
    masters = [row[0] for row in picture.nodes if row[7] == "M"] or [picture.nodes[0][0]]
    info = {
        "name": "cluster.example.com",
        "master": "nowhere" if dice.random() < 0.03 else masters[0],
        "tags": picture.tags,
        "ipolicy": policies.get("", built_in),
        "default_hypervisor": dice.choice(("kvm", "xen-pvm", "fake")),
        "enabled_hypervisors": ["kvm"],
    }
    groups = [
        {
            "name": row[0],
            "uuid": row[1],
            "alloc_policy": row[2],
            "tags": split(row[3]),
            "ipolicy": policies.get(row[0], built_in),
        }
        for row in picture.groups
    ]
    nodes = [_node(row, dice) for row in picture.nodes]
    instances = [_instance(row, dice) for row in picture.instances]
    answers = {"groups": groups, "nodes": nodes, "instances": instances, "info": info}
    return {f"{name}.json": json.dumps(value, ensure_ascii=dice.random() < 0.5) for name, value in answers.items()}


def to_reports(picture: Picture, dice: random.Random) -> str:
    """What monitoring daemons say of CPU load, for ``--mond-data``; now and then not all of them, or nonsense."""
    told = []
    for row in picture.nodes:
        if dice.random() < 0.02:
            continue
        total, count = dice.choice((0, 0.5, 3, 12.75, 64)), dice.choice((1, 2, 4))
        cpus = {"cpu_number": count, "cpus": [total / count] * count, "cpu_total": total}
        domains = {one[0]: dice.choice((0, 0.25, 2, 7.5)) for one in picture.instances if one[6] == row[0]}
        reports = [_report("cpu-avg-load", cpus), _report("xen-cpu-avg-load", domains)]
        if dice.random() < 0.02:
            reports = reports[: dice.randrange(2)]
        told.append({"node": row[0], "reports": reports})
    return json.dumps(told)


def _report(collector: str, data: Any) -> dict[str, Any]:
    return {
        "name": collector,
        "version": "B",
        "format_version": 1,
        "timestamp": 1379507272000000000,
        "category": None,
        "kind": 0,
        "data": data,
    }


def _node(row: list[str], dice: random.Random) -> dict[str, Any]:
    offline, known = row[7] == "Y", "?" not in row
    numbers = [round(float(word)) if known else None for word in row[1:7]]
    if not known and not offline:
        numbers = [0] * 6
    total_memory, own_memory, free_memory, total_disk, free_disk, cpus = numbers
    storage = dice.random() < 0.95  # what tells no disks has none
    return {
        "name": row[0],
        "offline": offline,
        "drained": dice.random() < 0.05,
        "vm_capable": dice.random() < 0.95,
        "master_candidate": True,
        "group.uuid": row[8],
        "tags": split(row[10]),
        "mtotal": total_memory,
        "mnode": own_memory,
        "mfree": free_memory,
        "dtotal": total_disk if storage else None,
        "dfree": free_disk if storage else None,
        "ctotal": cpus,
        "cnos": int(row[13]),
        "sptotal": int(row[9]),
        "spfree": int(row[12]),
        "ndparams": {"spindle_count": int(row[9]), "exclusive_storage": row[11] == "Y", "cpu_speed": float(row[14])},
    }


def _instance(row: list[str], dice: random.Random) -> dict[str, Any]:
    size, memory = int(row[2]), int(row[1])
    parts = [size] if dice.random() < 0.6 else [size // 2, size - size // 2]
    memory_now = dice.choice((memory, memory, memory // 2, None, "-"))
    parameters = {"maxmem": memory, "minmem": memory, "vcpus": int(row[3]), "spindle_use": int(row[10])}
    if dice.random() < 0.5:
        parameters["memory"] = memory
    return {
        "name": row[0],
        "disk_usage": size + (128 if row[8] == "drbd" else 0),
        "disk.sizes": parts if row[8] != "diskless" else [],
        "disk.spindles": [int(row[11]) if row[11] != "-" else None for _ in parts] if row[8] != "diskless" else [],
        "beparams": parameters | {"auto_balance": row[5] == "Y"},
        "oper_ram": memory_now,
        "oper_state": row[4] == "running",
        "status": row[4],
        "pnode": row[6],
        "snodes": [row[7]] if row[7] else [],
        "disk_template": row[8],
        "tags": split(row[9]),
        "forthcoming": row[12] == "Y",
    }

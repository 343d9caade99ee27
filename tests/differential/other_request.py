# SPDX-License-Identifier: BSD-2-Clause
"""A drawn picture as the message an allocator gets (spec: protocols, 7)."""

import random
from typing import Any

from tests.differential.other_cluster import Picture

_SPEC = ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use")
BUILT_IN = [
    "",
    "1024,1,20480,1,1,1",
    "128,1,1024,1,1,1;32768,8,1048576,16,8,12",
    "drbd,plain,diskless,file,sharedfile,ext,rbd",
    "4.0",
    "32.0",
]


def to_message(picture: Picture, dice: random.Random) -> dict[str, Any]:
    """The whole message; its request is one of those that need no more than names."""
    policies = {row[0]: policy_of(row) for row in picture.policies}
    built_in = policy_of(BUILT_IN)
    return {
        "version": dice.choice((2, 2, 2, 1)),
        "cluster_name": "cluster.example.com",
        "cluster_tags": picture.tags,
        "enabled_hypervisors": dice.choice((["kvm"], ["xen-pvm", "kvm"], ["fake"])),
        "ipolicy": policies.get("", built_in),
        "nodegroups": {
            row[1]: {
                "name": row[0],
                "alloc_policy": row[2],
                "networks": [],
                "ipolicy": policies.get(row[0], built_in),
                "tags": split(row[3]),
            }
            for row in picture.groups
        },
        "nodes": {row[0]: _node(row, dice) for row in picture.nodes},
        "instances": {row[0]: _instance(row, dice) for row in picture.instances},
        "request": _request(picture, dice),
    }


def split(text: str) -> list[str]:
    return text.split(",") if text else []


def policy_of(row: list[str]) -> dict[str, Any]:
    specs = [dict(zip(_SPEC, map(int, text.split(",")), strict=True)) for text in [row[1], *row[2].split(";")]]
    return {
        "std": specs[0],
        "minmax": [{"min": low, "max": high} for low, high in zip(specs[1::2], specs[2::2], strict=True)],
        "disk-templates": split(row[3]),
        "vcpu-ratio": float(row[4]),
        "spindle-ratio": float(row[5]),
    }


def _node(row: list[str], dice: random.Random) -> dict[str, Any]:
    offline = row[7] == "Y" or "?" in row
    drained = dice.random() < 0.05
    found: dict[str, Any] = {
        "tags": split(row[10]),
        "primary_ip": "192.0.2.1",
        "secondary_ip": "198.51.100.1",
        "offline": offline,
        "drained": drained,
        "master_candidate": True,
        "group": row[8],
        "master_capable": dice.random() < 0.9,
        "vm_capable": dice.random() < 0.97,
        "ndparams": {
            "spindle_count": int(row[9]),
            "exclusive_storage": row[11] == "Y",
            "cpu_speed": float(row[14]),
            "oob_program": None,
            "ssh_port": 22,
            "ovs": False,
        },
    }
    if not offline and found["vm_capable"]:  # of drained ones, too: 3.0 cannot read them without
        found |= {
            "total_memory": int(float(row[1])),
            "reserved_memory": int(row[2]),
            "free_memory": int(row[3]),
            "total_disk": int(float(row[4])),
            "free_disk": int(row[5]),
            "total_spindles": int(row[9]),
            "free_spindles": int(row[12]),
            "total_cpus": int(float(row[6])),
            "reserved_cpus": int(row[13]),
            "i_pri_memory": 0,
            "i_pri_up_memory": 0,
        }
    return found


def _instance(row: list[str], dice: random.Random) -> dict[str, Any]:
    size = int(row[2])
    parts = [size] if size < 20000 or dice.random() < 0.6 else [size // 2, size - size // 2]
    disks = [
        {"size": part, "mode": "rw", "dev_type": row[8]} | ({"spindles": int(row[11])} if row[11] != "-" else {})
        for part in parts
    ]
    nic = {"mac": "aa:00:00:00:00:01", "ip": None, "mode": "bridged", "link": "br0", "bridge": "br0"}
    return {
        "tags": split(row[9]),
        "admin_state": {"ADMIN_down": "down", "ADMIN_offline": "offline"}.get(row[4], "up"),
        "admin_state_source": "admin",
        "vcpus": int(row[3]),
        "memory": int(row[1]),
        "spindle_use": int(row[10]),
        "os": "debootstrap+default",
        "nodes": [node for node in row[6:8] if node],
        "nics": [nic],
        "disks": disks if row[8] != "diskless" else [],
        "disk_template": row[8],
        "disks_active": True,
        "hypervisor": "kvm",
        "disk_space_total": size + (128 if row[8] == "drbd" else 0),
    }


def _request(picture: Picture, dice: random.Random) -> dict[str, Any]:
    names = [row[0] for row in picture.instances]
    kind = dice.randrange(4)
    if kind == 0 and names:
        return {"type": "node-evacuate", "instances": dice.sample(names, 1), "evac_mode": "all"}
    if kind == 1 and names:
        return {"type": "change-group", "instances": dice.sample(names, 1), "target_groups": []}
    if kind == 2 and names:
        return {"type": "relocate", "name": names[0], "relocate_from": [], "required_nodes": 1, "disk_space_total": 1}
    return {
        "type": "allocate",
        "name": "new.example.com",
        "memory": 1024,
        "spindle_use": 1,
        "disks": [{"size": 1024, "mode": "w"}],
        "disk_template": "drbd",
        "os": "debootstrap",
        "tags": [],
        "nics": [],
        "vcpus": 1,
        "hypervisor": "kvm",
        "required_nodes": 2,
        "disk_space_total": 1152,
        "group_name": None,
    }

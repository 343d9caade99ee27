# SPDX-License-Identifier: BSD-2-Clause
"""Small messages for an allocator, made of equal nodes and instances."""

from collections.abc import Iterable
from typing import Any

SMALL = {"memory-size": 1, "cpu-count": 1, "disk-size": 1, "disk-count": 0, "nic-count": 0, "spindle-use": 1}
LARGE = {
    "memory-size": 1000000,
    "cpu-count": 100,
    "disk-size": 10000000,
    "disk-count": 10,
    "nic-count": 10,
    "spindle-use": 100,
}


def node(**changes: Any) -> dict[str, Any]:
    """A node of group ``u`` with 16 GiB of memory and 100 GiB of disk, all free, and 8 CPUs."""
    found = {
        "tags": [],
        "offline": False,
        "drained": False,
        "vm_capable": True,
        "group": "u",
        "ndparams": {"spindle_count": 1, "exclusive_storage": False},
        "total_memory": 16384,
        "reserved_memory": 512,
        "free_memory": 15872,
        "total_disk": 102400,
        "free_disk": 102400,
        "total_cpus": 8,
        "reserved_cpus": 1,
        "total_spindles": 0,
        "free_spindles": 0,
    }
    return found | changes


def instance(template: str, *nodes: str, **changes: Any) -> dict[str, Any]:
    """A running instance of 512 MiB of memory and 1 GiB of disk on *nodes*."""
    found = {
        "tags": [],
        "vcpus": 1,
        "memory": 512,
        "spindle_use": 1,
        "disks": [{"mode": "rw", "size": 1024}],
        "disk_space_total": 1024,
        "disk_template": template,
        "nics": [],
        "nodes": list(nodes),
        "admin_state": "up",
        "os": "noop",
        "hypervisor": "fake",
    }
    return found | changes


def allocation(template: str, required_nodes: int, **changes: Any) -> dict[str, Any]:
    """A request for one such instance."""
    wanted = instance(template) | {"type": "allocate", "name": "new", "required_nodes": required_nodes}
    del wanted["nodes"]
    return wanted | changes


def group(name: str, **changes: Any) -> dict[str, Any]:
    policy = {
        "std": SMALL,
        "minmax": [{"min": SMALL, "max": LARGE}],
        "disk-templates": ["drbd", "plain", "rbd", "ext"],
        "vcpu-ratio": 16.0,
        "spindle-ratio": 32.0,
    }
    return {"name": name, "alloc_policy": "preferred", "networks": [], "tags": [], "ipolicy": policy} | changes


def message(
    request: dict[str, Any],
    nodes: dict[str, Any],
    instances: dict[str, Any] | None = None,
    groups: Iterable[str] = ("u",),
) -> dict[str, Any]:
    """A whole message; the group ``u`` is called ``gu``."""
    return {
        "version": 2,
        "cluster_name": "small",
        "cluster_tags": [],
        "enabled_hypervisors": ["fake"],
        "nodegroups": {uuid: group(f"g{uuid}") for uuid in groups},
        "nodes": nodes,
        "instances": instances or {},
        "request": request,
    }

# SPDX-License-Identifier: BSD-2-Clause
"""Version 1 of the protocol, from its bytes to its answer (S5.36, S5.39, X9)."""

import json
from typing import Any

import pytest

from ganeti.placement.service import answer
from ganeti.wire.iallocator import modern

NODE = {"total_memory": 8192, "reserved_memory": 1024, "free_memory": 6000, "total_disk": 100000, "free_disk": 60000}
NODE |= {"total_cpus": 4, "primary_ip": "10.0.0.1", "secondary_ip": "10.1.0.1", "tags": [], "offline": False}
INSTANCE = {"memory": 512, "vcpus": 1, "disks": [{"mode": "w", "size": 1024}], "nics": [], "os": "noop", "tags": []}
INSTANCE |= {"disk_template": "drbd", "disk_space_total": 1152, "should_run": True}


def message(request: dict[str, Any]) -> bytes:
    nodes = {f"node{number}": dict(NODE, drained=False) for number in (1, 2, 3)}
    instances = {
        "instance1": dict(INSTANCE, nodes=["node1", "node2"]),
        "instance2": dict(INSTANCE, nodes=["node3", "node1"]),
    }
    return json.dumps({"version": 1, "nodes": nodes, "instances": instances, "request": request}).encode()


@pytest.mark.requirement("S5.32", "S5.36", "S5.39")
def test_secondaries_of_the_named_nodes_get_a_new_one() -> None:
    found = answer(modern(json.loads(message({"type": "multi-evacuate", "nodes": ["node2"]}))))
    assert found["success"]
    assert found["result"] == [["instance1", "node3"]]


@pytest.mark.requirement("S5.32")
def test_no_named_node_takes_what_leaves_another() -> None:
    found = answer(modern(json.loads(message({"type": "multi-evacuate", "evac_nodes": ["node2", "node3"]}))))
    assert not found["success"], "only node3 would be left, which has no secondaries and is to be emptied all the same"
    assert found["result"] == []


@pytest.mark.requirement("S5.32", "S5.35")
def test_version_1_relocation_without_groups() -> None:
    request = {"type": "relocate", "name": "instance1", "relocate_from": ["node2"], "required_nodes": 1}
    assert answer(modern(json.loads(message(request)))) == {
        "success": True,
        "info": "Request successful: success",
        "result": ["node3"],
    }


@pytest.mark.requirement("S5.12", "S5.32")
def test_version_1_allocation() -> None:
    request = dict(INSTANCE, type="allocate", name="new", required_nodes=2)
    found = answer(modern(json.loads(message(request))))
    assert found["success"]
    assert len(set(found["result"])) == 2

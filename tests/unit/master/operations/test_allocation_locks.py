# SPDX-License-Identifier: BSD-2-Clause
"""What is locked while an allocator chooses: nothing of other node groups, and no node that takes no instances."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.master import operations
from ganeti.master.operation import decode
from ganeti.model.configuration import Configuration
from ganeti.model.objects import NodeGroup

operations.load()
WEB1 = {"instance_name": "web1"}
CREATE = {"mode": "create", "disk_template": "local", "disks": [{"size": 16}], "nics": [], "os_type": "noop"}


@pytest.fixture
def view() -> Configuration:
    """Nodes 4 and 5 are of the group green, the others of default; 3 and 5 take no instances; web1 is on node 1."""
    config = configuration(nodes=5)
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    for number in (4, 5):
        node = config.node(f"uuid-node{number}")
        config.put("nodes", node.uuid, replace(node, group="uuid-green", vm_capable=number == 4))
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), vm_capable=False))
    add_instance(config, "web1", "uuid-node1", template="common")
    return config


def locked(view: Configuration, opcode: dict[str, Any], level: str) -> set[str]:
    plan = decode(opcode).locks(view)
    held = plan.exclusive if level == "node-res" else plan.shared
    return {lock.partition("/")[2] for lock in held if lock.startswith(f"{level}/")}


@pytest.mark.requirement("S1.52", "S1.76")
@pytest.mark.parametrize(
    "opcode",
    [
        {"OP_ID": "OP_INSTANCE_MIGRATE"},
        {"OP_ID": "OP_INSTANCE_FAILOVER"},
        {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", "iallocator": "hail"},
        {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "iallocator": "hail", "mode": "replace_new_secondary"},
        {"OP_ID": "OP_INSTANCE_SET_PARAMS", "iallocator": "hail", "disk_template": "pair"},
    ],
    ids=lambda opcode: str(opcode["OP_ID"]),
)
def test_another_node_is_looked_for_in_the_group_of_the_instance(view: Configuration, opcode: dict[str, Any]) -> None:
    for level in ("node", "node-res"):
        assert locked(view, opcode | WEB1, level) == {"uuid-node1", "uuid-node2"}
    assert locked(view, opcode | WEB1, "nodegroup") == {view.node("uuid-node1").group}


@pytest.mark.requirement("S1.76")
def test_its_own_node_is_locked_though_it_takes_no_instances_any_more(view: Configuration) -> None:
    view.put("nodes", "uuid-node1", replace(view.node("uuid-node1"), vm_capable=False))
    assert locked(view, {"OP_ID": "OP_INSTANCE_MIGRATE", **WEB1}, "node") == {"uuid-node1", "uuid-node2"}


@pytest.mark.requirement("S1.52", "S1.76")
@pytest.mark.parametrize(
    ("groups", "nodes"),
    [(None, {"uuid-node1", "uuid-node2", "uuid-node4"}), ("green", {"uuid-node4"}), ("default,green", {1, 2, 4})],
)
def test_a_program_that_places_a_new_instance(view: Configuration, groups: str | None, nodes: set[Any]) -> None:
    nodes = {f"uuid-node{each}" if isinstance(each, int) else each for each in nodes}
    create = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "new", "iallocator": "mine", "group_name": groups}
    many = {"OP_ID": "OP_INSTANCE_MULTI_ALLOC", "iallocator": "mine", "instances": []}
    for level in ("node", "node-res"):
        assert locked(view, create | CREATE, level) == nodes
        assert locked(view, many, level) == {"uuid-node1", "uuid-node2", "uuid-node4"}

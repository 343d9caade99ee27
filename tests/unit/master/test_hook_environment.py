# SPDX-License-Identifier: BSD-2-Clause
"""What hook scripts are told before and after an operation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.fakes.context import FakeContext
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.master import operations
from ganeti.master.hook_environment import config_update_environment, post_environment, pre_environment
from ganeti.master.instance_hooks import instance_environment, instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import REGISTRY, Hooks, decode
from ganeti.master.operations.cluster.set_params import Facts, ModifyCluster
from ganeti.model.configuration import Configuration
from ganeti.model.network_variables import network_variables
from ganeti.model.node_requests import DiskSpec
from ganeti.model.objects import Network

operations.load()
LAN = Network(
    uuid="uuid-lan",
    name="lan",
    network="10.9.0.0/24",
    gateway="10.9.0.1",
    network6="2001:db8::/64",
    gateway6="2001:db8::1",
    mac_prefix="aa:bb:cc",
    tags=["blue", "green"],
)


def of_lan(prefix: str) -> dict[str, str]:
    return {
        f"{prefix}NETWORK_NAME": "lan",
        f"{prefix}NETWORK_UUID": "uuid-lan",
        f"{prefix}NETWORK_SUBNET": "10.9.0.0/24",
        f"{prefix}NETWORK_GATEWAY": "10.9.0.1",
        f"{prefix}NETWORK_SUBNET6": "2001:db8::/64",
        f"{prefix}NETWORK_GATEWAY6": "2001:db8::1",
        f"{prefix}NETWORK_MAC_PREFIX": "aa:bb:cc",
        f"{prefix}NETWORK_TAGS": "blue green",
    }


def hooks_of(config: Configuration, name: str = "web1") -> Hooks:
    instance = config.find_instance(name)
    spec = instance_spec(config, catalogue(), instance)
    return instance_hooks(config, "instance-stop", spec, instance, [], [], {"TIMEOUT": "5"})


def test_the_post_environment_is_that_of_the_changed_objects_beside_the_former():
    config = configuration()
    instance = add_instance(config, "web1")
    hooks = hooks_of(config)
    config.put(
        "instances", instance.uuid, msgspec.structs.replace(instance, admin_state="down", primary_node="uuid-node2")
    )
    env = post_environment(config, "OP_INSTANCE_SHUTDOWN", hooks, catalogue())
    told = {key: env[f"GANETI_{key}"] for key in ("INSTANCE_STATUS", "INSTANCE_PRIMARY", "TIMEOUT", "OP_TARGET")}
    assert told == {"INSTANCE_STATUS": "up", "INSTANCE_PRIMARY": "node1", "TIMEOUT": "5", "OP_TARGET": "web1"}
    told = {key: env[f"GANETI_POST_{key}"] for key in told}
    assert told == {"INSTANCE_STATUS": "down", "INSTANCE_PRIMARY": "node2", "TIMEOUT": "5", "OP_TARGET": "web1"}
    assert (env["GANETI_HOOKS_PHASE"], env["GANETI_MASTER"]) == ("post", "node1")
    for before in (pre_environment, config_update_environment):
        assert not [key for key in before(config, "OP_X", hooks) if key.startswith("GANETI_POST_")]


def test_what_has_been_removed_is_told_as_it_was():
    config = configuration()
    instance = add_instance(config, "web1")
    hooks = hooks_of(config)
    config.remove("instances", instance.uuid)
    env = post_environment(config, "OP_INSTANCE_REMOVE", hooks, catalogue())
    assert env["GANETI_POST_INSTANCE_NAME"] == env["GANETI_INSTANCE_NAME"] == "web1"


def test_a_nic_in_a_network_tells_all_of_it():
    config = configuration()
    config.put("networks", LAN.uuid, LAN)
    instance = add_instance(config, "web1")
    nic = msgspec.structs.replace(instance.nics[0], network=LAN.uuid)
    config.put("instances", instance.uuid, msgspec.structs.replace(instance, nics=[nic]))
    env = pre_environment(config, "OP_X", hooks_of(config))
    prefix = "GANETI_INSTANCE_NIC0_"
    found = {key: value for key, value in env.items() if key.startswith(f"{prefix}NETWORK")}
    assert found == of_lan(prefix) | {f"{prefix}NETWORK": "uuid-lan"}


@pytest.mark.parametrize(("mode", "bridge"), [("bridged", "br5"), ("openvswitch", "br5"), ("routed", None)])
def test_a_nic_tells_the_bridge_or_switch_it_is_attached_to(mode: str, bridge: str | None) -> None:
    config = configuration()
    instance = add_instance(config, "web1")
    nic = msgspec.structs.replace(instance.nics[0], ip="10.0.0.5", nicparams={"mode": mode, "link": "br5"})
    config.put("instances", instance.uuid, msgspec.structs.replace(instance, nics=[nic]))
    env = pre_environment(config, "OP_X", hooks_of(config))
    assert env.get("GANETI_INSTANCE_NIC0_BRIDGE") == bridge
    assert env["GANETI_INSTANCE_NIC0_LINK"] == "br5"


def test_a_network_tells_only_what_it_has():
    bare = Network(uuid="uuid-bare", name="bare", network="10.8.0.0/24")
    assert network_variables(bare.to_plain()) == {
        "NETWORK_NAME": "bare",
        "NETWORK_UUID": "uuid-bare",
        "NETWORK_SUBNET": "10.8.0.0/24",
        "NETWORK_TAGS": "",
    }


CHANGES: list[tuple[dict[str, Any], dict[str, str]]] = [
    (
        {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node2", "drained": True},
        {"DRAINED": "True", "OFFLINE": "False", "MASTER_CANDIDATE": "False", "VM_CAPABLE": "True"},
    ),
    (
        {"OP_ID": "OP_GROUP_SET_PARAMS", "group_name": "default", "alloc_policy": "unallocable"},
        {"GROUP_NAME": "default", "NEW_ALLOC_POLICY": "unallocable"},
    ),
    ({"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": 7}, {"NEW_VG_NAME": "None"}),
]


@pytest.mark.parametrize(("opcode", "after"), CHANGES, ids=[opcode["OP_ID"] for opcode, _ in CHANGES])
def test_nodes_groups_and_the_cluster_are_told_as_they_have_become(opcode, after):
    config = configuration()
    ctx = FakeContext(config, catalogue())
    operation = decode(opcode)
    facts = Facts() if isinstance(operation, ModifyCluster) else True
    hooks = operation.hooks(config, operation.check(config, facts, ctx))
    assert hooks is not None
    node = msgspec.structs.replace(config.find_node("node2"), drained=True, master_candidate=False)
    config.put("nodes", node.uuid, node)
    config.put(
        "nodegroups", "uuid-group1", msgspec.structs.replace(config.find_group("default"), alloc_policy="unallocable")
    )
    env = post_environment(config, opcode["OP_ID"], hooks, catalogue())
    assert {key: env[f"GANETI_POST_{key}"] for key in after} == after


def test_every_operation_with_hooks_names_a_directory_of_the_list():
    known = {
        *("node-add", "node-remove", "node-modify", "node-migrate", "group-modify", "instance-add", "instance-start"),
        *("instance-stop", "instance-reboot", "instance-failover", "instance-migrate", "instance-remove"),
        *("cluster-init", "cluster-destroy", "cluster-verify", "cluster-modify"),
    }
    ours = {cls.hooks_path for cls in REGISTRY.values() if cls.__module__.startswith("ganeti.")} - {""}
    assert ours >= known


PARTS = [
    {"uuid": f"p{index}", "template": "plain", "logical_id": ["xenvg", name], "size_mib": 1, "index": 0}
    for index, name in enumerate(("u.disk0_data", "u.disk0_meta"))
]


@pytest.mark.parametrize(
    ("template", "logical_id", "words"),
    [
        ("plain", ["xenvg", "u.disk0"], {"VG": "xenvg", "ID": "u.disk0"}),
        ("file", ["loop", "/srv/u"], {"DRIVER": "loop", "ID": "/srv/u"}),
        ("rbd", ["rbd", "u.rbd.disk0"], {"DRIVER": "rbd", "ID": "u.rbd.disk0"}),
        ("ext", ["san", "u.ext.disk0"], {"PROVIDER": "san", "ID": "u.ext.disk0"}),
        ("drbd", ["uuid-node2", "uuid-node1", None, None, None, "secret"], {}),
        (
            "drbd",
            ["uuid-node2", "uuid-node1", 11000, 3, 7, "secret"],
            {
                "PNODE": "node1",
                "SNODE": "node2",
                "PORT": "11000",
                "PMINOR": "7",
                "SMINOR": "3",
                "DATA_VG": "xenvg",
                "DATA_ID": "u.disk0_data",
                "META_VG": "xenvg",
                "META_ID": "u.disk0_meta",
            },
        ),
    ],
)
def test_scripts_are_told_where_a_disk_of_each_template_is(
    template: str, logical_id: list[Any], words: dict[str, str]
) -> None:
    config = configuration()
    instance = add_instance(config, "web1")
    disk: dict[str, Any] = {"uuid": "u", "template": template, "logical_id": logical_id, "size_mib": 5, "index": 0}
    if template == "drbd":
        disk |= {"children": PARTS, "holders": {"uuid-node1": "node1", "uuid-node2": "node2"}}
    spec = msgspec.structs.replace(
        instance_spec(config, catalogue(), instance), primary_node="node1", disks=[msgspec.convert(disk, DiskSpec)]
    )
    env = instance_environment(spec, instance, template)
    told = {key.removeprefix("INSTANCE_DISK0_"): value for key, value in env.items() if "_DISK0_" in key}
    assert told == {"SIZE": "5", "MODE": "rw", "UUID": "u", "DEV_TYPE": template} | words
    assert "secret" not in str(env)

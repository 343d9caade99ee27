# SPDX-License-Identifier: BSD-2-Clause
"""What an allocator is told, field by field (protocols, 7); the keys of requests are those Debian's 3.0.2 sends."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.allocator_input import (
    allocate_request,
    allocator_input,
    groups_for_new,
    relocate_request,
    reservation_of,
)
from ganeti.master.cache.cluster_picture import placed
from ganeti.master.cache.node_reports import NodeReport, Space
from ganeti.model.configuration import Configuration
from ganeti.model.objects import CLUSTER_KEY, Disk, Instance, Nic, NodeGroup
from ganeti.model.placement_requests import to_protocol
from ganeti.model.reservations import Reservation
from ganeti.model.traits import TemplateTraits
from ganeti.placement.dispatch import answer_over
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.request.reading import read_cluster, read_request
from ganeti.placement.request.terms import NoFit, Options

LOCAL, NETWORK = "local", "uuid-network"
SPEC = ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use")
REPORT = NodeReport(
    memory_total_mib=8192,
    memory_free_mib=6000,
    memory_node_mib=500,
    cpu_total=8,
    cpu_node=2,
    space={LOCAL: Space(9000, 7000)},
)


@pytest.fixture
def view() -> Configuration:
    """Two groups, of which the second is connected to a network; each with nodes that have reported."""
    config = configuration(4)
    ranges = {
        "min": {**dict.fromkeys(SPEC, 1), "nic-count": 0},
        "max": dict.fromkeys(SPEC, 1 << 20),
    }
    policy = config.cluster.ipolicy | {"minmax": [ranges], "disk-templates": ["file"]}
    config.put("cluster", CLUSTER_KEY, structs.replace(config.cluster, ipolicy=policy))
    config.put(
        "nodegroups",
        "uuid-group2",
        NodeGroup(uuid="uuid-group2", name="wired", networks={NETWORK: {"mode": "routed", "link": "tab", "vlan": ""}}),
    )
    for uuid in ("uuid-node3", "uuid-node4"):
        config.put("nodes", uuid, structs.replace(config.node(uuid), group="uuid-group2"))
    return config


def sketch(*nics: Nic) -> Instance:
    backend = {"maxmem": 256, "minmem": 128, "vcpus": 2, "spindle_use": 3}
    return Instance(
        uuid="new", name="new", os="noop+default", hypervisor="pretend", beparams=backend, nics=list(nics), tags=["a:b"]
    )


def request_of(view: Configuration, *nics: Nic, group: str | None = None) -> dict[str, Any]:
    disks = [Disk(uuid="d", dev_type=LOCAL, size=100, mode="ro", name="data"), Disk(uuid="e", dev_type=LOCAL, size=20)]
    groups = groups_for_new(view, group)
    return to_protocol(allocate_request(view, sketch(*nics), disks, catalogue().templates[LOCAL], groups))


@pytest.mark.requirement("S5.34")
def test_a_request_for_a_new_instance(view: Configuration) -> None:
    plain = Nic(mac="aa:00:00:00:00:01", ip="10.0.0.1", uuid="n1")
    routed = Nic(mac="aa:00:00:00:00:02", uuid="n2", name="second", nicparams={"mode": "routed", "link": "tab"})
    assert request_of(view, plain, routed, group="default") == {
        "type": "allocate",
        "name": "new",
        "memory": 256,
        "vcpus": 2,
        "spindle_use": 3,
        "disks": [
            {"size": 100, "mode": "ro", "spindles": None, "name": "data", "vg": None, "dev_type": LOCAL},
            {"size": 20, "mode": "rw", "spindles": None, "name": None, "vg": None, "dev_type": LOCAL},
        ],
        "disk_template": LOCAL,
        "os": "noop+default",
        "tags": ["a:b"],
        "nics": [
            {
                "mac": "aa:00:00:00:00:01",
                "ip": "10.0.0.1",
                "uuid": "n1",
                "nicparams": {},
                "mode": "bridged",
                "link": "xen-br0",
                "bridge": "xen-br0",
            },
            {
                "mac": "aa:00:00:00:00:02",
                "ip": None,
                "uuid": "n2",
                "name": "second",
                "mode": "routed",
                "link": "tab",
                "nicparams": {"mode": "routed", "link": "tab"},
            },
        ],
        "hypervisor": "pretend",
        "required_nodes": 1,
        "disk_space_total": 120,
        "group_name": "default",
    }


@pytest.mark.requirement("S1.26")
def test_of_several_groups_the_nodes_are_named(view: Configuration) -> None:
    view.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    view.put("nodes", "uuid-node3", structs.replace(view.node("uuid-node3"), group="uuid-green"))
    view.put("nodegroups", "uuid-blue", NodeGroup(uuid="uuid-blue", name="blue"))
    both = request_of(view, group="green,blue,uuid-green")
    assert (both["group_name"], both["restrict-to-nodes"]) == (None, ["node3"])
    assert "restrict-to-nodes" not in request_of(view, group="green,uuid-green")
    assert "restrict-to-nodes" not in request_of(view)
    view.put("nodegroups", "uuid-blue", NodeGroup(uuid="uuid-blue", name="blue", alloc_policy="unallocable"))
    only = request_of(view, group="green,blue")
    assert only["group_name"] == "green" and "restrict-to-nodes" not in only
    with pytest.raises(PrerequisiteError, match="Node group blue takes no new instances"):
        request_of(view, group="blue")


@pytest.mark.requirement("S5.33")
def test_each_mirrored_disk_takes_128_mib_more_on_its_nodes(view: Configuration) -> None:
    """Beside the data there is its metadata (opcodes, section 8), which is space used on the new nodes (S5.33)."""
    pair = TemplateTraits("drbd", "lvm-vg", node_count=2)
    disks = [Disk(uuid="d", dev_type="drbd", size=100), Disk(uuid="e", dev_type="drbd", size=20)]
    assert allocate_request(view, sketch(), disks, pair, []).disk_space_total == 120 + 2 * 128
    web = add_instance(view, "web", template="drbd")
    assert relocate_request(view, web, ["node1"]).disk_space_total == 64 + 128
    assert allocator_input(view, {}, [], LOCAL)["instances"]["web"]["disk_space_total"] == 64 + 128
    assert reservation_of(view, web, None).disk_mib == 64 + 128
    assert placed(view, web).disk_mib == 64 + 128
    assert placed(view, add_instance(view, "single", template=LOCAL)).disk_mib == 64


def test_a_nic_names_its_network(view: Configuration) -> None:
    (nic,) = request_of(view, Nic(mac="auto", ip="pool", network=NETWORK), group="wired")["nics"]
    connected = {"mode": "routed", "link": "tab"}
    assert nic == {"mac": "auto", "ip": "pool", "network": NETWORK, "nicparams": {}, **connected}
    (nic,) = request_of(view, Nic(mac="auto", network=NETWORK))["nics"]
    assert nic["network"] == NETWORK


def test_an_instance_goes_where_its_network_is(view: Configuration) -> None:
    """Without the network the first group would do, which comes last among equals."""
    whole = allocator_input(view, {node.uuid: REPORT for node in view.nodes()}, [], LOCAL)

    def chosen(*nics: Nic, group: str | None = None) -> Any:
        request = request_of(view, *nics, group=group) | {"disk_template": "file"}
        return answer_over(
            ClusterState(read_cluster(whole, hypervisors=whole["enabled_hypervisors"])),
            read_request(request),
            Options(),
        )

    assert chosen(Nic(mac="auto", network=NETWORK)).nodes[0] in ("node3", "node4")
    assert chosen(Nic(mac="auto"), group="default").nodes[0] in ("node1", "node2")
    assert isinstance(chosen(Nic(mac="auto", network=NETWORK), group="default"), NoFit)


@pytest.mark.requirement(
    "S1.25",
    "S5.8",
    "S5.9",
    "S5.10",
    "S5.11",
    "S5.13",
    "S5.15",
    "S5.16",
    "S5.17",
    "S5.18",
    "S5.20",
    "S5.21",
    "S5.22",
    "S5.23",
    "S5.24",
    "S5.25",
    "S5.26",
    "S5.29",
)
def test_the_whole_input(view: Configuration) -> None:
    node2 = view.node("uuid-node2")
    view.put("nodes", node2.uuid, structs.replace(node2, offline=True))
    web = add_instance(view, "web")
    nics = [Nic(mac="aa:1"), Nic(mac="aa:2", ip="1.2.3.4", network=NETWORK)]
    view.put("instances", web.uuid, structs.replace(web, nics=nics, tags=["t"]))
    whole = allocator_input(view, {"uuid-node1": REPORT, "uuid-node3": REPORT}, [], LOCAL)
    assert list(whole) == [
        *("version", "cluster_name", "cluster_tags", "enabled_hypervisors", "ipolicy", "nodegroups"),
        *("nodes", "instances"),
    ]
    assert (whole["version"], whole["cluster_name"]) == (2, "cluster")
    assert whole["ipolicy"] == view.cluster.ipolicy
    assert set(whole["nodegroups"]["uuid-group2"]) == {"name", "alloc_policy", "networks", "ipolicy", "tags"}
    assert whole["nodegroups"]["uuid-group2"]["networks"] == [NETWORK]
    static = {
        *("tags", "primary_ip", "secondary_ip", "offline", "drained", "master_candidate", "group", "master_capable"),
        *("vm_capable", "ndparams"),
    }
    assert set(whole["nodes"]["node2"]) == static
    dynamic = {name: value for name, value in whole["nodes"]["node3"].items() if name not in static}
    assert dynamic == {
        "total_memory": 8192,
        "reserved_memory": 500,
        "free_memory": 6000,
        "total_disk": 9000,
        "free_disk": 7000,
        "total_spindles": 0,
        "free_spindles": 0,
        "total_cpus": 8,
        "reserved_cpus": 2,
        "i_pri_memory": 0,
        "i_pri_up_memory": 0,
    }
    told = whole["instances"]["web"]
    assert set(told) == {
        *("tags", "admin_state", "vcpus", "memory", "spindle_use", "os", "nodes", "nics", "disks", "disk_template"),
        *("disks_active", "hypervisor", "disk_space_total"),
    }
    bridged = {"mode": "bridged", "link": "xen-br0", "bridge": "xen-br0"}
    assert told["nics"] == [{"mac": "aa:1", "ip": None, **bridged}, {"mac": "aa:2", "ip": "1.2.3.4", **bridged}]
    assert all(set(disk) == {"dev_type", "size", "mode", "spindles"} for disk in told["disks"])


def test_exclusive_storage_counts_spindles(view: Configuration) -> None:
    node3 = view.node("uuid-node3")
    view.put("nodes", node3.uuid, structs.replace(node3, ndparams={"exclusive_storage": True, "spindle_count": 4}))
    told = allocator_input(view, {"uuid-node3": REPORT}, [], LOCAL)["nodes"]["node3"]
    assert (told["total_spindles"], told["free_spindles"]) == (4, 4), "a node that has no volume group"
    counted = structs.replace(REPORT, space={LOCAL: Space(9000, 7000), "plain": Space(9000, 7000, 8, 3)})
    reservation = Reservation(
        instance="new", nodes=["uuid-node3"], memory_mib=1, disk_mib=1, vcpus=1, spindles=2, disk_template="plain"
    )
    for reservations, free in (([], 3), ([reservation], 1), ([reservation, reservation], 0)):
        told = allocator_input(view, {"uuid-node3": counted}, reservations, LOCAL)["nodes"]["node3"]
        assert (told["total_spindles"], told["free_spindles"]) == (8, free)


@pytest.mark.requirement("S1.76", "S5.30")
@pytest.mark.parametrize("flags", [{"offline": True}, {"drained": True}, {"vm_capable": False}])
def test_a_node_that_takes_no_instances_has_no_runtime_keys(view: Configuration, flags: dict[str, bool]) -> None:
    node = view.node("uuid-node2")
    view.put("nodes", node.uuid, structs.replace(node, **flags))
    nodes = allocator_input(view, {node.uuid: REPORT for node in view.nodes()}, [], LOCAL)["nodes"]
    runtime = {"total_memory", "reserved_memory", "free_memory", "total_disk", "free_disk", "total_cpus"}
    runtime |= {"i_pri_memory", "i_pri_up_memory"}
    assert runtime <= set(nodes["node1"])
    assert runtime.isdisjoint(nodes["node2"])


@pytest.mark.requirement("S5.19", "S5.27", "S5.28")
def test_a_node_tells_the_memory_of_its_primary_instances_and_of_those_that_are_up(view: Configuration) -> None:
    for name, state in (("up", "up"), ("down", "down")):
        instance = add_instance(view, name, "uuid-node1", admin_state=state)
        memory = {"maxmem": 300, "minmem": 300}
        view.put("instances", instance.uuid, structs.replace(instance, beparams=memory))
    node = allocator_input(view, {node.uuid: REPORT for node in view.nodes()}, [], LOCAL)["nodes"]["node1"]
    assert (node["i_pri_memory"], node["i_pri_up_memory"]) == (600, 300)
    assert node["free_memory"] == REPORT.memory_free_mib - 300, "what is down takes none, what is up and not there will"

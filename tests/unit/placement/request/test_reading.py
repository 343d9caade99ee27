# SPDX-License-Identifier: BSD-2-Clause
"""What is said of a message that cannot be read; the words are those 3.0.2 was seen to use."""

import copy
from typing import Any

import pytest
from tests.fakes.allocator_messages import allocation, instance, message, node

from ganeti.placement.request.reading import read_cluster, read_request
from ganeti.placement.request.terms import RequestError
from ganeti.placement.service import answer

NICS = [{"mac": "aa:00:00:00:00:01", "mode": "bridged", "network": "x"}]


def whole() -> dict[str, Any]:
    made = message(
        allocation("drbd", 2, nics=NICS, tags=["t"]),
        {"n": node(tags=["t"]), "m": node(offline=True)},
        {"i": instance("plain", "n", nics=NICS, tags=["t"])},
    )
    return copy.deepcopy(made)


def changed(path: str, value: Any) -> dict[str, Any]:
    found = whole()
    holder: Any = found
    *way, last = path.split("/")
    for key in way:
        holder = holder[int(key) if isinstance(holder, list) else key]
    holder[int(last) if isinstance(holder, list) else last] = value
    return found


GROUP, NODE, PLACED, NEW = (
    f"invalid data for {what}" for what in ("group 'u'", "node 'n'", "instance 'i'", "instance 'new'")
)
POLICY = f"{GROUP}: key 'ipolicy'"
TEMPLATES = f"{POLICY}: Can't parse value for 'disk-templates'"


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("cluster_tags", None, "invalid iallocator message: key 'cluster_tags': Unable to read list"),
        ("cluster_tags", [1], "invalid iallocator message: key 'cluster_tags': Unable to read String"),
        ("cluster_tags", [["ab"]], "invalid iallocator message: key 'cluster_tags': Unable to read Char"),
        (
            "enabled_hypervisors",
            [1],
            "invalid iallocator message: key 'enabled_hypervisors': Can't parse value for 'Hypervisor': "
            "Unable to read String",
        ),
        (
            "enabled_hypervisors",
            ["x"],
            "invalid iallocator message: key 'enabled_hypervisors': Invalid string value for type Hypervisor: \"x\"",
        ),
        ("nodegroups", None, "invalid iallocator message: key 'nodegroups': Unable to read JSObject"),
        ("nodegroups/u", 1, "not an object"),
        ("nodegroups/u/name", [1], f"{GROUP}: key 'name': Unable to read Char"),
        (
            "nodegroups/u/alloc_policy",
            None,
            f"{GROUP}: key 'alloc_policy': Can't parse value for 'AllocPolicy': Unable to read String",
        ),
        (
            "nodegroups/u/alloc_policy",
            [],
            f"{GROUP}: key 'alloc_policy': Invalid string value for type AllocPolicy: \"\"",
        ),
        ("nodegroups/u/ipolicy", None, f"{POLICY}: Unable to read JSObject"),
        ("nodegroups/u/ipolicy/std", None, f"{POLICY}: Can't parse value for 'std': Unable to read JSObject"),
        ("nodegroups/u/ipolicy/minmax", None, f"{POLICY}: Can't parse value for 'minmax': Unable to read list"),
        (
            "nodegroups/u/ipolicy/vcpu-ratio",
            None,
            f"{POLICY}: Can't parse value for 'vcpu-ratio': Unable to read Double",
        ),
        (
            "nodegroups/u/ipolicy/disk-templates",
            [1],
            f"{TEMPLATES}: Can't parse value for 'DiskTemplate': Unable to read String",
        ),
        ("nodegroups/u/ipolicy/disk-templates", ["x"], f'{TEMPLATES}: Invalid string value for type DiskTemplate: "x"'),
        ("nodes/n", [], "not an object"),
        ("nodes/n/tags", "x", "key 'tags': Unable to read list"),
        ("nodes/n/ndparams", None, "not an object"),
        ("nodes/n/ndparams/spindle_count", None, f"{NODE}: key 'spindle_count': Unable to read Int"),
        ("nodes/n/drained", None, f"{NODE}: key 'drained': Unable to read Bool"),
        ("instances/i", 1, "not an object"),
        ("instances/i/nodes", "n", "key 'nodes': Unable to read list"),
        ("instances/i/nodes", ["n", 1], "Wrong JSON type"),
        ("instances/i/tags", None, f"{PLACED}: key 'tags': Unable to read list"),
        ("instances/i/disks", {"a": 1}, 'Invalid input, expected array but got {"a": 1}'),
        ("instances/i/disks", [1], "not an object"),
        ("instances/i/nics", None, "Invalid input, expected array but got null"),
        ("instances/i/nics/0/mac", 1, "key 'mac': Unable to read String"),
        ("instances/i/nics/0/mode", "x", "invalid NIC mode in instance i"),
        ("request/nics/0/network", ["ab"], "key 'network': Unable to read Char"),
        ("request/disk_space_total", None, f"{NEW}: key 'disk_space_total': Unable to read Int"),
        (
            "request/disk_template",
            ["x"],
            f"{NEW}: key 'disk_template': Invalid string value for type DiskTemplate: \"x\"",
        ),
        ("request/group_name", 1, "key 'group_name': Unable to read String"),
        ("request/restrict-to-nodes", "n", "key 'restrict-to-nodes': Unable to read list"),
        ("request/name", None, "invalid request dict: key 'name': Unable to read String"),
        (
            "request",
            {"type": "multi-allocate", "instances": [1]},
            "invalid request dict: key 'instances': Unable to read JSObject",
        ),
        (
            "request",
            {"type": "multi-allocate", "instances": [{"name": 1}]},
            "invalid request dict: key 'name': Unable to read String",
        ),
        (
            "request",
            {"type": "node-evacuate", "instances": [], "evac_mode": ["x"]},
            "invalid request dict: key 'evac_mode': Invalid string value for type EvacMode: \"x\"",
        ),
    ],
)
def test_words(path: str, value: Any, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        answer(changed(path, value))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("nodes/n/tags", None),
        ("nodes/n/vm_capable", None),
        ("request/group_name", None),
        ("request/restrict-to-nodes", None),
        ("request/disks/0/spindles", None),
        ("request/nics/0/mac", None),
        ("request/nics/0/network", None),
        ("cluster_tags", [[]]),
    ],
)
def test_what_may_be_null_or_a_list_of_letters(path: str, value: Any) -> None:
    found = changed(path, value)
    read_cluster(found)
    read_request(found["request"])


def test_a_string_may_be_a_list_of_letters() -> None:
    assert read_cluster(changed("nodegroups/u/name", ["g", "u"])).groups[0].name == "gu"


def test_a_network_without_a_name_is_a_network() -> None:
    found = answer(changed("request/nics/0/network", ""))
    assert found["info"] == "Request failed: group gu is not connected to a network required by instance new"


def test_a_drained_node_that_bears_no_instances_has_nothing() -> None:
    dead = read_cluster(changed("nodes/n", node(drained=True, vm_capable=False))).nodes[0]
    assert (dead.total_memory_mib, dead.free_disk_mib, dead.unavailable) == (0, 0, "drained")


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("nodes/m/drained", None, "invalid data for node 'm': key 'drained': Unable to read Bool"),
        ("nodes/n/vm_capable", "x", f"{NODE}: key 'vm_capable': Unable to read Bool"),
        ("nodes/n/reserved_memory", "x", f"{NODE}: key 'reserved_memory': Unable to read Int"),
    ],
)
def test_what_does_not_count_is_read_too(path: str, value: Any, text: str) -> None:
    found = changed(path, value) | {"enabled_hypervisors": ["kvm"]}
    with pytest.raises(RequestError) as caught:
        read_cluster(found)
    assert str(caught.value) == text


def test_on_exclusive_storage_the_spindles_of_the_parameters_are_not_read() -> None:
    found = changed("nodes/n/ndparams", {"spindle_count": None, "exclusive_storage": True})
    assert read_cluster(found).nodes[0].spindles == 0

# SPDX-License-Identifier: BSD-2-Clause
"""Descriptions of a cluster: what a file says is read, and becomes the steps that are missing, in their order."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples

from ganeti.cli.described import Current, steps
from ganeti.cli.failures import Failure
from ganeti.cli.yaml_subset import YamlFault, read

WEB = {
    "name": "web1",
    "tags": ["a"],
    "os": "noop",
    "disk_template": "plain",
    "hypervisor": "fake",
    "admin_state": "up",
    "pnode": "n1",
    "disk.sizes": [64],
    "disk.names": [None],
    "disk.uuids": ["d-0"],
    "disk.modes": ["rw"],
    "custom_beparams": {"vcpus": 1},
    "custom_hvparams": {},
    "custom_osparams": {},
    "nic.ips": ["198.51.100.2"],
    "nic.macs": ["aa:00:00:00:00:01"],
    "nic.modes": ["bridged"],
    "nic.links": ["br0"],
    "nic.vlans": [""],
    "nic.networks.names": [None],
    "nic.names": [None],
    "nic.uuids": ["n-0"],
}
LAN = {
    "name": "lan",
    "tags": [],
    "network": "198.51.100.0/24",
    "gateway": None,
    "group_list": [["default", "bridged", "br0", ""]],
}
GROUP = {"name": "default", "tags": [], "alloc_policy": "preferred"}
NOW = Current(["old"], {"default": GROUP}, {"lan": LAN}, {"web1": WEB})


def asked(wanted: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(step.opcode.pop("OP_ID"), step.opcode) for step in steps(wanted, NOW)]


def test_what_is_so_already_needs_no_step() -> None:
    web = {"os": "noop", "disks": [{"size": "64M"}], "beparams": {"vcpus": 1}, "nics": [{"link": "br0"}]}
    web |= {"tags": ["a"], "up": True}
    groups = {"default": {"mode": "bridged", "link": "br0"}}
    wanted = {"cluster": {"tags": ["old"]}, "networks": {"lan": {"groups": groups}}, "instances": {"web1": web}}
    assert asked(wanted) == []


def test_new_objects_are_made_in_their_order() -> None:
    new = {"os": "noop", "disk_template": "plain", "disks": [{"size": "1G"}], "node": "n1", "tags": ["x"], "up": False}
    wanted = {
        "instances": {"web2": new},
        "networks": {"dmz": {"network": "203.0.113.0/24", "groups": {"far": {"link": "br1"}}}},
        "groups": {"far": {"tags": ["t"]}},
        "cluster": {"tags": ["new"]},
    }
    found = asked(wanted)
    assert [op_id for op_id, _ in found] == [
        "OP_TAGS_SET",
        "OP_TAGS_DEL",
        "OP_GROUP_ADD",
        "OP_NETWORK_ADD",
        "OP_NETWORK_CONNECT",
        "OP_INSTANCE_CREATE",
        "OP_TAGS_SET",
    ]
    made = found[5][1]
    assert (made["disks"], made["pnode"], made["start"], made["nics"]) == ([{"size": 1024}], "n1", False, [{}])


def test_what_differs_is_changed() -> None:
    web = {"beparams": {"vcpus": 2}, "disks": [{"size": 128}], "nics": [{"link": "br9"}], "tags": ["b"], "up": False}
    found = dict(asked({"instances": {"web1": web}, "groups": {"default": {"alloc_policy": "last_resort"}}}))
    assert found["OP_INSTANCE_SET_PARAMS"]["beparams"] == {"vcpus": 2}
    assert found["OP_INSTANCE_SET_PARAMS"]["nics"] == [["modify", "n-0", {"link": "br9"}]]
    assert (found["OP_INSTANCE_GROW_DISK"]["amount"], found["OP_INSTANCE_GROW_DISK"]["absolute"]) == (128, True)
    assert found["OP_TAGS_SET"]["tags"] == ["b"] and found["OP_TAGS_DEL"]["tags"] == ["a"]
    assert {"OP_INSTANCE_SHUTDOWN", "OP_GROUP_SET_PARAMS"} <= set(found)


DATA = {**WEB, "disk.sizes": [64, 128, 256], "disk.names": [None, "data", None], "disk.uuids": ["d-0", "d-1", "d-2"]}
DATA |= {"disk.modes": ["rw", "ro", "rw"]}


def modified(said: dict[str, Any], now: dict[str, Any] = DATA) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """What is changed of an instance, and which disks grow to what."""
    found = [step.opcode for step in steps({"instances": {"web1": said}}, Current(instances={"web1": now}))]
    grown = [(each["disk"], each["amount"]) for each in found if each["OP_ID"] == "OP_INSTANCE_GROW_DISK"]
    [changes] = [each for each in found if each["OP_ID"] == "OP_INSTANCE_SET_PARAMS"] or [{}]
    return changes, grown


def test_disks_are_meant_by_their_names_and_then_by_their_order() -> None:
    assert modified({"disks": [{"size": 64}, {"size": 128, "name": "data"}, {"size": 256}]}) == ({}, [])
    assert modified({"disks": [{"name": "data", "size": 200}, {}, {}]}) == ({}, [(1, 200)])
    changes, grown = modified({"disks": [{}, {"name": "data"}, {"name": "more"}, {"size": "1G", "name": "new"}]})
    assert changes["disks"] == [["modify", "d-2", {"name": "more"}], ["add", -1, {"size": 1024, "name": "new"}]]
    assert not grown


def test_a_disk_is_removed_where_the_file_says_so_and_the_others_move_up() -> None:
    gone = {"name": "data", "state": "absent"}
    changes, grown = modified({"disks": [{}, gone, {"size": 300}]})
    assert (changes["disks"], grown) == ([["remove", "d-1", {}]], [(1, 300)])
    after = {**DATA, "disk.sizes": [64, 300], "disk.names": [None, None], "disk.uuids": ["d-0", "d-2"]}
    assert modified({"disks": [{}, gone, {"size": 300}]}, after) == ({}, [])
    with pytest.raises(Failure, match=r"does not name disk 2 \(256 MiB\)"):
        modified({"disks": [{}, {"name": "data"}]})


def test_the_access_mode_of_a_disk_is_changed_where_the_file_says_one() -> None:
    said = {"disks": [{"mode": "ro"}, {"name": "data"}, {"name": "more", "mode": "rw"}]}
    changes, _ = modified(said)
    assert changes["disks"] == [["modify", "d-0", {"mode": "ro"}], ["modify", "d-2", {"name": "more"}]]
    after = {**DATA, "disk.modes": ["ro", "ro", "rw"], "disk.names": [None, "data", "more"]}
    assert modified(said, after) == ({}, [])


def test_interfaces_are_the_whole_list() -> None:
    assert modified({"nics": []})[0]["nics"] == [["remove", "n-0", {}]]
    two = [{"ip": "198.51.100.2", "link": "br0"}, {"network": "lan", "ip": "pool", "name": "second"}]
    assert modified({"nics": two})[0]["nics"] == [["add", -1, {"network": "lan", "ip": "pool", "name": "second"}]]
    after = {name: [*value, None] for name, value in WEB.items() if name.startswith("nic.")}
    after |= {"nic.names": [None, "second"], "nic.ips": ["198.51.100.2", "198.51.100.3"], "nic.uuids": ["n-0", "n-1"]}
    after |= {"nic.networks.names": [None, "lan"]}
    assert modified({"nics": two}, {**WEB, **after}) == ({}, [])
    assert modified({"nics": [{"mac": "aa:00:00:00:00:01", "ip": None}]})[0]["nics"] == [
        ["modify", "n-0", {"ip": "none"}]
    ]


def test_parameters_are_compared_as_they_are_kept() -> None:
    now = {**WEB, "custom_beparams": {"maxmem": 1024, "minmem": 1024}, "custom_hvparams": {"acpi": True}}
    said = {"beparams": {"memory": "1G"}, "hvparams": {"acpi": True, "boot_order": None}}
    assert modified(said, now) == ({}, [])
    changes, _ = modified({"beparams": {"maxmem": "2G", "minmem": "default"}, "hvparams": {"acpi": None}}, now)
    assert changes["beparams"] == {"maxmem": 2048, "minmem": "default"} and changes["hvparams"] == {"acpi": "default"}


def test_what_is_to_be_absent_is_removed_after_what_uses_it() -> None:
    gone = {"state": "absent"}
    wanted = {"groups": {"default": gone, "none": gone}, "networks": {"lan": gone}}
    wanted["instances"] = {"web1": gone, "web9": gone}
    names = ["OP_INSTANCE_REMOVE", "OP_NETWORK_DISCONNECT", "OP_GROUP_REMOVE", "OP_NETWORK_REMOVE"]
    assert [op_id for op_id, _ in asked(wanted)] == names


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (["x"], "has the keys cluster, groups"),
        ({"hosts": {}}, "has no 'hosts'"),
        ({"groups": {"default": {"policy": 1}}}, "groups: default: there is no 'policy'"),
        ({"groups": {"default": []}}, "write KEY: VALUE"),
        ({"instances": {"web1": {"state": "gone"}}}, "'present' or 'absent'"),
        ({"instances": {"web1": {"tags": "a"}}}, "tags is a list"),
        ({"instances": {"web1": {"os": "other"}}}, "its os is noop"),
        ({"instances": {"web1": {"disks": [{"size": 8}]}}}, "do not shrink"),
        ({"instances": {"web1": {"disks": []}}}, "{uuid: d-0, state: absent}"),
        ({"instances": {"web1": {"disks": [{}, {}]}}}, "a new disk needs a size"),
        ({"instances": {"web1": {"disks": [{"state": "absent"}]}}}, "say which disk is to be absent"),
        ({"instances": {"web1": {"disks": [{"uuid": "d-9"}]}}}, "no disk with the UUID d-9"),
        ({"instances": {"web1": {"disks": [{"state": "gone"}]}}}, "'present' or 'absent'"),
        ({"instances": {"web1": {"nics": [{"vlans": 1}]}}}, "an interface has no 'vlans'"),
        ({"instances": {"web2": {}}}, "say os and disk_template"),
        ({"networks": {"new": {}}}, "say its addresses"),
        ({"networks": {"lan": {"network": "10.0.0.0/8"}}}, "cannot be changed"),
    ],
)
def test_what_cannot_be_is_refused(wanted: Any, said: str) -> None:
    with pytest.raises(Failure) as caught:
        steps(wanted, NOW)
    assert said in caught.value.text


YAML = [
    ("", None),
    ("a: 1\nb:\n- x\n- y: 2\n  z: 3\n", {"a": 1, "b": ["x", {"y": 2, "z": 3}]}),
    ('a: [1, "b, c", {d: e}]  # f', {"a": [1, "b, c", {"d": "e"}]}),
    ("a: 'it''s # no comment'\nb: yes\nc: ~", {"a": "it's # no comment", "b": True, "c": None}),
    ("d: 1.5\ne: 1G\nf: noop+default", {"d": 1.5, "e": "1G", "f": "noop+default"}),
    ("a:\n  b:\n    c: {}\n  d: []\ne:\n", {"a": {"b": {"c": {}}, "d": []}, "e": None}),
    ("net: 2001:db8::/32", {"net": "2001:db8::/32"}),
]
FAULTS = [
    "a: &x 1",
    "a:\n\t- b",
    "a: 1\na: 2",
    "a: [1, 2",
    "a: |\n  b",
    "- a\nb: 1",
    "a: 1\n   b: 2",
    "a: 'b",
    "a: {b}",
]


@pytest.mark.parametrize(("text", "value"), YAML)
def test_yaml(text: str, value: Any) -> None:
    assert read(text) == value


@pytest.mark.parametrize("text", FAULTS)
def test_yaml_that_is_not_understood_is_refused_by_its_line(text: str) -> None:
    with pytest.raises(YamlFault, match=r"line \d"):
        read(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
@settings(max_examples=examples(100))
def test_json_is_read_as_what_it_is(value: Any) -> None:
    assert read(json.dumps(value)) == read(json.dumps(value, indent=1)) == value


@given(st.text(alphabet="ab:-[]{},'\"# \n&|1", max_size=40))
@settings(max_examples=examples(300))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(YamlFault):
        read(text)

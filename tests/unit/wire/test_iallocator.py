# SPDX-License-Identifier: BSD-2-Clause
"""The iallocator protocol: old spellings, and the words for an allocator's mistakes."""

import json
from typing import Any

import pytest

from ganeti.wire.iallocator import (
    UNCOUNTED_CPUS,
    AllocatorMessageError,
    Response,
    decode_response,
    encode_message,
    encode_response,
    modern,
    selected_nodes,
)

OLD = {
    "version": 1,
    "cluster_name": "cluster1.example.com",
    "instances": {
        "instance1.example.com": {"should_run": False, "disks": [{"mode": "w", "size": 64}], "nodes": ["node1"]},
        "instance2.example.com": {"admin_up": True, "nics": [{"bridge": "br0", "mac": "00:11", "ip": None}]},
        "instance3.example.com": {"admin_state": "offline", "admin_up": False},
    },
    "request": {"type": "multi-evacuate", "nodes": ["node1"]},
}


@pytest.mark.requirement("S5.14")
@pytest.mark.requirement("S5.36")
def test_old_spellings_become_those_of_version_2() -> None:
    found = modern(OLD)
    assert found["version"] == 2
    states = [data["admin_state"] for data in found["instances"].values()]
    assert states == ["down", "up", "offline"]
    assert found["instances"]["instance1.example.com"]["disks"] == [{"mode": "rw", "size": 64}]
    assert found["instances"]["instance2.example.com"]["nics"][0]["link"] == "br0"
    assert found["request"] == {"type": "multi-evacuate", "evac_nodes": ["node1"]}


@pytest.mark.requirement("S5.43")
def test_before_groups_nodes_need_no_cpus_and_instances_no_node() -> None:
    nodes = {"node1": {"total_memory": 5}, "node2": {"total_cpus": 2}, "node3": 5}
    instances = {"a": {"nodes": ["elsewhere"]}, "b": {"nodes": ["node1", "elsewhere"]}, "c": {"nodes": []}, "d": 5}
    found = modern({"nodes": nodes, "instances": instances})
    assert found["nodes"]["node1"] == {"total_cpus": UNCOUNTED_CPUS, "total_memory": 5}
    assert found["nodes"]["node2"] == {"total_cpus": 2} and found["nodes"]["node3"] == 5
    assert sorted(found["instances"]) == ["b", "c", "d"]
    later = {"nodegroups": {}, "nodes": nodes, "instances": instances}
    assert modern(later) == later


def test_unknown_keys_are_kept() -> None:
    message = {"version": 2, "extra": {"a": 1}, "request": {"type": "relocate", "other": [1]}}
    assert modern(json.loads(encode_message(message))) == message


def test_requested_nodes_is_required_nodes() -> None:
    assert modern({"request": {"type": "allocate", "requested_nodes": 2}})["request"]["required_nodes"] == 2


@pytest.mark.requirement("S5.37")
def test_response_goes_out_in_the_order_of_3_1() -> None:
    assert encode_response(Response(True, "fine", ["a"])) == b'{"success":true,"info":"fine","result":["a"]}\n'
    assert decode_response(encode_response(Response(False, "no", []))) == Response(False, "no", [])


@pytest.mark.requirement("S5.40")
def test_nodes_in_place_of_result() -> None:
    assert decode_response(b'{"success": true, "info": "", "nodes": ["a"]}').result == ["a"]


def test_a_null_is_no_reason() -> None:
    assert decode_response(b'{"success": false, "info": null, "result": []}').info == ""


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"nonsense", "Can't parse iallocator results: "),
        (b"[]", "Can't parse iallocator results: not a dict"),
        (b'{"success": true, "info": ""}', "missing key 'result'"),
        (b'{"success": 1, "info": "", "result": []}', "'success' is neither true nor false"),
    ],
)
def test_bad_responses(data: bytes, words: str) -> None:
    with pytest.raises(AllocatorMessageError, match=words):
        decode_response(data)


@pytest.mark.requirement("S5.38")
@pytest.mark.parametrize(
    ("result", "words"),
    [
        (["a"], r"invalid number of nodes \(1\), required 2"),
        (["a", "x"], "node x, which the cluster does not have"),
        (["a", "a"], "node a twice"),
        ({"a": 1}, "not a list of node names"),
    ],
)
def test_unusable_choices(result: Any, words: str) -> None:
    with pytest.raises(AllocatorMessageError, match=words):
        selected_nodes(Response(True, "", result), 2, ["a", "b"])


@pytest.mark.requirement("S5.38")
def test_usable_choices() -> None:
    assert selected_nodes(Response(True, "", ["b", "a"]), 2, ["a", "b"]) == ["b", "a"]
    assert selected_nodes(Response(True, "", "a"), 1, ["a", "b"]) == ["a"]

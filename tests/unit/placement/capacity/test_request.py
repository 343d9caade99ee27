# SPDX-License-Identifier: BSD-2-Clause
"""The allocator request ``capacity``: what it counts, with which parameters, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.allocator_messages import LARGE, SMALL, instance, message, node

from ganeti.placement.capacity import request as capacity_request
from ganeti.placement.request.terms import Options, RequestError
from ganeti.placement.service import answer, answer_with_reasons
from ganeti.tools.htools.programs import hail, hspace

PARAMETERS = {
    "max_inst_spec": [4096, 10240, 2],
    "default_template": "plain",
    "max_cpu_ratio": 4.0,
    "max_disk_usage": 1.0,
}


def nodes(*groups: str, each: int = 3) -> dict[str, Any]:
    return {f"{group}{number}": node(group=group) for group in groups for number in range(each)}


def asked(groups: str = "u", **changes: Any) -> dict[str, Any]:
    return message({"type": "capacity"} | PARAMETERS | changes, nodes(*groups), groups=groups)


def counted(*arguments: Any, **changes: Any) -> dict[str, Any]:
    found = answer(asked(*arguments, **changes))
    assert found["success"], found
    result: dict[str, Any] = found["result"]
    return result


@pytest.mark.requirement("S1.65", "S1.69")
def test_the_answer_names_sizes_and_parameters() -> None:
    found = answer(asked())
    total = sum(count for *_, count in found["result"]["cluster"])
    assert found["info"] == f"Request successful: {total} more instances fit into 1 node groups"
    own = found["result"]["node_groups"]["u"]
    assert {name: own[name] for name in PARAMETERS} == PARAMETERS
    assert own["tspecs"] == found["result"]["cluster"] == sorted(own["tspecs"], reverse=True)
    assert own["tspecs"][0][:3] == [4096, 10240, 2]


def test_the_cluster_has_what_its_groups_have_together() -> None:
    found = counted("uv")
    assert set(found["node_groups"]) == {"u", "v"}
    assert found["node_groups"]["u"]["tspecs"] == found["node_groups"]["v"]["tspecs"]
    assert found["cluster"] == [[*shape, 2 * n] for *shape, n in found["node_groups"]["u"]["tspecs"]]


@pytest.mark.requirement("S1.65")
@pytest.mark.parametrize("name", ["v", "gv"])
def test_only_the_groups_asked_about_are_counted(name: str) -> None:
    assert list(counted("uv", node_groups=[name])["node_groups"]) == ["v"]
    assert counted("uv", node_groups=[name])["node_groups"]["v"] == counted("v")["node_groups"]["v"]


def test_parameters_of_the_request_go_before_those_of_a_group_and_these_before_its_policy() -> None:
    own = {"v": {"max_inst_spec": [2048, 1024, 1], "default_template": "rbd", "max_cpu_ratio": 2.0}}
    found = counted("uv", group_parameters=own, max_inst_spec=None, max_cpu_ratio=None, max_disk_usage=None)
    first, second = found["node_groups"]["u"], found["node_groups"]["v"]
    assert (first["max_inst_spec"], first["default_template"], first["max_cpu_ratio"]) == (
        [1000000, 10000000, 100],
        "plain",
        16.0,
    )
    assert (second["max_inst_spec"], second["default_template"], second["max_cpu_ratio"]) == (
        [2048, 1024, 1],
        "plain",
        2.0,
    )
    assert first["max_disk_usage"] == 1.0


def test_less_fits_with_less_processors_or_disk() -> None:
    def room(**changes: Any) -> int:
        return sum(count for *_, count in counted(max_inst_spec=[256, 10240, 1], **changes)["cluster"])

    usual = room()
    assert 0 < room(max_cpu_ratio=0.5) < usual
    assert 0 < room(max_disk_usage=0.3) < usual


def test_mirrored_instances_need_two_nodes_of_the_group() -> None:
    alone = message({"type": "capacity"} | PARAMETERS | {"default_template": "drbd"}, nodes("u", each=1))
    assert answer(alone)["result"]["cluster"] == []
    assert counted(default_template="drbd")["cluster"]


def test_a_group_that_could_not_bear_the_failure_of_a_node_has_no_room() -> None:
    crowded = nodes("u", each=2)
    for one in crowded.values():
        one["free_memory"] = 2000
    full = {f"i{n}": instance("drbd", f"u{n}", f"u{1 - n}", memory=13872) for n in range(2)}
    request = {"type": "capacity"} | PARAMETERS
    assert answer(message(request, crowded, full))["result"]["cluster"] == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"node_groups": ["w"]}, "There is no node group w: known are gu"),
        ({"max_inst_spec": [1, 2]}, "The max_inst_spec of the request is [1, 2]: give memory"),
        ({"max_inst_spec": [1, 2, "3"]}, "The max_inst_spec of the request is"),
        ({"max_inst_spec": [0, 2, 3]}, "The max_inst_spec of the request is [0, 2, 3]: give at least 1 MiB of memory"),
        ({"max_inst_spec": [1, -1, 3]}, "The max_inst_spec of the request is [1, -1, 3]: give at least"),
        ({"max_inst_spec": [1, 2, 0]}, "The max_inst_spec of the request is [1, 2, 0]: give at least"),
        ({"max_inst_spec": [2**63, 2, 1]}, "The max_inst_spec of the request is [9223372036854775808, 2, 1]: give at"),
        ({"default_template": "paper"}, "The default_template of the request is 'paper': name one of"),
        ({"default_template": ["plain"]}, "The default_template of the request is ['plain']: name one of"),
        ({"max_cpu_ratio": 0}, "The max_cpu_ratio of the request is 0: give a number above 0"),
        ({"max_cpu_ratio": float("inf")}, "The max_cpu_ratio of the request is inf: give a number above 0"),
        ({"max_disk_usage": 1.5}, "The max_disk_usage of the request is 1.5: give a number above 0, at most 1"),
        ({"max_disk_usage": True}, "The max_disk_usage of the request is True: give"),
        ({"group_parameters": {"u": 3}}, "The capacity parameters of node group u are not an object"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        answer(asked(**changes))
    assert str(refused.value).startswith(words)


def test_counting_ends_where_next_to_nothing_is_counted_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity_request, "MOST_COUNTED", 1000)
    request = asked(default_template="diskless", max_inst_spec=[1, 0, 1], max_cpu_ratio=1e9)
    policy = request["nodegroups"]["u"]["ipolicy"]
    policy["minmax"] = [{side: dict.fromkeys(policy["minmax"][0][side], n) for side, n in (("min", 0), ("max", 9))}]
    policy |= {"disk-templates": ["diskless"], "spindle-ratio": 1e9}
    with pytest.raises(RequestError, match="More than 1000 instances fit into node group gu: give a larger"):
        answer(request)


def test_the_largest_size_there_is_can_be_counted_in() -> None:
    assert counted(max_inst_spec=[2**53, 2**53, 2**53])["cluster"]


def test_without_capacity_checks_more_fits() -> None:
    few = sum(count for *_, count in counted()["cluster"])
    found = answer(asked(), options=Options(capacity_checks=False))["result"]
    assert sum(count for *_, count in found["cluster"]) > few


@pytest.mark.requirement("S1.65")
def test_hail_counts_as_hspace_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ("--simulate", "p,4,100g,16g,8")
    assert hspace.main([*cluster, "--tiered-alloc=10g,4g,2", "--disk-template=drbd", "--machine-readable"]) == 0
    tiered = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("HTS_TSPEC="))
    expected = [
        [int(word) for word in one.replace("=", ",").split(",")] for one in tiered.split("=", 1)[1].strip("'").split()
    ]
    path = tmp_path / "request.json"
    path.write_text(json.dumps(asked(default_template="drbd", max_inst_spec=[4096, 10240, 2])))
    assert hail.main([*cluster, str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["success"], found
    assert found["result"]["cluster"] == [[memory, disk, vcpus, count] for memory, disk, vcpus, _, count in expected]


def test_a_group_that_could_not_lose_a_node_has_room_where_nobody_asks_for_that() -> None:
    """So says hail where one instance is placed; a group of instances without a copy of their disks is such a one."""
    asked_about = message(
        {"type": "capacity"} | PARAMETERS, nodes("u", each=1), {"web": instance("plain", "u0")}, groups="u"
    )
    checked, unchecked = (
        answer(asked_about, options=Options(capacity_checks=checks))["result"]["cluster"] for checks in (True, False)
    )
    assert (checked, bool(unchecked)) == ([], True)


def full(count: int = 2) -> tuple[dict[str, Any], dict[str, Any]]:
    crowded = nodes("u", each=count)
    for one in crowded.values():
        one["free_memory"] = 2000
    guests = {f"i{n}": instance("drbd", f"u{n}", f"u{1 - n}", memory=13872) for n in range(2)}
    return crowded, guests


@pytest.mark.requirement("S1.70")
@pytest.mark.parametrize(
    ("changes", "cluster", "options", "words", "other_is_full"),
    [
        ({}, ({}, {}), {}, "it has no nodes", False),
        (
            {},
            ({"u0": node(offline=True), "u1": node(drained=True)}, {}),
            {},
            "none of its nodes may be used: u0 is offline, u1 is drained",
            False,
        ),
        (
            {"default_template": "drbd"},
            (nodes("u", each=1), {}),
            {},
            "two nodes are needed for each instance, and u0 alone may take any",
            False,
        ),
        (
            {},
            (nodes("u"), {}),
            {"restrict_to": ("nope",)},
            "one node is needed, and restrict-allocation-to leaves none of the group: name more of u0, u1, u2 there",
            True,
        ),
        (
            {"default_template": "drbd"},
            (nodes("u"), {}),
            {"restrict_to": ("u1", "v0", "v1")},
            "two nodes are needed for each instance, and restrict-allocation-to leaves u1 alone: name more of u0, u1,",
            False,
        ),
        (
            {"default_template": "drbd"},
            (nodes("u", each=1), {}),
            {"restrict_to": ("u0", "v0", "v1")},
            "two nodes are needed for each instance, and u0 alone may take any",
            False,
        ),
        ({}, full(), {}, "the failure of another node could not be absorbed by u0, u1: free memory there", False),
        (
            {},
            (nodes("u", each=1), {"web": instance("plain", "u0")}),
            {},
            "the failure of u0 could not be absorbed even without another instance: free memory or disk in the group",
            False,
        ),
        (
            {"max_cpu_ratio": 0.01},
            (nodes("u"), {}),
            {},
            "not even 1 MiB of memory, 1 MiB of disk and 1 vcpu as plain fits: 3 nodes have too few vcpus",
            True,
        ),
        (
            {"max_cpu_ratio": 0.01},
            (nodes("u", each=1), {}),
            {},
            "not even 1 MiB of memory, 1 MiB of disk and 1 vcpu as plain fits: 1 node has too few vcpus",
            True,
        ),
        (
            {"default_template": "drbd", "max_disk_usage": 1e-6},
            (nodes("u"), {}),
            {},
            "shrinking by what is most often short led to no size that fits, but 1 MiB of memory, 1 MiB of disk",
            True,
        ),
        (
            {"default_template": "drbd"},
            ({f"u{number}": node(free_disk=0) for number in range(3)}, {}),
            {},
            "not even 1 MiB of memory, 1 MiB of disk and 1 vcpu as drbd fits: 6 pairs of nodes have too little disk",
            False,
        ),
        (
            {"default_template": "file"},
            (nodes("u"), {}),
            {},
            "its policy does not allow disk template file: name one of drbd, plain, rbd, ext",
            True,
        ),
    ],
)
def test_a_group_without_room_says_why(
    changes: dict[str, Any],
    cluster: tuple[dict[str, Any], dict[str, Any]],
    options: dict[str, Any],
    words: str,
    other_is_full: bool,
) -> None:
    of_u, guests = cluster
    request = {"type": "capacity", "default_template": "plain"} | changes
    both = message(request, {**of_u, **nodes("v")}, guests, groups="uv")
    for asked_about, others in ((message(request, of_u, guests, groups="u"), False), (both, other_is_full)):
        found, reasons = answer_with_reasons(asked_about, options=Options(**options))
        told = [line for line in reasons if line.startswith("Node group gu has no room: ")]
        assert [line.removeprefix("Node group gu has no room: ")[: len(words)] for line in told] == [words]
        assert told[0] in found["info"]
        assert found["result"]["node_groups"]["u"].keys() == {"tspecs", *PARAMETERS}, "the form of S1.70"
        assert [line.split(" has no room: ")[0] for line in reasons if line not in told] == ["Node group gv"] * others


def exclusive(**changes: Any) -> dict[str, Any]:
    own = {"ndparams": {"spindle_count": 8, "exclusive_storage": True}, "total_spindles": 8, "free_spindles": 8}
    return {f"u{number}": node(**own | changes) for number in range(3)}


def of_ranges(request: dict[str, Any], of_u: dict[str, Any], *ranges: tuple[dict[str, int], dict[str, int]]) -> Any:
    """What is answered, and why, where the policy has these ranges, each by its differences to the usual one."""
    asked_about = message({"type": "capacity", "default_template": "plain"} | request, of_u)
    policy = asked_about["nodegroups"]["u"]["ipolicy"]
    policy["minmax"] = [{"min": SMALL | low, "max": LARGE | high} for low, high in ranges]
    found, reasons = answer_with_reasons(asked_about)
    return found["result"]["cluster"], [line.removeprefix("Node group gu has no room: ") for line in reasons]


FEW_TO_SOME = {"spindle-use": 2, "memory-size": 512}, {"spindle-use": 4}


def test_on_exclusive_storage_instances_have_the_least_spindles_of_the_policy() -> None:
    """Eight spindles are enough for four instances on a node, and global N+1 wants a node of three to be empty."""
    size = [1024, 1024, 1]
    assert of_ranges({"max_inst_spec": size}, exclusive(), FEW_TO_SOME) == ([[*size, 8]], [])
    most = {"memory-size": 1024, "disk-size": 1024, "cpu-count": 1, "spindle-use": 4}
    assert of_ranges({}, exclusive(), (FEW_TO_SOME[0], most)) == ([[*size, 8]], [])
    lack = "not even 512 MiB of memory, 1 MiB of disk with 2 spindles and 1 vcpu as plain fits: 3 nodes have too "
    assert of_ranges({}, exclusive(free_memory=100), FEW_TO_SOME) == ([], [lack + "little memory"])
    assert of_ranges({}, exclusive(free_spindles=1), FEW_TO_SOME) == ([], [lack + "few spindles"])


def test_spindles_are_those_of_the_range_a_size_is_in() -> None:
    ranges = ({}, {"memory-size": 512, "spindle-use": 1}), ({"memory-size": 1024, "spindle-use": 4}, {})
    assert of_ranges({"max_inst_spec": [1024, 1024, 1]}, exclusive(), *ranges)[0][0] == [1024, 1024, 1, 4]
    assert of_ranges({"max_inst_spec": [512, 1024, 1]}, exclusive(), *ranges)[0][0] == [512, 1024, 1, 16]


def test_of_several_ranges_each_has_its_reason() -> None:
    small = ({"memory-size": 200, "disk-size": 5000}, {"memory-size": 300})
    flat = ({"memory-size": 800, "disk-size": 100}, {})
    crowded = {f"u{number}": node(free_memory=500, free_disk=2000) for number in range(2)}
    assert of_ranges({}, crowded, small, flat) == (
        [],
        [
            "of the least sizes of its policy, neither 200 MiB of memory, 5000 MiB of disk and 1 vcpu as plain (2 nodes"
            " have too little disk) nor 800 MiB of memory, 100 MiB of disk and 1 vcpu as plain (2 nodes have too little"
            " memory) fits"
        ],
    )
    _, (only_one,) = of_ranges({"max_inst_spec": [700, 6000, 1]}, crowded, small, flat)
    assert only_one.startswith("not even 200 MiB of memory, 5000 MiB of disk"), "the other cannot be shrunk into"
    _, (below,) = of_ranges({"max_inst_spec": [100, 6000, 1]}, crowded, small, flat)
    assert below == (
        "100 MiB of memory, 6000 MiB of disk and 1 vcpu as plain is below every minimum of its policy: give at least"
        " 200 MiB of memory, 5000 MiB of disk and 1 vcpu as plain"
    )


def test_an_unallocable_group_says_so() -> None:
    request = message({"type": "capacity"} | PARAMETERS, nodes("u"), groups="u")
    request["nodegroups"]["u"]["alloc_policy"] = "unallocable"
    _, reasons = answer_with_reasons(request)
    assert reasons == ["Node group gu has no room: its allocation policy is unallocable"]


def test_where_there_is_room_nothing_is_told() -> None:
    found, reasons = answer_with_reasons(asked())
    assert (reasons, ";" in found["info"]) == ([], False)

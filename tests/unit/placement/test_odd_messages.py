# SPDX-License-Identifier: BSD-2-Clause
"""Answers to messages that clusters in order do not send; what is expected is what 3.0.2 was seen to answer."""

import math
from typing import Any

import pytest
from tests.fakes.allocator_messages import allocation, group, instance, message, node

from ganeti.placement.allocate.new_instance import shown_score
from ganeti.placement.definition.search import _Statistics
from ganeti.placement.dispatch import answer_over
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.request.reading import read_cluster
from ganeti.placement.request.terms import ChangeGroup, Moves, Options
from ganeti.placement.service import answer

WITHOUT_N1 = Options(capacity_checks=False)


def nodes_with_none(names: str, without_memory: str, **changes: Any) -> dict[str, Any]:
    """Nodes, of which one has no memory: then no score is a number."""
    nodes = {name: node(**changes) for name in names.split()}
    nodes[without_memory] |= {"total_memory": 0, "free_memory": 0}
    return nodes


INSTANCES = {"a": instance("drbd", "n0", "n1"), "b": instance("rbd", "n0"), "c": instance("plain", "n0")}


@pytest.mark.parametrize("options", [Options(), WITHOUT_N1])
@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (allocation("drbd", 2), ["n5", "n0"]),
        (allocation("plain", 1), ["n0"]),
        (allocation("rbd", 1), ["n0"]),
        ({"type": "relocate", "name": "a", "required_nodes": 1, "relocate_from": ["n1"]}, ["n5"]),
        ({"type": "relocate", "name": "b", "required_nodes": 1, "relocate_from": ["n0"]}, ["n5"]),
        ({"type": "allocate-secondary", "name": "c"}, "n1"),
        ({"type": "node-evacuate", "instances": ["a"], "evac_mode": "secondary-only"}, ["n0", "n5"]),
        ({"type": "node-evacuate", "instances": ["b"], "evac_mode": "primary-only"}, ["n5"]),
        ({"type": "node-evacuate", "instances": ["a"], "evac_mode": "all"}, ["n5", "n4"]),
        ({"type": "node-evacuate", "instances": ["b"], "evac_mode": "all"}, ["n5"]),
    ],
)
def test_of_scores_that_are_no_numbers(request_: dict[str, Any], expected: object, options: Options) -> None:
    nodes = nodes_with_none("n0 n1 n2 n3 n4 n5", "n2")
    found = answer(message(request_, nodes, INSTANCES), options=options)["result"]
    moved = request_["type"] == "node-evacuate"
    assert (found[0][0][2] if moved else found) == expected


def test_of_groups_whose_scores_are_no_numbers() -> None:
    nodes = nodes_with_none("n0 n1 n2", "n2") | nodes_with_none("m0 m1 m2 m3 m4", "m2", group="v")
    wanted = {"type": "change-group", "instances": ["a", "b"], "target_groups": []}
    moved, _, _ = answer(message(wanted, nodes, INSTANCES, ("u", "v")))["result"]
    assert moved == [["a", "gv", ["m4", "m3"]], ["b", "gv", ["m4"]]]


def test_an_instance_goes_to_no_group_that_does_not_suit_it() -> None:
    nodes = {"n0": node(), "n1": node(group="v"), "n2": node(group="w")}
    cluster = read_cluster(
        message({}, nodes, {"b": instance("rbd", "n0"), "c": instance("rbd", "n0")}, ("u", "v", "w"))
    )
    for other, suits in (("v", "w"), ("w", "v")):
        state = ClusterState(cluster)
        found = answer_over(state, ChangeGroup(("b",), ("v", "w"), {"b": [other], "c": [suits]}), WITHOUT_N1)
        assert isinstance(found, Moves) and [group for _, group, _ in found.moved] == [f"g{suits}"]
        none = answer_over(ClusterState(cluster), ChangeGroup(("b",), ("v", "w"), {"b": ["v", "w"]}), WITHOUT_N1)
        assert isinstance(none, Moves) and not none.moved and [name for name, _ in none.failed] == ["b"]


def test_a_mirrored_instance_without_a_mirror_is_never_redundant() -> None:
    instances = {"broken": instance("drbd", "n0"), "b": instance("rbd", "n0")}
    found = answer(message(allocation("rbd", 1), {"n0": node(), "n1": node()}, instances))
    assert found["info"] == (
        "Request failed: Group gu (preferred): No valid allocation solutions, failure reasons: FailN1: 2"
    )


@pytest.mark.requirement("S5.42")
def test_groups_without_nodes_are_not_spoken_of() -> None:
    found = answer(message(allocation("rbd", 1), {"n0": node()}, groups=("e", "u", "v")), options=WITHOUT_N1)
    assert found["info"].startswith("Request successful: Selected group: gu, Group gu (preferred): score: ")
    assert found["info"].endswith(" for node(s) n0")


def test_no_group_with_nodes_is_left_to_move_to() -> None:
    wanted = {"type": "change-group", "instances": ["b"], "target_groups": ["v"]}
    _, failed, _ = answer(message(wanted, {"n0": node(), "n1": node()}, INSTANCES, ("u", "v")))["result"]
    assert failed == [["b", "no groups for evacuation: the instances are in every group they may go to"]]


NOT_CONNECTED = "is not connected to a network required by instance new"


@pytest.mark.parametrize(
    ("exclusive", "start", "end"),
    [
        (False, f"Request successful: Selected group: gu, group gv {NOT_CONNECTED}, Group gu (", "node(s) u1"),
        (True, "Request successful: Selected group: gu, Group gu (", f", Group gv: error The group gv {NOT_CONNECTED}"),
    ],
)
def test_groups_that_are_not_connected(exclusive: bool, start: str, end: str) -> None:
    params = {"spindle_count": 4, "exclusive_storage": exclusive}
    nodes = {
        f"{uuid}{number}": node(group=uuid, ndparams=params, total_spindles=4, free_spindles=4)
        for uuid in "uv"
        for number in range(2)
    }
    wanted = allocation("rbd", 1, nics=[{"network": "x"}], disks=[{"size": 1024, "spindles": 1}])
    asked = message(wanted, nodes)
    asked["nodegroups"] = {"u": group("gu", networks=["x"]), "v": group("gv", networks=["y"])}
    info = answer(asked, options=WITHOUT_N1)["info"]
    assert info.startswith(start)
    assert info.endswith(end)


def test_a_pair_where_a_node_has_no_cpus() -> None:
    """3.0.2 corrects the deviations for each pair, and takes for zero one that is no number."""
    nodes = {"n0": node(), "n1": node(total_cpus=0, reserved_cpus=1), "n2": node(total_memory=32768, free_memory=32256)}
    found = answer(message(allocation("drbd", 2), nodes), options=WITHOUT_N1)
    assert "score: NaN" not in found["info"]
    assert "score: NaN" in answer(message(allocation("plain", 1), nodes), options=WITHOUT_N1)["info"]


def test_several_instances_for_a_group_that_is_not_there() -> None:
    wanted = {"type": "multi-allocate", "instances": [allocation("rbd", 1)], "group_name": "nowhere"}
    found = answer(message(wanted, {"n0": node()}))
    assert found == {
        "success": False,
        "info": "Request failed: Wrong number of elems found with name nowhere",
        "result": [],
    }


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (0.123456785, "0.12345678"),
        (0.123456795, "0.12345680"),
        (12.5, "12.50000000"),
        (66344288255481.59, "66344288255481.59000000"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
    ],
)
def test_scores_are_rounded_as_they_are_written(score: float, text: str) -> None:
    assert shown_score(score) == text


def test_deviations_that_nearly_vanish_keep_their_digits() -> None:
    """They are corrected by distances from the mean; by squares the same pair had 1e-8 for nothing."""
    statistics = _Statistics([0.7, 0.7, 0.9])
    statistics.exchange(0.9, 0.7)
    assert statistics.deviation == 0

# SPDX-License-Identifier: BSD-2-Clause
"""What allocators are asked about capacity, and what their answers come to."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import configuration

from ganeti.base.errors import GanetiError
from ganeti.master.capacity import PARAMETERS, question, read_answer, requests, summed
from ganeti.model.capacity import Capacity
from ganeti.model.configuration import Configuration
from ganeti.model.placement_requests import CountCapacity, to_protocol

GROUP = "uuid-group1"


def view(cluster: Any = None, group: Any = None, **changes: Any) -> Configuration:
    config = configuration()
    enabled = {"enabled_disk_templates": ["sharedfile", "plain"], "ipolicy": {"disk-templates": ["plain"]}}
    config.put("cluster", "cluster", replace(config.cluster, capacity_params=cluster, **enabled | changes))
    config.put("nodegroups", GROUP, replace(config.group(GROUP), capacity_params=group))
    return config


def asked(config: Configuration, **given: Any) -> dict[str, Any]:
    return question(config, config.group(GROUP), "hail", given)


@pytest.mark.requirement("S1.66", "S1.68")
def test_a_request_goes_before_the_group_and_the_group_before_the_cluster() -> None:
    config = view({"max_cpu_ratio": 1.0, "max_disk_usage": 0.5, "max_inst_spec": [1, 1, 1]}, {"max_cpu_ratio": 2.0})
    assert asked(config, max_inst_spec=[2, 2, 2]) == {
        "iallocator": "hail",
        "max_inst_spec": [2, 2, 2],
        "default_template": "plain",
        "max_cpu_ratio": 2.0,
        "max_disk_usage": 0.5,
    }


@pytest.mark.parametrize(
    ("changes", "template"),
    [
        ({}, "plain"),
        ({"ipolicy": {}}, "sharedfile"),
        ({"ipolicy": {"disk-templates": ["rbd"]}}, "sharedfile"),
        ({"enabled_disk_templates": ["invented", "plain"], "ipolicy": {}}, "plain"),
        ({"enabled_disk_templates": ["invented"]}, "diskless"),
    ],
)
def test_without_a_template_it_is_the_first_that_may_be_used(changes: dict[str, Any], template: str) -> None:
    assert asked(view(**changes))["default_template"] == template


def test_groups_of_one_template_are_asked_about_together() -> None:
    questions = {
        uuid: dict.fromkeys(PARAMETERS) | {"default_template": template, "max_cpu_ratio": ratio}
        for uuid, template, ratio in (("a", "plain", None), ("b", "drbd", None), ("c", "plain", 2.0))
    }
    plain, drbd = requests(questions)
    assert to_protocol(plain) == {
        "type": "capacity",
        "node_groups": ["a", "c"],
        "default_template": "plain",
        "group_parameters": {"a": {}, "c": {"max_cpu_ratio": 2.0}},
    }
    assert drbd.node_groups == ["b"]
    assert requests({}) == []


REQUEST = CountCapacity(node_groups=["a"], default_template="plain", group_parameters={"a": {"max_cpu_ratio": 2.0}})


def test_an_answer_is_read_with_the_parameters_it_names() -> None:
    entry = {"tspecs": [[1, 1, 1, 2], [2, 1, 1, 1]], "max_inst_spec": [2, 1, 1], "more": 1}
    assert read_answer(REQUEST, {"cluster": [], "node_groups": {"a": entry}, "more": 2}) == {
        "a": {
            "tspecs": [[2, 1, 1, 1], [1, 1, 1, 2]],
            "max_inst_spec": [2, 1, 1],
            "default_template": "plain",
            "max_cpu_ratio": 2.0,
            "max_disk_usage": None,
        }
    }


@pytest.mark.parametrize(
    "result",
    [
        None,
        [],
        {},
        {"node_groups": []},
        {"node_groups": {"b": {"tspecs": []}}},
        {"node_groups": {"a": []}},
        {"node_groups": {"a": {"tspecs": None}}},
        {"node_groups": {"a": {"tspecs": [[1, 2, 3]]}}},
        {"node_groups": {"a": {"tspecs": [[1, 2, 3, -4]]}}},
        {"node_groups": {"a": {"tspecs": [[1, 2, 3, 4.5]]}}},
        {"node_groups": {"a": {"tspecs": [[1, 2, 3, True]]}}},
    ],
)
def test_what_is_no_answer_is_refused(result: Any) -> None:
    with pytest.raises(GanetiError):
        read_answer(REQUEST, result)


@pytest.mark.requirement("S1.71")
def test_the_cluster_is_the_sum_and_as_old_as_its_oldest_part() -> None:
    found = {
        "a": Capacity({"tspecs": [[2, 2, 2, 3], [1, 1, 1, 1]]}, 20.0),
        "b": Capacity({"tspecs": [[3, 1, 1, 1], [2, 2, 2, 4]]}, 10.0),
    }
    assert summed(found, 30.0) == {
        "cluster": [[3, 1, 1, 1], [2, 2, 2, 7], [1, 1, 1, 1]],
        "node_groups": {"a": found["a"].result, "b": found["b"].result},
        "ctime": 10.0,
    }
    assert summed({}, 30.0) == {"cluster": [], "node_groups": {}, "ctime": 30.0}

# SPDX-License-Identifier: BSD-2-Clause
"""OP_COMPUTE_CAPACITY: what is known is not counted again, and what an allocator says is checked."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.group.compute_capacity import ComputeCapacity
from ganeti.model.capacity import Capacity
from ganeti.model.objects import NodeGroup

ONE, TWO = "uuid-group1", "uuid-group2"


def entry(count: int) -> dict[str, Any]:
    return {
        "tspecs": [[1024, 2048, 1, count]],
        "max_inst_spec": [1024, 2048, 1],
        "default_template": "plain",
        "max_cpu_ratio": 4.0,
        "max_disk_usage": 1.0,
    }


@pytest.fixture
def ctx() -> FakeContext:
    config = configuration()
    config.put("cluster", "cluster", replace(config.cluster, enabled_disk_templates=["plain"], ipolicy={}))
    config.put("nodegroups", TWO, NodeGroup(uuid=TWO, name="another"))
    found = FakeContext(config, catalogue())
    found.allocation = {"success": True, "info": "", "result": {"node_groups": {ONE: entry(1), TWO: entry(2)}}}
    return found


def compute(ctx: FakeContext, **parameters: Any) -> Any:
    return run(decode({"OP_ID": ComputeCapacity.op_id, **parameters}), ctx)


@pytest.mark.requirement("S1.64", "S1.68", "S1.69")
def test_all_groups_are_counted_and_kept(ctx: FakeContext) -> None:
    assert compute(ctx) == {
        "cluster": [[1024, 2048, 1, 3]],
        "node_groups": {TWO: entry(2), ONE: entry(1)},
        "ctime": ctx.time_s,
    }
    assert ctx.asked == [("hail", False)], "nothing is reserved"
    assert set(ctx.capacities) == {ONE, TWO}


@pytest.mark.requirement("S1.64", "S1.68", "S1.71")
def test_what_is_known_is_not_counted_again(ctx: FakeContext) -> None:
    ctx.capacities = {ONE: Capacity(entry(7), 900.0)}
    answer = compute(ctx)
    assert [request["node_groups"] for request in ctx.allocations] == [[TWO]]
    assert (answer["cluster"], answer["ctime"]) == ([[1024, 2048, 1, 9]], 900.0)
    compute(ctx)
    assert len(ctx.allocations) == 1
    assert compute(ctx, cached=False)["ctime"] == ctx.time_s
    assert ctx.allocations[1]["node_groups"] == [TWO, ONE]


@pytest.mark.requirement("S1.64")
def test_what_is_only_supposed_is_counted_anew_and_not_kept(ctx: FakeContext) -> None:
    known = {ONE: Capacity(entry(7), 900.0), TWO: Capacity(entry(7), 900.0)}
    ctx.capacities = dict(known)
    answer = compute(ctx, if_added=["1:memory=8g,disk=100g,cpus=4"])
    assert [request["node_groups"] for request in ctx.allocations] == [[TWO, ONE]]
    assert answer["cluster"] == [[1024, 2048, 1, 3]] and ctx.capacities == known


@pytest.mark.requirement("S1.66", "S1.68")
def test_one_group_and_parameters_may_be_named(ctx: FakeContext) -> None:
    compute(ctx, node_groups=["another"], max_inst_spec=[4, 8, 2], max_cpu_ratio=2, max_disk_usage=0.5, iallocator="me")
    assert ctx.asked == [("me", False)]
    (request,) = ctx.allocations
    own = {"max_inst_spec": [4, 8, 2], "max_cpu_ratio": 2.0, "max_disk_usage": 0.5}
    assert request["group_parameters"] == {TWO: own}


LEAST = {"memory-size": 128, "disk-size": 1024, "cpu-count": 2}
SMALL = r"A max_inst_spec of \[{}\] is below every minimum of the policy of node group 'default': give at least 128 MiB"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (
            {"default_template": "diskless"},
            "of node group 'default' does not allow disk template 'diskless': name one of",
        ),
        ({"max_inst_spec": [127, 1024, 2]}, SMALL.format("127, 1024, 2")),
        ({"max_inst_spec": [128, 1023, 2]}, SMALL.format("128, 1023, 2")),
        ({"max_inst_spec": [128, 1024, 1]}, SMALL.format("128, 1024, 1")),
    ],
)
def test_what_a_policy_admits_nothing_of_is_refused(ctx: FakeContext, parameters: dict[str, Any], words: str) -> None:
    """Of one of several groups about which nobody asked by name, the answer is that nothing fits."""
    policy = {"disk-templates": ["plain"], "minmax": [{"min": LEAST, "max": LEAST}]}
    config = ctx.config.view()
    cluster = replace(config.cluster, enabled_disk_templates=["plain", "diskless"])
    config.put("cluster", "cluster", cluster)
    config.put("nodegroups", ONE, replace(config.group(ONE), ipolicy=policy))
    assert set(compute(ctx, **parameters)["node_groups"]) == {ONE, TWO}
    with pytest.raises(PrerequisiteError, match=words):
        compute(ctx, node_groups=["another", "default"], **parameters)
    config.put("cluster", "cluster", replace(cluster, ipolicy=policy))
    with pytest.raises(PrerequisiteError, match=words.replace("default", "another")):
        compute(ctx, **parameters)
    assert compute(ctx, node_groups=["default"], max_inst_spec=[128, 1024, 2])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"node_groups": ["mars"]}, "mars"),
        ({"default_template": "rbd"}, "not enabled: there are plain"),
        ({"max_disk_usage": 1.5}, "max_disk_usage"),
        ({"max_cpu_ratio": 0}, "max_cpu_ratio"),
        ({"max_inst_spec": [1, 2]}, "max_inst_spec"),
        ({"max_inst_spec": [1, 2, -3]}, r"max_inst_spec \[1, 2, -3\] has a vcpus of -3: give memory"),
        ({"max_inst_spec": [0, 2, 1]}, "has a memory of 0: give"),
        ({"max_inst_spec": [1, 2**53 + 1, 1]}, "has a disk of 9007199254740993: give"),
        ({"bogus": 1}, "bogus"),
    ],
)
def test_what_cannot_be_asked_is_refused(ctx: FakeContext, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        compute(ctx, **parameters)
    assert not ctx.allocations


def test_without_an_allocator_the_remedy_is_named(ctx: FakeContext) -> None:
    config = ctx.config.config
    config.put("cluster", "cluster", replace(config.cluster, default_iallocator=""))
    with pytest.raises(PrerequisiteError, match="-I ALLOCATOR"):
        compute(ctx)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"success": False, "info": "no such request", "result": []}, "'hail': no such request"),
        ({"success": True, "info": "", "result": {}}, "node_groups"),
        ({"success": True, "info": "", "result": {"node_groups": {ONE: entry(1)}}}, TWO),
    ],
)
def test_what_an_allocator_cannot_say_is_an_error(ctx: FakeContext, answer: dict[str, Any], words: str) -> None:
    ctx.allocation = answer
    with pytest.raises(PrerequisiteError, match=words):
        compute(ctx)
    assert not ctx.capacities


def test_the_log_says_why_groups_have_no_room(ctx: FakeContext) -> None:
    """The result does not: its form is that of S1.70."""
    none = entry(1) | {"tspecs": []}
    answer = {ONE: none, TWO: none}  # in the order of the cluster, not of the question
    ctx.allocation = {
        "success": True,
        "info": "",
        "result": {"node_groups": answer},
        "reasons": ["default has no room", "another has no room"],
    }
    for _ in range(2):  # counted, and known
        ctx.lines.clear()
        assert compute(ctx)["node_groups"] == answer
        assert ctx.lines == ["another has no room", "default has no room"]
    assert len(ctx.allocations) == 1


def test_the_log_says_what_a_policy_admits_nothing_of(ctx: FakeContext) -> None:
    ctx.config.config.put("nodegroups", TWO, NodeGroup(uuid=TWO, name="another", ipolicy={"disk-templates": ["rbd"]}))
    ctx.allocation["result"]["node_groups"][TWO] = entry(1) | {"tspecs": []}
    compute(ctx, default_template="plain")
    (why,) = ctx.lines
    assert "The policy of node group 'another' does not allow disk template 'plain'" in why


def test_what_a_foreign_allocator_says_of_other_groups_is_not_looked_at(ctx: FakeContext) -> None:
    groups = ctx.allocation["result"]["node_groups"]
    groups |= {ONE: entry(1) | {"tspecs": []}, "stranger": 5, "another stranger": {}}
    assert compute(ctx)["cluster"] == entry(2)["tspecs"]
    assert ctx.lines == []

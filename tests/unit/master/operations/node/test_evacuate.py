# SPDX-License-Identifier: BSD-2-Clause
"""Moving instances off a node: what the allocator is asked, the jobs that follow, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import SubmitJobs
from ganeti.master.operations.instance.moving.migrate import MigrateInstance
from ganeti.master.operations.node.evacuate import EvacuateNode


def migrate(name: str) -> list[dict[str, Any]]:
    return [{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": name, "target_node": "node3", "allow_failover": True}]


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    for name, node in (("web2", "uuid-node1"), ("web1", "uuid-node1"), ("db1", "uuid-node2")):
        add_instance(context.config.view(), name, node)
    context.allocation = {"success": True, "info": "", "result": [[], [], [migrate("web1"), migrate("web2")]]}
    return context


def evacuated(ctx: FakeContext, node: str = "node1", mode: str = "all", **parameters: Any) -> list[Any]:
    result = run(EvacuateNode(node_name=node, mode=mode, **parameters), ctx)
    assert isinstance(result, SubmitJobs)
    return list(result.jobs)


@pytest.mark.parametrize("mode", ["all", "primary-only"])
def test_a_job_for_each_instance_as_the_allocator_says(ctx: FakeContext, mode: str) -> None:
    jobs = evacuated(ctx, mode=mode, priority=-10)
    assert [job.instance_name for [job] in jobs] == ["web1", "web2"]
    [[first], _] = jobs
    assert isinstance(first, MigrateInstance)
    assert (first.target_node, first.comment, first.priority) == ("node3", "Evacuating node node1", -10)
    assert ctx.allocations == [{"type": "node-evacuate", "instances": ["web1", "web2"], "evac_mode": mode}]
    assert ctx.asked == [("hail", False)]


def test_soft_errors_are_the_allocators(ctx: FakeContext) -> None:
    evacuated(ctx, ignore_soft_errors=True)
    assert ctx.allocations[0]["ignore_soft_errors"] is True


def test_a_node_without_instances_asks_nobody(ctx: FakeContext) -> None:
    assert evacuated(ctx, "node3") == []
    assert evacuated(ctx, mode="secondary-only") == []
    assert ctx.allocations == []


def test_what_is_only_reserved_stays(ctx: FakeContext) -> None:
    config = ctx.config.config
    instance = config.instance("uuid-web1")
    config.put("instances", instance.uuid, replace(instance, forthcoming=True))
    evacuated(ctx)
    assert ctx.allocations[0]["instances"] == ["web2"]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"success": False, "info": "no room", "result": []}, "where to move web1, web2 .*'hail': no room"),
        ({"success": True, "info": "", "result": [[], [["web2", "not mirrored"]], [migrate("web1")]]}, "web2: not mir"),
    ],
)
def test_where_one_cannot_move_none_does(ctx: FakeContext, answer: dict[str, Any], sentence: str) -> None:
    ctx.allocation = answer
    with pytest.raises(PrerequisiteError, match=sentence):
        evacuated(ctx)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"remote_node": "node3"}, "with mode secondary-only"),
        ({"remote_node": "node1", "mode": "secondary-only"}, "name another one"),
        ({"remote_node": "node3", "mode": "secondary-only", "iallocator": "hail"}, "not both"),
    ],
)
def test_what_makes_no_sense(ctx: FakeContext, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        evacuated(ctx, **parameters)


def test_without_an_allocator(ctx: FakeContext) -> None:
    config = ctx.config.config
    config.put("cluster", "cluster", replace(config.cluster, default_iallocator=""))
    with pytest.raises(PrerequisiteError, match="add -I ALLOCATOR"):
        evacuated(ctx)

# SPDX-License-Identifier: BSD-2-Clause
"""Moving the instances of a node group to others: what the allocator is asked, the jobs that follow, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import SubmitJobs
from ganeti.master.operations.group.evacuate import EvacuateGroup
from ganeti.master.operations.instance.moving.failover import FailoverInstance
from ganeti.master.operations.instance.moving.migrate import MigrateInstance
from ganeti.model.locks import ALL_NODES, group_lock, node_lock
from ganeti.model.objects import NodeGroup

pytestmark = pytest.mark.requirement("S1.16")


def migrate(name: str) -> list[dict[str, Any]]:
    return [{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": name, "target_node": "node3", "allow_failover": True}]


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    config = context.config.view()
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), group="uuid-green"))
    for name, node in (("web2", "uuid-node1"), ("web1", "uuid-node2"), ("db1", "uuid-node3")):
        add_instance(config, name, node)
    context.allocation = {"success": True, "info": "", "result": [[], [], [migrate("web1"), migrate("web2")]]}
    return context


def evacuated(ctx: FakeContext, group: str = "default", **parameters: Any) -> list[Any]:
    result = run(EvacuateGroup(group_name=group, **parameters), ctx)
    assert isinstance(result, SubmitJobs)
    return list(result.jobs)


@pytest.mark.parametrize("parameters", [{}, {"target_groups": ["green"]}, {"target_groups": ["uuid-green", "green"]}])
def test_a_job_for_each_instance_as_the_allocator_says(ctx: FakeContext, parameters: dict[str, Any]) -> None:
    jobs = evacuated(ctx, **parameters)
    assert [job.instance_name for [job] in jobs] == ["web1", "web2"]
    [[first], [second]] = jobs
    assert isinstance(first, MigrateInstance) and first.depends is second.depends is None
    assert ctx.allocations == [{"type": "change-group", "instances": ["web1", "web2"], "target_groups": ["uuid-green"]}]


@pytest.mark.parametrize("parameters", [{}, {"target_groups": ["green"]}])
def test_jobs_on_nodes_of_other_groups_are_not_waited_for(ctx: FakeContext, parameters: dict[str, Any]) -> None:
    locks = EvacuateGroup(group_name="default", **parameters).locks(ctx.config.view())
    assert locks.exclusive == frozenset()
    assert {node_lock("uuid-node1"), node_lock("uuid-node2"), group_lock("uuid-green")} <= locks.shared
    assert not {node_lock("uuid-node3"), ALL_NODES} & locks.shared


def test_one_after_the_other(ctx: FakeContext) -> None:
    [[first], [second]] = evacuated(ctx, sequential=True)
    assert first.depends is None
    assert second.depends == [[-1, ["success", "error", "canceled"]]]


def test_failovers_in_place_of_migrations(ctx: FakeContext) -> None:
    [[first], _] = evacuated(ctx, force_failover=True)
    assert isinstance(first, FailoverInstance)
    assert (first.instance_name, first.target_node) == ("web1", "node3")


def test_an_empty_group_asks_nobody(ctx: FakeContext) -> None:
    ctx.config.config.remove("instances", "uuid-db1")
    assert evacuated(ctx, "green") == []
    assert ctx.allocations == []


@pytest.mark.parametrize(
    ("group", "parameters", "words"),
    [
        ("default", {"target_groups": ["default"]}, "for itself"),
        ("default", {"target_groups": ["blue"]}, "blue"),
        ("blue", {}, "blue"),
    ],
)
def test_what_makes_no_sense(ctx: FakeContext, group: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        evacuated(ctx, group, **parameters)


def test_where_one_cannot_move_none_does(ctx: FakeContext) -> None:
    ctx.allocation = {"success": True, "info": "", "result": [[], [["web2", "no room"]], [migrate("web1")]]}
    with pytest.raises(PrerequisiteError, match="web2: no room"):
        evacuated(ctx)

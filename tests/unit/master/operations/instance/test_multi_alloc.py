# SPDX-License-Identifier: BSD-2-Clause
"""Creating many instances by one placement: what is asked, the jobs that follow, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import SubmitJobs
from ganeti.master.operations.instance.creation.create import CreateInstance
from ganeti.master.operations.instance.creation.multi_alloc import CreateInstances

WEB = {
    "instance_name": "web1",
    "mode": "create",
    "disk_template": "common",
    "disks": [{"size": 64}],
    "nics": [{}],
    "os_type": "noop+default",
}
DB = WEB | {"instance_name": "db1", "disks": [{"size": 128}]}


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    context.allocation = {
        "success": True,
        "info": "",
        "result": [[["web1", ["node2"]], ["db1", ["node3"]]], []],
    }
    return context


def created(ctx: FakeContext, *instances: dict[str, Any], **parameters: Any) -> SubmitJobs:
    result = run(CreateInstances(instances=list(instances), **parameters), ctx)
    assert isinstance(result, SubmitJobs)
    return result


def nodes(result: SubmitJobs) -> list[tuple[str, str | None]]:
    found = []
    for [creation] in result.jobs:
        assert isinstance(creation, CreateInstance)
        assert creation.iallocator is None
        found.append((creation.instance_name, creation.pnode))
    return found


def test_one_question_places_all_and_each_has_its_job(ctx: FakeContext) -> None:
    result = created(ctx, WEB, DB, iallocator=".", opportunistic_locking=True)
    assert nodes(result) == [("web1", "node2"), ("db1", "node3")]
    assert result.other == {"allocatable": ["web1", "db1"], "failed": []}
    [request] = ctx.allocations
    assert request["type"] == "multi-allocate"
    assert [(one["name"], one["disk_space_total"]) for one in request["instances"]] == [("web1", 64), ("db1", 128)]
    assert ctx.asked == [("hail", False)], "nothing is reserved for a job that creates nothing"
    assert not ctx.records


def test_those_that_do_not_fit_are_told_and_the_others_made(ctx: FakeContext) -> None:
    ctx.allocation["result"] = [[["web1", ["node2"]]], [["db1", "not enough memory"]]]
    result = created(ctx, WEB | {"group_name": "default"}, DB | {"group_name": "default"})
    assert nodes(result) == [("web1", "node2")]
    assert result.other == {"allocatable": ["web1"], "failed": ["db1"]}
    assert ctx.lines == ["Instance db1 fits nowhere: not enough memory"]
    assert ctx.allocations[0]["group_name"] == "default"


def test_named_nodes_need_no_allocator(ctx: FakeContext) -> None:
    result = created(ctx, WEB | {"pnode": "node1"}, DB | {"pnode": "node3"})
    assert nodes(result) == [("web1", "node1"), ("db1", "node3")]
    assert not ctx.asked


@pytest.mark.parametrize(
    ("instances", "sentence"),
    [
        ([], "No instance is described"),
        ([WEB, WEB | {"instance_name": "WEB1"}], "Instance web1 is described twice"),
        ([WEB, DB | {"pnode": "node1"}], "Nodes are named for some instances"),
        ([WEB, DB | {"group_name": "default"}], "make one batch of each group"),
        ([WEB | {"instance_name": "old"}], "Instance old: Instance 'old' is already in the cluster"),
        ([WEB | {"disks": 3}], "Instance web1: .*parameter 'disks': it must be a list"),
        ([{"mode": "create"}], "Instance number 1: .*is missing"),
        ([WEB | {"OP_ID": "OP_INSTANCE_REMOVE"}], "web1 is described by another opcode"),
    ],
)
def test_what_is_wrong_stops_all_and_names_the_instance(
    ctx: FakeContext, instances: list[dict[str, Any]], sentence: str
) -> None:
    add_instance(ctx.config.view(), "old")
    with pytest.raises(PrerequisiteError, match=sentence):
        created(ctx, *instances)
    assert not ctx.asked


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"success": False, "info": "no room", "result": []}, "Can't compute nodes using iallocator 'hail': no room"),
        ({"success": True, "info": "", "result": [["web1"]]}, "its answer breaks the protocol"),
        (
            {"success": True, "info": "", "result": [[["x", ["node1"]]], []]},
            "protocol: it places x, which was not asked",
        ),
        (
            {"success": True, "info": "", "result": [[["web1", ["node1"]], ["web1", ["node2"]]], ["db1"]]},
            "it places web1 twice",
        ),
        (
            {"success": True, "info": "", "result": [[["web1", ["node1"]]], ["web1", "db1"]]},
            "it places web1, and says that it cannot be placed",
        ),
        ({"success": True, "info": "", "result": [[["web1", ["n9"]]], []]}, "node n9, which the cluster does not have"),
    ],
)
def test_an_answer_that_cannot_be_used(ctx: FakeContext, answer: dict[str, Any], sentence: str) -> None:
    ctx.allocation = answer
    with pytest.raises(PrerequisiteError, match=sentence):
        created(ctx, WEB, DB)

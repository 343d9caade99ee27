# SPDX-License-Identifier: BSD-2-Clause
"""Moving an instance to another node group: what the allocator is asked, the jobs that follow, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import SubmitJobs
from ganeti.master.operations.instance.moving.change_group import ChangeGroupOfInstance
from ganeti.master.operations.instance.moving.migrate import MigrateInstance
from ganeti.master.operations.instance.moving.move_target import check_target
from ganeti.model.objects import Network, NodeGroup

MIGRATE = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "web1", "target_node": "node3", "allow_failover": True}


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    config = context.config.view()
    add_instance(config, "web1")
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), group="uuid-green"))
    context.allocation = {"success": True, "info": "", "result": [[["web1", "green", ["node3"]]], [], [[MIGRATE]]]}
    return context


def changed(ctx: FakeContext, **parameters: Any) -> SubmitJobs:
    result = run(ChangeGroupOfInstance(instance_name="web1", **parameters), ctx)
    assert isinstance(result, SubmitJobs)
    return result


@pytest.mark.parametrize("parameters", [{}, {"target_groups": ["green"]}, {"target_groups": ["uuid-green", "green"]}])
def test_the_allocator_says_where_and_a_job_moves_it(ctx: FakeContext, parameters: dict[str, Any]) -> None:
    [[job]] = changed(ctx, early_release=True, **parameters).jobs
    assert isinstance(job, MigrateInstance)
    assert (job.instance_name, job.target_node) == ("web1", "node3")
    assert ctx.allocations == [{"type": "change-group", "instances": ["web1"], "target_groups": ["uuid-green"]}]
    assert ctx.asked == [("hail", False)]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"success": False, "info": "no room", "result": []}, "Can't compute where to move web1 .*'hail': no room"),
        ({"success": True, "info": "", "result": [[], [["web1", "full"]], []]}, "hail': web1: full"),
        ({"success": True, "info": "", "result": [[], []]}, "its answer breaks the protocol"),
    ],
)
def test_where_it_cannot_move_nothing_is_done(ctx: FakeContext, answer: dict[str, Any], sentence: str) -> None:
    ctx.allocation = answer
    with pytest.raises(PrerequisiteError, match=sentence):
        changed(ctx)


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        ([[], [["web1", None]], []], "'mine': web1: it gave no reason"),
        ([[], [], [[{"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "web1"}]]], "has the opcode OP_INSTANCE_REMOVE"),
        ([[], [], [[{"instance_name": "web1"}]]], "has the opcode None: it may have OP_INSTANCE_FAILOVER"),
        ([[], [], []], "protocol: it neither moves web1 nor says why not"),
        ([[["web1", "green", ["node3"]]], [], []], "it neither moves web1 nor says why not"),
        ([[], [], [[MIGRATE], []]], "protocol: one of its jobs is empty"),
        ([[], [], [[MIGRATE | {"instance_name": "web2"}]]], "protocol: it moves web2, which was not asked for"),
        ([[], [], [[MIGRATE | {"instance_name": "web9"}]]], "breaks the protocol: .*web9"),
        ([[], [], [[MIGRATE | {"speed": 1}]]], "breaks the protocol: .*there is no parameter 'speed'"),
        ([[], [], [[{"OP_ID": "OP_INSTANCE_FAILOVER"}]]], "breaks the protocol: .*'instance_name' is missing"),
    ],
)
def test_a_program_may_only_move_instances(ctx: FakeContext, result: list[Any], sentence: str) -> None:
    add_instance(ctx.config.view(), "web2")
    ctx.allocation = {"success": True, "info": "", "result": result}
    with pytest.raises(PrerequisiteError, match=sentence):
        changed(ctx, iallocator="mine")
    ctx.allocation["result"] = [[], [], [[MIGRATE]]]
    assert len(changed(ctx, iallocator="mine").jobs) == 1


def test_refusals(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match="web1 is in node group default: name another one"):
        changed(ctx, target_groups=["green", "default"])
    config = ctx.config.view()
    config.put("cluster", "cluster", replace(config.cluster, default_iallocator=""))
    with pytest.raises(PrerequisiteError, match="no default allocator: add -I ALLOCATOR"):
        changed(ctx)
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), group="uuid-group1"))
    config.remove("nodegroups", "uuid-green")
    with pytest.raises(PrerequisiteError, match="no node group that web1 is not in"):
        changed(ctx, iallocator="hail")


def test_a_group_with_other_networks_takes_none_of_their_instances(ctx: FakeContext) -> None:
    config = ctx.config.view()
    instance = config.find_instance("web1")
    check_target(config, instance, "uuid-node3", ignore_ipolicy=False)
    config.put("networks", "uuid-dmz", Network(uuid="uuid-dmz", name="dmz", network="192.0.2.0/24"))
    config.put(
        "nodegroups", "uuid-group1", replace(config.group("uuid-group1"), networks={"uuid-dmz": {"mode": "routed"}})
    )
    instance = replace(instance, nics=[replace(instance.nics[0], network="uuid-dmz")])
    with pytest.raises(PrerequisiteError, match="network dmz is not connected to node group green as it is to default"):
        check_target(config, instance, "uuid-node3", ignore_ipolicy=False)


def test_a_network_that_an_earlier_version_connected_is_the_same(ctx: FakeContext) -> None:
    config = ctx.config.view()
    config.put("networks", "uuid-dmz", Network(uuid="uuid-dmz", name="dmz", network="192.0.2.0/24"))
    earlier = {"mode": "bridged", "link": "br5"}
    for uuid, nicparams in (("uuid-group1", earlier), ("uuid-green", earlier | {"vlan": ""})):
        config.put("nodegroups", uuid, replace(config.group(uuid), networks={"uuid-dmz": nicparams}))
    instance = config.find_instance("web1")
    instance = replace(instance, nics=[replace(instance.nics[0], network="uuid-dmz")])
    check_target(config, instance, "uuid-node3", ignore_ipolicy=False)
    config.put("nodegroups", "uuid-green", replace(config.group("uuid-green"), networks={"uuid-dmz": {"link": "br6"}}))
    with pytest.raises(PrerequisiteError, match="is not connected to node group green"):
        check_target(config, instance, "uuid-node3", ignore_ipolicy=False)

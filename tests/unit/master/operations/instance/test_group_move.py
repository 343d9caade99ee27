# SPDX-License-Identifier: BSD-2-Clause
"""The steps of a mirrored instance to another node group, from wherever an interrupted move has left it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.paired_disks import PairedDisks
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import SubmitJobs
from ganeti.master.operations.group.evacuate import EvacuateGroup
from ganeti.master.operations.instance.change.set_params import ModifyInstanceOperation
from ganeti.master.operations.instance.disks.recreate_disks import RecreateDisks
from ganeti.master.operations.instance.disks.replace_disks import ReplaceDisks
from ganeti.master.operations.instance.moving.change_group import ChangeGroupOfInstance
from ganeti.master.operations.instance.moving.migrate import MigrateInstance
from ganeti.model.objects import Network, NodeGroup
from ganeti.model.traits import Catalogue

pytestmark = pytest.mark.requirement("S1.29", "S1.30", "S1.31", "S1.32")
OPCODES = [
    {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": "web1", "mode": "replace_new_secondary"}
    | {"early_release": False, "remote_node": "node3"},
    {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "web1", "allow_failover": True},
    {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": "web1", "mode": "replace_new_secondary"}
    | {"early_release": False, "remote_node": "node4"},
]


def paired() -> Catalogue:
    known = catalogue()
    templates = dict(known.templates) | {"pair": PairedDisks.traits}
    return Catalogue(hypervisors=known.hypervisors, templates=templates)


@pytest.fixture
def ctx() -> FakeContext:
    """Nodes 1 and 2 are of the group default, 3 and 4 of the group green, 5 of blue; web1 is on the first two."""
    context = FakeContext(configuration(nodes=5), paired())
    config = context.config.view()
    config.put("nodegroups", "uuid-blue", NodeGroup(uuid="uuid-blue", name="blue"))
    config.put("nodes", "uuid-node5", replace(config.node("uuid-node5"), group="uuid-blue"))
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    for number in (3, 4):
        node = config.node(f"uuid-node{number}")
        config.put("nodes", node.uuid, replace(node, group="uuid-green"))
    cluster = config.cluster
    policy = cluster.ipolicy | {"disk-templates": [*cluster.ipolicy["disk-templates"], "pair"]}
    config.put("cluster", "cluster", replace(cluster, ipolicy=policy))
    on(context, 1, 2)
    context.allocation = {"success": True, "info": "", "result": [[["web1", "green", ["node3"]]], [], [OPCODES]]}
    return context


def on(ctx: FakeContext, primary: int, secondary: int) -> None:
    config = ctx.config.view()
    instance = add_instance(config, "web1", f"uuid-node{primary}", template="pair")
    disk = config.disk(instance.disks[0])
    config.put("disks", disk.uuid, replace(disk, nodes=[f"uuid-node{primary}", f"uuid-node{secondary}"]))


def steps(ctx: FakeContext, **parameters: Any) -> list[str]:
    """Each as ``r:NODE`` for another secondary, ``f`` for a change of roles, ``r:ALLOCATOR``."""
    result = run(ChangeGroupOfInstance(instance_name="web1", **parameters), ctx)
    assert isinstance(result, SubmitJobs)
    return shown(result.jobs)


def shown(jobs: list[list[Any]]) -> list[str]:
    found = []
    for step in (step for job in jobs for step in job):
        if isinstance(step, MigrateInstance):
            found.append("f")
        else:
            assert isinstance(step, ReplaceDisks)
            assert step.between_groups or step.iallocator
            found.append(f"r:{step.remote_node or step.iallocator}")
    return found


def test_what_the_allocator_says_may_cross_the_groups(ctx: FakeContext) -> None:
    assert steps(ctx, target_groups=["green"]) == ["r:node3", "f", "r:node4"]
    assert shown(evacuated(ctx)) == ["r:node3", "f", "r:node4"]


def evacuated(ctx: FakeContext) -> list[list[Any]]:
    result = run(EvacuateGroup(group_name="default"), ctx)
    assert isinstance(result, SubmitJobs)
    return list(result.jobs)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ((1, 2), ["r:node3", "f", "r:node4"]),
        ((1, 3), ["f", "r:node4"]),
        ((1, 4), ["r:node3", "f", "r:node4"]),
        ((3, 1), ["r:node4"]),
        ((4, 1), ["r:node3", "f"]),
    ],
)
def test_named_nodes_are_reached_from_wherever_it_is(
    ctx: FakeContext, now: tuple[int, int], expected: list[str]
) -> None:
    on(ctx, *now)
    assert steps(ctx, nodes=["node3", "node4"]) == expected
    assert ctx.allocations == []


@pytest.mark.parametrize(
    ("now", "group", "expected"),
    [
        ((1, 3), "green", ["f", "r:hail"]),
        ((1, 3), "default", ["r:hail"]),
        ((3, 1), "green", ["r:hail"]),
        ((3, 1), "default", ["f", "r:hail"]),
    ],
)
def test_an_interrupted_move_is_completed_or_taken_back(
    ctx: FakeContext, now: tuple[int, int], group: str, expected: list[str]
) -> None:
    on(ctx, *now)
    assert steps(ctx, target_groups=[group]) == expected
    if group == "green":
        assert shown(evacuated(ctx)) == expected
    with pytest.raises(PrerequisiteError, match=r"node groups (default and green|green and default), .* --to \w+ or"):
        steps(ctx)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"nodes": ["node3"]}, r"web1 \(pair\) needs a primary and a secondary node: write -n PRIMARY:SECONDARY"),
        ({"nodes": ["node3", "node3"]}, "Primary and secondary node are both node3"),
        ({"nodes": ["node3", "node5"]}, "must be in the same node group"),
        ({"nodes": ["node3", "node2"]}, "web1 is in node group default: name another one"),
        ({"nodes": ["node1", "node2"]}, "web1 is in node group default: name another one"),
        ({"nodes": ["node3", "node4"], "iallocator": "hail"}, "not both"),
        ({"nodes": ["node3", "node4"], "target_groups": ["green"]}, "not both"),
        ({"nodes": ["mars", "node4"]}, "mars"),
    ],
)
def test_nodes_that_cannot_be_are_refused(ctx: FakeContext, parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PrerequisiteError, match=sentence):
        steps(ctx, **parameters)


def test_a_group_that_does_not_suit_is_refused_before_anything_is_copied(ctx: FakeContext) -> None:
    config = ctx.config.view()
    config.put("nodes", "uuid-node4", replace(config.node("uuid-node4"), drained=True))
    with pytest.raises(PrerequisiteError, match="Node node4 is drained"):
        steps(ctx, nodes=["node3", "node4"])
    with pytest.raises(PrerequisiteError, match="node4 is drained"):
        steps(ctx, target_groups=["green"])
    config.put("nodes", "uuid-node4", replace(config.node("uuid-node4"), drained=False))
    green = config.group("uuid-green")
    small = [{"min": {"disk-size": 1}, "max": {"disk-size": 32}}]
    config.put("nodegroups", green.uuid, replace(green, ipolicy={"minmax": small}))
    for parameters in ({"nodes": ["node3", "node4"]}, {"target_groups": ["green"]}):
        with pytest.raises(PrerequisiteError, match="violates the policy of node node3's group"):
            steps(ctx, **parameters)
    config.put("nodegroups", green.uuid, green)
    config.put("networks", "uuid-dmz", Network(uuid="uuid-dmz", name="dmz", network="192.0.2.0/24"))
    group, instance = config.group("uuid-group1"), config.find_instance("web1")
    config.put("nodegroups", group.uuid, replace(group, networks={"uuid-dmz": {"mode": "routed"}}))
    nics = [replace(instance.nics[0], network="uuid-dmz")]
    config.put("instances", instance.uuid, replace(instance, nics=nics))
    with pytest.raises(PrerequisiteError, match="network dmz is not connected to node group green"):
        steps(ctx, nodes=["node3", "node4"])


def in_network(ctx: FakeContext, *groups: str) -> None:
    """The instance is in a network that its group and *groups* are connected to."""
    config = ctx.config.view()
    config.put("networks", "uuid-dmz", Network(uuid="uuid-dmz", name="dmz", network="192.0.2.0/24"))
    for uuid in ("uuid-group1", *groups):
        config.put("nodegroups", uuid, replace(config.group(uuid), networks={"uuid-dmz": {"mode": "routed"}}))
    instance = config.find_instance("web1")
    nics = [replace(instance.nics[0], network="uuid-dmz")]
    config.put("instances", instance.uuid, replace(instance, nics=nics))


def test_a_group_without_its_networks_is_no_target_where_another_has_them(ctx: FakeContext) -> None:
    in_network(ctx, "uuid-green")
    assert (
        steps(ctx)
        == steps(ctx, target_groups=["blue", "green"])
        == shown(evacuated(ctx))
        == ["r:node3", "f", "r:node4"]
    )
    assert [asked["target_groups"] for asked in ctx.allocations] == [["uuid-green"]] * 3
    with pytest.raises(PrerequisiteError, match="network dmz is not connected to node group blue"):
        steps(ctx, target_groups=["blue"])
    add_instance(ctx.config.view(), "web2", "uuid-node1")
    assert shown(evacuated(ctx)) == ["r:node3", "f", "r:node4"]
    assert ctx.allocations[-1]["target_groups"] == ["uuid-blue", "uuid-green"]
    assert ctx.allocations[-1]["unsuitable"] == {"web1": ["uuid-blue"]}


@pytest.mark.requirement("S1.24", "S1.27")
def test_no_other_operation_puts_an_instance_into_two_groups(ctx: FakeContext) -> None:
    """Not the one that makes its disks anew, nor the one that gives it a second copy."""
    config = ctx.config.view()
    ctx.nodes.handlers["blockdev_find"] = lambda name, disk: None
    config.put("instances", "uuid-web1", replace(config.find_instance("web1"), admin_state="down"))
    with pytest.raises(PrerequisiteError, match="must be in the same node group"):
        run(RecreateDisks(instance_name="web1", nodes=["node2", "node3"]), ctx)
    add_instance(config, "web2", "uuid-node1", template="local", admin_state="down")
    cluster = config.cluster
    config.put("cluster", "cluster", replace(cluster, enabled_disk_templates=["local", "pair"]))
    with pytest.raises(PrerequisiteError, match="must be in the same node group"):
        run(ModifyInstanceOperation(instance_name="web2", disk_template="pair", remote_node="node3"), ctx)
    in_network(ctx)
    with pytest.raises(PrerequisiteError, match="network dmz is not connected to node group green"):
        run(RecreateDisks(instance_name="web1", nodes=["node3", "node4"]), ctx)


def test_of_an_evacuation_nothing_is_asked_where_one_instance_has_no_target(ctx: FakeContext) -> None:
    in_network(ctx)
    with pytest.raises(PrerequisiteError, match=r"to node group blue as .*; .* to node group green as"):
        evacuated(ctx)
    assert ctx.allocations == []


def test_only_a_step_of_a_move_may_have_its_secondary_elsewhere(ctx: FakeContext) -> None:
    replaced = ReplaceDisks(instance_name="web1", mode="replace_new_secondary", remote_node="node3")
    with pytest.raises(PrerequisiteError, match="same node group: gnt-instance change-group moves web1 to another one"):
        run(replaced, ctx)

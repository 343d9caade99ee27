# SPDX-License-Identifier: BSD-2-Clause
"""Flags of a node: every role from every role, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import ExecutionError, NodeCallError, NodeUnreachableError, PrerequisiteError
from ganeti.master.operations.node.set_params import ModifyNode
from ganeti.model.locks import ALL_NODES, node_lock, node_res_lock
from ganeti.model.objects import CLUSTER_KEY, CONFIG_VERSION, Disk, NodeGroup

ROLES: dict[str, dict[str, bool]] = {
    "candidate": {"master_candidate": True, "drained": False, "offline": False},
    "regular": {"master_candidate": False, "drained": False, "offline": False},
    "drained": {"master_candidate": False, "drained": True, "offline": False},
    "offline": {"master_candidate": False, "drained": False, "offline": True},
}


def make(role: str = "candidate", pool: int = 1, **values: Any) -> FakeContext:
    """A cluster whose node2 has *role*; with a pool of 1 nobody needs another candidate."""
    ctx = FakeContext(configuration(), catalogue())
    ctx.nodes.handlers["version"] = lambda name: CONFIG_VERSION
    ctx.nodes.handlers["node_verify"] = lambda name, checks: {"client-cert": f"digest-{name}"}
    ctx.nodes.handlers["candidate_keys"] = lambda name: {"authority_key": "secret", "public_keys": {}}
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, candidate_pool_size=pool))
    node = replace(config.find_node("node2"), **ROLES[role], **values)
    config.put("nodes", node.uuid, node)
    return ctx


def role_of(ctx: FakeContext, name: str = "node2") -> str:
    node = ctx.config.view().find_node(name)
    flags = {flag: getattr(node, flag) for flag in ROLES["regular"]}
    return next(role for role, values in ROLES.items() if values == flags)


@pytest.mark.parametrize("before", ROLES)
@pytest.mark.parametrize(
    ("fields", "after"),
    [
        ({"master_candidate": True}, "candidate"),
        ({"drained": True}, "drained"),
        ({"offline": True}, "offline"),
        ({"master_candidate": False}, {"candidate": "regular"}),
        ({"drained": False}, {"drained": "regular"}),
        ({"offline": False}, {"offline": "regular"}),
    ],
)
def test_every_role_from_every_role(before: str, fields: dict[str, Any], after: Any) -> None:
    ctx = make(before)
    changes = run(ModifyNode(node_name="node2", **fields), ctx)
    wanted = after if isinstance(after, str) else after.get(before, before)
    assert role_of(ctx) == wanted
    assert bool(changes) == (wanted != before)


def test_what_changed_is_told() -> None:
    ctx = make()
    assert run(ModifyNode(node_name="node2", offline=True), ctx) == [
        ("master_candidate", "False"),
        ("offline", "True"),
    ]


@pytest.mark.parametrize(
    ("role", "fields", "told"),
    [
        ("candidate", {"master_candidate": False}, "False"),
        ("candidate", {"master_capable": False}, "False"),
        ("candidate", {"drained": True}, "None"),
        ("candidate", {"vm_capable": True}, "None"),
        ("drained", {"drained": False}, "True"),
        ("offline", {"offline": False}, "True"),
    ],
)
def test_hooks_are_told_whether_the_node_becomes_a_candidate(role: str, fields: dict[str, bool], told: str) -> None:
    ctx = make(role, pool=10)
    operation, view = ModifyNode(node_name="node2", auto_promote=True, **fields), ctx.config.view()  # type: ignore[arg-type]
    hooks = operation.hooks(view, operation.check(view, None, ctx))  # type: ignore[arg-type]
    assert hooks.env["MASTER_CANDIDATE"] == told


def test_recorded_states_are_typed_and_changed_key_by_key() -> None:
    ctx = make()
    hypervisor, disk = {"pretend": {"mem_total": "2g", "cpu_total": 4}}, {"plain": {"xenvg": {"disk_total": "100"}}}
    run(ModifyNode(node_name="node2", hv_state=hypervisor, disk_state=disk), ctx)
    changes = run(ModifyNode(node_name="node2", hv_state={"pretend": {"mem_total": "default"}}), ctx)
    node = ctx.config.view().find_node("node2")
    assert node.hv_state_static == {"pretend": {"cpu_total": 4}}
    assert node.disk_state_static == {"plain": {"xenvg": {"disk_total": 100}}}
    assert changes == [("hv_state", "{'pretend': {'cpu_total': 4}}")]


@pytest.mark.parametrize("flags", [{}, {"master_candidate": False, "offline": False}])
def test_a_freed_node_promotes_itself_where_one_is_wanted(flags: dict[str, bool]) -> None:
    ctx = make("drained", pool=10)
    run(ModifyNode(node_name="node2", drained=False, **flags), ctx)
    assert role_of(ctx) == "candidate"
    assert ctx.config.view().cluster.candidate_certs == {"uuid-node2": "digest-node2"}
    assert ctx.lines[-1] == " - INFO: Auto-promoting node to master candidate"


@pytest.mark.parametrize("candidate", [None, False])
@pytest.mark.requirement("S1.75")
def test_a_node_that_becomes_master_capable_promotes_itself_too(candidate: bool | None) -> None:
    ctx = make("regular", pool=10, master_capable=False)
    run(ModifyNode(node_name="node2", master_capable=True, master_candidate=candidate), ctx)
    assert role_of(ctx) == "candidate"


@pytest.mark.requirement("S1.75")
def test_a_node_no_longer_master_capable_is_demoted() -> None:
    ctx = make()
    run(ModifyNode(node_name="node2", master_capable=False), ctx)
    assert role_of(ctx) == "regular"


def test_another_is_promoted_only_if_that_was_allowed() -> None:
    ctx = make(pool=2)
    config = ctx.config.config
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), master_candidate=False))
    with pytest.raises(PrerequisiteError, match="pass auto promote option"):
        run(ModifyNode(node_name="node2", drained=True), ctx)
    run(ModifyNode(node_name="node2", drained=True, auto_promote=True), ctx)
    assert (role_of(ctx), role_of(ctx, "node3")) == ("drained", "candidate")
    assert ctx.story == [
        "node3 node_verify",
        "node1 candidate_keys",
        "undo: take the keys of a master candidate from node node3",
        "node3 upload_file",
        "commit PromoteNode settles",
        "undo: take the keys of a master candidate from node node2",
        "undo: complete that node node2 is no master candidate",
        "commit ReplaceNode",
        "node2 node_demote_from_mc",
    ]


@pytest.mark.parametrize("answer", [NodeUnreachableError("no"), lambda name: 1])
def test_an_offline_node_must_answer_to_come_back(answer: Any) -> None:
    ctx = make("offline")
    ctx.nodes.handlers["version"] = answer
    with pytest.raises(PrerequisiteError, match="node2 is being de-offlined"):
        run(ModifyNode(node_name="node2", offline=False), ctx)
    assert ctx.story == ["node2 version"] and role_of(ctx) == "offline"


@pytest.mark.parametrize("promotes", [True, False])
def test_a_node_that_obeys_a_later_master_does_not_come_back(promotes: bool) -> None:
    """It refuses all that changes it: no key of a candidate goes there, whose taking back it would refuse, too."""
    ctx = make("offline")
    over = NodeCallError("The call comes from epoch 1, which is over: another master has begun epoch 7")
    for call in ("node_ssh_key_remove", "upload_file", "node_demote_from_mc"):
        ctx.nodes.handlers[call] = over
    with pytest.raises(ExecutionError, match=r"takes no orders \(.*epoch 7\).* gnt-node add --readd node2 here"):
        run(ModifyNode(node_name="node2", offline=False, master_candidate=promotes), ctx)
    assert [record.sentence for record in ctx.records] == ["mark node node2 offline again"]


@pytest.mark.requirement("S1.75")
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "at least one modification"),
        ({"drained": True, "offline": True}, "more than one state"),
        ({"powered": True}, "does not support out-of-band"),
        ({"vm_capable": False}, "hosts instances (web1)"),
        ({"master_capable": False, "master_candidate": True}, "not master capable"),
        ({"ndparams": {"ssh_port": "many"}}, "ssh_port"),
        ({"hv_state": {"moon": {}}}, "Unknown hypervisor 'moon': there are pretend"),
        ({"hv_state": {"pretend": {"mem_total": "lots"}}}, "Parameter 'mem_total' cannot be"),
        ({"disk_state": {"local": {"a": {}}}}, "Disk state 'local'"),
        ({"secondary_ip": "nonsense"}, "valid IPv4"),
        ({"secondary_ip": "10.77.0.3"}, "conflict with existing node node3"),
        ({"secondary_ip": "10.88.0.2"}, "master has no secondary ip"),
    ],
)
def test_refusals_change_nothing(fields: dict[str, Any], sentence: str) -> None:
    ctx = make()
    add_instance(ctx.config.config, "web1", "uuid-node2")
    before = ctx.config.config.to_plain()
    with pytest.raises(PrerequisiteError) as caught:
        run(ModifyNode(node_name="node2", **fields), ctx)
    assert sentence in str(caught.value)
    assert ctx.config.config.to_plain() == before


@pytest.mark.parametrize(
    "fields", [{"offline": True}, {"drained": True}, {"master_candidate": False}, {"master_capable": False}]
)
def test_the_master_stays_the_master(fields: dict[str, Any]) -> None:
    ctx = make()
    with pytest.raises(PrerequisiteError, match="node1 is the master"):
        run(ModifyNode(node_name="node1", **fields), ctx)


def test_a_powered_off_node_stays_offline() -> None:
    ctx = make("offline", ndparams={"oob_program": "/bin/oob"}, powered=False)
    with pytest.raises(PrerequisiteError, match="needs to be turned on"):
        run(ModifyNode(node_name="node2", offline=False), ctx)
    run(ModifyNode(node_name="node2", offline=False, powered=True), ctx)
    assert ctx.config.view().find_node("node2").powered


def dual_homed() -> FakeContext:
    ctx = make()
    config = ctx.config.config
    for index in (1, 2, 3):
        node = config.node(f"uuid-node{index}")
        config.put("nodes", node.uuid, replace(node, secondary_ip=f"10.88.0.{index}"))
    return ctx


def test_a_secondary_address_must_be_on_the_node() -> None:
    ctx = dual_homed()
    ctx.nodes.handlers["node_has_ip_address"] = lambda name, address: address == "10.88.0.20"
    with pytest.raises(PrerequisiteError, match=r"10\.88\.0\.21 is not on node node2"):
        run(ModifyNode(node_name="node2", secondary_ip="10.88.0.21"), ctx)
    changes = run(ModifyNode(node_name="node2", secondary_ip="10.88.0.20"), ctx)
    assert changes == [("secondary_ip", "10.88.0.20")]


@pytest.mark.requirement("S1.96")
def test_a_primary_address_named_again_stays_one_address_however_it_is_written() -> None:
    """In a cluster without IPv4, where the secondary address is the primary one."""
    ctx = make()
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, primary_ip_family=10))
    for index in (1, 2, 3):
        address = f"fd77::{index}"
        node = replace(config.node(f"uuid-node{index}"), primary_ip=address, secondary_ip=address)
        config.put("nodes", node.uuid, node)
    ctx.nodes.handlers["node_has_ip_address"] = lambda name, address: address == "fd77::2"
    assert run(ModifyNode(node_name="node2", secondary_ip="fd77:0:0::2"), ctx) == []
    assert ctx.config.view().find_node("node2").secondary_ip == "fd77::2"


def test_the_master_must_reach_the_node_at_a_new_secondary_address() -> None:
    ctx = dual_homed()
    before = ctx.config.config.to_plain()
    ctx.nodes.handlers["node_has_ip_address"] = lambda name, address: True
    reasons = {"node2": "10.88.0.20 port 1811 cannot be reached: No route to host"}
    ctx.nodes.handlers["node_verify"] = lambda name, checks: {"node-net-test": reasons if name == "node1" else {}}
    operation = ModifyNode(node_name="node2", secondary_ip="10.88.0.20")
    with pytest.raises(PrerequisiteError, match=r"node2 does not answer the master at .* 10\.88\.0\.20 .*No route"):
        run(operation, ctx)
    assert ctx.config.config.to_plain() == before
    reasons.clear()
    assert run(operation, ctx) == [("secondary_ip", "10.88.0.20")]


def test_mirrored_instances_must_be_down_for_it() -> None:
    ctx = dual_homed()
    ctx.nodes.handlers["node_has_ip_address"] = lambda name, address: True
    instance = add_instance(ctx.config.config, "web1", "uuid-node1")
    disk = ctx.config.config.disk(instance.disks[0])
    ctx.config.config.put("disks", disk.uuid, replace(disk, nodes=["uuid-node1", "uuid-node2"]))
    assert isinstance(disk, Disk)
    operation = ModifyNode(node_name="node2", secondary_ip="10.88.0.20")
    assert "instance/web1" in operation.locks(ctx.config.view()).shared
    with pytest.raises(PrerequisiteError, match="Instance web1 mirrors"):
        run(operation, ctx)


@pytest.mark.requirement("S1.15", "S1.34")
def test_another_group() -> None:
    ctx = make()
    config = ctx.config.config
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    assert run(ModifyNode(node_name="node2", group="green"), ctx) == [("group", "green")]
    assert config.node("uuid-node2").group == "uuid-green"
    assert run(ModifyNode(node_name="node2", group="uuid-green"), ctx) == []
    add_instance(config, "web1", "uuid-node2")
    with pytest.raises(PrerequisiteError, match=r"has instances \(web1\), which would change to node group default"):
        run(ModifyNode(node_name="node2", group="default"), ctx)
    assert run(ModifyNode(node_name="node2", group="default", force=True), ctx) == [("group", "default")]
    [disk] = config.disks()
    config.put("disks", disk.uuid, replace(disk, nodes=["uuid-node2", "uuid-node3"]))
    with pytest.raises(PrerequisiteError, match="would be in two groups: web1; move all their nodes at once"):
        run(ModifyNode(node_name="node2", group="green", force=True), ctx)
    with pytest.raises(PrerequisiteError, match="grey"):
        run(ModifyNode(node_name="node2", group="grey"), ctx)


@pytest.mark.requirement("S1.74", "S1.75", "S1.77")
def test_a_node_may_be_capable_of_nothing() -> None:
    ctx = make()
    assert run(ModifyNode(node_name="node2", vm_capable=False, master_capable=False), ctx)
    node = ctx.config.view().find_node("node2")
    assert (node.master_capable, node.vm_capable, node.master_candidate) == (False, False, False)
    with pytest.raises(PrerequisiteError, match="not master capable"):
        run(ModifyNode(node_name="node2", master_candidate=True), ctx)


def test_only_a_candidate_that_leaves_needs_the_locks_of_all_nodes() -> None:
    """Maintenance drains nodes with --auto-promote: it waited for the longest job anywhere, and all others for it."""
    drains = ModifyNode(node_name="node2", drained=True, auto_promote=True)
    assert ALL_NODES in drains.locks(make().config.view()).exclusive
    own = {node_lock("uuid-node2"), node_res_lock("uuid-node2")}
    assert drains.locks(make("regular").config.view()).exclusive == own
    comes_back = ModifyNode(node_name="node2", offline=False, auto_promote=True)
    assert comes_back.locks(make("offline").config.view()).exclusive == own

# SPDX-License-Identifier: BSD-2-Clause
"""Nodes come and go: what is refused, in which order things happen, who becomes a candidate."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import ExecutionError, NodeCallError, NodeUnreachableError, PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations import load
from ganeti.master.operations.node.add import AddNodeToCluster
from ganeti.master.operations.node.migrate import MigrateNode
from ganeti.master.operations.node.remove import RemoveNodeFromCluster
from ganeti.model.objects import BACKUPS_KEY, CLUSTER_KEY, CONFIG_VERSION, Backups, BackupSchedule, NodeGroup
from ganeti.ports.context import UndoChange


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    context.nodes.handlers["version"] = lambda name: CONFIG_VERSION
    context.nodes.handlers["node_verify"] = lambda name, checks: {"client-cert": f"digest-{name}"}
    context.nodes.handlers["candidate_keys"] = lambda name: {"authority_key": "secret", "public_keys": {}}
    context.nodes.handlers["shared_files"] = lambda name: []
    return context


def change_cluster(ctx: FakeContext, **values: Any) -> None:
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, **values))


def change_node(ctx: FakeContext, name: str, **values: Any) -> None:
    config = ctx.config.config
    node = replace(config.find_node(name), **values)
    config.put("nodes", node.uuid, node)


def undo(ctx: FakeContext) -> None:
    import asyncio

    for record in reversed(ctx.records):
        assert isinstance(record, UndoChange)
        asyncio.run(ctx.config.commit(record.change))


def test_a_node_enters_answers_and_becomes_a_candidate(ctx: FakeContext) -> None:
    run(AddNodeToCluster(node_name="node4", hv_state={"pretend": {"mem_total": "2g"}}), ctx)
    assert ctx.story == [
        "undo: take node node4 out of the configuration",
        "commit AddNode",
        "node4 version",
        "node4 node_verify",
        "node1 candidate_keys",
        "undo: take the keys of a master candidate from node node4",
        "node4 upload_file",
        "commit ReplaceNode settles",
        "node1 shared_files",
    ]
    node = ctx.config.view().find_node("node4")
    assert (node.primary_ip, node.secondary_ip, node.master_candidate) == ("10.77.0.9", "10.77.0.9", True)
    assert (node.master_capable, node.vm_capable, node.group) == (True, True, "uuid-group1")
    assert node.hv_state_static == {"pretend": {"mem_total": 2048}}
    assert ctx.config.view().cluster.candidate_certs == {node.uuid: "digest-node4"}
    assert ctx.lines == [" - INFO: Node will be a master candidate"]


@pytest.mark.requirement("S3.6")
def test_a_new_node_gets_the_files_that_every_node_has(ctx: FakeContext) -> None:
    """So that it can be the master later on, with the same users and certificate of the remote API."""
    users = {"path": "/var/lib/ganeti/rapi/users", "content": "amy pw write\n", "mode": 0o440}
    ctx.nodes.handlers["shared_files"] = lambda name: [users]
    sent = []
    ctx.nodes.handlers["upload_file"] = lambda name, **file: sent.append((name, file["path"]))
    run(AddNodeToCluster(node_name="node4"), ctx)
    assert [place for place in sent if place[1] == users["path"]] == [("node4", users["path"])]


def test_files_that_cannot_be_sent_are_told_with_the_remedy(ctx: FakeContext) -> None:
    ctx.nodes.handlers["shared_files"] = NodeCallError("node1: the disk fails")
    run(AddNodeToCluster(node_name="node4"), ctx)
    assert "gnt-cluster redist-conf" in ctx.lines[-1]


def test_a_full_pool_takes_no_more(ctx: FakeContext) -> None:
    change_cluster(ctx, candidate_pool_size=3)
    run(AddNodeToCluster(node_name="node4"), ctx)
    assert not ctx.config.view().find_node("node4").master_candidate
    assert ctx.config.view().cluster.candidate_certs == {}


@pytest.mark.parametrize("answer", [NodeUnreachableError("it does not answer"), lambda name: 2030000])
def test_a_node_that_does_not_fit_is_taken_out_again(ctx: FakeContext, answer: Any) -> None:
    before = ctx.config.config.to_plain()
    ctx.nodes.handlers["version"] = answer
    with pytest.raises(ExecutionError, match="node4"):
        run(AddNodeToCluster(node_name="node4"), ctx)
    undo(ctx)
    assert ctx.config.config.to_plain() == before


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"node_name": "node1"}, "already in the configuration"),
        ({"node_name": "node4", "readd": True}, "not in the configuration"),
        ({"node_name": "node1", "readd": True}, "is the master"),
        ({"node_name": "node2", "readd": True, "group": "default"}, "Cannot pass a node group"),
        ({"node_name": "node2", "readd": True, "ndparams": {"ssh_port": 23}}, "Node parameters stay"),
        ({"node_name": "node2", "readd": True, "vm_capable": False}, "but has web1"),
        ({"node_name": "node4", "primary_ip": "10.77.0.2"}, "conflict with existing node node2"),
        ({"node_name": "node4", "secondary_ip": "10.88.0.1"}, "master has no secondary ip"),
        ({"node_name": "node4", "secondary_ip": "fe80::1"}, "valid IPv4"),
        ({"node_name": "node4", "secondary_ip": "127.0.0.1"}, "valid IPv4"),
        ({"node_name": "node4", "group": "red"}, "Group 'red' not known"),
        ({"node_name": "node4", "ndparams": {"colour": "red"}}, "Unknown node parameter"),
        ({"node_name": "node4", "ndparams": {"exclusive_storage": True}}, "only be set for the cluster or a group"),
        ({"node_name": "node4", "ndparams": {"ssh_port": 70000}}, "the most is 65535"),
    ],
)
def test_refusals_change_nothing(ctx: FakeContext, fields: dict[str, Any], sentence: str) -> None:
    add_instance(ctx.config.config, "web1", "uuid-node2")
    before = ctx.config.config.to_plain()
    with pytest.raises(PrerequisiteError) as caught:
        run(AddNodeToCluster(**fields), ctx)
    assert sentence in str(caught.value)
    assert (ctx.config.config.to_plain(), ctx.story) == (before, [])


def test_a_dual_homed_master_wants_dual_homed_nodes(ctx: FakeContext) -> None:
    change_node(ctx, "node1", secondary_ip="10.88.0.1")
    with pytest.raises(PrerequisiteError, match="new node doesn't have one"):
        run(AddNodeToCluster(node_name="node4"), ctx)


@pytest.mark.parametrize("readd", [False, True])
def test_a_node_that_is_silent_at_its_secondary_address_is_taken_out_again(ctx: FakeContext, readd: bool) -> None:
    for index in (1, 2, 3):
        change_node(ctx, f"node{index}", secondary_ip=f"10.88.0.{index}")
    name, address = ("node2", "10.88.0.2") if readd else ("node4", "10.88.0.4")
    before = [replace(node, serial_no=0, mtime=0.0) for node in ctx.config.view().nodes()]
    asked: list[tuple[str, Any]] = []
    verify = ctx.nodes.handlers["node_verify"]
    reasons = {name: f"{address} port 1811 did not answer in 5 seconds"}

    def node_verify(asked_name: str, checks: dict[str, Any]) -> dict[str, Any]:
        if "node-net-test" not in checks:
            assert callable(verify)
            answer: dict[str, Any] = verify(asked_name, checks)
            return answer
        asked.append((asked_name, [each["primary_ip"] for each in checks["node-net-test"]]))
        return {"node-net-test": reasons}

    ctx.nodes.handlers["node_verify"] = node_verify
    adding = AddNodeToCluster(node_name=name, secondary_ip=address, readd=readd)
    with pytest.raises(ExecutionError, match=rf"{name} does not answer the master at .* {address} .* then repeat"):
        run(adding, ctx)
    undo(ctx)
    assert [replace(node, serial_no=0, mtime=0.0) for node in ctx.config.view().nodes()] == before
    assert asked == [("node1", [address])]
    reasons.clear()
    run(adding, ctx)
    assert ctx.config.view().find_node(name).secondary_ip == address


@pytest.mark.requirement("S1.99")
def test_in_a_hybrid_cluster_a_node_needs_an_ipv4_secondary_address(ctx: FakeContext) -> None:
    change_cluster(ctx, primary_ip_family=10)
    change_node(ctx, "node1", primary_ip="fd77::1", secondary_ip="10.88.0.1")
    with pytest.raises(PrerequisiteError, match="needs an IPv4 secondary address"):
        run(AddNodeToCluster(node_name="node4", primary_ip="fd77::4"), ctx)
    with pytest.raises(PrerequisiteError, match="doesn't have one"):
        run(AddNodeToCluster(node_name="node4", primary_ip="fd77::4", secondary_ip="fd77::4"), ctx)
    run(AddNodeToCluster(node_name="node4", primary_ip="fd77::4", secondary_ip="10.88.0.4"), ctx)
    node = ctx.config.config.find_node("node4")
    assert (node.primary_ip, node.secondary_ip) == ("fd77::4", "10.88.0.4")


@pytest.mark.requirement("S1.99")
@pytest.mark.parametrize(("family", "version", "wrong"), [(2, 4, "fd77::4"), (10, 6, "10.77.0.4"), (10, 6, "::")])
def test_a_primary_address_is_of_the_clusters_family(ctx: FakeContext, family: int, version: int, wrong: str) -> None:
    """A client of the remote API can name one."""
    change_cluster(ctx, primary_ip_family=family)
    for given in (wrong, "node4", "10.77.0.300"):
        with pytest.raises(
            PrerequisiteError, match=rf"Primary IP \({given}\) needs to be a valid IPv{version} address"
        ):
            run(AddNodeToCluster(node_name="node4", primary_ip=given, secondary_ip="10.88.0.4"), ctx)


def test_a_cluster_without_ipv4_takes_nodes_of_one_address(ctx: FakeContext) -> None:
    change_cluster(ctx, primary_ip_family=10)
    change_node(ctx, "node1", primary_ip="fd77::1", secondary_ip="fd77::1")
    run(AddNodeToCluster(node_name="node4", primary_ip="fd77::4"), ctx)
    assert ctx.config.config.find_node("node4").secondary_ip == "fd77::4"


def test_several_groups_need_one_named(ctx: FakeContext) -> None:
    ctx.config.config.put("nodegroups", "uuid-group2", NodeGroup(uuid="uuid-group2", name="blue"))
    with pytest.raises(PrerequisiteError, match=r"More than one node group exists \(blue, default\)"):
        run(AddNodeToCluster(node_name="node4"), ctx)
    run(AddNodeToCluster(node_name="node4", group="blue"), ctx)
    assert ctx.config.view().find_node("node4").group == "uuid-group2"


def test_a_node_comes_back_as_it_was_but_online(ctx: FakeContext) -> None:
    change_node(ctx, "node2", offline=True, master_candidate=False, tags=["rack1"], ndparams={"ssh_port": 2222})
    run(AddNodeToCluster(node_name="node2", readd=True), ctx)
    node = ctx.config.view().find_node("node2")
    assert (node.uuid, node.offline, node.master_candidate, node.primary_ip) == ("uuid-node2", False, True, "10.77.0.9")
    assert (node.tags, node.ndparams, node.secondary_ip) == (["rack1"], {"ssh_port": 2222}, "10.77.0.9")


def test_a_failed_return_leaves_it_offline(ctx: FakeContext) -> None:
    change_node(ctx, "node2", offline=True, master_candidate=False)
    ctx.nodes.handlers["version"] = NodeUnreachableError("no")
    with pytest.raises(ExecutionError):
        run(AddNodeToCluster(node_name="node2", readd=True), ctx)
    undo(ctx)
    assert ctx.config.view().find_node("node2").offline
    assert ctx.config.view().find_node("node2").primary_ip == "10.77.0.2"


def test_a_removed_candidate_is_replaced_before_it_leaves(ctx: FakeContext) -> None:
    change_cluster(ctx, candidate_pool_size=2, candidate_certs={"uuid-node2": "digest-node2"})
    change_node(ctx, "node3", master_candidate=False)
    run(RemoveNodeFromCluster(node_name="node2"), ctx)
    assert ctx.story == [
        "node3 node_verify",
        "node1 candidate_keys",
        "undo: take the keys of a master candidate from node node3",
        "node3 upload_file",
        "commit PromoteNode settles",
        "node2 hooks_runner",
        "node2 node_leave_cluster",
        "undo: complete the removal of node node2",
        "commit RemoveNode",
    ]
    view = ctx.config.view()
    assert sorted(view.names("nodes")) == ["node1", "node3"]
    assert view.cluster.candidate_certs == {"uuid-node3": "digest-node3"}


def test_the_post_hooks_of_a_removal_run_on_the_node_while_it_is_one(ctx: FakeContext) -> None:
    told: list[tuple[str, str, dict[str, str]]] = []

    def hooks_runner(name: str, *, path: str, phase: str, env: dict[str, str]) -> list[list[object]]:
        told.append((name, f"{path}-{phase}", env))
        return [[f"{path}-{phase}.d/10-site", 1, "no"]]

    ctx.nodes.handlers["hooks_runner"] = hooks_runner
    run(RemoveNodeFromCluster(node_name="node2"), ctx)
    ((name, directory, env),) = told
    assert (name, directory) == ("node2", "node-remove-post")
    assert env["GANETI_NODE_NAME"] == env["GANETI_POST_NODE_NAME"] == env["GANETI_POST_OP_TARGET"] == "node2"
    assert "hook node-remove-post.d/10-site failed on node node2: no" in ctx.lines
    assert "node2" not in ctx.config.view().names("nodes")


def test_an_offline_node_is_removed_without_its_hooks(ctx: FakeContext) -> None:
    change_node(ctx, "node2", offline=True, master_candidate=False)
    run(RemoveNodeFromCluster(node_name="node2"), ctx)
    assert "node2 hooks_runner" not in ctx.story


def test_a_node_that_cannot_be_told_is_removed_all_the_same(ctx: FakeContext) -> None:
    ctx.nodes.dead.add("node2")
    run(RemoveNodeFromCluster(node_name="node2"), ctx)
    assert "node2" not in ctx.config.view().names("nodes")
    assert any("node-cleanup on node2" in line for line in ctx.lines)


def test_a_node_that_a_schedule_keeps_backups_on_is_not_removed(ctx: FakeContext) -> None:
    nightly = BackupSchedule(name="nightly", scope="cluster", node="uuid-node2", interval_s=86400, keep=7)
    ctx.config.config.put("backups", BACKUPS_KEY, Backups(schedules=[nightly]))
    with pytest.raises(PrerequisiteError, match=r"schedule nightly are kept on node node2.*add it anew with another"):
        run(RemoveNodeFromCluster(node_name="node2"), ctx)
    assert ctx.story == []


@pytest.mark.parametrize(
    ("template", "offline", "stays"), [("local", False, True), ("local", True, False), ("common", True, True)]
)
def test_a_node_with_a_disk_of_no_instance_stays_unless_both_are_lost(
    ctx: FakeContext, template: str, offline: bool, stays: bool
) -> None:
    add_instance(ctx.config.config, "web1", "uuid-node2", template=template, admin_state="down")
    [disk] = ctx.config.view().instance_disks(ctx.config.view().find_instance("web1"))
    ctx.config.config.remove("instances", "uuid-web1")
    change_node(ctx, "node2", offline=offline, master_candidate=False)
    if stays:
        with pytest.raises(PrerequisiteError, match=f"Disk {disk.uuid}, which no instance has, is on node node2: att"):
            run(RemoveNodeFromCluster(node_name="node2"), ctx)
        assert "node2 node_leave_cluster" not in ctx.story and disk in ctx.config.view().disks()
    else:
        run(RemoveNodeFromCluster(node_name="node2"), ctx)
        assert not ctx.config.view().disks() and "node2" not in ctx.config.view().names("nodes")


def test_who_cannot_be_removed(ctx: FakeContext) -> None:
    add_instance(ctx.config.config, "web1", "uuid-node2")
    with pytest.raises(PrerequisiteError, match="is the master node"):
        run(RemoveNodeFromCluster(node_name="node1"), ctx)
    with pytest.raises(PrerequisiteError, match="Instance web1 still uses node node2"):
        run(RemoveNodeFromCluster(node_name="node2"), ctx)
    with pytest.raises(PrerequisiteError, match="Node 'node9' not known"):
        run(RemoveNodeFromCluster(node_name="node9"), ctx)
    assert ctx.story == []


def test_one_migration_job_for_each_instance(ctx: FakeContext) -> None:
    add_instance(ctx.config.config, "web1", "uuid-node2")
    add_instance(ctx.config.config, "web2", "uuid-node2")
    add_instance(ctx.config.config, "web3", "uuid-node3")
    result = run(MigrateNode(node_name="node2", mode="live", iallocator="hail"), ctx)
    plain = [[operation.to_plain() for operation in job] for job in result.jobs]
    assert [(job[0]["OP_ID"], job[0]["instance_name"]) for job in plain] == [
        ("OP_INSTANCE_MIGRATE", "web1"),
        ("OP_INSTANCE_MIGRATE", "web2"),
    ]
    assert plain[0][0]["mode"] == "live"
    with pytest.raises(PrerequisiteError, match="cannot be the target"):
        run(MigrateNode(node_name="node2", target_node="node2"), ctx)


def test_what_the_command_submits_is_understood() -> None:
    load()
    operation = decode({"OP_ID": "OP_NODE_ADD", "node_name": "node4", "readd": False, "node_setup": True})
    assert operation.summary() == "NODE_ADD(node4)"


def test_nodes_come_into_the_hosts_files_and_go_again(ctx: FakeContext) -> None:
    change_cluster(ctx, modify_etc_hosts=True)
    change_node(ctx, "node3", offline=True)
    written: dict[str, dict[str, str | None]] = {}
    ctx.nodes.handlers["etc_hosts_modify"] = lambda name, entries: written.update({name: entries})
    run(AddNodeToCluster(node_name="node4"), ctx)
    assert written == {
        "node1": {"node4": "10.77.0.9"},
        "node2": {"node4": "10.77.0.9"},
        "node4": {"node1": "10.77.0.1", "node2": "10.77.0.2", "node3": "10.77.0.3", "node4": "10.77.0.9"},
    }
    written.clear()
    run(RemoveNodeFromCluster(node_name="node4"), ctx)
    assert written == {"node1": {"node4": None}, "node2": {"node4": None}}


def test_a_hosts_file_that_cannot_be_changed_is_told(ctx: FakeContext) -> None:
    change_cluster(ctx, modify_etc_hosts=True)
    ctx.nodes.handlers["etc_hosts_modify"] = ExecutionError("/etc/hosts cannot be replaced: Read-only file system")
    run(AddNodeToCluster(node_name="node4"), ctx)
    assert ctx.config.view().find_node("node4").master_candidate
    assert any("enter there what changed: node4 10.77.0.9" in line for line in ctx.lines)

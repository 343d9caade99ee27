# SPDX-License-Identifier: BSD-2-Clause
"""Moving a running instance with its disks: order of steps, the way back and the way on, refusals."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import disk_status, guest, node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import ExecutionError, HypervisorError, NodeUnreachableError, PrerequisiteError
from ganeti.master.operations.instance.moving.migrate import MigrateInstance
from ganeti.master.operations.instance.moving.move import MoveInstance
from ganeti.ports.context import UndoNodeCall

QUIET = ("node_info", "all_instances_info", "instance_info", "instance_snapshots", "instance_get_migration_status")
DOOR = {"address": "10.77.0.2", "port": 8103, "key": "00"}


def progress(done: int, *, equal: bool = False) -> list[dict[str, Any]]:
    return [{"index": 0, "is_equal": equal, "done_bytes": done, "total_bytes": 100}]


@pytest.fixture
def ctx() -> FakeContext:
    drivers = catalogue()
    hypervisors = {"pretend": dataclasses.replace(drivers.hypervisors["pretend"], can_move_disks=True)}
    context = FakeContext(configuration(), dataclasses.replace(drivers, hypervisors=hypervisors))
    add_instance(context.config.view(), "web1", template="local")
    states = iter(["active", "pre-switchover", "completed"])
    sent = iter([progress(0), progress(90), progress(100, equal=True)])
    context.nodes.handlers.update(
        node_info=lambda name, **_: node_facts(storage_free_mib=100000),
        all_instances_info=lambda name, **_: [],
        instance_info=lambda name, **_: guest() if name == "node1" else None,
        instance_snapshots=lambda name, **_: [[]],
        blockdev_find_each=lambda name, disks: [{} for _ in disks],
        instance_get_migration_status=lambda name, **_: {
            "status": next(states),
            "transferred_ram": 1,
            "total_ram": 9,
            "error": "",
        },
        accept_instance=lambda name, **_: {"address": "10.77.0.2", "port": 8102, "key": "00", "data": {}},
        instance_receive_disks=lambda name, **_: DOOR,
        instance_send_disks=lambda name, **_: next(sent),
    )
    return context


def move(ctx: FakeContext, **parameters: Any) -> None:
    run(MoveInstance(instance_name="web1", **{"target_node": "node2", "live": True, **parameters}), ctx)


def steps(ctx: FakeContext) -> list[str]:
    return [line for line in ctx.story if not line.endswith(QUIET)]


def test_a_move_step_by_step(ctx: FakeContext) -> None:
    move(ctx)
    assert steps(ctx) == [
        "node2 bridges_exist",
        "node2 blockdev_find_each",
        "undo: remove the copy of disk 0 of web1 from node2",
        "node2 blockdev_create",
        "node1 migration_info",
        "undo: close the disks of web1 on node2",
        "undo: clean up node2",
        "node2 instance_disks_assemble",
        "node2 accept_instance",
        "undo: let web1 run on node1 again",
        "undo: end the copying of disks of web1",
        "node2 instance_receive_disks",
        "node1 instance_send_disks",
        "node1 instance_send_disks",
        "node1 instance_send_disks",
        "node1 instance_migrate",
        "node1 instance_hand_over_disks",
        "node2 instance_disks_received",
        "node1 migration_continue",
        "node2 instance_finalize_migration_dst",
        "node1 instance_finalize_migration_src",
        "commit SetPrimaryNode",
        "node1 instance_disks_remove",
        "commit SetPrimaryNode settles",
    ]
    view = ctx.config.view()
    instance = view.find_instance("web1")
    assert view.node(instance.primary_node).name == "node2"
    assert [disk.nodes for disk in view.instance_disks(instance)] == [["uuid-node2"]]


def test_what_an_arrived_guest_has_left_behind_is_removed_whoever_dies(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_finalize_migration_src"] = HypervisorError("busy")
    with pytest.raises(HypervisorError, match="busy"):
        move(ctx)
    resolve = next(record for record in ctx.records if record.sentence == "let web1 run on node1 again")
    assert isinstance(resolve, UndoNodeCall)
    assert resolve.settled_call is not None
    assert resolve.settled_call.call == "instance_finalize_migration_dst"
    last = resolve.settled_call.settled_call
    assert last is not None
    assert (last.node_uuid, last.call) == ("uuid-node1", "instance_disks_remove")
    assert "node1 instance_disks_remove" not in ctx.story


def test_a_source_that_dies_after_the_arrival_costs_nothing_but_its_disks(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_finalize_migration_src"] = NodeUnreachableError("node1 does not answer")
    move(ctx)
    assert steps(ctx)[-2:] == ["node1 instance_finalize_migration_src", "commit SetPrimaryNode settles"]
    view = ctx.config.view()
    assert view.node(view.find_instance("web1").primary_node).name == "node2"
    assert any("web1 runs on node2" in line and "its disks stay on node1" in line for line in ctx.lines)


def test_disks_that_do_not_come_are_given_up(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_send_disks"] = lambda name, **_: progress(7)
    with pytest.raises(ExecutionError, match="no data moved for 120 seconds"):
        move(ctx)
    undo = [record.call for record in ctx.records if isinstance(record, UndoNodeCall)]
    assert undo[0] == "instance_copy_remove"
    assert undo[-2:] == ["migration_resolve", "instance_stop_sending"]
    assert "node1 instance_migrate" not in ctx.story


def test_a_disk_that_is_there_already_is_left_alone(ctx: FakeContext) -> None:
    ctx.nodes.handlers["blockdev_find_each"] = lambda name, disks: [{"status": disk_status()}]
    with pytest.raises(PrerequisiteError, match=r"copied to node2: /srv/disk0 is there.*move it away first"):
        move(ctx)
    assert not ctx.records


def test_snapshots_would_stay_behind(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_snapshots"] = lambda name, **_: [[{"name": "monday", "created_s": 1.0}]]
    with pytest.raises(PrerequisiteError, match=r"have snapshots \(monday\).*remove them first"):
        move(ctx)
    assert not ctx.records


@pytest.mark.parametrize(
    ("template", "changes", "sentence"),
    [
        ("common", {}, "disks of template common are not copied. Use gnt-instance migrate"),
        ("local", {"compress": "gzip"}, "is not compressed"),
        ("local", {"target_node": "node1"}, "is already on node node1"),
    ],
)
def test_refusals(ctx: FakeContext, template: str, changes: dict[str, Any], sentence: str) -> None:
    add_instance(ctx.config.view(), "web1", template=template)
    with pytest.raises(PrerequisiteError, match=sentence):
        move(ctx, **changes)
    assert not ctx.records


def test_a_guest_that_may_not_be_migrated_or_does_not_run(ctx: FakeContext) -> None:
    view = ctx.config.view()
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    with pytest.raises(PrerequisiteError, match="web1 is not running: start it first, or move it without --live"):
        move(ctx)
    ctx.nodes.handlers["instance_info"] = lambda name, **_: guest()
    instance = view.find_instance("web1")
    view.put("instances", "uuid-web1", replace(instance, beparams={**instance.beparams, "always_failover": True}))
    with pytest.raises(PrerequisiteError, match="never migrated"):
        move(ctx)
    assert not ctx.records


def test_a_hypervisor_that_cannot_says_so() -> None:
    context = FakeContext(configuration(), catalogue())
    add_instance(context.config.view(), "web1", template="local")
    context.nodes.handlers["instance_info"] = lambda name, **_: guest()
    with pytest.raises(PrerequisiteError, match="without --live"):
        move(context)
    with pytest.raises(PrerequisiteError, match="gnt-instance move --live web1 takes its disks along"):
        run(MigrateInstance(instance_name="web1", target_node="node2"), context)


def test_migrate_takes_disks_along_where_that_is_asked_for(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match="Name the node"):
        run(MigrateInstance(instance_name="web1", move_disks=True), ctx)
    run(MigrateInstance(instance_name="web1", target_node="node2", move_disks=True), ctx)
    assert steps(ctx)[-3:] == [
        "commit SetPrimaryNode",
        "node1 instance_disks_remove",
        "commit SetPrimaryNode settles",
    ]

# SPDX-License-Identifier: BSD-2-Clause
"""Migration, failover, removal, start and stop: order of steps, points of no return, refusals."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import guest, node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import ExecutionError, HypervisorError, NodeUnreachableError, PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.instance.moving.failover import FailoverInstance
from ganeti.master.operations.instance.moving.migrate import MigrateInstance
from ganeti.master.operations.instance.power.reboot import RebootInstance
from ganeti.master.operations.instance.power.shutdown import ShutdownInstance
from ganeti.master.operations.instance.power.startup import StartInstance
from ganeti.master.operations.instance.remove import RemoveInstanceOperation
from ganeti.model.node_calls.disks import FoundDisk
from ganeti.ports.context import UndoNodeCall

RUNNING = guest()
QUIET = ("node_info", "all_instances_info", "instance_get_migration_status", "version")


def node_info(name: str, **_: Any) -> Any:
    return node_facts(storage_free_mib=None, version=[7, 2, 22])


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    add_instance(context.config.view(), "web1")
    statuses = iter(["active", "active", "pre-switchover", "device", "completed"])
    moved = iter(range(1, 100))

    def status(name: str, **_: Any) -> dict[str, Any]:
        return {"status": next(statuses), "transferred_ram": next(moved), "total_ram": 9, "error": ""}

    context.nodes.handlers.update(
        node_info=node_info,
        all_instances_info=lambda name, **_: [],
        instance_info=lambda name, **_: RUNNING if name == "node1" else None,
        instance_get_migration_status=status,
        accept_instance=lambda name, **_: {"address": "10.77.0.2", "port": 8102, "key": "00", "data": {}},
        blockdev_find_each=lambda name, disks: [FoundDisk() for _ in disks],
    )
    return context


def steps(ctx: FakeContext) -> list[str]:
    return [line for line in ctx.story if not line.endswith(QUIET)]


def primary(ctx: FakeContext) -> str:
    view = ctx.config.view()
    instance = view.find_instance("web1")
    assert all(disk.nodes == [instance.primary_node] for disk in view.instance_disks(instance))
    return view.node(instance.primary_node).name


def test_migration_step_by_step(ctx: FakeContext) -> None:
    run(MigrateInstance(instance_name="web1"), ctx)
    assert steps(ctx) == [
        "node1 instance_info",
        "node2 bridges_exist",
        "node1 migration_info",
        "undo: close the disks of web1 on node2",
        "undo: clean up node2",
        "node2 instance_disks_assemble",
        "node2 accept_instance",
        "undo: let web1 run on node1 again",
        "release node-res/[lockset]",
        "node1 instance_migrate",
        "node1 migration_continue",
        "node2 instance_finalize_migration_dst",
        "node1 instance_finalize_migration_src",
        "commit SetPrimaryNode settles",
    ]
    assert primary(ctx) == "node2"


def test_while_a_guest_is_sent_another_may_leave_for_another_node(ctx: FakeContext) -> None:
    """The target is kept: the guest's memory is not in use there yet."""
    run(MigrateInstance(instance_name="web1", target_node="node3"), ctx)
    story = steps(ctx)
    given_up = [line for line in story if line.startswith("release")]
    assert given_up == ["release node-res/uuid-node1"]
    assert story.index("node3 accept_instance") < story.index(given_up[0]) < story.index("node1 instance_migrate")


@pytest.mark.requirement("S1.103")
def test_in_a_hybrid_cluster_guests_migrate_over_ipv4(ctx: FakeContext) -> None:
    config, asked = ctx.config.config, []
    for name, last in (("node1", 1), ("node2", 2)):
        node = config.find_node(name)
        config.put("nodes", node.uuid, replace(node, primary_ip=f"fd77::{last}", secondary_ip=f"10.88.0.{last}"))
    accept = ctx.nodes.handlers["accept_instance"]
    ctx.nodes.handlers["accept_instance"] = lambda name, **sent: asked.append(sent["address"]) or accept(name)
    run(MigrateInstance(instance_name="web1", target_node="node2"), ctx)
    assert asked == ["10.88.0.2"]


def test_a_failed_migration_leaves_the_guest_where_it_was(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_get_migration_status"] = lambda name, **_: {
        "status": "failed",
        "transferred_ram": 1,
        "total_ram": 9,
        "error": "connection refused",
    }
    with pytest.raises(ExecutionError, match="Could not migrate instance web1: failed: connection refused"):
        run(MigrateInstance(instance_name="web1"), ctx)
    assert primary(ctx) == "node1"
    last = ctx.records[-1]
    assert isinstance(last, UndoNodeCall)
    assert (last.node_uuid, last.call) == ("uuid-node1", "migration_resolve")
    assert last.settled_change is not None


def test_a_migration_without_progress_is_given_up(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_get_migration_status"] = lambda name, **_: {
        "status": "active",
        "transferred_ram": 5,
        "total_ram": 9,
        "error": "",
    }
    with pytest.raises(ExecutionError, match="no data moved for 120 seconds"):
        run(MigrateInstance(instance_name="web1", target_node="node3"), ctx)


def test_a_guest_that_stands_still_before_its_switchover_is_given_up(ctx: FakeContext) -> None:
    asked = iter(range(2000))

    def status(name: str, **_: Any) -> dict[str, Any]:
        assert next(asked, None) is not None, "it is asked without an end"
        return {"status": "pre-switchover", "transferred_ram": 5, "total_ram": 9, "error": ""}

    ctx.nodes.handlers["instance_get_migration_status"] = status
    with pytest.raises(ExecutionError, match="no data moved for 120 seconds in state pre-switchover"):
        run(MigrateInstance(instance_name="web1", target_node="node3"), ctx)


def test_a_guest_that_did_not_arrive_runs_on_where_it_was(ctx: FakeContext) -> None:
    def finalize(name: str, success: bool, **_: Any) -> dict[str, bool]:
        if success:
            raise HypervisorError("Node node2: web1 did not arrive")
        return {"settled": False}

    ctx.nodes.handlers["instance_finalize_migration_dst"] = finalize
    with pytest.raises(ExecutionError, match="it runs on where it was: Node node2: web1 did not arrive"):
        run(MigrateInstance(instance_name="web1"), ctx)
    assert steps(ctx)[-2:] == ["node2 instance_finalize_migration_dst", "node1 instance_finalize_migration_src"]
    assert primary(ctx) == "node1"


def test_different_hypervisor_versions_need_a_word(ctx: FakeContext) -> None:
    def info(name: str, **arguments: Any) -> Any:
        return node_facts(storage_free_mib=None, version=[7, 2, 22] if name == "node1" else [9, 0, 0])

    ctx.nodes.handlers["node_info"] = info
    with pytest.raises(PrerequisiteError, match="Hypervisor versions differ"):
        run(MigrateInstance(instance_name="web1"), ctx)
    run(MigrateInstance(instance_name="web1", ignore_hvversions=True), ctx)
    assert primary(ctx) == "node2"


def test_migrating_a_stopped_instance_moves_it_stopped(ctx: FakeContext) -> None:
    config = ctx.config.view()
    config.put("instances", "uuid-web1", replace(config.find_instance("web1"), admin_state="down"))
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    run(MigrateInstance(instance_name="web1", target_node="node3"), ctx)
    assert primary(ctx) == "node3"
    assert "node3 instance_start" not in ctx.story


def test_failover_of_a_living_node(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    run(FailoverInstance(instance_name="web1"), ctx)
    assert steps(ctx) == [
        "node2 blockdev_find_each",
        "node2 bridges_exist",
        "node2 hypervisor_validate_params",
        "undo: start web1 on node1 again",
        "undo: open the disks of web1 on node1",
        "node1 instance_shutdown",
        "node1 instance_disks_shutdown",
        "undo: make node1 the primary node of web1 again",
        "commit SetPrimaryNode",
        "node2 instance_info",
        "undo: close the disks of web1",
        "undo: stop web1 on node2",
        "node2 instance_disks_assemble",
        "node2 instance_start",
        "commit SetPrimaryNode settles",
    ]
    assert primary(ctx) == "node2"


def test_a_guest_goes_on_where_the_target_does_not_reach_its_disks(ctx: FakeContext) -> None:
    ctx.nodes.handlers["blockdev_find_each"] = lambda name, disks: [FoundDisk(fault="no answer") for _ in disks]
    with pytest.raises(
        PrerequisiteError, match="web1 stays on node1, as node node2 does not reach its disk 0: no answer"
    ):
        run(FailoverInstance(instance_name="web1"), ctx)
    assert "node1 instance_shutdown" not in ctx.story


@pytest.mark.parametrize(
    "operation",
    [
        FailoverInstance(instance_name="web1"),
        RebootInstance(instance_name="web1", reboot_type="full"),
        RebootInstance(instance_name="web1", reboot_type="hard"),
    ],
)
def test_a_guest_goes_on_where_it_could_not_be_started_anew(ctx: FakeContext, operation: Any) -> None:
    def lacks(name: str, starts: bool, **_: Any) -> None:
        assert starts
        raise HypervisorError("The file of cdrom_image_path, /srv/iso/a.iso, is not on this node")

    ctx.nodes.handlers["hypervisor_validate_params"] = lacks
    with pytest.raises(PrerequisiteError, match="is not on this node"):
        run(operation, ctx)
    assert "node1 instance_shutdown" not in ctx.story
    assert "node1 instance_reboot" not in ctx.story


@pytest.mark.parametrize("operation", [FailoverInstance, MigrateInstance])
def test_a_dry_run_asks_the_target_and_does_nothing(ctx: FakeContext, operation: Any) -> None:
    run(operation(instance_name="web1", dry_run=True), ctx)
    ctx.nodes.handlers["bridges_exist"] = lambda name, bridges: bridges
    with pytest.raises(PrerequisiteError, match="Missing bridges on node node2"):
        run(operation(instance_name="web1", dry_run=True), ctx)
    assert "node1 instance_shutdown" not in ctx.story and "node2 accept_instance" not in ctx.story
    assert not [line for line in ctx.story if line.startswith("commit")]


def test_a_dry_run_of_a_start_asks_the_node_and_does_nothing(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    run(StartInstance(instance_name="web1", dry_run=True), ctx)
    ctx.nodes.handlers["bridges_exist"] = lambda name, bridges: bridges
    with pytest.raises(PrerequisiteError, match="Missing bridges on node node1"):
        run(StartInstance(instance_name="web1", dry_run=True), ctx)
    assert not [line for line in ctx.story if line.startswith(("commit", "undo"))]


def test_a_guest_is_reset_where_it_could_not_be_started_anew(ctx: FakeContext) -> None:
    ctx.nodes.handlers["hypervisor_validate_params"] = lambda name, **_: pytest.fail("nothing is started")
    run(RebootInstance(instance_name="web1", reboot_type="soft"), ctx)
    assert "node1 instance_reboot" in ctx.story


def test_failover_of_a_node_marked_offline_takes_its_lock(ctx: FakeContext) -> None:
    config = ctx.config.view()
    config.put("nodes", "uuid-node1", replace(config.node("uuid-node1"), offline=True, master_candidate=False))
    ctx.nodes.dead.add("node1")
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    run(FailoverInstance(instance_name="web1"), ctx)
    assert steps(ctx)[1:5] == [
        *("commit SetPrimaryNode settles", "node2 instance_disks_steal"),
        *("node2 instance_disks_in_use", "node2 instance_info"),
    ]
    assert not any(line.startswith("node1") for line in ctx.story)
    assert primary(ctx) == "node2"


@pytest.mark.parametrize("operation", [FailoverInstance, MigrateInstance])
def test_a_policy_that_became_stricter_keeps_no_instance_on_its_node(ctx: FakeContext, operation: Any) -> None:
    """Within its group the policy is the same everywhere; nobody may be there to add --ignore-ipolicy."""
    view = ctx.config.view()
    view.put("instances", "uuid-web1", replace(view.find_instance("web1"), beparams={"maxmem": 4200, "minmem": 128}))
    if operation is FailoverInstance:
        ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    run(operation(instance_name="web1", target_node="node2"), ctx)
    assert primary(ctx) == "node2"


def test_a_guest_that_its_lost_node_still_runs_is_waited_for(ctx: FakeContext) -> None:
    ctx.nodes.dead.add("node1")
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    uses = [[{"path": "/srv/web1", "ends_within_s": 60}]] * 3
    ctx.nodes.handlers["instance_disks_in_use"] = lambda name, **_: uses.pop() if uses else []
    run(FailoverInstance(instance_name="web1", ignore_consistency=True), ctx)
    asked = [line for line in ctx.story if "instance_disks_in_use" in line]
    assert len(asked) == 4 and "node2 instance_start" in ctx.story
    assert "* web1 still runs on node1: that node ends it within 60 s" in ctx.lines


def test_a_guest_that_its_lost_node_never_ends_is_not_started_twice(ctx: FakeContext) -> None:
    ctx.nodes.dead.add("node1")
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    ctx.nodes.handlers["instance_disks_in_use"] = lambda name, **_: [{"path": "/srv/web1", "ends_within_s": 3}]
    with pytest.raises(ExecutionError, match=r"still runs on node1, which has /srv/web1 open after 4\d s: power that"):
        run(FailoverInstance(instance_name="web1", ignore_consistency=True), ctx)
    assert "node2 instance_start" not in ctx.story and primary(ctx) == "node2"
    assert "node2 instance_disks_shutdown" not in ctx.story, "the lock stays taken: node1 sees it"


def test_failover_of_a_silent_node_needs_the_risk_accepted(ctx: FakeContext) -> None:
    ctx.nodes.dead.add("node1")
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    with pytest.raises(PrerequisiteError, match="may still be running there and writing its disks"):
        run(FailoverInstance(instance_name="web1"), ctx)
    assert primary(ctx) == "node1"
    run(FailoverInstance(instance_name="web1", ignore_consistency=True), ctx)
    assert primary(ctx) == "node2"


def test_a_failed_start_on_the_target_can_be_taken_back(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    ctx.nodes.handlers["instance_start"] = HypervisorError("no such emulator")
    with pytest.raises(HypervisorError):
        run(FailoverInstance(instance_name="web1"), ctx)
    assert [record.sentence for record in ctx.records] == [
        "start web1 on node1 again",
        "open the disks of web1 on node1",
        "make node1 the primary node of web1 again",
        "close the disks of web1",
        "stop web1 on node2",
    ]


@pytest.mark.parametrize("operation", [MigrateInstance, FailoverInstance])
def test_disks_on_one_node_do_not_move(ctx: FakeContext, operation: Any) -> None:
    add_instance(ctx.config.view(), "stuck", template="local")
    with pytest.raises(PrerequisiteError, match=r"its disks \(local\) are on one node only.*common"):
        run(operation(instance_name="stuck", target_node="node2"), ctx)


@pytest.mark.parametrize("operation", [MigrateInstance, FailoverInstance])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"instance_name": "nosuch"}, "Instance 'nosuch' not known"),
        ({"target_node": "nosuch"}, "Node 'nosuch' not known"),
        ({"target_node": "node1"}, "already on node node1"),
        ({"target_node": "node2", "iallocator": "hail"}, "not both"),
    ],
)
def test_wrong_targets(ctx: FakeContext, operation: Any, arguments: dict[str, Any], words: str) -> None:
    before = ctx.config.view().to_plain()
    with pytest.raises(PrerequisiteError, match=words):
        run(operation(**({"instance_name": "web1"} | arguments)), ctx)
    assert ctx.config.view().to_plain() == before


def test_removal_completes_after_the_point_of_no_return(ctx: FakeContext) -> None:
    run(RemoveInstanceOperation(instance_name="web1"), ctx)
    assert steps(ctx) == [
        "undo: start web1 on node1 again",
        "undo: open the disks of web1 on node1",
        "node1 instance_shutdown",
        "node1 instance_disks_shutdown",
        "commit SetInstanceState settles",
        "undo: complete the removal of web1",
        "node1 instance_disks_remove",
        "commit RemoveInstance settles",
    ]
    view = ctx.config.view()
    assert not view.instances() and not view.disks()


def test_a_removal_that_cannot_reach_the_disks_keeps_the_instance(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_disks_remove"] = NodeUnreachableError("Node node1 does not answer")
    with pytest.raises(NodeUnreachableError):
        run(RemoveInstanceOperation(instance_name="web1"), ctx)
    assert ctx.config.view().find_instance("web1").admin_state == "down"
    run(RemoveInstanceOperation(instance_name="web1", ignore_failures=True), ctx)
    assert not ctx.config.view().instances()


def test_start_marks_up_only_what_runs(ctx: FakeContext) -> None:
    config = ctx.config.view()
    config.put("instances", "uuid-web1", replace(config.find_instance("web1"), admin_state="down"))
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    ctx.nodes.handlers["instance_start"] = HypervisorError("no such emulator")
    with pytest.raises(HypervisorError):
        run(StartInstance(instance_name="web1"), ctx)
    assert config.find_instance("web1").admin_state == "down"
    ctx.nodes.handlers["instance_start"] = lambda name, **_: None
    run(StartInstance(instance_name="web1"), ctx)
    assert config.find_instance("web1").admin_state == "up"


def test_stopping_marks_down_first_and_can_be_taken_back(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_shutdown"] = NodeUnreachableError("Node node1 does not answer")
    with pytest.raises(NodeUnreachableError):
        run(ShutdownInstance(instance_name="web1"), ctx)
    assert steps(ctx)[:2] == ["undo: mark web1 as up again", "commit SetInstanceState"]


def test_a_guest_that_was_started_again_is_not_stopped_for_its_users_shutdown(ctx: FakeContext) -> None:
    """The watcher has seen it shut down; until its job begins an administrator has started it."""
    by_user = ShutdownInstance(instance_name="web1", admin_state_source="user")
    with pytest.raises(PrerequisiteError, match="web1 is running: its user has not shut it down"):
        run(by_user, ctx)
    assert not [line for line in ctx.story if line.startswith("commit") or "instance_shutdown" in line]
    ctx.nodes.handlers["instance_info"] = lambda name, **_: guest(state="shutdown")
    run(by_user, ctx)
    found = ctx.config.view().find_instance("web1")
    assert (found.admin_state, found.admin_state_source) == ("down", "user")


def test_reboot_kinds(ctx: FakeContext) -> None:
    run(RebootInstance(instance_name="web1", reboot_type="hard"), ctx)
    assert "node1 instance_reboot" in ctx.story
    ctx.story.clear()
    run(RebootInstance(instance_name="web1", reboot_type="full"), ctx)
    assert "node1 instance_shutdown" in ctx.story
    with pytest.raises(PrerequisiteError, match="'reboot_type': it cannot be 'warm': use soft, hard, full"):
        decode({"OP_ID": "OP_INSTANCE_REBOOT", "instance_name": "web1", "reboot_type": "warm"})


def test_a_hard_reboot_gives_the_guest_the_time_that_was_asked_for(ctx: FakeContext) -> None:
    given: list[float] = []
    ctx.nodes.handlers["instance_reboot"] = lambda name, shutdown_timeout_s, **_: given.append(shutdown_timeout_s)
    run(RebootInstance(instance_name="web1", reboot_type="hard"), ctx)
    run(RebootInstance(instance_name="web1", reboot_type="hard", shutdown_timeout=600), ctx)
    assert given == [120.0, 600.0]


@pytest.mark.parametrize("operation", [MigrateInstance, FailoverInstance])
def test_why_only_asks(ctx: FakeContext, operation: Any) -> None:
    ctx.allocation["reasons"] = ["node3: is drained"]
    asked = operation(instance_name="web1", why=True, dry_run=True)
    asyncio.run(asked.gather(ctx, ctx.config.view()))
    assert ctx.asked == [("hail", False)]
    assert ctx.lines == ["web1 would be placed on node2", "  - node3: is drained"]
    with pytest.raises(PrerequisiteError, match="--why is about an allocator's choice"):
        run(operation(instance_name="web1", why=True, target_node="node2"), ctx)


def test_a_target_is_reserved_the_instance(ctx: FakeContext) -> None:
    run(MigrateInstance(instance_name="web1", target_node="node2"), ctx)
    assert [(reservation.instance, reservation.nodes, reservation.memory_mib) for _, reservation in ctx.held] == [
        ("web1", ["uuid-node2"], 128)
    ]


@pytest.mark.parametrize("found_on", ["node1", "node2"])
def test_cleaning_up_after_a_failover_keeps_the_guest_where_it_runs(ctx: FakeContext, found_on: str) -> None:
    ctx.nodes.handlers["instance_info"] = lambda name, **_: RUNNING if name == found_on else None
    run(FailoverInstance(instance_name="web1", cleanup=True), ctx)
    assert primary(ctx) == found_on
    assert not [line for line in ctx.story if "instance_shutdown" in line or "instance_start" in line]
    assert ctx.lines[-1] == f"* instance running on {found_on}"


@pytest.mark.parametrize("operation", [FailoverInstance, MigrateInstance])
def test_cleaning_up_a_stopped_instance_changes_nothing(ctx: FakeContext, operation: Any) -> None:
    view = ctx.config.view()
    view.put("instances", view.find_instance("web1").uuid, replace(view.find_instance("web1"), admin_state="down"))
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    run(operation(instance_name="web1", cleanup=True), ctx)
    assert not [line for line in ctx.story if line.startswith("commit")]
    assert ctx.lines[-1] == "* instance web1 is stopped, as it should be: nothing is left to clean up"


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([], "web1 runs on no node: start it with gnt-instance startup web1; if"),
        (["node1", "node2"], "node1, node2: stop it"),
    ],
)
def test_cleaning_up_moves_nothing_where_it_is_not_clear(ctx: FakeContext, nodes: list[str], words: str) -> None:
    ctx.nodes.handlers["instance_info"] = lambda name, **_: RUNNING if name in nodes else None
    with pytest.raises(ExecutionError, match=words):
        run(FailoverInstance(instance_name="web1", cleanup=True), ctx)
    assert primary(ctx) == "node1"


def test_cleaning_up_names_the_node_that_does_not_answer(ctx: FakeContext) -> None:
    ctx.nodes.dead.add("node3")
    with pytest.raises(ExecutionError, match="Cannot tell where web1 runs: node node3 does not answer"):
        run(FailoverInstance(instance_name="web1", cleanup=True), ctx)


def test_cleaning_up_finds_a_guest_on_a_node_that_is_being_drained(ctx: FakeContext) -> None:
    """A node is drained first, and its guests leave then: this is where an interrupted migration leaves them."""
    view = ctx.config.view()
    view.put("nodes", "uuid-node1", replace(view.node("uuid-node1"), drained=True))
    run(MigrateInstance(instance_name="web1", cleanup=True), ctx)
    assert primary(ctx) == "node1" and ctx.lines[-1] == "* instance running on node1"
    ctx.nodes.handlers["instance_info"] = lambda name, **_: RUNNING if name in ("node1", "node2") else None
    with pytest.raises(ExecutionError, match="node1, node2: stop it"):
        run(MigrateInstance(instance_name="web1", cleanup=True), ctx)
    assert primary(ctx) == "node1"


def test_cleaning_up_lets_a_guest_go_on_that_stands_before_its_switchover(ctx: FakeContext) -> None:
    states = {"node1": "paused", "node2": "incoming"}
    ctx.nodes.handlers["instance_info"] = lambda name, **_: guest(state=states[name]) if name in states else None
    run(MigrateInstance(instance_name="web1", cleanup=True), ctx)
    story = steps(ctx)
    assert story.index("node2 instance_finalize_migration_dst") < story.index("node1 instance_finalize_migration_src")
    assert primary(ctx) == "node1"


def test_cleaning_up_completes_an_arrival_that_was_not_written_down(ctx: FakeContext) -> None:
    told: list[tuple[str, bool]] = []
    ctx.nodes.handlers["instance_finalize_migration_dst"] = lambda name, success, **_: (
        told.append((name, success)) or {"settled": success}
    )
    states = {"node1": "postmigrate", "node2": "running"}
    ctx.nodes.handlers["instance_info"] = lambda name, **_: guest(state=states[name]) if name in states else None
    run(MigrateInstance(instance_name="web1", cleanup=True), ctx)
    assert told == [("node1", False), ("node3", False), ("node2", True)]
    assert primary(ctx) == "node2"


def test_cleaning_up_a_failover_of_a_guest_that_never_migrates(ctx: FakeContext) -> None:
    traits = dataclasses.replace(ctx.catalogue.hypervisors["pretend"], can_migrate=False)
    ctx.catalogue = dataclasses.replace(ctx.catalogue, hypervisors={"pretend": traits})
    ctx.nodes.handlers["instance_info"] = lambda name, **_: RUNNING if name == "node2" else None
    run(FailoverInstance(instance_name="web1", cleanup=True), ctx)
    assert primary(ctx) == "node2" and not [line for line in ctx.story if "finalize" in line]


def never_migrating(ctx: FakeContext) -> None:
    """As containers."""
    traits = dataclasses.replace(ctx.catalogue.hypervisors["pretend"], can_migrate=False)
    ctx.catalogue = dataclasses.replace(ctx.catalogue, hypervisors={"pretend": traits})


def test_a_guest_that_cannot_migrate_is_failed_over_where_that_is_allowed(ctx: FakeContext) -> None:
    never_migrating(ctx)
    with pytest.raises(PrerequisiteError, match=r"hypervisor pretend cannot migrate.*--allow-failover"):
        run(MigrateInstance(instance_name="web1"), ctx)
    assert primary(ctx) == "node1" and "node1 instance_shutdown" not in steps(ctx)
    run(MigrateInstance(instance_name="web1", allow_failover=True), ctx)
    assert primary(ctx) == "node2"
    assert "* web1 cannot migrate (hypervisor pretend cannot migrate instances): failing over instead" in ctx.lines
    story = steps(ctx)
    assert story.index("node1 instance_shutdown") < story.index("node2 instance_start")


def test_a_stopped_instance_that_cannot_migrate_is_moved(ctx: FakeContext) -> None:
    never_migrating(ctx)
    web1 = ctx.config.config.find_instance("web1")
    ctx.config.config.put("instances", web1.uuid, replace(web1, admin_state="down", disks_active=False))
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    run(MigrateInstance(instance_name="web1"), ctx)
    assert primary(ctx) == "node2" and "node2 instance_start" not in steps(ctx)


def test_the_instance_of_a_node_that_is_marked_offline_is_failed_over_where_that_is_allowed(ctx: FakeContext) -> None:
    """So does gnt-node evacuate for a node that is lost."""
    node = ctx.config.config.find_node("node1")
    ctx.config.config.put("nodes", node.uuid, replace(node, offline=True))
    with pytest.raises(PrerequisiteError, match="marked offline: use gnt-instance failover"):
        run(MigrateInstance(instance_name="web1"), ctx)
    run(MigrateInstance(instance_name="web1", allow_failover=True), ctx)
    assert "node2 instance_disks_steal" in steps(ctx) and not [line for line in steps(ctx) if line.startswith("node1")]
    assert primary(ctx) == "node2"


def test_options_about_secondary_nodes_say_that_there_is_none(ctx: FakeContext) -> None:
    run(RebootInstance(instance_name="web1", reboot_type="hard", ignore_secondaries=True), ctx)
    run(StartInstance(instance_name="web1", force=True), ctx)
    assert "Instance web1 has no secondary node: --ignore-secondaries changes nothing" in ctx.lines
    assert "Instance web1 has no secondary node: --force changes nothing" in ctx.lines


@pytest.mark.parametrize("operation", [StartInstance, FailoverInstance, MigrateInstance])
def test_disks_that_are_there_need_no_space(ctx: FakeContext, operation: Any) -> None:
    """A volume group is full of the disks of the instances that are on it."""
    common = dataclasses.replace(ctx.catalogue.template("common"), checks_free_space=True)
    ctx.catalogue = dataclasses.replace(ctx.catalogue, templates={**ctx.catalogue.templates, "common": common})
    ctx.nodes.handlers["node_info"] = lambda name, **_: node_facts(storage_free_mib=1)
    if operation is not MigrateInstance:
        ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    run(operation(instance_name="web1"), ctx)
    assert primary(ctx) == ("node1" if operation is StartInstance else "node2")
    assert all(reservation.disk_mib == 0 for _, reservation in ctx.held)


def test_what_is_left_of_a_guest_gets_the_time_that_was_asked_for(ctx: FakeContext) -> None:
    given: list[float] = []
    ctx.nodes.handlers["instance_info"] = lambda name, **_: {**RUNNING, "state": "shutdown"}
    ctx.nodes.handlers["instance_shutdown"] = lambda name, timeout_s, **_: given.append(timeout_s)
    run(StartInstance(instance_name="web1", shutdown_timeout=7), ctx)
    assert given == [7.0]


def test_a_paused_guest_is_not_powered_off_by_a_start(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_info"] = lambda name, **_: {**RUNNING, "state": "paused"}
    run(StartInstance(instance_name="web1"), ctx)
    assert "node1 instance_shutdown" not in ctx.story
    assert not ctx.records, "a failure does not end it either"
    assert any("gnt-instance reboot web1" in line for line in ctx.lines)


def _with_balloon(ctx: FakeContext) -> None:
    traits = dataclasses.replace(ctx.catalogue.hypervisors["pretend"], can_balloon=True)
    ctx.catalogue = dataclasses.replace(ctx.catalogue, hypervisors={"pretend": traits})
    instance = ctx.config.view().find_instance("web1")
    smaller = replace(instance, beparams={"maxmem": 6000, "minmem": 512})
    ctx.config.config.put("instances", instance.uuid, smaller)
    ctx.nodes.handlers["instance_info"] = lambda name, **_: {**RUNNING, "memory_mib": 6000} if name == "node1" else None


def test_a_guest_too_large_for_the_target_is_shrunk_and_would_get_its_memory_back(ctx: FakeContext) -> None:
    _with_balloon(ctx)
    given: list[tuple[str, int]] = []
    ctx.nodes.handlers["instance_balloon_memory"] = lambda name, memory_mib, **_: given.append((name, memory_mib))
    run(MigrateInstance(instance_name="web1", target_node="node2", ignore_ipolicy=True), ctx)
    assert given == [("node1", 4096)]
    first = ctx.records[0]
    assert isinstance(first, UndoNodeCall)
    assert (first.call, first.arguments["memory_mib"]) == ("instance_balloon_memory", 6000)
    assert primary(ctx) == "node2"


def test_a_guest_too_large_for_the_target_stays_if_it_must_not_be_shrunk(ctx: FakeContext) -> None:
    _with_balloon(ctx)
    keep = MigrateInstance(instance_name="web1", target_node="node2", ignore_ipolicy=True, allow_runtime_changes=False)
    with pytest.raises(
        PrerequisiteError, match="it uses 6000 MiB, available 4096 MiB: choose another node; leave --no-run"
    ):
        run(keep, ctx)
    assert not ctx.records

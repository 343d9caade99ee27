# SPDX-License-Identifier: BSD-2-Clause
"""Instances whose disks have a copy on each of two nodes, from creation to removal, and what every failure leaves."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, FakeNodes, made_up, run
from tests.fakes.engine_world import MemoryWorld
from tests.fakes.node_answers import disk_status, guest, node_facts
from tests.fakes.paired_disks import CLOSED, PRIMARY, SECONDARY, PairedDisks, Pairs
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import ExecutionError, GanetiError, NodeUnreachableError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Operation
from ganeti.master.operations.instance.change.set_params import ModifyInstanceOperation
from ganeti.master.operations.instance.creation.create import CreateInstance
from ganeti.master.operations.instance.disks.disk_steps import STALLED_AT_MOST_S, STALLED_S, Stall, plan_of
from ganeti.master.operations.instance.disks.grow_disk import GrowDisk
from ganeti.master.operations.instance.disks.replace_disks import ReplaceDisks
from ganeti.master.operations.instance.moving.failover import FailoverInstance
from ganeti.master.operations.instance.moving.migrate import MigrateInstance
from ganeti.master.operations.instance.power.shutdown import ShutdownInstance
from ganeti.master.operations.instance.power.startup import StartInstance
from ganeti.master.operations.instance.remove import RemoveInstanceOperation
from ganeti.master.queue.job_log import JobLog
from ganeti.master.queue.undo import UndoLog, decode_lines, encode_line, record_line
from ganeti.master.queue.unwinding import unwind
from ganeti.model.node_calls.disks import FAULTY, SYNCING, UNCERTAIN, DiskStatus
from ganeti.model.node_requests import AttachedDisk, DiskSpec, InstanceSpec
from ganeti.model.objects import CLUSTER_KEY, TERM
from ganeti.model.traits import Catalogue
from ganeti.node.actions import blockdev, instances, migration
from ganeti.node.actions.registry import REGISTRY
from ganeti.node.state import NodeState
from ganeti.noded.world import RealNodeWorld

ONE, TWO, THREE = "uuid-node1", "uuid-node2", "uuid-node3"
REAL = {
    blockdev.blockdev_create.__name__,
    blockdev.blockdev_remove.__name__,
    blockdev.blockdev_renew.__name__,
    blockdev.blockdev_shutdown.__name__,
    blockdev.blockdev_find.__name__,
    blockdev.blockdev_grow.__name__,
    blockdev.blockdev_ungrow.__name__,
    blockdev.blockdev_wipe.__name__,
    instances.instance_disks_assemble.__name__,
    instances.instance_disks_shutdown.__name__,
    instances.instance_disks_remove.__name__,
    instances.instance_disks_in_use.__name__,
    instances.instance_disks_steal.__name__,
}
"""Calls that the handlers of a real node answer, on disks in memory."""


class Nodes(FakeNodes):
    """Nodes with disks in memory and guests that are names; call number *fails_at* that changes disks fails."""

    def __init__(self, ctx: FakeContext, root: Path) -> None:
        super().__init__(ctx.config.config, ctx.story)
        self.pairs = Pairs()
        self.guests: set[tuple[str, str]] = set()
        self.fails_at = 0
        self.count = 0
        self.generation: int | None = None
        """That nodes tell of their copies."""
        self.states: dict[str, NodeState] = {}
        for name in ("node1", "node2", "node3"):
            world = RealNodeWorld(Paths(str(root / name)), name)
            world.log = lambda sentence: None  # type: ignore[method-assign]
            self.states[name] = NodeState(world, calls=None, daemon=None)  # type: ignore[arg-type]
            self.states[name]._templates["pair"] = PairedDisks(world, self.pairs)
        self.handlers["node_info"] = lambda name, **_: node_facts(storage_free_mib=None)
        self.handlers["all_instances_info"] = lambda name, **_: []

    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        name = self.config.node(node_uuid).name
        if call in REAL and call != "blockdev_find" and name not in self.dead:
            self.count += 1
            if self.count == self.fails_at:
                self.story.append(f"{name} {call} fails")
                raise ExecutionError(f"Node {name}: {call} fails")
        answer = await super().call(node_uuid, call, **(arguments if call == "node_info" else {}))
        if call == "node_info":
            return answer
        arguments |= {key: msgspec.convert(_plain(arguments[key]), kind) for key, kind in KINDS if key in arguments}
        if call == "blockdev_find" and self.generation is not None:
            return disk_status(generation=self.generation)
        if call in REAL:
            return _plain(await REGISTRY[call].run(self.states[name], arguments))
        return await self.guest(name, call, arguments)

    async def guest(self, node: str, call: str, arguments: dict[str, Any]) -> Any:
        state, instance = self.states[node], arguments.get("instance")
        key = (node, instance.name if instance is not None else "")
        if call == "instance_info":
            return guest() if key in self.guests else None
        if call == "instance_start":
            await instances.attach_disks(state, instance)
            self.guests.add(key)
        elif call == "instance_shutdown":
            self.guests.discard(key)
        elif call == "accept_instance":
            await instances.attach_disks(state, instance, for_migration=True)
            return {}
        elif call == "instance_get_migration_status":
            return {"status": "completed", "total_ram": 1, "transferred_ram": 1}
        elif call == "instance_finalize_migration_dst":
            if arguments["success"]:
                self.guests.add(key)
            for disk in instance.disks:
                driver = state.template_of(disk)
                await driver.settle_migration(disk, instance.name, arrived=arguments["success"])
            if key not in self.guests:
                await migration.yield_disks(state, instance)
        elif call == "instance_finalize_migration_src":
            self.guests.discard(key)
            await migration.yield_disks(state, instance)
        else:
            handler = self.handlers.get(call)
            return handler(node, **arguments) if callable(handler) else made_up(call)
        return made_up(call)

    def sizes_mib(self) -> list[dict[str, int]]:
        return [
            {node: copy.size // 2**20 for node, copy in copies.items()}
            for _, copies in sorted(self.pairs.disks.items())
        ]

    def roles(self) -> list[dict[str, str]]:
        return [self.pairs.roles(name) for name in sorted(self.pairs.disks)]


KINDS: tuple[tuple[str, Any], ...] = (("instance", InstanceSpec), ("disk", DiskSpec))


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


class Context(FakeContext):
    nodes: Nodes  # type: ignore[assignment]


@pytest.fixture
def ctx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    traits = catalogue()
    config = configuration()
    cluster = config.cluster
    config.put("cluster", CLUSTER_KEY, replace(cluster, enabled_disk_templates=["pair"], ipolicy={}))
    context = Context(config, Catalogue(traits.templates | {"pair": PairedDisks.traits}, traits.hypervisors))
    context.nodes = Nodes(context, tmp_path)
    monkeypatch.setattr("ganeti.master.operations.instance.wanted.disk_places.place_disks", place)
    yield context
    context.nodes.pairs.close()


def place(
    view: Any, disks: Any, asked: Any, traits: Any, node_uuids: list[str], directory: str, instance_name: str, *_: Any
) -> Any:
    names = [uuid.removeprefix("uuid-") for uuid in node_uuids]
    return [
        replace(disk, nodes=node_uuids, logical_id=["pair", *names, f"{instance_name}-{index}"])
        for index, disk in enumerate(disks)
    ]


def wanted(**changes: Any) -> CreateInstance:
    fields: dict[str, Any] = {
        "instance_name": "web1",
        "disks": [{"size": "64m"}, {"size": "64m"}],
        "nics": [],
        "mode": "create",
        "os_type": "noop+default",
        "disk_template": "pair",
        "pnode": "node1",
        "snode": "node2",
        "ignore_ipolicy": True,
    }
    return CreateInstance(**(fields | changes))


def unwound(ctx: Context) -> list[str]:
    """Unwind what was recorded, through the bytes of the undo log, as the engine does; gives what was said."""
    world = MemoryWorld()
    lines = [record_line(number, 0, 1, record) for number, record in enumerate(ctx.records, 1)]
    world.undo.raw = b"".join(map(encode_line, lines))
    world.undo.log = UndoLog(decode_lines(world.undo.raw))
    said: list[str] = []

    class Log:
        info = warning = said.append

    log: JobLog = Log()  # type: ignore[assignment]
    asyncio.run(_all(unwind(world, ctx, log, [])))  # type: ignore[arg-type]
    return said


async def _all(work: Coroutine[Any, Any, Any]) -> None:
    await work


def failing(operation: Operation[Any], ctx: Context, step: int) -> bool:
    """Fail call number *step* that changes disks; gives whether *operation* failed with it."""
    ctx.records.clear()
    ctx.nodes.count, ctx.nodes.fails_at = 0, step
    try:
        run(operation, ctx)
    except GanetiError:
        return True
    finally:
        ctx.nodes.fails_at = 0
    return False


BOTH = {"node1": PRIMARY, "node2": SECONDARY}
MOVED = {"node1": SECONDARY, "node2": PRIMARY}


def test_creation_makes_both_copies_and_waits_until_they_are_equal(ctx: Context) -> None:
    assert run(wanted(), ctx) == ["node1", "node2"]
    disks = [line for line in ctx.story if "blockdev_create" in line or line.startswith("undo: remove")]
    assert disks[:4] == [
        "undo: remove disk 0 of web1 from node2",
        "node2 blockdev_create",
        "undo: remove disk 0 of web1 from node1",
        "node1 blockdev_create",
    ]
    assert ctx.story.index("node1 blockdev_find") < ctx.story.index("node1 instance_os_add")
    assert ctx.nodes.roles() == [BOTH, BOTH]
    assert ctx.held[0][1].nodes == [ONE, TWO], "room is reserved on both"


def test_creation_without_waiting_and_without_a_start_leaves_all_closed(ctx: Context) -> None:
    run(wanted(wait_for_sync=False, start=False), ctx)
    assert "node1 blockdev_find" not in ctx.story
    assert ctx.nodes.roles() == [{"node1": CLOSED, "node2": CLOSED}] * 2


def test_a_failure_at_any_step_of_creation_leaves_nothing_on_either_node(ctx: Context) -> None:
    for step in count(1):
        if not failing(wanted(), ctx, step):
            assert ctx.nodes.roles() == [BOTH, BOTH]
            if ctx.nodes.count < step:
                break
            run(RemoveInstanceOperation(instance_name="web1"), ctx)  # only a secondary was not closed
            continue
        said = unwound(ctx)
        assert ctx.nodes.pairs.left() == [], f"after step {step}: {said}"
        assert not ctx.nodes.guests and not ctx.config.view().instances()
    assert step > 12


def test_a_copy_that_nothing_brings_up_to_date_ends_the_creation(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lone(self: PairedDisks, disk: DiskSpec) -> None: ...

    monkeypatch.setattr(PairedDisks, "become_secondary", lone)
    begun_s = ctx.clock.now_s()
    with pytest.raises(ExecutionError) as error:
        run(wanted(), ctx)
    assert str(error.value).startswith(
        "Disk 0 of web1 is degraded and nothing is copied for 30 s: see that node1 and node2 reach each other"
    )
    assert ctx.clock.now_s() - begun_s == pytest.approx(30)
    assert [line for line in ctx.lines if "nothing is copied for 10 s" in line and "waits 20 s more" in line]


def test_a_copy_that_stops_for_a_while_goes_on(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other node's daemon or the switch between them starts again."""
    percents = [None] * 25 + [10.0] * 300 + [None] * 250 + [90.0]
    find = PairedDisks.find

    async def slow(self: PairedDisks, disk: DiskSpec) -> DiskStatus | None:
        if not percents:
            return await find(self, disk)
        return DiskStatus(dev_path="disk", is_degraded=True, sync_percent=percents.pop(0))

    monkeypatch.setattr(PairedDisks, "find", slow)
    run(wanted(), ctx)
    assert not percents


def test_a_stalled_copy_is_waited_for_as_long_as_it_took_so_far() -> None:
    stall = Stall(1000.0)
    assert (stall.lasts_s, stall.limit_s) == (0.0, STALLED_S)
    for now_s, limit_s in ((1020.0, STALLED_S), (1100.0, 100.0), (9000.0, STALLED_AT_MOST_S)):
        stall.look(now_s, moves=True)
        stall.look(now_s + 7, moves=False)
        assert (stall.lasts_s, stall.limit_s) == (7.0, limit_s)


def test_a_migration_switches_the_roles(ctx: Context) -> None:
    run(wanted(), ctx)
    run(MigrateInstance(instance_name="web1"), ctx)
    assert ctx.nodes.roles() == [MOVED, MOVED]
    view = ctx.config.view()
    assert (view.find_instance("web1").primary_node, view.secondary_nodes(view.find_instance("web1"))) == (TWO, [ONE])
    run(MigrateInstance(instance_name="web1"), ctx)
    assert ctx.nodes.roles() == [BOTH, BOTH]


def test_a_failure_at_any_step_of_a_migration_leaves_the_roles(ctx: Context) -> None:
    run(wanted(), ctx)
    step = 1
    while failing(MigrateInstance(instance_name="web1"), ctx, step):
        unwound(ctx)
        assert ctx.nodes.roles() == [BOTH, BOTH], f"after step {step}"
        step += 1
    assert step == 3, "both sides are told"
    assert ctx.nodes.roles() == [MOVED, MOVED]


def test_a_failover_switches_the_roles_and_any_failure_puts_them_back(ctx: Context) -> None:
    run(wanted(), ctx)
    for step in count(1):
        if not failing(FailoverInstance(instance_name="web1"), ctx, step):
            assert (ctx.nodes.roles(), ctx.nodes.guests) == ([MOVED, MOVED], {("node2", "web1")})
            if ctx.nodes.count < step:
                break
            run(FailoverInstance(instance_name="web1"), ctx)  # back: only a secondary was not closed
            continue
        unwound(ctx)
        assert ctx.nodes.roles() == [BOTH, BOTH], f"after step {step}"
        assert ctx.nodes.guests == {("node1", "web1")}
    assert step > 4


def test_a_failover_to_a_copy_that_is_behind_is_refused_while_the_guest_runs(ctx: Context) -> None:
    run(wanted(start=False), ctx)
    ctx.nodes.dead.add("node2")
    run(StartInstance(instance_name="web1", force=True), ctx)
    ctx.nodes.dead.clear()
    with pytest.raises(PrerequisiteError, match=r"disk 0 of web1 on node2 is behind: .* --wait-for-sync web1 first"):
        run(FailoverInstance(instance_name="web1", ignore_consistency=True), ctx)
    assert ctx.nodes.roles() == [{"node1": PRIMARY, "node2": CLOSED}] * 2
    assert ctx.nodes.guests == {("node1", "web1")}


def test_a_failover_to_an_offline_node_is_not_said_to_need_a_copy(ctx: Context) -> None:
    run(wanted(start=False), ctx)
    ctx.nodes.dead.add("node2")
    run(StartInstance(instance_name="web1", force=True), ctx)
    view = ctx.config.view()
    view.put("nodes", TWO, replace(view.node(TWO), offline=True))
    with pytest.raises(PrerequisiteError, match=r"Node node2, which has the other copy .* is offline: bring it back"):
        run(FailoverInstance(instance_name="web1"), ctx)
    assert ctx.nodes.guests == {("node1", "web1")}


def test_a_copy_that_falls_behind_while_the_guest_stops_is_not_failed_over_to(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection of both nodes broke meanwhile: neither tells the other, and both call their copy good."""
    run(wanted(), ctx)
    ctx.records.clear()
    find = PairedDisks.find

    async def parted(self: PairedDisks, disk: DiskSpec) -> DiskStatus | None:
        if self.world.node_name == "node1" and not ctx.nodes.guests:
            return DiskStatus(dev_path="/dev/drbd1", is_degraded=True)
        return await find(self, disk)

    monkeypatch.setattr(PairedDisks, "find", parted)
    with pytest.raises(PrerequisiteError, match="disk 0 of web1 on node2 is behind"):
        run(FailoverInstance(instance_name="web1"), ctx)
    unwound(ctx)
    assert (ctx.nodes.roles(), ctx.nodes.guests) == ([BOTH, BOTH], {("node1", "web1")})


def test_a_guest_that_is_never_migrated_stays_while_the_other_copy_is_behind(ctx: Context) -> None:
    run(wanted(start=False, beparams={"always_failover": True}), ctx)
    ctx.nodes.dead.add("node2")
    run(StartInstance(instance_name="web1", force=True), ctx)
    ctx.nodes.dead.clear()
    ctx.story.clear()
    with pytest.raises(PrerequisiteError, match=r"disk 0 of web1 on node2 is behind: .* --wait-for-sync web1 first"):
        run(MigrateInstance(instance_name="web1"), ctx)
    assert "node1 instance_shutdown" not in ctx.story


@pytest.mark.parametrize("offline", [True, False])
def test_a_failover_from_a_lost_node_goes_on_with_one_copy(ctx: Context, offline: bool) -> None:
    run(wanted(), ctx)
    ctx.nodes.dead.add("node1")
    view = ctx.config.view()
    if offline:
        view.put("nodes", ONE, replace(view.node(ONE), offline=True))
    run(FailoverInstance(instance_name="web1", ignore_consistency=not offline), ctx)
    assert ctx.nodes.roles() == [{"node1": CLOSED, "node2": PRIMARY}] * 2
    assert any("falls behind" in line for line in ctx.lines)


def test_who_is_replaced_by_force_has_an_older_copy_from_then_on(ctx: Context) -> None:
    run(wanted(), ctx)
    view = ctx.config.view()
    [first, second] = view.instance_disks(view.find_instance("web1"))
    view.put("disks", first.uuid, replace(first, generation=5))
    run(FailoverInstance(instance_name="web1"), ctx)
    assert ctx.config.view().disk(first.uuid).generation == 5, "the former primary has stopped"
    ctx.nodes.dead.add("node2")
    view.put("nodes", TWO, replace(view.node(TWO), offline=True))
    run(FailoverInstance(instance_name="web1"), ctx)
    assert [ctx.config.view().disk(disk.uuid).generation for disk in (first, second)] == [TERM, None]


def test_a_lost_node_is_not_replaced_by_one_with_an_older_copy(ctx: Context) -> None:
    run(wanted(), ctx)
    view = ctx.config.view()
    disk = view.instance_disks(view.find_instance("web1"))[0]
    view.put("disks", disk.uuid, replace(disk, generation=5))
    view.put("nodes", ONE, replace(view.node(ONE), offline=True))
    ctx.nodes.dead.add("node1")
    ctx.nodes.generation = 4
    with pytest.raises(PrerequisiteError, match=r"disk 0 of web1 on node2 is older than that on node1, .* bring node1"):
        run(FailoverInstance(instance_name="web1"), ctx)
    assert ctx.nodes.guests == {("node1", "web1")}
    run(FailoverInstance(instance_name="web1", ignore_consistency=True), ctx)
    assert ("node2", "web1") in ctx.nodes.guests


@pytest.mark.parametrize(
    ("status", "word", "is_useless"),
    [
        (None, "is missing, so it cannot be used: bring node1 back", True),
        (FAULTY, "is not complete, so it cannot be used: bring node1 back", True),
        (UNCERTAIN, "lacks something of what node1 wrote: bring node1 back, or add --ignore-consistency", False),
    ],
)
def test_a_lost_node_is_not_replaced_by_one_whose_copy_is_no_good(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, status: int | None, word: str, is_useless: bool
) -> None:
    run(wanted(), ctx)
    view = ctx.config.view()
    view.put("nodes", ONE, replace(view.node(ONE), offline=True))
    ctx.nodes.dead.add("node1")

    async def find(self: PairedDisks, disk: DiskSpec) -> DiskStatus | None:
        return None if status is None else DiskStatus(dev_path="/dev/drbd1", ldisk_status=status)

    monkeypatch.setattr(PairedDisks, "find", find)
    with pytest.raises(PrerequisiteError, match=f"The copy of disk 0 of web1 on node2 {word}"):
        run(FailoverInstance(instance_name="web1"), ctx)
    assert view.find_instance("web1").primary_node == ONE
    if is_useless:
        with pytest.raises(PrerequisiteError, match="cannot be used"):
            run(FailoverInstance(instance_name="web1", ignore_consistency=True), ctx)
        assert view.find_instance("web1").primary_node == ONE
    else:
        run(FailoverInstance(instance_name="web1", ignore_consistency=True), ctx)
        assert view.find_instance("web1").primary_node == TWO


def test_a_disk_grows_on_both_nodes_or_on_none(ctx: Context) -> None:
    run(wanted(), ctx)
    grow = GrowDisk(instance_name="web1", disk=0, amount=8, ignore_ipolicy=True)
    for step in count(1):
        if not failing(grow, ctx, step):
            break
        assert ctx.nodes.sizes_mib() == [{"node1": 64, "node2": 64}] * 2, step
    assert step == 3 and ctx.nodes.sizes_mib()[0] == {"node1": 72, "node2": 72}
    assert ctx.config.view().instance_disks(ctx.config.view().find_instance("web1"))[0].size == 72


def test_a_start_needs_its_secondary_unless_told_otherwise(ctx: Context) -> None:
    run(wanted(start=False), ctx)
    ctx.nodes.dead.add("node2")
    with pytest.raises(NodeUnreachableError):
        run(StartInstance(instance_name="web1"), ctx)
    run(StartInstance(instance_name="web1", force=True), ctx)
    assert ctx.nodes.roles() == [{"node1": PRIMARY, "node2": CLOSED}] * 2


def test_a_guest_started_without_a_mark_keeps_its_disks(ctx: Context) -> None:
    """As gnt-cluster epo stops and starts all of them."""
    run(wanted(), ctx)
    run(ShutdownInstance(instance_name="web1", no_remember=True), ctx)
    run(StartInstance(instance_name="web1", no_remember=True), ctx)
    assert ctx.config.view().find_instance("web1").disks_active
    run(elsewhere(), ctx)
    assert ctx.nodes.roles() == [{"node1": PRIMARY, "node3": SECONDARY}] * 2
    run(ShutdownInstance(instance_name="web1", no_remember=True), ctx)
    run(FailoverInstance(instance_name="web1"), ctx)
    assert ctx.config.view().find_instance("web1").disks_active, "it runs on the other node"


def test_removal_removes_both_copies(ctx: Context) -> None:
    run(wanted(), ctx)
    run(RemoveInstanceOperation(instance_name="web1"), ctx)
    assert ctx.nodes.pairs.left() == [] and not ctx.config.view().instances()


def test_a_removal_that_is_cut_short_is_completed_on_both_nodes(ctx: Context) -> None:
    run(wanted(), ctx)
    for step in count(1):
        if not failing(RemoveInstanceOperation(instance_name="web1"), ctx, step):
            assert ctx.nodes.pairs.left() == []
            if ctx.nodes.count < step:
                break
            run(wanted(), ctx)  # only a secondary was not closed
        elif not any("complete the removal" in record.sentence for record in ctx.records):
            unwound(ctx)
            assert ctx.nodes.roles() == [BOTH, BOTH], f"after step {step}"
        else:
            ctx.records[:] = ctx.records[-1:]  # a commit has settled those before
            assert unwound(ctx) == ["complete after all: complete the removal of web1"]
            assert ctx.nodes.pairs.left() == [] and not ctx.config.view().instances()
            ctx.nodes.guests.clear()
            run(wanted(), ctx)
    assert step > 4


def test_an_instance_stays_while_one_of_its_nodes_cannot_say_that_nothing_is_left(ctx: Context) -> None:
    run(wanted(), ctx)
    assert failing(RemoveInstanceOperation(instance_name="web1"), ctx, 4)
    ctx.records[:] = ctx.records[-1:]
    ctx.nodes.dead.add("node1")
    assert "could not complete: complete the removal of web1" in unwound(ctx)[0]
    assert ctx.config.view().find_instance("web1").admin_state == "down"


def test_a_removal_without_the_secondary_asks_for_a_word(ctx: Context) -> None:
    run(wanted(), ctx)
    view = ctx.config.view()
    view.put("nodes", TWO, replace(view.node(TWO), offline=True))
    with pytest.raises(PrerequisiteError, match="Secondary node node2 of web1 is offline"):
        run(RemoveInstanceOperation(instance_name="web1"), ctx)
    run(RemoveInstanceOperation(instance_name="web1", ignore_failures=True), ctx)
    assert {line.split()[-1] for line in ctx.nodes.pairs.left()} == {"node2"}
    assert not view.instances()


def test_an_instance_on_one_node_has_no_other_side(ctx: Context) -> None:
    add_instance(ctx.config.view(), "web2")
    view = ctx.config.view()
    plan = plan_of(ctx, instance_spec(view, ctx.catalogue, view.find_instance("web2")))  # type: ignore[arg-type]
    assert plan.secondaries == () and len(plan.open()) == len(plan.close()) == len(plan.remove()) == 1


def elsewhere(**changes: Any) -> ReplaceDisks:
    fields: dict[str, Any] = {"instance_name": "web1", "mode": "replace_new_secondary", "remote_node": "node3"}
    return ReplaceDisks(**(fields | changes))


@pytest.mark.parametrize("running", [True, False])
def test_copies_move_to_another_node_and_the_old_ones_go_then(ctx: Context, running: bool) -> None:
    run(wanted(start=running), ctx)
    ctx.story.clear()
    run(elsewhere(), ctx)
    one = {"node1": PRIMARY, "node3": SECONDARY} if running else {"node1": CLOSED, "node3": CLOSED}
    assert ctx.nodes.roles() == [one, one]
    view = ctx.config.view()
    assert [view.disk(uuid).nodes for uuid in view.find_instance("web1").disks] == [[ONE, THREE]] * 2
    closed, committed = ctx.story.index("node2 blockdev_shutdown"), ctx.story.index("commit MoveCopies settles")
    assert closed < committed, "another disk may get the minor from then on"
    removed = [line for line in ctx.story if "blockdev_remove" in line]
    assert removed and all(line.startswith("node2 ") for line in removed)
    first = ctx.story.index(removed[0])
    assert not any("blockdev_create" in line or "assemble" in line for line in ctx.story[first:])


@pytest.mark.parametrize("dry_run", [False, True])
def test_copies_stay_where_another_node_has_no_room_for_them(ctx: Context, dry_run: bool) -> None:
    run(wanted(), ctx)
    checked = dataclasses.replace(PairedDisks.traits, checks_free_space=True)
    ctx.catalogue = Catalogue(ctx.catalogue.templates | {"pair": checked}, ctx.catalogue.hypervisors)
    ctx.story.clear()
    ctx.nodes.handlers["node_info"] = lambda name, **_: node_facts(storage_free_mib=127)
    with pytest.raises(PrerequisiteError, match=r"node3.*for web1: needed 128 MiB, available 127 MiB"):
        run(elsewhere(dry_run=dry_run), ctx)
    assert set(ctx.story) == {"node3 node_info"}


@pytest.mark.parametrize("running", [True, False])
def test_a_failure_at_any_step_of_the_move_leaves_the_old_copies(ctx: Context, running: bool) -> None:
    run(wanted(start=running), ctx)
    before = ctx.nodes.roles()
    for step in count(1):
        failed = failing(elsewhere(), ctx, step)
        if failed:
            unwound(ctx)
        elif ctx.nodes.count < step:
            break
        else:  # what cannot be done on the node that is left does not hold the others up
            assert secondaries(ctx) == [THREE]
            ctx.nodes.pairs.disks = {name: copies for name, copies in ctx.nodes.pairs.disks.items() if copies}
            run(elsewhere(remote_node="node2"), ctx)
            for copies in ctx.nodes.pairs.disks.values():
                copies.pop("node3", None)
        assert step < 50
        assert (ctx.nodes.roles(), secondaries(ctx)) == (before, [TWO]), step
    assert step > 4


def test_while_copies_are_made_equal_the_other_nodes_are_free(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocator chose from all of them; maintenance and harep have it do so."""
    run(wanted(), ctx)

    async def place(*_: Any, **__: Any) -> list[str]:
        return ["node3"]

    monkeypatch.setattr("ganeti.master.allocation.place", place)
    ctx.story.clear()
    run(elsewhere(iallocator="hail", remote_node=None), ctx)
    assert secondaries(ctx) == [THREE]
    freed = [place for place, line in enumerate(ctx.story) if line.startswith("release")]
    looks = [place for place, line in enumerate(ctx.story) if line == "node1 blockdev_find"]
    made = [place for place, line in enumerate(ctx.story) if line == "node3 blockdev_create"]
    assert freed and max(made) < min(freed) and max(freed) < looks[-1]


def test_while_a_disk_gets_its_second_copy_the_other_nodes_are_free(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ctx.config.view().cluster
    ctx.config.config.put("cluster", CLUSTER_KEY, replace(cluster, enabled_disk_templates=["pair", "local"]))
    add_instance(ctx.config.config, "web1", template="local", admin_state="down")

    async def chosen(*_: Any) -> str:
        return "node2"

    local = AsyncMock()
    local.activate.side_effect = lambda disk, *_, **__: AttachedDisk(spec=disk, path="/dev/null")
    for state in ctx.nodes.states.values():
        state._templates["local"] = local
    monkeypatch.setattr("ganeti.master.operations.instance.disks.conversion.chosen_secondary", chosen)
    monkeypatch.setattr("ganeti.master.operations.instance.disks.conversion.place_disks", place)
    run(ModifyInstanceOperation(instance_name="web1", disk_template="pair", iallocator="hail"), ctx)
    assert secondaries(ctx) == [TWO]
    made, freed, looked = (
        [place for place, line in enumerate(ctx.story) if words in line]
        for words in ("blockdev_create", "release node/[lockset] node-res/[lockset]", "node1 blockdev_find")
    )
    assert max(made) < freed[0] < max(looked)


def secondaries(ctx: Context) -> list[str]:
    view = ctx.config.view()
    return view.secondary_nodes(view.find_instance("web1"))


@pytest.mark.requirement("S5.4")
def test_the_allocators_choice_of_a_new_secondary_node_is_told(ctx: Context) -> None:
    run(wanted(start=False), ctx)
    ctx.allocation = {"success": True, "info": "", "result": ["node3"]}
    run(elsewhere(remote_node=None, iallocator="hail"), ctx)
    assert "Selected nodes for the instance: node3" in ctx.lines
    assert secondaries(ctx) == ["uuid-node3"]


@pytest.mark.parametrize("mode", ["replace_new_secondary", "replace_on_secondary"])
def test_the_only_good_copy_is_not_removed(ctx: Context, mode: str) -> None:
    run(wanted(start=False), ctx)
    for copies in ctx.nodes.pairs.disks.values():
        copies["node1"].valid, copies["node2"].valid = False, True
    before = ctx.nodes.roles()
    ctx.records.clear()
    with pytest.raises(GanetiError, match="behind"):
        run(elsewhere(mode=mode, remote_node="node3" if mode == "replace_new_secondary" else None), ctx)
    unwound(ctx)
    assert ctx.nodes.roles() == before


@pytest.mark.parametrize(
    ("status", "word"),
    [(None, "missing"), ({"ldisk_status": FAULTY}, "unusable"), ({"ldisk_status": UNCERTAIN}, "incomplete")],
)
def test_a_copy_stays_where_that_of_a_running_guest_is_bad(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, status: dict[str, Any] | None, word: str
) -> None:
    run(wanted(), ctx)
    before, find = ctx.nodes.roles(), PairedDisks.find

    async def bad(self: PairedDisks, disk: DiskSpec) -> DiskStatus | None:
        if self.world.node_name != "node1" or disk.index != 1:
            return await find(self, disk)
        return None if status is None else DiskStatus(dev_path="/dev/drbd1", **status)

    monkeypatch.setattr(PairedDisks, "find", bad)
    ctx.story.clear()
    with pytest.raises(ExecutionError, match=f"The copy of disk 1 of web1 on node1 is {word}, so that on node2 may be"):
        run(elsewhere(mode="replace_on_secondary", remote_node=None), ctx)
    assert not any("blockdev_renew" in line for line in ctx.story), "disk 0 is not made anew either"
    assert ctx.nodes.roles() == before


def test_a_guest_keeps_the_copy_that_it_reads_from(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failover to a copy that is behind, the guest reads from the other node what its own lacks still."""
    run(wanted(), ctx)
    before, find = ctx.nodes.roles(), PairedDisks.find

    async def behind(self: PairedDisks, disk: DiskSpec) -> DiskStatus | None:
        if self.world.node_name != "node1":
            return await find(self, disk)
        return DiskStatus(dev_path="/dev/drbd1", is_degraded=True, ldisk_status=SYNCING)

    monkeypatch.setattr(PairedDisks, "find", behind)
    ctx.records.clear()
    ctx.story.clear()
    with pytest.raises(ExecutionError, match="disk 0 of web1 on node1 is incomplete, so that on node2 may be the only"):
        run(elsewhere(), ctx)
    assert not any("instance_disks_assemble" in line for line in ctx.story), "nobody is parted from the other copy"
    unwound(ctx)
    assert ctx.nodes.roles() == before


def test_a_bad_copy_is_made_anew_on_its_node(ctx: Context) -> None:
    run(wanted(), ctx)
    ctx.story.clear()
    run(elsewhere(mode="replace_on_secondary", remote_node=None, disks=[1]), ctx)
    assert [line.split()[0:2] for line in ctx.story if "blockdev_renew" in line] == [["node2", "blockdev_renew"]]
    assert ctx.nodes.roles() == [{"node1": PRIMARY, "node2": SECONDARY}] * 2


@pytest.mark.parametrize("running", [True, False])
def test_a_new_copy_that_is_complete_stays_although_the_job_fails_later(ctx: Context, running: bool) -> None:
    """The primary node is lost, or the job killed, between the last step and the end of the opcode."""
    run(wanted(start=running), ctx)
    ctx.records.clear()
    run(elsewhere(mode="replace_on_secondary", remote_node=None), ctx)
    before = [copies["node2"] for copies in ctx.nodes.pairs.disks.values()]
    ctx.nodes.dead.add("node1")
    unwound(ctx)
    after = [copies["node2"] for copies in ctx.nodes.pairs.disks.values()]
    assert [id(copy) for copy in after] == [id(copy) for copy in before] and all(copy.valid for copy in after)


def test_a_copy_whose_renewal_was_cut_short_is_made_when_the_job_is_unwound(ctx: Context) -> None:
    run(wanted(), ctx)
    ctx.records.clear()
    run(elsewhere(mode="replace_on_secondary", remote_node=None), ctx)
    ctx.nodes.pairs.disks["web1-1"].pop("node2")
    unwound(ctx)
    assert ctx.nodes.roles() == [BOTH, BOTH]


def test_a_failure_at_any_step_of_a_renewal_leaves_copies_that_follow(ctx: Context) -> None:
    run(wanted(), ctx)
    for step in count(1):
        if not failing(elsewhere(mode="replace_on_secondary", remote_node=None), ctx, step):
            break
        unwound(ctx)
        assert ctx.nodes.roles() == [BOTH, BOTH], step
    assert step > 3


def test_a_repair_finds_the_lost_copy_itself(ctx: Context) -> None:
    run(wanted(), ctx)
    run(elsewhere(mode="replace_auto", remote_node=None), ctx)
    assert any("nothing is replaced" in line for line in ctx.log.lines)
    ctx.nodes.pairs.disks["web1-0"].pop("node2")
    run(elsewhere(mode="replace_auto", remote_node=None), ctx)
    assert ctx.nodes.roles() == [{"node1": PRIMARY, "node2": SECONDARY}] * 2
    ctx.nodes.pairs.disks["web1-1"].pop("node1")
    with pytest.raises(PrerequisiteError, match="copy of disk 1 on the primary node is bad: fail web1 over"):
        run(elsewhere(mode="replace_auto", remote_node=None), ctx)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"remote_node": "node1"}, "is the primary node of web1 already"),
        ({"remote_node": "node2"}, "is the secondary node of web1 already"),
        ({"remote_node": None}, "Name the new secondary node, or an allocator"),
        ({"iallocator": "hail"}, "one of them"),
        ({"disks": [0]}, "All disks get the new secondary node"),
        ({"mode": "replace_on_primary"}, "gnt-instance failover"),
        ({"mode": "replace_on_secondary"}, "keeps the nodes"),
        ({"mode": "replace_auto", "remote_node": None, "disks": [0]}, "finds the disks itself"),
        ({"mode": "replace_on_secondary", "remote_node": None, "disks": [7]}, "7"),
    ],
)
def test_what_cannot_be_replaced_is_refused(ctx: Context, changes: dict[str, Any], sentence: str) -> None:
    run(wanted(), ctx)
    before = ctx.nodes.roles()
    with pytest.raises(PrerequisiteError, match=sentence):
        run(elsewhere(**changes), ctx)
    assert ctx.nodes.roles() == before

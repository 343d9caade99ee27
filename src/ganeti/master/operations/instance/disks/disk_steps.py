# SPDX-License-Identifier: BSD-2-Clause
"""Carrying out the steps of a disk plan (`master/disk_plan.py`), and waiting until all copies are equal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ganeti.base.errors import ExecutionError, GanetiError
from ganeti.master.disk_plan import DiskPlan, DiskStep, Side, disk_plan
from ganeti.master.operations.instance.existing import require_one_moment
from ganeti.model.node_calls.disks import BlockdevFind, BlockdevWipe, DiskStatus
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

SYNC_POLL_S = 1.0
WIPE_STEP_MIB = 512
SAY_EVERY_S = 60.0
STALLED_S, STALLED_AT_MOST_S, TOLD_AFTER_S = 30.0, 600.0, 10.0
"""How long nothing may be copied to a copy that is behind before that is an error, and before the log says so.

A storage daemon that ended is started again within 16 s. Where copying had begun, the job waits for as long as that
took: giving up would copy all of it again.
"""


def plan_of(ctx: OperationContext, spec: InstanceSpec) -> DiskPlan:
    return disk_plan(ctx.config.view(), ctx.catalogue, spec)


async def push_undo(ctx: OperationContext, steps: Iterable[DiskStep]) -> None:
    """Record the way back of all *steps* before the first of them."""
    for step in steps:
        if step.undo is not None:
            await ctx.undo.push(step.undo)


async def take(ctx: OperationContext, step: DiskStep) -> None:
    await ask(ctx.nodes, step.side.node_uuid, step.request)


async def create_disks(
    ctx: OperationContext,
    spec: InstanceSpec,
    disks: Sequence[DiskSpec],
    *,
    wait: bool,
    adopted: Mapping[str, list[Any]] | None = None,
    may_be_there: bool = False,
) -> None:
    """Make some of the disks of *spec*, each with its undo; with *wait*, until their copies are equal.

    *adopted* has the logical ids of the volumes that become disks as they are, by UUID of the disk. Of disks that
    *may_be_there* all the same, none is removed but one that was made.
    """
    if not disks:
        return
    ctx.log.info("* adopting volumes as instance disks..." if adopted else "* creating instance disks...")
    wipes = ctx.config.view().cluster.prealloc_wipe_disks and not adopted
    plan = plan_of(ctx, spec)
    for disk in disks:
        for step in plan.adopt(disk, adopted[disk.uuid]) if adopted else plan.create(disk):
            if not may_be_there:
                await push_undo(ctx, [step])
            await take(ctx, step)
            if may_be_there:
                await push_undo(ctx, [step])
            if wipes:
                await wipe(ctx, step.side, disk)
    if wait:
        await make_equal(ctx, spec)


async def make_equal(ctx: OperationContext, spec: InstanceSpec) -> None:
    """Have both copies of new disks hold the same, which may take hours; they are closed then."""
    plan = plan_of(ctx, spec)
    if plan.secondaries:
        await push_undo(ctx, plan.open())
        await open_disks(ctx, plan)
        await wait_for_sync(ctx, plan)
        await close_disks(ctx, spec)


async def wipe(ctx: OperationContext, side: Side, disk: DiskSpec, *, from_mib: int = 0) -> None:
    """Write zeros over the disk to its end, so that neither an earlier owner nor a sparse file is behind it."""
    ctx.log.info(f"* Wiping disk {disk.index}")
    for offset_mib in range(from_mib, disk.size_mib, WIPE_STEP_MIB):
        size_mib = min(WIPE_STEP_MIB, disk.size_mib - offset_mib)
        await ask(ctx.nodes, side.node_uuid, BlockdevWipe(disk=disk, offset_mib=offset_mib, size_mib=size_mib))
        ctx.log.progress(f"disk {disk.index}", offset_mib + size_mib, disk.size_mib)


async def open_disks(
    ctx: OperationContext, plan: DiskPlan, *, ignore_secondaries: bool = False, reverting: bool = False
) -> None:
    """Open the disks, their undo being recorded; with *ignore_secondaries* a copy may fall behind.

    Unless they are opened for *reverting* them, they hold the state of one moment.
    """
    if not reverting:
        require_one_moment(ctx.config.view().instance(plan.primary.spec.uuid))
    for side in plan.absent:
        ctx.log.warning(f"Node {side.node_name} is offline: its copy of the disks of {side.spec.name} falls behind")
    for step in plan.open():
        try:
            await take(ctx, step)
        except GanetiError as err:
            if step.side is plan.primary or not ignore_secondaries:
                raise
            ctx.log.warning(
                f"The copy of the disks of {step.side.spec.name} on {step.side.node_name} falls behind: {err}"
            )


async def close_disks(ctx: OperationContext, spec: InstanceSpec) -> None:
    """Close the disks on all nodes; a secondary that cannot is told of, since nothing writes its copy any more."""
    plan = plan_of(ctx, spec)
    for step in plan.close():
        try:
            await take(ctx, step)
        except GanetiError as err:
            if step.side is plan.primary:
                raise
            ctx.log.warning(f"The disks of {spec.name} were not closed on {step.side.node_name}: {err}")


async def wait_for_sync(ctx: OperationContext, plan: DiskPlan) -> None:
    """Wait until every copy holds what the open disks hold; raises `ExecutionError` where nothing brings it there."""
    for disk in plan.primary.spec.disks:
        stall, said_s = Stall(ctx.clock.now_s()), None
        while (status := await ask(ctx.nodes, plan.primary.node_uuid, BlockdevFind(disk=disk))) is not None:
            if not status.is_degraded:
                break
            percent = status.sync_percent
            _require_moving(ctx, plan, disk, stall, moves=percent is not None)
            ctx.log.progress(f"disk {disk.index} is copied", percent or 0.0, 100.0)
            if percent is not None and (said_s is None or ctx.clock.now_s() - said_s >= SAY_EVERY_S):
                said_s = ctx.clock.now_s()
                ctx.log.info(f"- device disk/{disk.index}: {_how_far(status, percent)}")
            await ctx.clock.sleep(SYNC_POLL_S)


class Stall:
    """How long nothing is copied."""

    def __init__(self, now_s: float) -> None:
        self._begun_s = self._moved_s = self._now_s = now_s
        self.is_told = False

    def look(self, now_s: float, *, moves: bool) -> None:
        self._now_s = now_s
        if moves:
            self._moved_s, self.is_told = now_s, False

    @property
    def lasts_s(self) -> float:
        return self._now_s - self._moved_s

    @property
    def limit_s(self) -> float:
        return min(max(self._moved_s - self._begun_s, STALLED_S), STALLED_AT_MOST_S)


def _require_moving(ctx: OperationContext, plan: DiskPlan, disk: DiskSpec, stall: Stall, *, moves: bool) -> None:
    """Raise `ExecutionError` where nothing has been copied for too long."""
    stall.look(ctx.clock.now_s(), moves=moves)
    nodes = " and ".join(side.node_name for side in (plan.primary, *plan.secondaries))
    if stall.lasts_s >= stall.limit_s:
        raise ExecutionError(
            f"Disk {disk.index} of {plan.primary.spec.name} is degraded and nothing is copied for "
            f"{stall.lasts_s:.0f} s: see that {nodes} reach each other and that gnt-cluster verify finds no fault of "
            "theirs, then try again"
        )
    if stall.lasts_s >= TOLD_AFTER_S and not stall.is_told:
        stall.is_told = True
        ctx.log.warning(
            f"Disk {disk.index}: nothing is copied for {stall.lasts_s:.0f} s; do {nodes} reach each other? The job "
            f"waits {stall.limit_s - stall.lasts_s:.0f} s more"
        )


def _how_far(status: DiskStatus, percent: float) -> str:
    left_s, speed = status.estimated_time_s, status.sync_speed_kib
    left = "no time estimate" if left_s is None else f"{left_s} s remaining (estimated)"
    return f"{percent:5.2f}% done, {left}" + (f", {speed / 1024:.1f} MiB/s" if speed is not None else "")

# SPDX-License-Identifier: BSD-2-Clause
"""Carrying out the steps of a disk plan (`master/disk_plan.py`), and waiting until all copies are equal."""

from collections.abc import Iterable

from ganeti.base.errors import ExecutionError, GanetiError
from ganeti.master.disk_plan import DiskPlan, DiskStep, disk_plan
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.context import OperationContext

SYNC_POLL_S = 1.0
DEGRADED_POLLS = 10
"""How often a copy may be found behind with nothing on its way before that is an error."""


def plan_of(ctx: OperationContext, spec: InstanceSpec) -> DiskPlan:
    return disk_plan(ctx.config.view(), ctx.catalogue, spec)


async def push_undo(ctx: OperationContext, steps: Iterable[DiskStep]) -> None:
    """Record the way back of all *steps* before the first of them."""
    for step in steps:
        if step.undo is not None:
            await ctx.undo.push(step.undo)


async def take(ctx: OperationContext, step: DiskStep) -> None:
    await ctx.nodes.call(step.side.node_uuid, step.call, **step.arguments)


async def open_disks(ctx: OperationContext, plan: DiskPlan, *, ignore_secondaries: bool = False) -> None:
    """Open the disks, their undo being recorded; with *ignore_secondaries* a copy may fall behind."""
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
        idle = 0
        while (status := await ctx.nodes.call(plan.primary.node_uuid, "blockdev_find", disk=disk)) is not None:
            if not status["is_degraded"]:
                break
            percent = status["sync_percent"]
            idle = idle + 1 if percent is None else 0
            if idle >= DEGRADED_POLLS:
                raise ExecutionError(
                    f"Disk {disk.index} of {plan.primary.spec.name} is degraded and nothing is copied: see that its "
                    "nodes reach each other"
                )
            ctx.log.progress(f"disk {disk.index} is copied", percent or 0.0, 100.0)
            await ctx.clock.sleep(SYNC_POLL_S)

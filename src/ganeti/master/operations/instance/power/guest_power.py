# SPDX-License-Identifier: BSD-2-Clause
"""Starting and stopping a guest on its primary node, with the way back: what several operations do."""

import asyncio

from ganeti.master import allocation
from ganeti.master.instance_spec import bare
from ganeti.master.operations.instance.disks.disk_steps import close_disks, open_disks, plan_of, push_undo
from ganeti.master.operations.instance.existing import require_bridges
from ganeti.model.node_calls.instances import FoundInstance, InstanceInfo, InstanceShutdown, InstanceStart
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask

QUIET_S = 2.0
"""Most guests need no longer, and nothing is said."""
TELL_EVERY_S = 2.0
SAY_EVERY_S = 30.0
MARGIN_S = 60.0
"""What the node gets beyond the guest's own time to power off."""


async def start_on_primary(
    ctx: OperationContext,
    spec: InstanceSpec,
    *,
    paused: bool = False,
    shutdown_timeout_s: float = 0.0,
    ignore_secondaries: bool = False,
) -> None:
    """Start the guest on a node that has been asked whether it can: see `start_beside`."""
    await start_beside(
        ctx,
        spec,
        await ask(ctx.nodes, spec.primary_node_uuid, InstanceInfo(instance=spec)),
        paused=paused,
        shutdown_timeout_s=shutdown_timeout_s,
        ignore_secondaries=ignore_secondaries,
    )


async def start_beside(
    ctx: OperationContext,
    spec: InstanceSpec,
    running: FoundInstance | None,
    *,
    paused: bool = False,
    shutdown_timeout_s: float = 0.0,
    ignore_secondaries: bool = False,
) -> None:
    """Assemble the disks and start the guest, unless it is *running* already; the undo stops it and closes the disks.

    What is left of a guest that has ended by itself is stopped first, within *shutdown_timeout_s*. One that is paused,
    by an administrator or because a disk is full, has not ended.
    """
    node_uuid = spec.primary_node_uuid
    if running is not None and running.state == "running":
        ctx.log.info(f"{spec.name} is already running on {spec.primary_node}")
        return
    if running is not None and running.state == "paused":
        await ask(ctx.nodes, node_uuid, InstanceStart(instance=spec, paused=paused))  # if it was never complete
        ctx.log.info(
            f"{spec.name} is already on {spec.primary_node}; if it is paused, it stays so: gnt-instance reboot "
            f"{spec.name} starts it anew"
        )
        return
    if running is not None:
        await ask(
            ctx.nodes,
            node_uuid,
            InstanceShutdown(instance=spec, timeout_s=shutdown_timeout_s),
            deadline_s=shutdown_timeout_s + MARGIN_S,
        )
        await check_memory(ctx, spec)  # it had some until now
    await start_guest(ctx, spec, paused=paused, ignore_secondaries=ignore_secondaries)


async def check_start(ctx: OperationContext, spec: InstanceSpec) -> FoundInstance | None:
    """Give the guest as its primary node knows it; raises `PrerequisiteError` where the node cannot start it."""
    running = await ask(ctx.nodes, spec.primary_node_uuid, InstanceInfo(instance=spec))
    if running is None or running.state not in ("running", "paused"):
        await require_bridges(ctx, spec.primary_node_uuid, spec)
    if running is None:
        await check_memory(ctx, spec)
    return running


async def check_memory(ctx: OperationContext, spec: InstanceSpec) -> None:
    """Raise `PrerequisiteError` where the primary node has not the memory that the guest needs."""
    template = ctx.catalogue.template(spec.disks[0].template if spec.disks else _no_disks(ctx))
    await allocation.check_capacity(ctx, spec.primary_node_uuid, spec, template, makes_disks=False)


async def start_guest(
    ctx: OperationContext, spec: InstanceSpec, *, paused: bool = False, ignore_secondaries: bool = False
) -> None:
    """Assemble the disks and start the guest, which is known not to run; the undo stops it and closes the disks."""
    node_uuid = spec.primary_node_uuid
    disks = plan_of(ctx, spec)
    await push_undo(ctx, disks.open())
    await ctx.undo.push(
        UndoNodeCall.of(
            f"stop {spec.name} on {spec.primary_node}", node_uuid, InstanceShutdown(instance=bare(spec), timeout_s=0)
        )
    )
    await open_disks(ctx, disks, ignore_secondaries=ignore_secondaries)
    await ask(ctx.nodes, node_uuid, InstanceStart(instance=spec, paused=paused))


async def stop_on_primary(ctx: OperationContext, spec: InstanceSpec, *, timeout_s: float) -> None:
    """End the guest and close its disks on the primary node; the log says for what the job waits, and how long."""
    await end_on_primary(ctx, spec, timeout_s=timeout_s)
    await close_disks(ctx, spec)


async def end_on_primary(ctx: OperationContext, spec: InstanceSpec, *, timeout_s: float) -> None:
    """The same, and its disks stay open."""
    node_uuid = spec.primary_node_uuid
    teller = asyncio.ensure_future(_tell_of_waiting(ctx, spec.name, timeout_s))
    try:
        await ask(
            ctx.nodes, node_uuid, InstanceShutdown(instance=spec, timeout_s=timeout_s), deadline_s=timeout_s + MARGIN_S
        )
    finally:
        teller.cancel()


async def _tell_of_waiting(ctx: OperationContext, name: str, timeout_s: float) -> None:
    """Until cancelled: as progress all the time, and as a message now and then, for clients that show no progress."""
    begun_s = ctx.clock.now_s()
    said_s = -SAY_EVERY_S
    await ctx.clock.sleep(QUIET_S)
    while (waited_s := ctx.clock.now_s() - begun_s) < timeout_s:
        if waited_s - said_s >= SAY_EVERY_S:
            said_s = waited_s
            ctx.log.info(f"* waiting for {name} to shut down; it is powered off in {timeout_s - waited_s:.0f} s")
        ctx.log.progress(f"waiting for {name} to shut down, {timeout_s:.0f} s at most", waited_s, timeout_s)
        await ctx.clock.sleep(TELL_EVERY_S)
    ctx.log.info(f"* {name} has not shut down within {timeout_s:.0f} s: it is powered off")


async def undo_by_starting(ctx: OperationContext, spec: InstanceSpec) -> None:
    """Before a running guest is stopped: the way back is to start it where it was."""
    await ctx.undo.push(
        UndoNodeCall.of(
            f"start {spec.name} on {spec.primary_node} again",
            spec.primary_node_uuid,
            InstanceStart(instance=bare(spec), paused=False),
        )
    )
    for record in plan_of(ctx, spec).reopen():
        await ctx.undo.push(record)


def _no_disks(ctx: OperationContext) -> str:
    return next(name for name, traits in ctx.catalogue.templates.items() if not traits.has_disks)

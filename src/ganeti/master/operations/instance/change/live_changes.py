# SPDX-License-Identifier: BSD-2-Clause
"""What a running guest takes over of a modification at once: before the configuration says so, with the way back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import WRONG_STATE, ExecutionError, HypervisorError, PrerequisiteError
from ganeti.master.instance_spec import bare, instance_spec
from ganeti.master.operations.instance.disks.disk_steps import close_disks, open_disks, plan_of, push_undo
from ganeti.master.operations.instance.wanted.device_changes import DeviceChange, DiskChanges
from ganeti.master.operations.instance.wanted.modification import Facts, NicPlan
from ganeti.model.node_calls.hotplug import (
    InstanceChangeDisks,
    InstanceChangeNics,
    InstanceChangeParameters,
    InstanceHotplugObstacles,
)
from ganeti.model.node_calls.instances import InstanceBalloonMemory, InstanceInfo
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask

_BACKEND = ("be/vcpus", "be/maxmem")
"""What a running guest may have more of."""


@dataclass(frozen=True)
class LivePlan:
    """What the running guest is given."""

    nics: bool = False
    disks: bool = False
    parameters: Sequence[str] = ()
    """Parameters that it is offered, as they are told."""


async def look(ctx: OperationContext, view: ConfigView, instance: Instance, *, plugs: bool) -> Facts:
    """Ask the primary node for the guest; where it *plugs*, also what of it cannot change."""
    spec = bare(instance_spec(view, ctx.catalogue, instance))
    running = await ask(ctx.nodes, instance.primary_node, InstanceInfo(instance=spec))
    if not plugs or running is None or not ctx.catalogue.hypervisor(instance.hypervisor).can_hotplug:
        return Facts(running)
    obstacles = await ask(ctx.nodes, instance.primary_node, InstanceHotplugObstacles(instance=spec))
    return Facts(running, obstacles=obstacles)


def plan_live(
    facts: Facts,
    nics: NicPlan,
    disks: DiskChanges,
    parameters: Sequence[tuple[str, Any]],
    warnings: list[str],
) -> LivePlan:
    """Plan what the guest takes over; *warnings* collects why it does not take over the rest.

    A NIC that gets an address of a pool waits for the next start, because its address is known after the commit only.
    """
    if facts.obstacles is None:
        return LivePlan()
    plugged = [told for told in disks.told if told.action != "modify"]
    for kind, told, reason in (
        ("NICs", nics.told, facts.obstacles.nics),
        ("Disks", plugged, facts.obstacles.disks),
    ):
        if told and reason:
            warnings.append(f"{kind} change at the next start of the instance: {reason}")
    for name, value in parameters:
        if value and (obstacle := facts.obstacles.parameters.get(name)):
            warnings.append(f"{name} holds from the next start of the instance: {obstacle}")
    return LivePlan(
        nics=bool(nics.told) and not nics.from_pool and not facts.obstacles.nics,
        disks=bool(plugged) and not facts.obstacles.disks,
        parameters=[name for name, _ in parameters if name.startswith("hv/") or name in _BACKEND],
    )


def check_disks_in_use(instance: Instance, changes: Sequence[DeviceChange], facts: Facts) -> None:
    """Raise `PrerequisiteError` where a disk is to be taken from a guest that cannot let go of it."""
    in_use = instance.disks_active or instance.admin_state == "up" or facts.running is not None
    for change in changes:
        if change.action not in ("remove", "detach") or not in_use:
            continue
        if facts.obstacles is None:
            raise PrerequisiteError(
                f"Disk {change.where} of {instance.name} may be in use, so it cannot be taken away: shut the instance "
                "down first",
                WRONG_STATE,
            )
        if facts.obstacles.disks:
            raise PrerequisiteError(
                f"Disk {change.where} of {instance.name} is in use and cannot be taken away: {facts.obstacles.disks}; "
                "or shut the instance down first",
                WRONG_STATE,
            )


async def balloon(ctx: OperationContext, old: Instance, spec: InstanceSpec, before_mib: int, memory_mib: int) -> None:
    """Give the guest another amount of memory, within what it was started with."""
    back = InstanceBalloonMemory(instance=bare(spec), memory_mib=before_mib)
    sentence = f"give {spec.name} its {before_mib} MiB of memory again"
    await ctx.undo.push(UndoNodeCall.of(sentence, old.primary_node, back))
    await ask(ctx.nodes, old.primary_node, InstanceBalloonMemory(instance=spec, memory_mib=memory_mib))


async def change_devices(ctx: OperationContext, old: Instance, wanted: InstanceSpec, plan: LivePlan) -> None:
    """Give the guest the devices of *wanted*; raises `ExecutionError` when it keeps those it has."""
    before = bare(instance_spec(ctx.config.view(), ctx.catalogue, old))
    if plan.nics:
        await _change_nics(ctx, before, wanted)
    if plan.disks:
        await _change_disks(ctx, before, wanted)


async def change_parameters(
    ctx: OperationContext, old: Instance, wanted: InstanceSpec, plan: LivePlan
) -> Sequence[str]:
    """Offer parameters to the guest; gives those that it has taken over. Raises `ExecutionError`."""
    if not plan.parameters:
        return []
    before = bare(instance_spec(ctx.config.view(), ctx.catalogue, old))
    after = replace(before, hvparams=wanted.hvparams, beparams=wanted.beparams)
    names = list(plan.parameters)
    back = InstanceChangeParameters(instance=before, names=names)
    sentence = f"give the guest of {old.name} its former {', '.join(name.partition('/')[2] for name in names)}"
    await ctx.undo.push(UndoNodeCall.of(sentence, before.primary_node_uuid, back))
    try:
        return await ask(ctx.nodes, before.primary_node_uuid, InstanceChangeParameters(instance=after, names=names))
    except HypervisorError as err:
        raise ExecutionError(f"{err}; --no-hotplug changes it at the next start instead") from err


async def _change_nics(ctx: OperationContext, before: InstanceSpec, wanted: InstanceSpec) -> None:
    sentence = f"give the guest of {before.name} the NICs that it had"
    await ctx.undo.push(UndoNodeCall.of(sentence, before.primary_node_uuid, InstanceChangeNics(instance=before)))
    # The parameters of the machine that runs: new ones hold from the next start on.
    asked = replace(before, nics=wanted.nics)
    try:
        await ask(ctx.nodes, before.primary_node_uuid, InstanceChangeNics(instance=asked))
    except HypervisorError as err:
        raise ExecutionError(f"{err}; --no-hotplug changes the NICs at the next start instead") from err


async def _change_disks(ctx: OperationContext, before: InstanceSpec, wanted: InstanceSpec) -> None:
    """Open new disks, change those of the guest, close those that it has no more."""
    had, has = {disk.uuid for disk in before.disks}, {disk.uuid for disk in wanted.disks}
    coming = plan_of(ctx, replace(before, disks=[disk for disk in wanted.disks if disk.uuid not in had]))
    if coming.primary.spec.disks:
        await push_undo(ctx, coming.open())
        await open_disks(ctx, coming)
    sentence = f"give the guest of {before.name} the disks that it had"
    await ctx.undo.push(UndoNodeCall.of(sentence, before.primary_node_uuid, InstanceChangeDisks(instance=before)))
    try:
        await ask(
            ctx.nodes,
            before.primary_node_uuid,
            InstanceChangeDisks(instance=replace(before, disks=wanted.disks)),
        )
    except HypervisorError as err:
        raise ExecutionError(f"{err}; the guest keeps the disks that it has") from err
    gone = [disk for disk in before.disks if disk.uuid not in has]
    if gone:
        leaving = replace(before, disks=gone)
        await ctx.undo.push(*plan_of(ctx, leaving).reopen())
        await close_disks(ctx, leaving)

# SPDX-License-Identifier: BSD-2-Clause
"""Taking, reverting to and removing a snapshot on all nodes that have copies of an instance's disks."""

import asyncio
import contextlib
from collections.abc import Iterable

from msgspec.structs import replace

from ganeti.base.errors import WRONG_STATE, BlockDeviceError, ExecutionError, GanetiError, PrerequisiteError
from ganeti.master.disk_plan import DiskPlan, Side
from ganeti.master.instance_spec import bare, instance_spec
from ganeti.master.operations.changes import NoteSnapshots
from ganeti.master.operations.instance.disks.disk_steps import plan_of
from ganeti.model.configuration import Draft
from ganeti.model.node_calls.disks import FAULTY, BlockdevFind, InstanceSnapshots, Snapshot
from ganeti.model.node_calls.snapshots import (
    InstanceFreeze,
    InstanceSnapshotRemove,
    InstanceSnapshotRevert,
    InstanceSnapshotRevertCheck,
    InstanceSnapshotTake,
    InstanceThaw,
)
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext, UndoChange, UndoNodeCall
from ganeti.ports.nodes import ask

_TELL_S = 20.0
"""How long a node may take to tell which snapshots it has, where that is for a warning alone."""
Kept = list[tuple[str, float, list[int]]]
"""Name, time in seconds since 1970, and the indexes of the disks that have it on the primary node."""


class SetReverting(Change, frozen=True, kw_only=True):
    """The disks are being taken back to *snapshot*, or all of them are (None)."""

    instance_uuid: str
    snapshot: str | None = None

    def apply(self, draft: Draft) -> None:
        draft.put("instances", replace(draft.instance(self.instance_uuid), reverting=self.snapshot))


async def kept_snapshots(ctx: OperationContext, spec: InstanceSpec) -> Kept:
    """One row for each name, the oldest first; those of a secondary that is offline are left out."""
    plan = plan_of(ctx, spec)
    found = await asyncio.gather(
        *(
            ask(ctx.nodes, side.node_uuid, InstanceSnapshots(instance=bare(side.spec)))
            for side in (plan.primary, *plan.present)
        )
    )
    return _by_name(found[0], [snapshot for side in found[1:] for disk in side for snapshot in disk])


async def require_none(ctx: OperationContext, spec: InstanceSpec, why: str, remedy: str, *, copied: bool) -> None:
    """Raise `PrerequisiteError` where disks have snapshots; *copied*, those inside an image go along with it."""
    try:
        kept = await ask(ctx.nodes, spec.primary_node_uuid, InstanceSnapshots(instance=bare(spec)))
    except BlockDeviceError:  # the template has none
        return
    names = sorted({snapshot.name for disk in kept for snapshot in disk if not (copied and snapshot.in_image)})
    if names:
        raise PrerequisiteError(
            f"Disks of {spec.name} have snapshots ({', '.join(names)}), {why}: remove them first (gnt-instance "
            f"snapshot remove {spec.name} {names[0]}){remedy}",
            WRONG_STATE,
        )


def require_all_copies(plan: DiskPlan, deed: str) -> None:
    """Refuse where a second copy cannot be reached."""
    for side in plan.absent:
        raise PrerequisiteError(
            f"Node {side.node_name} is marked offline, and {deed} needs both copies of the disks of "
            f"{side.spec.name}: bring it back, or give the instance another secondary node first "
            f"(gnt-instance replace-disks -n NODE {side.spec.name})",
            WRONG_STATE,
        )


async def require_equal_copies(ctx: OperationContext, plan: DiskPlan) -> None:
    """Refuse to keep the disks of two nodes where one of them is known to be behind."""
    for side in plan.secondaries:
        for disk in side.spec.disks:
            primary, second = await asyncio.gather(
                *(ask(ctx.nodes, uuid, BlockdevFind(disk=disk)) for uuid in (plan.primary.node_uuid, side.node_uuid))
            )
            if (
                primary is None
                or second is None
                or primary.is_degraded
                or second.ldisk_status == FAULTY
                or primary.generation != second.generation
            ):
                raise PrerequisiteError(
                    f"The copies of disk {disk.index} of {side.spec.name} are not known to be equal: have them made so "
                    f"first (gnt-instance activate-disks --wait-for-sync {side.spec.name})",
                    WRONG_STATE,
                )


async def take(ctx: OperationContext, spec: InstanceSpec, name: str) -> bool:
    """Take it on all nodes or on none; says whether the guest's agent held its writes."""
    if noted := _noted(ctx, spec):
        await ctx.undo.push(UndoChange(f"forget snapshot {name} of {spec.name}", NoteSnapshots(disks=noted, name=name)))
        await ctx.config.commit(NoteSnapshots(disks=noted, name=name, created_s=ctx.clock.now_s()))
        view = ctx.config.view()
        spec = instance_spec(view, ctx.catalogue, view.instance(spec.uuid))
    plan = plan_of(ctx, spec)
    for side in (*plan.secondaries, plan.primary):
        await ctx.undo.push(
            UndoNodeCall.of(
                f"remove snapshot {name} of {spec.name} from {side.node_name}",
                side.node_uuid,
                InstanceSnapshotRemove(instance=bare(side.spec), name=name),
            )
        )
    if plan.secondaries:
        return await _take_both(ctx, plan, name)
    request = InstanceSnapshotTake(instance=bare(spec), name=name)
    return await ask(ctx.nodes, spec.primary_node_uuid, request)


async def _take_both(ctx: OperationContext, plan: DiskPlan, name: str) -> bool:
    """The guest writes on when both have ended, whatever came of them: what is still copied must not change."""
    primary, guest = plan.primary.node_uuid, bare(plan.primary.spec)
    frozen = await ask(ctx.nodes, primary, InstanceFreeze(instance=guest))
    try:
        ended = await asyncio.gather(
            *(
                ask(
                    ctx.nodes,
                    side.node_uuid,
                    InstanceSnapshotTake(instance=bare(side.spec), name=name, frozen=frozen),
                )
                for side in (plan.primary, *plan.secondaries)
            ),
            return_exceptions=True,
        )
    finally:  # an agent that did not answer in time may have frozen it late
        await ask(ctx.nodes, primary, InstanceThaw(instance=guest))
    for failed in ended:
        if isinstance(failed, BaseException):
            raise failed
    return frozen


async def revert(ctx: OperationContext, spec: InstanceSpec, name: str) -> None:
    """Go back on all nodes; while it lasts, nothing opens the disks, unless a single disk changes at one blow.

    Repeated after the loss of a secondary, it stays incomplete until another node has the copies: the lost one must
    not take over with another state.
    """
    plan, instance = plan_of(ctx, spec), ctx.config.view().instance(spec.uuid)
    steps = len(spec.disks) > 1 or bool(plan.secondaries) or bool(_noted(ctx, spec))
    if steps:
        # All that refuses does so before the mark, under which its remedies are refused.
        for side in (plan.primary, *plan.present):
            await ask(ctx.nodes, side.node_uuid, InstanceSnapshotRevertCheck(instance=bare(side.spec), name=name))
        await ctx.config.commit(SetReverting(instance_uuid=spec.uuid, snapshot=name))
    for side in (plan.primary, *plan.present):
        await ask(ctx.nodes, side.node_uuid, InstanceSnapshotRevert(instance=bare(side.spec), name=name))
    for side in plan.absent:
        raise ExecutionError(
            f"The disks of {spec.name} on {spec.primary_node} are as in snapshot {name}, but node {side.node_name} is "
            f"offline: give the instance another secondary node (gnt-instance replace-disks -n NODE {spec.name}), or "
            f"bring that one back, then repeat this (gnt-instance snapshot revert {spec.name} {name})"
        )
    if steps or instance.reverting is not None:
        await ctx.config.commit(SetReverting(instance_uuid=spec.uuid), settles=True)
    for side in plan.secondaries:
        ctx.log.info(f"The copy on {side.node_name} is made equal to the primary's when the disks are next activated")


async def remove(ctx: OperationContext, spec: InstanceSpec, name: str) -> None:
    """Remove it on all nodes that can be reached; a secondary that cannot is told of."""
    plan = plan_of(ctx, spec)
    for side in plan.absent:
        _tell_left(ctx, side, name, "is offline")
    await ask(ctx.nodes, plan.primary.node_uuid, InstanceSnapshotRemove(instance=bare(spec), name=name))
    for side in plan.present:
        try:
            await ask(ctx.nodes, side.node_uuid, InstanceSnapshotRemove(instance=bare(side.spec), name=name))
        except GanetiError as err:
            _tell_left(ctx, side, name, f"says: {err}")
    if noted := _noted(ctx, spec):
        await ctx.config.commit(NoteSnapshots(disks=noted, name=name), settles=True)


DiskSnapshots = set[tuple[int, str]]
"""The position of a disk and the name of a snapshot of it."""


async def snapshots_on(ctx: OperationContext, *sides: Side) -> DiskSnapshots:
    """Those that any of these nodes has; none where a node does not tell."""
    found: DiskSnapshots = set()
    for side in sides:
        with contextlib.suppress(GanetiError):
            kept = await ask(ctx.nodes, side.node_uuid, InstanceSnapshots(instance=bare(side.spec)), deadline_s=_TELL_S)
            found |= {(position, each.name) for position, disk in enumerate(kept) for each in disk}
    return found


async def warn_of_lost_snapshots(ctx: OperationContext, before: DiskSnapshots, kept: Side, renewed: Side) -> None:
    """Copies on node *renewed* were made anew: say which of the snapshots *before* are on the other node alone."""
    if not (missing := before - await snapshots_on(ctx, renewed)):
        return
    left = await snapshots_on(ctx, kept)
    for found, where in (
        (missing & left, f"are on {kept.node_name} alone from now on"),
        (missing - left, "went with the copies that were replaced"),
    ):
        if names := ", ".join(sorted({name for _, name in found})):
            ctx.log.warning(f"The copies on {renewed.node_name} are new: snapshots {names} of {kept.spec.name} {where}")


def _tell_left(ctx: OperationContext, side: Side, name: str, why: str) -> None:
    ctx.log.warning(
        f"Snapshot {name} of {side.spec.name} may be left on {side.node_name}, which {why}. Remove it again when that "
        "node is back"
    )


def _noted(ctx: OperationContext, spec: InstanceSpec) -> list[str]:
    """The disks whose snapshots the configuration knows."""
    known = ctx.catalogue.templates
    return [disk.uuid for disk in spec.disks if known[disk.template].snapshots_in_configuration]


def _by_name(primary: list[list[Snapshot]], others: Iterable[Snapshot]) -> Kept:
    rows: dict[str, tuple[float, list[int]]] = {}
    for index, disk in enumerate(primary):
        for each in disk:
            rows.setdefault(each.name, (each.created_s, []))[1].append(index)
    for each in others:
        rows.setdefault(each.name, (each.created_s, []))
    return [(name, created_s, disks) for name, (created_s, disks) in sorted(rows.items(), key=lambda row: row[1])]

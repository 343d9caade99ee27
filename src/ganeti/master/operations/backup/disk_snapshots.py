# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of an instance's disks on its primary node, which live as long as an export reads them."""

from ganeti.base.errors import GanetiError
from ganeti.master.instance_spec import bare
from ganeti.model.node_calls.disks import BlockdevFind
from ganeti.model.node_calls.exports import EXPORTED, UNFINISHED, ExportRemoveSnapshots, ExportSnapshotDisks
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask


async def take(ctx: OperationContext, spec: InstanceSpec) -> bool:
    """Keep the disks of a stopped guest, with the undo of it; without room, a warning and False are given."""
    sentence = f"remove the snapshot for the export of {spec.name} from {spec.primary_node}"
    await ctx.undo.push(UndoNodeCall.of(sentence, spec.primary_node_uuid, ExportRemoveSnapshots(instance=bare(spec))))
    ctx.log.info(f"Taking a snapshot of the disks of {spec.name}")
    request = ExportSnapshotDisks(instance=spec, directory=f"{spec.name}{UNFINISHED}")
    try:
        await ask(ctx.nodes, spec.primary_node_uuid, request)
    except GanetiError as err:
        ctx.log.warning(f"{spec.name} stays stopped until its disks are copied, since they have no snapshot: {err}")
        await ask(ctx.nodes, spec.primary_node_uuid, ExportRemoveSnapshots(instance=bare(spec)))
        return False
    return True


async def are_whole(ctx: OperationContext, spec: InstanceSpec) -> bool:
    """Whether the primary node itself has all data of all disks, so that a snapshot there has them."""
    for disk in spec.disks:
        found = await ask(ctx.nodes, spec.primary_node_uuid, BlockdevFind(disk=disk))
        if found is None or found.is_degraded:
            ctx.log.info(f"Disk {disk.index} of {spec.name} is degraded: {spec.name} stays stopped until it is copied")
            return False
    return True


async def remove(ctx: OperationContext, spec: InstanceSpec) -> None:
    """One that stays is told of: the export has all data."""
    try:
        await ask(ctx.nodes, spec.primary_node_uuid, ExportRemoveSnapshots(instance=bare(spec)))
    except GanetiError as err:
        ctx.log.warning(
            f"The snapshot for the export of {spec.name} is still there: {err}. Remove it "
            f"(gnt-instance snapshot remove {spec.name} {EXPORTED})"
        )

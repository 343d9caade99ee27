# SPDX-License-Identifier: BSD-2-Clause
"""What an export has nodes do: copy disks, dump them, start the guest again, remove older exports."""

from collections.abc import Sequence

import msgspec

from ganeti.base.errors import ExecutionError, GanetiError
from ganeti.master.operations.backup.description import DumpFile
from ganeti.master.operations.backup.dumps import until_cancelled
from ganeti.master.operations.backup.pace import MIB, Pace
from ganeti.master.operations.instance.disks.disk_steps import open_disks, plan_of
from ganeti.master.operations.instance.os.script_output import followed, new_token
from ganeti.model.node_calls.exports import (
    UNFINISHED,
    Dumped,
    ExportCopyDisks,
    ExportDump,
    ExportDumpSizes,
    ExportEndCopies,
    ExportInfo,
    ExportList,
)
from ganeti.model.node_calls.exports import ExportRemove as RemoveFromNode
from ganeti.model.node_calls.instances import InstanceStart
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Node
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask, ask_many

DUMP_TIMEOUT_S = 24 * 3600.0


async def copy_disks(spec: InstanceSpec, ctx: OperationContext) -> None:
    """Copy all disks as of one moment, beside the running guest."""
    sentence = f"end the copying of disks of {spec.name} on {spec.primary_node}"
    token = new_token(ctx)
    end = ExportEndCopies(hypervisor=spec.hypervisor, name=spec.name, token=token)
    await ctx.undo.push(UndoNodeCall.of(sentence, spec.primary_node_uuid, end))
    ctx.log.info(f"Copying the disks of {spec.name}, which runs on")
    request = ExportCopyDisks(instance=spec, directory=f"{spec.name}{UNFINISHED}", token=token)
    await until_cancelled(ctx, ask(ctx.nodes, spec.primary_node_uuid, request, deadline_s=DUMP_TIMEOUT_S))


async def dumps_of(
    spec: InstanceSpec, node_uuid: str, checksums: Sequence[str], ctx: OperationContext
) -> list[DumpFile]:
    """The dumps of all disks, of these SHA-256, in the unfinished directory on a node."""
    names = [dump_name(disk.index) for disk in spec.disks]
    request = ExportDumpSizes(directory=f"{spec.name}{UNFINISHED}", dumps=names)
    sizes = await ask(ctx.nodes, node_uuid, request)
    return [DumpFile(*each) for each in zip(names, sizes, checksums, strict=True)]


def require_same(written: Sequence[DumpFile], come: Sequence[str], source: str, target: str) -> None:
    """Raises `ExecutionError` where what has come is not what was written."""
    for file, sha256 in zip(written, come, strict=True):
        if file.sha256 and sha256 and file.sha256 != sha256:
            raise ExecutionError(
                f"{file.name} was written on {source} and has come to {target} with another checksum (SHA-256): "
                f"look for errors of disks and memory in the kernel's log of {source}, and export the instance again"
            )


async def start_again(spec: InstanceSpec, ctx: OperationContext) -> None:
    """Start the guest; the undo record that would start it stays, as a second start does no harm."""
    ctx.log.info(f"Starting instance {spec.name}")
    await open_disks(ctx, plan_of(ctx, spec))
    await ask(ctx.nodes, spec.primary_node_uuid, InstanceStart(instance=spec, paused=False))


async def remove_older(name: str, config: str, target: Node, ctx: OperationContext) -> None:
    """Remove exports of this instance from nodes other than *target*; a node that fails gets a warning.

    *config* is that of the export that was just made: a node that has it, too, has the same directory (by NFS).
    """
    others = [node for node in ctx.config.view().nodes() if node.uuid != target.uuid and not node.offline]
    for answer in await ask_many(ctx.nodes, [node.uuid for node in others], ExportList()):
        node_name = ctx.config.view().node(answer.node_uuid).name
        try:
            if answer.error is not None:
                raise answer.error
            if name not in answer.value:
                continue
            if await ask(ctx.nodes, answer.node_uuid, ExportInfo(directory=name)) == config:
                ctx.log.info(f"{node_name} has the same directory of exports: nothing is removed there")
            else:
                ctx.log.info(f"Removing the older export of {name} from {node_name}")
                await ask(ctx.nodes, answer.node_uuid, RemoveFromNode(name=name))
        except GanetiError as err:
            ctx.log.warning(f"Could not remove an older export of {name} from {node_name}: {err}")


def dump_name(index: int) -> str:
    return f"disk{index}.dump"


async def make_dump(ctx: OperationContext, request: ExportDump) -> Dumped:
    """Run the export script, and tell what it says and how far it is."""
    node_uuid, disk = request.instance.primary_node_uuid, request.instance.disks[request.index]
    pace = Pace(ctx, node_uuid, f"disk {request.index}", "dumped", disk.size_mib * MIB)
    dumped = await followed(
        ctx,
        node_uuid,
        lambda token: ask(
            ctx.nodes, node_uuid, msgspec.structs.replace(request, token=token), deadline_s=DUMP_TIMEOUT_S
        ),
        until_cancelled=True,
        meanwhile=pace.tell,
    )
    pace.end()
    return dumped

# SPDX-License-Identifier: BSD-2-Clause
"""Dumps of disks on their way: from the node that made them to the one that keeps, or imports, them."""

from collections.abc import Iterable

from ganeti.base.errors import ENVIRONMENT_ERROR, WRONG_INPUT, ExecutionError, PrerequisiteError
from ganeti.base.names import shown
from ganeti.model.node_calls.disk_copy import CompressionFault
from ganeti.model.node_calls.exports import ExportCopyBegin, ExportCopyWrite, ExportDiscard, ExportRead
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask, ask_many

NO_COMPRESSION = "none"
_MIB = 1024 * 1024
SAY_EVERY_S = 30.0


def check_compression(view: ConfigView, tool: str) -> None:
    """Raises `PrerequisiteError` for what the cluster's list of tools has not."""
    if tool not in (known := (NO_COMPRESSION, *view.cluster.compression_tools)):
        raise PrerequisiteError(
            f"Compression '{shown(tool)}' is not enabled in the cluster: use one of {', '.join(known)}, or add it with "
            "gnt-cluster modify --compression-tools",
            WRONG_INPUT,
        )


async def require_compression(ctx: OperationContext, view: ConfigView, tool: str, nodes: Iterable[str]) -> None:
    """Raises `PrerequisiteError` unless the cluster has *tool* and all *nodes* (by uuid) can run it."""
    check_compression(view, tool)
    if tool == NO_COMPRESSION:
        return
    for answer in await ask_many(ctx.nodes, dict.fromkeys(nodes), CompressionFault(tool=tool)):
        if answer.error is not None:
            raise answer.error
        if answer.value:
            raise PrerequisiteError(
                f"Compression {tool} cannot be used on node {view.node(answer.node_uuid).name}: {answer.value}",
                ENVIRONMENT_ERROR,
            )


def discarding(name: str, node_uuid: str, node_name: str) -> UndoNodeCall:
    """What removes an export, or an import, that has not come to its end."""
    sentence = f"remove the unfinished dumps of {name} from {node_name}"
    return UndoNodeCall.of(sentence, node_uuid, ExportDiscard(name=name))


async def copy_dump(
    ctx: OperationContext, source: tuple[str, str], target: tuple[str, str], dump: str, compression: str
) -> str:
    """Copy one dump, *source* and *target* being (uuid of a node, directory); gives the mark of the target's power-on.

    Parts that hold nothing but zeros are left out. The job log has amount, rate and the time that is left.
    """
    began_s = said_s = ctx.clock.now_s()
    node, directory = target
    read = ExportRead(directory=source[1], dump=dump, offset=0, compression=compression)
    piece = await ask(ctx.nodes, source[0], read)
    size = piece.size
    boot = await ask(ctx.nodes, node, ExportCopyBegin(directory=directory, dump=dump, size=size))
    offset = piece.offset
    while offset < size:
        if piece.data:
            offset = await ask(
                ctx.nodes,
                node,
                ExportCopyWrite(
                    directory=directory,
                    dump=dump,
                    offset=offset,
                    data=piece.data,
                    compression=compression,
                    boot=boot,
                ),
            )
        ctx.log.progress(f"{dump} is copied", offset, size)
        if (now_s := ctx.clock.now_s()) - said_s >= SAY_EVERY_S:
            said_s = now_s
            ctx.log.info(_pace(dump, offset, size, now_s - began_s))
        read = ExportRead(directory=source[1], dump=dump, offset=offset, compression=compression)
        piece = await ask(ctx.nodes, source[0], read)
        if piece.size != size:
            raise ExecutionError(f"The dump {dump} has changed its size while it was copied: begin again")
        offset = piece.offset
    return boot


def _pace(dump: str, offset: int, size: int, passed_s: float) -> str:
    left_s = passed_s * (size - offset) / max(offset, 1)
    done = f"{offset / _MIB:.0f} of {size / _MIB:.0f} MiB"
    return f"{dump}: {done} copied, {offset / _MIB / passed_s:.0f} MiB/s, {left_s:.0f} s left"

# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that copy a disk nobody uses to another node, piece by piece through the job that moves it.

The copy is whole or not there: it gets its name at its end, when it is on disk. A node that has lost its power since
the beginning refuses to go on, because pieces that were written before may be gone.
"""

from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disk_copy import (
    Arrived,
    BlockdevCopyBegin,
    BlockdevCopyEnd,
    BlockdevCopyWrite,
    BlockdevRead,
    CompressionFault,
    InstanceDisksArrived,
    Piece,
)
from ganeti.model.node_requests import DiskSpec
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState
from ganeti.node.storage import compression, pieces
from ganeti.node.storage.image_io import in_thread
from ganeti.system.boot import boot_identity


@answers(CompressionFault)
async def compression_fault(node: NodeState, asked: CompressionFault) -> str:
    return await compression.fault(node.world, asked.tool)


@answers(BlockdevRead)
async def blockdev_read(node: NodeState, asked: BlockdevRead) -> Piece:
    path = await node.template_of(asked.disk).stored_path(asked.disk)
    return await packed(node, await in_thread(pieces.read, path, asked.offset), asked.compression)


async def packed(node: NodeState, piece: Piece, tool: str) -> Piece:
    """The piece with its data compressed, if it has any."""
    return replace(piece, data=await compression.compress(node.world, tool, piece.data)) if piece.data else piece


@answers(BlockdevCopyBegin)
async def blockdev_copy_begin(node: NodeState, asked: BlockdevCopyBegin) -> str:
    await node.template_of(asked.disk).begin_copy(asked.disk, asked.size)
    return boot_identity()


@answers(BlockdevCopyWrite)
async def blockdev_copy_write(node: NodeState, asked: BlockdevCopyWrite) -> int:
    _require_same_boot(asked.disk, asked.boot)
    path = node.template_of(asked.disk).unfinished_path(asked.disk)
    data = await compression.decompress(node.world, asked.compression, asked.data)
    return await in_thread(pieces.write, path, asked.offset, data)


@answers(BlockdevCopyEnd)
async def blockdev_copy_end(node: NodeState, asked: BlockdevCopyEnd) -> None:
    _require_same_boot(asked.disk, asked.boot)
    await node.template_of(asked.disk).end_copy(asked.disk)
    node.world.log(f"disk {asked.disk.logical_id[-1]} of {asked.disk.size_mib} MiB copied from another node")


@answers(InstanceDisksArrived)
async def instance_disks_arrived(node: NodeState, asked: InstanceDisksArrived) -> Arrived:
    found: list[Any] = [await node.template_of(disk).find(disk) for disk in asked.instance.disks]
    return Arrived(settled=all(status is not None for status in found))


def _require_same_boot(disk: DiskSpec, boot: str) -> None:
    if boot != boot_identity():
        raise BlockDeviceError(
            f"This node has restarted while disk {disk.logical_id[-1]} was copied to it, so a part may be missing: "
            "copy it again"
        )

# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that copy a disk nobody uses to another node, piece by piece through the job that moves it.

The copy is whole or not there: it gets its name at its end, when it is on disk. A node that has lost its power since
the beginning refuses to go on, because pieces that were written before may be gone.
"""

from typing import Any

import msgspec

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.node.actions.registry import NORMAL_S, SLOW_S, node_call
from ganeti.node.state import NodeState
from ganeti.node.storage import pieces
from ganeti.node.storage.image_io import in_thread
from ganeti.node.storage.pieces import Piece
from ganeti.system.boot import boot_identity


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """Whether all disks of an instance are here: a successor of a dead job then completes the move."""

    settled: bool


@node_call(timeout_s=NORMAL_S, changes=False)
async def blockdev_read(node: NodeState, *, disk: DiskSpec, offset: int, compression: int = 0) -> Piece:
    """The first piece at or after *offset* that is not empty."""
    path = await node.template_of(disk).stored_path(disk)
    return await in_thread(pieces.read, path, offset, compression=compression)


@node_call(timeout_s=SLOW_S)
async def blockdev_copy_begin(node: NodeState, *, disk: DiskSpec, size: int) -> str:
    """Make room for the copy of a disk of *size* bytes; gives a mark of this power-on for the calls that follow."""
    await node.template_of(disk).begin_copy(disk, size)
    return boot_identity()


@node_call()
async def blockdev_copy_write(
    node: NodeState, *, disk: DiskSpec, offset: int, data: bytes, compressed: bool, boot: str
) -> int:
    """Write a piece into a copy that has begun; gives the offset after it."""
    _require_same_boot(disk, boot)
    path = node.template_of(disk).unfinished_path(disk)
    return await in_thread(pieces.write, path, offset, data, compressed=compressed)


@node_call(timeout_s=SLOW_S)
async def blockdev_copy_end(node: NodeState, *, disk: DiskSpec, boot: str) -> None:
    """All has been written: the copy is a disk from now on."""
    _require_same_boot(disk, boot)
    await node.template_of(disk).end_copy(disk)
    node.world.log(f"disk {disk.logical_id[-1]} of {disk.size_mib} MiB copied from another node")


@node_call(changes=False)
async def instance_disks_arrived(node: NodeState, *, instance: InstanceSpec) -> Arrived:
    """Whether all disks of *instance* are here."""
    found: list[Any] = [await node.template_of(disk).find(disk) for disk in instance.disks]
    return Arrived(settled=all(status is not None for status in found))


def _require_same_boot(disk: DiskSpec, boot: str) -> None:
    if boot != boot_identity():
        raise BlockDeviceError(
            f"This node has restarted while disk {disk.logical_id[-1]} was copied to it, so a part may be missing: "
            "copy it again"
        )

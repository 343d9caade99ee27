# SPDX-License-Identifier: BSD-2-Clause
"""Copying one disk to another, of any template and format, and making sure that both hold the same."""

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.model.node_requests import AttachedDisk
from ganeti.node.storage import image_io
from ganeti.node.storage.image_io import RAW, in_thread
from ganeti.ports.node_world import NodeWorld

_TOOL_TIMEOUT_S = 3600.0


async def copy_disk(world: NodeWorld, source: AttachedDisk, target: AttachedDisk) -> None:
    """Copy *source*, which nobody writes, to *target*, which is new and as large, and compare them.

    May be repeated: a copy that was broken off is completed. Raises `BlockDeviceError`.
    """
    sentence = f"Disk {source.path} cannot be copied to {target.path}"
    if source.image_format == target.image_format == RAW:
        try:
            await in_thread(image_io.copy_raw, source.path, target.path)
            same = await in_thread(image_io.same_raw, source.path, target.path)
        except OSError as err:
            raise image_io.failed("written", target.path, err) from err
        if not same:
            raise BlockDeviceError(f"{sentence}: they differ after that; see whether the node's disks have errors")
        return
    formats = ["-f", source.image_format, "-O", target.image_format]
    pair = [source.path, target.path]
    copy = ["qemu-img", "convert", "-q", "-n", "--target-is-zero", *formats, *pair]
    compare = ["qemu-img", "compare", "-q", "-f", source.image_format, "-F", target.image_format, *pair]
    for command in (copy, compare):
        try:
            await world.run(command, timeout_s=_TOOL_TIMEOUT_S)
        except CommandError as err:
            raise BlockDeviceError(f"{sentence}: {err}") from err

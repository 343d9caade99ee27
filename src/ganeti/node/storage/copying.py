# SPDX-License-Identifier: BSD-2-Clause
"""Copying one disk to another, of any template and format, and making sure that both hold the same."""

import os

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.model.node_requests import AttachedDisk
from ganeti.node.storage import devices, image_io
from ganeti.node.storage.image_io import RAW, in_thread
from ganeti.ports.node_world import NodeWorld

_TOOL_TIMEOUT_S = 3600.0


async def copy_disk(world: NodeWorld, source: AttachedDisk, target: AttachedDisk, *, is_zero: bool) -> None:
    """Copy *source*, which nobody writes, to *target*, which is new and as large, and compare them.

    *is_zero*: whether the new disk holds nothing but zeros; else what its space was used for before is overwritten. May
    be repeated: a copy that was broken off is completed. Raises `BlockDeviceError`.
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
    known = ["--target-is-zero"] if is_zero else []
    copy = ["qemu-img", "convert", "-q", "-n", *known, *formats, *pair]
    compare = ["qemu-img", "compare", "-q", "-f", source.image_format, "-F", target.image_format, *pair]
    if target.image_format == RAW and not is_zero:
        await in_thread(_clear_end, source, target)
    commands = [copy, compare]
    if target.image_format != RAW:
        commands = [*await in_thread(_growth, source, target), *commands]
    for command in commands:
        try:
            await world.run(command, timeout_s=_TOOL_TIMEOUT_S)
        except CommandError as err:
            raise BlockDeviceError(f"{sentence}: {err}") from err


def _growth(source: AttachedDisk, target: AttachedDisk) -> list[list[str]]:
    """What makes the image *target* as large as the volume that it is made from, which has whole extents."""
    try:
        if source.image_format == RAW:
            with open(source.path, "rb") as file:
                size = os.lseek(file.fileno(), 0, os.SEEK_END)
        else:
            size = image_io.inspect(source.path, source.image_format) or 0
        there = image_io.inspect(target.path, target.image_format) or 0
    except OSError as err:
        raise image_io.failed("read", source.path, err) from err
    if size <= there:
        return []
    return [["qemu-img", "resize", "-q", "-f", target.image_format, target.path, str(size)]]


def _clear_end(source: AttachedDisk, target: AttachedDisk) -> None:
    """A volume is made of whole extents: what lies behind the end of the smaller disk becomes zeros."""
    try:
        size = image_io.inspect(source.path, source.image_format) or 0
        with open(target.path, "rb") as file:
            more = os.lseek(file.fileno(), 0, os.SEEK_END) - size
        if more > 0:
            devices.write_zeros(target.path, size, more)
    except OSError as err:
        raise image_io.failed("written", target.path, err) from err

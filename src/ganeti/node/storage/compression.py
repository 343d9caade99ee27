# SPDX-License-Identifier: BSD-2-Clause
"""Compressing the pieces of a disk on their way to another node: by zlib, or by a program of the site.

A tool of the cluster's list whose name is not known here is a program on the standard path that reads standard input
and writes standard output, decompresses with ``-d``, and says by ``-h`` that it is there (as gzip and lzop do).
"""

import os
import zlib

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.node.storage.image_io import in_thread
from ganeti.ports.node_world import NodeWorld

NONE = "none"
LEVELS = {"gzip-fast": 1, "gzip": 6, "gzip-slow": 9}
"""Tools that need no program, with their level of zlib."""
_TIMEOUT_S = 120.0


async def fault(world: NodeWorld, tool: str) -> str:
    """Say why *tool* cannot be used on this node; empty when it can."""
    if tool == NONE or tool in LEVELS:
        return ""
    try:
        await world.run([tool, "-h"], timeout_s=_TIMEOUT_S)
    except CommandError as err:
        return str(err)
    return ""


async def compress(world: NodeWorld, tool: str, data: bytes) -> bytes:
    """Raises `BlockDeviceError` where the program fails."""
    if tool in LEVELS:
        return await in_thread(zlib.compress, data, LEVELS[tool])
    return data if tool == NONE else await _filtered(world, [tool], data)


async def decompress(world: NodeWorld, tool: str, data: bytes) -> bytes:
    """Raises `BlockDeviceError` where the program fails, or *data* are not compressed by *tool*."""
    if tool in LEVELS:
        try:
            return await in_thread(zlib.decompress, data)
        except zlib.error as err:
            raise BlockDeviceError(f"A piece that was compressed by {tool} cannot be read: {err}") from err
    return data if tool == NONE else await _filtered(world, [tool, "-d"], data)


async def _filtered(world: NodeWorld, argv: list[str], data: bytes) -> bytes:
    descriptor = os.memfd_create("compressed", os.MFD_CLOEXEC)
    with open(descriptor, "rb") as result:
        try:
            await world.run(argv, stdin=data, stdout_path=f"/proc/self/fd/{descriptor}", timeout_s=_TIMEOUT_S)
        except CommandError as err:
            raise BlockDeviceError(f"A piece of the disk cannot be compressed or read back: {err}") from err
        return result.read()

# SPDX-License-Identifier: BSD-2-Clause
"""The bytes of a disk in pieces, for a copy to another node: read with empty parts left out, written where they belong.

What is written lies in a new file or device, empty until then: parts that are left out are zeros there as well.
"""

import os

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disk_copy import Piece
from ganeti.node.storage.image_io import MIB

READ_MIB = 4
"""How much is looked at, and sent, at once."""
SKIPPED_MIB = 1024
"""A call that finds nothing but zeros answers after so many, and is made again."""


def read(path: str, offset: int) -> Piece:
    """Give the first piece at or after *offset* that is not empty."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        end = min(size, offset + SKIPPED_MIB * MIB)
        while offset < end:
            data = os.pread(descriptor, READ_MIB * MIB, offset)
            if not data:
                raise BlockDeviceError(f"Disk {path} has become shorter than {size} bytes while it is copied")
            if data.strip(b"\0"):
                return Piece(offset=offset, data=data, size=size)
            offset += len(data)
        return Piece(offset=min(offset, size), size=size)
    finally:
        os.close(descriptor)


def write(path: str, offset: int, data: bytes) -> int:
    """Put a piece where it belongs; gives the offset after it. It is not synced."""
    content = memoryview(data)
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if offset + len(content) > os.lseek(descriptor, 0, os.SEEK_END):
            raise BlockDeviceError(f"Disk {path} has no room for {len(content)} bytes at {offset}")
        done = 0
        while done < len(content):
            done += os.pwrite(descriptor, content[done:], offset + done)
    finally:
        os.close(descriptor)
    return offset + len(content)

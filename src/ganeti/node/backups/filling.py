# SPDX-License-Identifier: BSD-2-Clause
"""Writing what a backup holds onto a disk."""

import os
from collections.abc import Sequence

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.backups import Chunk
from ganeti.wire.sealing import CHUNK_BYTES, Sealing

_ZEROS = bytes(CHUNK_BYTES)


def fill(
    path: str,
    chunks: Sequence[Chunk],
    sealing: Sealing,
    source_disk: int,
    span: tuple[int, int],
    *,
    zeroes: bool,
    syncs: bool,
    writes: bool = True,
) -> None:
    """Open every chunk, then write them; with *zeroes*, what lies between them in *span* (numbers) becomes zeros.

    A chunk that is damaged is refused before anything is written; unless it *writes*, nothing else is done. Raises
    `BlockDeviceError`, `OSError`.
    """
    opened = {chunk.number: sealing.open(source_disk, chunk.number, chunk.data, chunk.digest) for chunk in chunks}
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        for number, data in opened.items():
            if number * CHUNK_BYTES + len(data) > size:
                raise BlockDeviceError(f"{path} has {size} bytes: it is smaller than the disk that was backed up")
        if not writes:
            return
        for number, data in opened.items():
            _write(descriptor, data, number * CHUNK_BYTES)
        if zeroes:
            for number in range(*span):
                if number not in opened and number * CHUNK_BYTES < size:
                    _zero(descriptor, number * CHUNK_BYTES, min(CHUNK_BYTES, size - number * CHUNK_BYTES))
        if syncs:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _zero(descriptor: int, offset: int, length: int) -> None:
    """What is zeros already stays a hole."""
    if os.pread(descriptor, length, offset) != _ZEROS[:length]:
        _write(descriptor, _ZEROS[:length], offset)


def _write(descriptor: int, data: bytes, offset: int) -> None:
    content, done = memoryview(data), 0
    while done < len(content):
        done += os.pwrite(descriptor, content[done:], offset + done)

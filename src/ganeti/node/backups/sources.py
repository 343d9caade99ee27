# SPDX-License-Identifier: BSD-2-Clause
"""What the bytes of a disk are read from for a backup, and the chunks of it that have changed."""

import os
from typing import Protocol

from ganeti.model.node_calls.backups import Chunk, ChunkPiece
from ganeti.node.storage.image_io import in_thread
from ganeti.wire.sealing import CHUNK_BYTES, DIGEST_BYTES, EMPTY_DIGEST, NONCE_BYTES, Sealing

_READ_CHUNKS = 16
_ANSWER_BYTES = 4 * 1024 * 1024


class ByteSource(Protocol):
    """A disk as it is at one moment."""

    async def size(self) -> int:
        """In bytes."""
        ...

    async def read(self, offset: int, length: int) -> bytes:
        """Less than *length* at the end alone."""
        ...


class FileSource:
    """A file or device that nobody changes meanwhile."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def size(self) -> int:
        return await in_thread(_size, self._path)

    async def read(self, offset: int, length: int) -> bytes:
        return await in_thread(_read, self._path, offset, length)


async def changed(source: ByteSource, disk: int, first: int, known: bytes, sealing: Sealing) -> ChunkPiece:
    """Chunks from *first* on that have other digests than *known* says, until an answer is full."""
    found, size = list[Chunk](), 0
    end = first + len(known) // DIGEST_BYTES
    for begin in range(first, end, _READ_CHUNKS):
        count = min(_READ_CHUNKS, end - begin)
        data = await source.read(begin * CHUNK_BYTES, count * CHUNK_BYTES)
        digests = known[(begin - first) * DIGEST_BYTES : (begin - first + count) * DIGEST_BYTES]
        new = await in_thread(_sealed, data, disk, begin, digests, sealing)
        found += new
        size += sum(len(chunk.data) for chunk in new)
        if size >= _ANSWER_BYTES:
            return ChunkPiece(chunks=found, next=begin + count)
    return ChunkPiece(chunks=found, next=end)


def _sealed(data: bytes, disk: int, first: int, known: bytes, sealing: Sealing) -> list[Chunk]:
    if known == bytes(len(known)) and not data.strip(b"\0"):
        return []
    found = []
    for place in range(0, len(data), CHUNK_BYTES):
        part, index = data[place : place + CHUNK_BYTES], place // CHUNK_BYTES
        digest = sealing.digest(part)
        if digest == known[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]:
            continue
        number = first + index
        sealed = b"" if digest == EMPTY_DIGEST else sealing.seal(disk, number, part, os.urandom(NONCE_BYTES))
        found.append(Chunk(number=number, digest=digest, data=sealed))
    return found


def _size(path: str) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)


def _read(path: str, offset: int, length: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while length and (data := os.pread(descriptor, length, offset)):
            parts.append(data)
            offset, length = offset + len(data), length - len(data)
        return b"".join(parts)
    finally:
        os.close(descriptor)

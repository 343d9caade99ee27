# SPDX-License-Identifier: BSD-2-Clause
"""The two files of a disk in a backup: sealed chunks one after the other, and an index that finds them by number.

The index has records of one size in the order of chunk numbers, so that a chunk is found by halving and no index is
ever read as a whole: number (8 bytes), offset (8), length (4, zero for a chunk of zeros) and digest (16).
"""

import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.backups import Chunk, StoredDisk
from ganeti.node.storage import image_io
from ganeti.wire.sealing import EMPTY_DIGEST

_RECORD = struct.Struct(">QQI16s")
_READ_BYTES = 1024 * 1024
_PAGE_RECORDS = 512


class Record(NamedTuple):
    number: int
    offset: int
    length: int
    digest: bytes


class DiskFiles:
    """The files of one disk, open for reading; a file that is cut short is found when it is opened or read."""

    def __init__(self, path: str, chunks: Callable[[int, int], bytes] | None = None) -> None:
        """*path* is what both names begin with; raises `OSError`.

        *chunks*: what reads the file of chunks (offset, length) where that is elsewhere.
        """
        self._path = path
        self._index = os.open(f"{path}.index", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._chunks = -1
        self._read_chunks = chunks or self._read_own
        if chunks is None:
            try:
                self._chunks = os.open(f"{path}.chunks", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                os.close(self._index)
                raise
        size = os.fstat(self._index).st_size
        self.count = size // _RECORD.size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._index)
        if self._chunks >= 0:
            os.close(self._chunks)

    def _read_own(self, offset: int, length: int) -> bytes:
        return os.pread(self._chunks, length, offset)

    @property
    def last(self) -> int:
        """The greatest number; -1 without any."""
        return self._page(self.count - 1, 1)[0].number if self.count else -1

    def records(self, first: int = 0, end: int | None = None) -> Iterator[Record]:
        """Those with numbers from *first* on, before *end*."""
        position = self._position(first)
        while position < self.count:
            for record in self._page(position):
                if end is not None and record.number >= end:
                    return
                yield record
                position += 1

    def sealed(self, record: Record) -> bytes:
        """The chunk of a record; raises `BlockDeviceError` where the file ends before it."""
        data = self._read_chunks(record.offset, record.length)
        if len(data) != record.length:
            raise BlockDeviceError(f"The backup is damaged: {self._path}.chunks ends at {record.offset + len(data)}")
        return data

    def _position(self, number: int) -> int:
        """Of the first record that is not below *number*."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._page(middle, 1)[0].number < number:
                low = middle + 1
            else:
                high = middle
        return low

    def _page(self, position: int, count: int = _PAGE_RECORDS) -> list[Record]:
        data = os.pread(self._index, count * _RECORD.size, position * _RECORD.size)
        whole = len(data) - len(data) % _RECORD.size
        if not whole:
            raise BlockDeviceError(f"The backup is damaged: {self._path}.index has become shorter")
        return [Record(*values) for values in _RECORD.iter_unpack(data[:whole])]


def merged(chain: Sequence[DiskFiles], first: int, end: int) -> Iterator[tuple[DiskFiles, Record]]:
    """The newest record of each number, in their order; *chain* has the newest files first."""
    found: dict[int, tuple[DiskFiles, Record]] = {}
    for files in reversed(chain):
        found |= {record.number: (files, record) for record in files.records(first, end)}
    for number in sorted(found):
        yield found[number]


def digests(chain: Sequence[DiskFiles], first: int, count: int) -> bytes:
    found = [EMPTY_DIGEST] * count
    for _, record in merged(chain, first, first + count):
        found[record.number - first] = record.digest if record.length else EMPTY_DIGEST
    return b"".join(found)


def make(path: str) -> None:
    """Two empty files in the place of what is there."""
    for ending in ("chunks", "index"):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(f"{path}.{ending}", flags, 0o600))


def append(path: str, chunks: Iterable[Chunk], offset: int) -> int:
    """Add chunks after *offset*, which is the size of the file of chunks; gives its size then.

    Raises `BlockDeviceError` where the file has another size.
    """
    with open(f"{path}.chunks", "ab") as data, open(f"{path}.index", "ab") as index:
        if data.tell() != offset:
            raise BlockDeviceError(f"{path}.chunks has {data.tell()} bytes, not {offset}: begin the backup again")
        records = []
        for chunk in chunks:
            records.append(_RECORD.pack(chunk.number, offset, len(chunk.data), chunk.digest))
            data.write(chunk.data)
            offset += len(chunk.data)
        index.write(b"".join(records))
    return offset


def merge(chain: Sequence[DiskFiles], path: str, *, keeps_zeros: bool) -> None:
    """Write what *chain* has together into new files at *path*."""
    make(path)
    offset, batch, size = 0, list[Chunk](), 0
    numbers = max((files.last for files in chain), default=-1) + 1
    for begin in range(0, numbers, _PAGE_RECORDS):
        for files, record in merged(chain, begin, begin + _PAGE_RECORDS):
            if not record.length and not keeps_zeros:
                continue
            data = files.sealed(record) if record.length else b""
            batch.append(Chunk(number=record.number, digest=record.digest, data=data))
            size += len(data)
            if size >= _READ_BYTES:
                offset, batch, size = append(path, batch, offset), [], 0
    append(path, batch, offset)


def stored(path: str) -> StoredDisk:
    """What the files are like; raises `OSError`."""
    return stored_index(path, os.stat(f"{path}.chunks").st_size)


def stored_index(path: str, chunk_bytes: int) -> StoredDisk:
    """The same where the file of chunks, of so many bytes, is elsewhere."""
    digest, size = hashlib.sha256(), 0
    with open(f"{path}.index", "rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
            size += len(data)
    return StoredDisk(
        chunks=size // _RECORD.size,
        chunk_bytes=chunk_bytes,
        index_bytes=size,
        index_sha256=digest.hexdigest(),
    )


def sync(path: str) -> None:
    for ending in ("chunks", "index"):
        descriptor = os.open(f"{path}.{ending}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def unlink(path: str) -> None:
    for ending in ("chunks", "index"):
        image_io.unlink(f"{path}.{ending}")

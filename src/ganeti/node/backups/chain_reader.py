# SPDX-License-Identifier: BSD-2-Clause
"""The bytes of backed-up disks, read from a chain of backups at any place, without a restore."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from ganeti.model.node_calls.backups import ChainLink
from ganeti.node.backups.interface import BackupStore
from ganeti.wire.sealing import CHUNK_BYTES, Sealing

_WINDOW_CHUNKS = 16
"""Read at once: what a guest reads next mostly lies behind."""
_KEPT_CHUNKS = 512
_ZEROS = bytes(CHUNK_BYTES)


class ChainReader:
    """Disks as the newest backup of *chain* has them; may be used by several threads."""

    def __init__(
        self, store: BackupStore, sealing: Sealing, instance_uuid: str, chain: Sequence[ChainLink], sizes: Sequence[int]
    ) -> None:
        """*chain* has the newest backup first; *sizes* are those of its disks in bytes."""
        self._store, self._sealing, self._uuid, self._chain = store, sealing, instance_uuid, chain
        self.sizes = sizes
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, disk: int, offset: int, length: int) -> bytes:
        """Less than *length* at the end alone. Raises `BlockDeviceError` for a damaged chunk, `OSError`."""
        length = min(length, self.sizes[disk] - offset)
        if length <= 0:
            return b""
        first, last = offset // CHUNK_BYTES, (offset + length - 1) // CHUNK_BYTES
        with self._lock:
            parts = [self._chunk(disk, number) for number in range(first, last + 1)]
        begin = offset - first * CHUNK_BYTES
        return b"".join(parts)[begin : begin + length]

    def _chunk(self, disk: int, number: int) -> bytes:
        found = self._kept.get((disk, number))
        if found is None:
            self._load(disk, number)
            return self._kept[disk, number]
        self._kept.move_to_end((disk, number))
        return found

    def _load(self, disk: int, number: int) -> None:
        """Have a chunk, and some after it, among those kept."""
        end = min(number + _WINDOW_CHUNKS, -(-self.sizes[disk] // CHUNK_BYTES))
        piece = self._store.chunks(self._uuid, self._chain, disk, number, end)
        opened = {
            chunk.number: self._sealing.open(disk, chunk.number, chunk.data, chunk.digest) for chunk in piece.chunks
        }
        for each in reversed(range(number, max(piece.next, number + 1))):
            data = opened.get(each, _ZEROS)
            self._kept[disk, each] = data if len(data) == CHUNK_BYTES else data.ljust(CHUNK_BYTES, b"\0")
        while len(self._kept) > _KEPT_CHUNKS:
            self._kept.popitem(last=False)

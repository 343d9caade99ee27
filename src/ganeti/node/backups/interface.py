# SPDX-License-Identifier: BSD-2-Clause
"""Where a node keeps backups: what a place for them must be able to do.

What must hold: a backup that is listed is whole, because it is published in one step; until then, and where a step
fails, all others are as they were. Nothing outside the place is reached, whatever ids are given.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ganeti.model.node_calls.backups import ChainLink, Chunk, ChunkPiece, Kept, StoredDisk


class BackupStore(ABC):
    """All methods block, raise `BlockDeviceError` or `OSError`, and may be repeated but for `append`."""

    @abstractmethod
    def listed(self) -> Kept: ...

    @abstractmethod
    def begin(self, instance_uuid: str, backup: str, disks: int) -> None: ...

    @abstractmethod
    def append(self, instance_uuid: str, backup: str, disk: int, chunks: Sequence[Chunk], offset: int) -> int: ...

    @abstractmethod
    def finish(self, instance_uuid: str, backup: str) -> list[StoredDisk]: ...

    @abstractmethod
    def publish(self, instance_uuid: str, backup: str, generation: int, manifest: str) -> None: ...

    @abstractmethod
    def discard(self, instance_uuid: str, backup: str) -> None: ...

    @abstractmethod
    def merge(
        self, instance_uuid: str, older: ChainLink, newer: ChainLink, generation: int, *, keeps_zeros: bool
    ) -> list[StoredDisk]: ...

    @abstractmethod
    def remove(self, instance_uuid: str, backup: str) -> bool: ...

    @abstractmethod
    def note(self, instance_uuid: str, backup: str, proof: str) -> None: ...

    @abstractmethod
    def stored(self, instance_uuid: str, link: ChainLink) -> list[StoredDisk]: ...

    @abstractmethod
    def digests(self, instance_uuid: str, chain: Sequence[ChainLink], disk: int, first: int, count: int) -> bytes: ...

    @abstractmethod
    def chunks(self, instance_uuid: str, chain: Sequence[ChainLink], disk: int, first: int, end: int) -> ChunkPiece: ...

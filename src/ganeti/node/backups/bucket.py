# SPDX-License-Identifier: BSD-2-Clause
"""Objects of a bucket, by the library obstore: what a store of backups asks, with one kind of error."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from ganeti.base.errors import BlockDeviceError

if TYPE_CHECKING:
    from obstore.store import MemoryStore, S3Store

T = TypeVar("T")
_PIECE_BYTES = 1024 * 1024
_PART_BYTES = 16 * 1024 * 1024
"""10,000 parts make an object: 160 GB of changed data of one disk in one backup."""


class Bucket:
    """All methods block; they raise `BlockDeviceError` where the store does not answer or refuses.

    Those that read raise `FileNotFoundError` for an object that is not there.
    """

    def __init__(self, name: str, store: "S3Store | MemoryStore") -> None:
        """*name* is what people call it."""
        self.name = name
        self._store = store

    def below(self, key: str) -> list[str]:
        """What would be directories of a file system."""
        found = self._asked(lambda: _obstore().list_with_delimiter(self._store, key or None)["common_prefixes"])
        return [os.path.basename(each.rstrip("/")) for each in found]

    def names(self, key: str) -> list[str]:
        pages = self._asked(lambda: list(_obstore().list(self._store, key)))
        return [os.path.basename(each["path"]) for page in pages for each in page]

    def text(self, key: str, most_bytes: int) -> str | None:
        """None for an object that is not there; empty for one that is larger than *most_bytes*."""
        found = bytearray()
        try:
            for piece in self.pieces(key):
                found += piece
                if len(found) > most_bytes:
                    return ""
        except FileNotFoundError:
            return None
        return found.decode("utf-8", "replace")

    def pieces(self, key: str) -> Iterator[bytes]:
        """An object of any size, never as a whole in memory."""
        stream = self._asked(lambda: iter(_obstore().get(self._store, key).stream(min_chunk_size=_PIECE_BYTES)))
        while (piece := self._asked(lambda: next(stream, None))) is not None:
            yield bytes(piece)

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """Less than *length* at the end."""
        return self._asked(lambda: bytes(_obstore().get_range(self._store, key, start=offset, length=length)))

    def size(self, key: str) -> int:
        return self._asked(lambda: int(_obstore().head(self._store, key)["size"]))

    def write(self, key: str, data: bytes | BinaryIO) -> None:
        self._asked(lambda: _obstore().put(self._store, key, data, chunk_size=_PART_BYTES))

    def delete(self, key: str) -> None:
        """One that is gone is no error."""
        with suppress(FileNotFoundError):
            self._asked(lambda: _obstore().delete(self._store, key))

    def delete_below(self, key: str) -> None:
        for name in self.names(key):
            self.delete(f"{key}/{name}")

    def _asked(self, question: Callable[[], T]) -> T:
        from obstore.exceptions import BaseError

        try:
            return question()
        except FileNotFoundError as err:
            raise FileNotFoundError(errno.ENOENT, "it is not there", self.name) from err
        except (BaseError, OSError) as err:
            said = " ".join(str(err).split())[:300]
            raise BlockDeviceError(f"The store {self.name} refuses or does not answer: {said}") from err


def _obstore() -> Any:
    """The library, imported here because few nodes use it."""
    import obstore

    return obstore

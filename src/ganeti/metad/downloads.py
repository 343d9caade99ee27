# SPDX-License-Identifier: BSD-2-Clause
"""Files that guests download: read in small pieces, as the guest takes them, a few at a time for each guest.

A guest decides how many requests it sends and how slowly it reads: neither may cost the node memory.
"""

import asyncio
import os
from collections import Counter
from threading import Lock
from typing import BinaryIO

PER_GUEST = 2
PIECE_BYTES = 64 * 1024


class Downloads:
    """Counts those that run, by the guest's address; may be used from several threads."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._lock = Lock()

    def begin(self, peer: str, path: str) -> "Download | None":
        """None where the guest has `PER_GUEST` of them already; raises `OSError`."""
        with self._lock:
            if self._running[peer] >= PER_GUEST:
                return None
            self._running[peer] += 1
        try:
            return Download(self, peer, open(path, "rb"))
        except BaseException:
            self.end(peer)
            raise

    def end(self, peer: str) -> None:
        with self._lock:
            self._running[peer] -= 1
            if not self._running[peer]:
                del self._running[peer]


class Download:
    """The content of a file in pieces, up to the size that it has now; the caller calls `aclose`."""

    def __init__(self, downloads: Downloads, peer: str, source: BinaryIO) -> None:
        self._downloads, self._peer, self._source = downloads, peer, source
        self.size = self._left = os.fstat(source.fileno()).st_size

    def __aiter__(self) -> "Download":
        return self

    async def __anext__(self) -> bytes:
        """Raises `ConnectionAbortedError` where the rest cannot be read: the guest must not take this for the whole."""
        if not self._left:
            raise StopAsyncIteration
        try:
            piece = await asyncio.to_thread(self._source.read, min(self._left, PIECE_BYTES))
        except OSError as err:
            raise ConnectionAbortedError(f"{self._source.name} cannot be read: {err.strerror}") from err
        if not piece:
            raise ConnectionAbortedError(f"{self._source.name} has become shorter")
        self._left -= len(piece)
        return piece

    async def aclose(self) -> None:
        if not self._source.closed:
            self._source.close()
            self._downloads.end(self._peer)

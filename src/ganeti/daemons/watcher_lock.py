# SPDX-License-Identifier: BSD-2-Clause
"""Locks between watchers of one machine: files that are never removed while somebody may probe them."""

import fcntl
import os


class WatcherLock:
    """Held from entry to `release`, or exit, if it is *taken*; one that *waits* always is."""

    def __init__(self, path: str, *, waits: bool = False) -> None:
        self._path = path
        self._waits = waits
        self._descriptor = -1
        self.taken = False

    def __enter__(self) -> "WatcherLock":
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if self._waits else fcntl.LOCK_NB))
            self.taken = True
        except BlockingIOError:
            self.taken = False
        return self

    def release(self) -> None:
        """Let go in this process; after a fork, others have it until they let go, too. Repeating it does no harm."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __exit__(self, *_: object) -> None:
        self.release()

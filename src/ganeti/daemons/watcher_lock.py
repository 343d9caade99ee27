# SPDX-License-Identifier: BSD-2-Clause
"""Locks between watchers of one machine: files that are never removed while somebody may probe them."""

import fcntl
import os
import time

from ganeti.system.files import open_lock

_PAUSE_S = 0.05


class WatcherLock:
    """Held from entry to `release`, or exit, if it is *taken*: at once, or *within_s* seconds."""

    def __init__(self, path: str, *, within_s: float = 0.0) -> None:
        self._path = path
        self._within_s = within_s
        self._descriptor = -1
        self.taken = False

    def __enter__(self) -> "WatcherLock":
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._descriptor = open_lock(self._path)
        deadline_s = time.monotonic() + self._within_s
        self.taken = self._take()
        while not self.taken and time.monotonic() < deadline_s:
            time.sleep(_PAUSE_S)
            self.taken = self._take()
        return self

    def release(self) -> None:
        """Let go in this process; after a fork, others have it until they let go, too. Repeating it does no harm."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __exit__(self, *_: object) -> None:
        self.release()

    def _take(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

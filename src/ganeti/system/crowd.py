# SPDX-License-Identifier: BSD-2-Clause
"""Memory that a crowd of connections has taken goes back to the system when the crowd has gone.

Asyncio's transports are garbage that only the collector finds, and what they leave is free, but the process's still. To
collect stops the loop for a moment: that is done after crowds alone.
"""

import asyncio
import ctypes
import gc

_GONE = 4
"""A crowd has gone when this fraction of it is left."""
_DROPPED = 200
"""So many that were let go one after the other are a crowd, too."""
_QUIET_S = 1.0


class Crowd:
    """Counts connections that come and go."""

    def __init__(self, least: int) -> None:
        """*least* connections at a time make a crowd."""
        self._least = least
        self._now = 0
        self._most = 0
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None

    def came(self) -> None:
        self._now += 1
        self._most = max(self._most, self._now)

    def went(self) -> None:
        self._now -= 1
        if self._most >= self._least and self._now <= self._most // _GONE and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_QUIET_S, self._let_go)

    def dropped(self) -> None:
        """One was let go to make room for another."""
        self._dropped += 1
        if self._dropped >= _DROPPED:
            self._dropped = 0
            asyncio.get_running_loop().call_soon(give_back_memory)

    def forget(self) -> None:
        """The server ends."""
        if self._timer is not None:
            self._timer.cancel()

    def _let_go(self) -> None:
        self._timer = None
        if self._now <= self._most // _GONE:
            self._most = self._now
            give_back_memory()


def give_back_memory() -> None:
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

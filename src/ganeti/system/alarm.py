# SPDX-License-Identifier: BSD-2-Clause
"""One timer for a machine that says when it wants to be seen to next."""

import asyncio
import time
from collections.abc import Callable


class Alarm:
    """Calls *ring* once when the earliest time it was set to has come (seconds since the epoch)."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None
        self._at_s = 0.0

    def set(self, at_s: float | None) -> None:
        """Ring at *at_s*, or earlier if that was asked for; None asks for nothing."""
        if at_s is None or (self._handle is not None and self._at_s <= at_s):
            return
        if self._handle is not None:
            self._handle.cancel()
        self._at_s = at_s
        self._handle = asyncio.get_running_loop().call_later(max(at_s - time.time(), 0.0), self._fire)

    def _fire(self) -> None:
        self._handle = None
        self._ring()

# SPDX-License-Identifier: BSD-2-Clause
"""Tasks that run beside the one that started them, a timer for a machine that says when it wants to be seen to, time
limits, and the collector of garbage, which stops the loop.

`asyncio` forgets tasks nobody holds and swallows what they raise; `Background` keeps them, logs one line when one
fails, and ends them together.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

_log = logging.getLogger(__name__)


class Deadline:
    """How long something may still take, by a clock that nobody sets.

    A node's time may be corrected by hours while a guest shuts down: it would be powered off in the midst, or waited
    for all day.
    """

    def __init__(self, limit_s: float) -> None:
        self._clock = asyncio.get_running_loop().time
        self._end_s = self._clock() + limit_s

    @property
    def left_s(self) -> float:
        return max(0.0, self._end_s - self._clock())

    @property
    def is_over(self) -> bool:
        return not self.left_s


class Background:
    """A set of tasks with one owner."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def cancel(self) -> None:
        """End all tasks and wait for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed: %s: %s", task.get_name(), type(error).__name__, error, exc_info=error)


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


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is looked through until the block ends, and what is there by then never; it makes no garbage.

    Python looks through all objects again and again while their number grows: with it, a daemon takes twice as long to
    read the configuration of 20,000 instances. Later each look through them stops its event loop for half a second.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()

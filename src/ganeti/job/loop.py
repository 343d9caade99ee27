# SPDX-License-Identifier: BSD-2-Clause
"""The event loop of job processes, made once in the spawner and run in its children.

It holds no descriptor until it has to wait for something, so a fork shares nothing; a job that never waits opens none.
"""

import asyncio
import selectors
from functools import cache
from typing import Any


class _LateSelector(selectors.PollSelector):
    """Polls without a descriptor of its own; before it waits for the first time, the loop gets its wake-up pipe."""

    loop: "JobLoop | None" = None

    def select(self, timeout: float | None = None) -> Any:
        if self.loop is not None and (timeout is None or timeout > 0):
            self.loop.open_wake_up()
            timeout = 0  # what was called for before there was a pipe lies ready
        return super().select(timeout)


class JobLoop(asyncio.SelectorEventLoop):
    """Can be woken by signals and threads like any other, from its first wait on."""

    def __init__(self) -> None:
        self._late = _LateSelector()
        super().__init__(self._late)

    def close(self) -> None:
        if self._late.loop is not None:
            self.open_wake_up()
        super().close()

    def open_wake_up(self) -> None:
        self._late.loop = None
        super()._make_self_pipe()  # type: ignore[misc]

    def _make_self_pipe(self) -> None:
        self._ssock = self._csock = None
        self._late.loop = self


@cache
def the_loop() -> JobLoop:
    """The loop of this process and, where it is the spawner, of its children."""
    loop = JobLoop()
    asyncio.set_event_loop(loop)
    return loop

# SPDX-License-Identifier: BSD-2-Clause
"""Making the names in one directory durable for many who wait: one sync for all that came before it began."""

import asyncio
from collections.abc import Callable

from ganeti.system.event_loop import Background
from ganeti.system.files import sync_directory


class DirectorySync:
    """Syncs in a thread, one sync at a time."""

    def __init__(self, directory: str, tasks: Background, sync: Callable[[str], None] = sync_directory) -> None:
        self._directory = directory
        self._tasks = tasks
        self._sync = sync
        self._next: asyncio.Future[None] | None = None
        self._running = False

    async def wait(self) -> None:
        """Return when all names that were placed before this call are on disk. Raises `OSError`."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if not self._running:
                self._running = True
                self._tasks.start(self._run(), f"syncs of {self._directory}")
        await asyncio.shield(self._next)

    async def _run(self) -> None:
        try:
            while (waiting := self._next) is not None:
                self._next = None
                try:
                    await asyncio.to_thread(self._sync, self._directory)
                except OSError as err:
                    waiting.set_exception(err)
                else:
                    waiting.set_result(None)
        finally:
            self._running = False

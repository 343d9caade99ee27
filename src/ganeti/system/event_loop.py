# SPDX-License-Identifier: BSD-2-Clause
"""Tasks that run beside the one that started them.

`asyncio` forgets tasks nobody holds and swallows what they raise; `Background` keeps them, logs one line when one
fails, and ends them together.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_log = logging.getLogger(__name__)


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

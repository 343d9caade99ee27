# SPDX-License-Identifier: BSD-2-Clause
"""The one thread in which WConfD's store works."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ganeti.master.config.store import ConfigStore

Answer = TypeVar("Answer")


class StoreThread:
    """The one thread in which the store works, so that the loop never waits for the disk."""

    def __init__(self, store: ConfigStore) -> None:
        self.store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")

    async def run(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def close(self) -> None:
        """Wait for what is being written, then close the store."""
        self._thread.submit(self.store.close)
        self._thread.shutdown()

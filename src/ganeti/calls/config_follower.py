# SPDX-License-Identifier: BSD-2-Clause
"""Keeps LuxiD's copy of the configuration up to date from WConfD's stream, through restarts of either side."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ganeti.base.errors import ExecutionError, GanetiError
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.master.cache.replica import Replica
from ganeti.model.configuration import Configuration

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 2.0
_PAUSE_S = 1.0
_FOLLOW_S = 10.0


class ConfigFollower:
    """Call `run` as a task; `configuration` is never half an event."""

    def __init__(self, client: WConfdClient) -> None:
        self._client = client
        self._replica = Replica()
        self._moved: asyncio.Future[None] | None = None
        self.changed: Callable[[], None] = lambda: None
        """Called after each event."""
        self.observers: list[Callable[[dict[str, Any]], Callable[[], None]]] = []
        """Called with each event before it is taken in; what they give is called when it has been."""

    @property
    def configuration(self) -> Configuration:
        return self._replica.configuration

    @property
    def position(self) -> tuple[int, int]:
        return self._replica.position

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                async for event in self._client.events(lambda: self.position):
                    self._take(event)
            except GanetiError as err:
                _log.warning("the configuration cannot be followed, trying again: %s", err)
                await asyncio.sleep(_PAUSE_S)

    async def filled(self, timeout_s: float, look: Callable[[], None] = lambda: None) -> bool:
        """Wait until there is a configuration at all; *look* is called now and then, and may raise."""
        for _ in range(max(1, round(timeout_s / _LOOK_EVERY_S))):
            if await self.reached((0, 1), min(timeout_s, _LOOK_EVERY_S)):
                return True
            look()
        return False

    async def reached(self, position: tuple[int, int], timeout_s: float) -> bool:
        """Wait until the copy holds *position*; False if it did not in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.position < position:
                    if self._moved is None:
                        self._moved = asyncio.get_running_loop().create_future()
                    await asyncio.shield(self._moved)
        except TimeoutError:
            return False
        return True

    async def follow(self, position: tuple[int, int]) -> None:
        """Wait until the copy holds *position*, for whom a job waits; raises `ExecutionError` if it does not."""
        if not await self.reached(position, _FOLLOW_S):
            raise ExecutionError("ganeti-luxid does not get the configuration from ganeti-wconfd: is that running?")

    def _take(self, event: dict[str, Any]) -> None:
        taken_in = [observer(event) for observer in self.observers]
        self._replica.apply(event)
        for tell in taken_in:
            tell()
        moved, self._moved = self._moved, None
        if moved is not None and not moved.done():
            moved.set_result(None)
        self.changed()

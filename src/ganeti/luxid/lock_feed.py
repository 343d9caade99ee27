# SPDX-License-Identifier: BSD-2-Clause
"""Follows WConfD's whole lock table, but only while somebody wants to know of it."""

import asyncio
from collections.abc import Callable
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.calls.lock_follower import LockFollower
from ganeti.master.events.lock_mirror import LockMirror
from ganeti.system.event_loop import Background

_READY_S = 10.0


class LockFeed:
    """`ready` begins to follow, `stop` ends it; in between, `mirror` is the lock table as far as it was told."""

    def __init__(
        self, wconfd_socket: str, begun: Callable[[], None], changed: Callable[[dict[str, Any]], None]
    ) -> None:
        """*begun* is called when the table is first known, *changed* with the fields of every event after that."""
        self.mirror = LockMirror()
        self._path = wconfd_socket
        self._begun = begun
        self._changed = changed
        self._tasks = Background()
        self._task: asyncio.Task[Any] | None = None
        self._known: asyncio.Future[None] | None = None

    async def ready(self) -> None:
        """Return when the lock table is known; raises `GanetiError` if WConfD does not tell."""
        if self._task is None:
            self._known = asyncio.get_running_loop().create_future()
            follower = LockFollower(self._path, None, snapshot=self._table, changed=self._changes)
            self._task = self._tasks.start(follower.run(), "following the locks")
        assert self._known is not None
        try:
            async with asyncio.timeout(_READY_S):
                await asyncio.shield(self._known)
        except TimeoutError as err:
            raise GanetiError("WConfD does not tell of its locks: is ganeti-wconfd running?") from err

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        self.stop()
        await self._tasks.cancel()

    def _table(self, held: list[Any], waiting: list[Any]) -> None:
        """The whole table: at the beginning, and again when WConfD was away."""
        fields = self.mirror.load(held, waiting)
        assert self._known is not None
        if self._known.done():
            self._changed(fields)
        else:
            self._begun()
            self._known.set_result(None)

    def _changes(self, _serial: int, changes: list[Any]) -> None:
        for change in changes:
            self._changed(self.mirror.change(*change))

# SPDX-License-Identifier: BSD-2-Clause
"""Where a node's copy lies: the database, opened when it is needed and closed when another shall have it.

What holds a copy is imported with the first request that needs it, so that other nodes stay small. All work on the
disk is done in one thread, in turn.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from ganeti.base.paths import Paths
from ganeti.node.ssconf import NewestSsconf
from ganeti.noded.replica_queue import ReplicaQueue
from ganeti.ports.replica import DAMAGED
from ganeti.stores.replica_fault import ReplicaFaultError
from ganeti.system.ssconf import ssconf

if TYPE_CHECKING:
    from ganeti.noded.replica_copy import ReplicaCopy
    from ganeti.stores.replica_store import Content, Marks

Result = TypeVar("Result")
_log = logging.getLogger(__name__)
EXAMINED_FOR_S = 600.0
"""How long an open copy is trusted before it is read from the disk again and checked."""


class ReplicaPlace:
    """Of one node; calls are made one at a time."""

    def __init__(self, paths: Paths, node_name: str, now_s: Callable[[], float]) -> None:
        self.queue = ReplicaQueue(paths)
        self.newest_ssconf = NewestSsconf()
        self.copy: ReplicaCopy | None = None
        """Open for writing."""
        self._paths = paths
        self._path = paths.config_database
        self._node_name = node_name
        self._now_s = now_s
        self._thread: ThreadPoolExecutor | None = None
        self._examined_s = 0.0

    async def marks(self) -> "Marks | None":
        """Whose copy this is; None where there is none. Raises `ReplicaFaultError`."""
        if self.copy is not None:
            return self.copy.marks(self._node_name)
        if not os.path.exists(self._path):
            return None
        from ganeti.stores.replica_store import glance

        return await self.in_turn(glance, self._path, self._node_name)

    async def examine(self) -> "Content":
        """Read and check what is on the disk. A copy that turns out to be damaged is closed: `ReplicaFaultError`."""
        from ganeti.stores.replica_store import examine

        try:
            content = await self.in_turn(examine, self._path)
        except ReplicaFaultError:
            await self.close_copy(settle=False)
            raise
        self._examined_s = self._now_s()
        return content

    async def is_damaged(self) -> bool:
        try:
            await self.examine()
        except ReplicaFaultError as err:
            return err.reason == DAMAGED
        return False

    @property
    def wants_examination(self) -> bool:
        return self.copy is None or not 0 <= self._now_s() - self._examined_s <= EXAMINED_FOR_S

    async def open(self, *, may_replace: bool = False) -> "ReplicaCopy":
        """Raises `ReplicaFaultError`; with *may_replace* a damaged database is set aside instead."""
        if self.copy is not None:
            return self.copy
        from ganeti.noded.replica_copy import ReplicaCopy
        from ganeti.stores.replica_store import Content, damaged_path, make_anew, open_store

        try:
            store, content = await self.in_turn(open_store, self._path)
        except ReplicaFaultError as err:
            if err.reason != DAMAGED or not may_replace:
                raise
            _log.error("%s: it is kept as %s and made anew", err.sentence, damaged_path(self._path))
            store, content = await self.in_turn(make_anew, self._path), Content()
        copy = ReplicaCopy(self._paths, store, content, self.in_turn, self.newest_ssconf)
        try:
            await copy.check_writing()
        except BaseException:
            await copy.close(settle=False)
            raise
        self.copy = copy
        self._examined_s = self._now_s()
        return copy

    async def close_copy(self, *, settle: bool) -> None:
        """With *settle*, leave `config.data` as the database is: WConfD opens it."""
        copy, self.copy = self.copy, None
        if copy is not None:
            await copy.close(settle=settle)

    async def close(self) -> None:
        await self.close_copy(settle=False)
        if self._thread is not None:
            self._thread.shutdown()

    async def named_master(self) -> str:
        """Whom ssconf names; empty where it names nobody."""
        return await self.in_turn(ssconf, self._paths, "master_node")

    async def in_turn(self, work: Callable[..., Result], *arguments: Any) -> Result:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="replica")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

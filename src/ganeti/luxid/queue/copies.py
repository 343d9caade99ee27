# SPDX-License-Identifier: BSD-2-Clause
"""Having the queue's files copied to the candidates in sync: in order, in batches, waited for where it counts (S2.7).

One call is under way at a time; what is asked for meanwhile shares the next one. WConfD takes each file as it is when
it sends it, so asking again costs little and does no harm. A file that is gone is removed from the candidates.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from ganeti.base.errors import DeposedError, GanetiError
from ganeti.calls.queue_replication import Replication
from ganeti.system.event_loop import Background

_log = logging.getLogger(__name__)
WITHIN_S = 10.0
"""How long a client's answer waits for the candidates."""
AGAIN_S = 1.0


class QueueCopies:
    """A future that is asked for here gives "" when every member has the files, or a sentence that says why none will.

    There is none while WConfD is away or cannot say yes: asking goes on until it can, or another node is the master.
    """

    def __init__(self, wconfd: Replication, tasks: Background) -> None:
        self._wconfd = wconfd
        self._tasks = tasks
        self._names: dict[str, None] = {}
        self._archived: dict[int, None] = {}
        self._next: asyncio.Future[str] | None = None
        self._sender: asyncio.Task[Any] | None = None
        self._trouble = ""
        self._is_compared = False
        """The queue's life before this one may have removed files and died before the candidates were told."""
        self._under_way: frozenset[str] = frozenset()

    def soon(self, names: Iterable[str], archived: Iterable[int] = ()) -> "asyncio.Future[str]":
        """Have these files copied as they are then, and these jobs archived; nobody need wait for it."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        self._names.update(dict.fromkeys(names))
        self._archived.update(dict.fromkeys(archived))
        if self._sender is None:
            self._sender = self._tasks.start(self._send_all(), "copies of the queue")
        return self._next

    async def wait(self, names: Iterable[str], within_s: float | None = None) -> str:
        """Give "" when every member has these files; otherwise, after 10 seconds, why that is not known."""
        names = list(names)
        if not names:
            return ""
        try:
            async with asyncio.timeout(WITHIN_S if within_s is None else within_s):
                return await asyncio.shield(self.soon(names))
        except TimeoutError:
            return self._trouble or "not every master candidate in sync has answered"

    def owes(self, name: str) -> bool:
        """Whether a file was asked for and is not known to be everywhere yet."""
        return name in self._names or name in self._under_way

    async def settle(self, within_s: float) -> None:
        """Let what was asked for go out, if it can."""
        await self.wait([*self._names, *self._under_way], within_s)

    async def _send_all(self) -> None:
        try:
            while (done := self._next) is not None:
                names, archived = list(self._names), list(self._archived)
                self._next = None
                self._names.clear()
                self._archived.clear()
                self._under_way = frozenset(names)
                done.set_result(await self._send(names, archived))
        finally:
            self._sender = None
            self._under_way = frozenset()

    async def _send(self, names: list[str], archived: list[int]) -> str:
        while True:
            try:
                if not self._is_compared:
                    await self._wconfd.compare_queue()
                    self._is_compared = True
                await self._wconfd.replicate_queue(names, archived)
            except DeposedError as err:
                _log.error("the queue is another node's now: %s", err)
                return str(err)
            except GanetiError as err:
                if not self._trouble:
                    _log.warning("the candidates do not get the queue's files now: %s", err)
                self._trouble = str(err)
                await asyncio.sleep(AGAIN_S)
            else:
                if self._trouble:
                    _log.info("the candidates get the queue's files again")
                self._trouble = ""
                return ""

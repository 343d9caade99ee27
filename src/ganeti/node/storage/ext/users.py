# SPDX-License-Identifier: BSD-2-Clause
"""Who needs a volume attached on this node: what one call attaches, another must not detach under it.

A look at a volume that nobody uses attaches it for a moment. A guest may open it by then, whose disk would be gone.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from weakref import WeakValueDictionary

from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.ext.scripts import Places, Provider, volume_of
from ganeti.node.storage.image_io import in_thread


class VolumeUsers:
    """Of one node; *attach* makes a volume reachable, *is_open* says whether it is to stay so."""

    def __init__(
        self, attach: Callable[[Provider, DiskSpec], Awaitable[Places]], is_open: Callable[[DiskSpec], bool]
    ) -> None:
        self._attach, self._is_open = attach, is_open
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._looking: Counter[str] = Counter()

    def turn(self, disk: DiskSpec) -> asyncio.Lock:
        """Held while a volume is attached or detached."""
        return self._turns.setdefault(volume_of(disk), asyncio.Lock())

    @contextlib.asynccontextmanager
    async def attached(self, provider: Provider, disk: DiskSpec) -> AsyncIterator[Places]:
        """The volume is reachable meanwhile, and detached then unless it is open, or another call needs it.

        Raises `ScriptFailedError` where it cannot be attached.
        """
        volume, is_attached = volume_of(disk), False
        self._looking[volume] += 1
        try:
            async with self.turn(disk):
                places = await self._attach(provider, disk)
                is_attached = True
            yield places
        finally:
            self._looking[volume] -= 1
            async with self.turn(disk):
                if is_attached and not self._looking[volume] and not await in_thread(self._is_open, disk):
                    await provider.run("detach", disk)

# SPDX-License-Identifier: BSD-2-Clause
"""A WConfD that only has files of the queue copied: it can hold back, refuse, be away; it keeps what members have."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from ganeti.base.errors import DeposedError, TransportError


class FakeReplication:
    """*copies* is what every member has, by name; *calls* what was asked for, call by call."""

    def __init__(self, queue_dir: str = "") -> None:
        self._directory = queue_dir
        self.copies: dict[str, bytes] = {}
        self.archived: list[int] = []
        self.calls: list[list[str]] = []
        self.story: list[str] = []
        self.compared = 0
        self.away = False
        self.deposed = False
        self._open = asyncio.Event()
        self._open.set()

    def hold_back(self) -> None:
        """A member does not answer and may not be left out."""
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    async def compare_queue(self) -> None:
        if self.away:
            raise TransportError("WConfD does not answer")
        self.compared += 1

    async def replicate_queue(
        self, names: Iterable[str], archived: Iterable[int] = (), patience_s: float | None = None
    ) -> None:
        asked = list(names)
        self.calls.append(asked)
        await asyncio.sleep(0)
        await self._open.wait()
        if self.away:
            raise TransportError("WConfD does not answer")
        if self.deposed:
            raise DeposedError("node2 is the master since epoch 7")
        for name in asked:
            path = Path(self._directory) / name
            if path.exists():
                self.copies[name] = path.read_bytes()
            else:
                self.copies.pop(name, None)
        self.archived += archived
        self.story.append(f"copied {' '.join(asked)}")

# SPDX-License-Identifier: BSD-2-Clause
"""How often the loop lets others run beside a piece of work."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Turns:
    count: int = 0

    async def take(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


@contextmanager
def turns_beside() -> Iterator[Turns]:
    """In a running loop: a counter that counts as often as it is let."""
    turns = Turns()
    counting = asyncio.ensure_future(turns.take())
    try:
        yield turns
    finally:
        counting.cancel()

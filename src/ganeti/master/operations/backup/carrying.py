# SPDX-License-Identifier: BSD-2-Clause
"""Carrying pieces of a disk from one node to another: the next piece is read while one is written.

A job that waits for each node in turn leaves the other idle. What must hold: pieces are written one after the other, in
their order; when `carry` has come back or raised, no call of it is under way, so that an undo does not meet a writer.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")


async def carry(pieces: AsyncGenerator[T], write: Callable[[T], Awaitable[None]]) -> None:
    """Write all pieces; raises what reading or writing raises.

    Where both fail, the error is that of the writing, which is about the earlier piece.
    """
    writing: asyncio.Future[None] | None = None
    try:
        async with aclosing(pieces):
            async for piece in pieces:
                if writing is not None:
                    await writing
                writing = asyncio.ensure_future(_done(write, piece))
    finally:
        if writing is not None:
            await _ended(writing)


async def _done(write: Callable[[T], Awaitable[None]], piece: T) -> None:
    await write(piece)


async def _ended(writing: "asyncio.Future[None]") -> None:
    """Wait for the end of a call, also while its job is being ended."""
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.gather(writing, return_exceptions=True)
        raise

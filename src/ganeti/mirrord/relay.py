# SPDX-License-Identifier: BSD-2-Clause
"""Bytes of NBD between a storage daemon and the other node, and when the other node counts as lost.

NBD answers every request. So a connection on which something was sent, and nothing came back for `SILENCE_S`, is cut:
the storage daemon then sees an error instead of waiting for a node that hangs.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

from ganeti.mirrord.replies import NotNbdError, Replies

SILENCE_S = 0.9
"""With the second that QEMU tries to connect again, a guest's write waits less than two."""
_LOOK_S = 0.1
_BOTH_END_S = 0.2
_BLOCK_BYTES = 256 * 1024
_log = logging.getLogger(__name__)


class Watch:
    """When the last request went out that nothing has come back for."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._since_s: float | None = None

    def sent(self) -> None:
        if self._since_s is None:
            self._since_s = self._now_s()

    def received(self) -> None:
        self._since_s = None

    @property
    def is_silent(self) -> bool:
        return self._since_s is not None and self._now_s() - self._since_s > SILENCE_S


async def carry(
    near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    lost: Callable[[], Awaitable[None]] | None = None,
) -> bool:
    """Carry bytes both ways until one side ends; with *lost*, until the far side is silent: true then.

    *lost* is waited for before the near side can know that the far one has ended, is silent or has answered with an
    error: a guest's write that only its own node has is not acknowledged before that.
    """
    watch = Watch(asyncio.get_running_loop().time)
    for _, writer in (near, far):
        without_delay(writer)
    ways = [
        asyncio.ensure_future(_one_way(near[0], far[1], watch.sent)),
        asyncio.ensure_future(_one_way(far[0], near[1], watch.received, lost)),
    ]
    try:
        while True:
            done, _ = await asyncio.wait(ways, timeout=_LOOK_S if lost else None, return_when="FIRST_COMPLETED")
            silent = watch.is_silent
            if done == {ways[1]}:  # of a connection that QEMU says good-bye on, both sides end at one moment
                done, _ = await asyncio.wait(ways, timeout=_BOTH_END_S, return_when="ALL_COMPLETED")
            near_ended = any(way.result() is (way is ways[0]) for way in done)
            if lost is not None and (silent or done) and not near_ended:
                await lost()
            if done or silent:
                return silent and not done
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for _, writer in (near, far):
            writer.transport.abort()


async def _one_way(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    told: Callable[[], None],
    failed: Callable[[], Awaitable[None]] | None = None,
) -> bool:
    """True when the reader's side has ended, false when the writer's has."""
    replies = Replies() if failed else None
    while True:
        try:
            data = await reader.read(_BLOCK_BYTES)
        except OSError:
            return True
        if not data:
            return True
        told()
        try:
            if replies is not None and failed is not None and replies.feed(data):
                await failed()
        except NotNbdError as err:
            _log.warning("a connection to another node is ended: %s", err)
            return True
        try:
            writer.write(data)
            await writer.drain()
        except OSError:
            return False


def without_delay(writer: asyncio.StreamWriter) -> None:
    """Small messages go at once."""
    found = writer.get_extra_info("socket")
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

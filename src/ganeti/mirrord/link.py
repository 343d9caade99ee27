# SPDX-License-Identifier: BSD-2-Clause
"""The connections of one disk between this node's storage daemon and the other node's."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.mirrord.connections import Connection, Listener
from ganeti.mirrord.peers import Peers
from ganeti.mirrord.record import Record
from ganeti.mirrord.relay import carry
from ganeti.mirrord.storage_daemon import StorageDaemon

_AFTER_CUT_S = 0.5
"""Nobody is asked again so soon: writes would wait for a node that hangs a second time."""


class Link:
    """On the primary, a socket that leads to the other copy; on the secondary, the primary's bytes to this one.

    *lost* notes that the other copy lacks something from now on.
    """

    def __init__(self, record: Record, peers: Peers, lost: Callable[[], Awaitable[None]]) -> None:
        self._record = record
        self._peers = peers
        self._lost = lost
        self.turn = 0
        """Grows when all connections are cut: one that was admitted before carries nothing more."""
        self.has_served = False
        """Whether the storage daemon may still hold writes of another node's that it has not carried out."""
        self._entrance: Listener | None = None
        self._carrying: set[asyncio.Task[bool]] = set()
        self._refused_until_s = 0.0

    async def open(self) -> None:
        """Let the storage daemon reach the other copy."""
        if self._entrance is None:
            path = self._record.places.file(self._record.opened.uuid, "peer")
            self._entrance = Listener.at_path(path, self._enter)

    async def close(self) -> None:
        if self._entrance is not None:
            self._entrance.close()
            self._entrance = None
        await self.cut()

    async def cut(self) -> None:
        """End all connections with the other node. What the storage daemon has read of them it still carries out."""
        self.turn += 1
        for task in list(self._carrying):
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def finish(self, daemon: StorageDaemon) -> None:
        """As `cut`, and wait for the last write of the other node's; raises `HypervisorError`."""
        await self.cut()
        if self.has_served:
            await daemon.withdraw_export()
            await daemon.show_export(self._record.opened.export)
            self.has_served = False

    async def serve(self, far: Connection, turn: int) -> None:
        """Carry the primary's bytes to this copy until one side ends; *turn* is that of the admission."""
        if turn == self.turn:
            self.has_served = True
            await self._run(self._serve(far))

    async def _serve(self, far: Connection) -> bool:
        near = socket.socket(socket.AF_UNIX)
        try:
            near.setblocking(False)
            path = self._record.places.file(self._record.opened.uuid, "nbd")
            await asyncio.get_running_loop().sock_connect(near, path)
            return await carry(near, far.sock)
        finally:
            near.close()

    async def _enter(self, near: socket.socket) -> None:
        clock, record = asyncio.get_running_loop().time, self._record
        try:
            if clock() < self._refused_until_s:
                return
            try:
                far = await self._peers.connect(record.opened, record.kept.generation)
                is_silent = await self._run(carry(near, far.sock, lost=self._lost))
            except Exception:  # whatever it is: QEMU goes on with one copy as soon as its socket is closed
                await self._lost()
                raise
            if is_silent:
                self._refused_until_s = clock() + _AFTER_CUT_S
                record.say(f"node {record.opened.peer} does not answer: the connection is cut")
        except (GanetiError, OSError) as err:
            record.say(str(err))
        finally:
            near.close()

    async def _run(self, carrying: Coroutine[Any, Any, bool]) -> bool:
        task = asyncio.create_task(carrying)
        self._carrying.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not task.cancelled():
                task.cancel()
                raise
            return False
        finally:
            self._carrying.discard(task)

# SPDX-License-Identifier: BSD-2-Clause
"""A Unix socket of the master by which a client ends a wait of a job: it connects."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ganeti.ports.context import Bell
from ganeti.system.unix_socket import serve
from ganeti.wire.framing import Connection


class SocketBell:
    """Implements `Bell`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._rung = asyncio.Event()

    @property
    def path(self) -> str:
        return self._path

    async def rung(self, within_s: float) -> bool:
        try:
            await asyncio.wait_for(self._rung.wait(), within_s)
        except TimeoutError:
            return False
        return True

    async def ring(self, connection: Connection) -> None:
        del connection
        self._rung.set()


@contextlib.asynccontextmanager
async def opened_bell(path: str) -> AsyncIterator[Bell]:
    """A bell at *path*, in place of what a dead attempt of the job has left there."""
    bell = SocketBell(path)
    server = await serve(path, bell.ring, mode=0o600)
    try:
        yield bell
    finally:
        await server.close()

# SPDX-License-Identifier: BSD-2-Clause
"""LUXI for a daemon with many clients: connections are kept, and answers may be passed on as they came."""

import asyncio
import os
from typing import Any, Final

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, TransportError, from_wire
from ganeti.base.paths import Paths
from ganeti.system.unix_socket import connect
from ganeti.wire.framing import Connection
from ganeti.wire.luxi import VERSION

_KEPT: Final = 32
_RETRY_S: Final = 0.1
ANSWER_LIMIT_BYTES: Final = 1024 * 1024 * 1024


class _Answer(msgspec.Struct):
    success: bool
    result: msgspec.Raw = msgspec.Raw(b"null")


_DECODER: Final = msgspec.json.Decoder(_Answer)


class LuxiPool:
    """Makes calls over kept connections, each of which has one call at a time."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.luxi_socket
        self._idle: list[Connection] = []

    async def call(self, method: str, *arguments: Any, patience_s: float = 0.0, only_asks: bool = False) -> Any:
        """Give the decoded answer; raises what LuxiD answers, or `TransportError`."""
        return msgspec.json.decode(await self.raw(method, *arguments, patience_s=patience_s, only_asks=only_asks))

    async def raw(self, method: str, *arguments: Any, patience_s: float = 0.0, only_asks: bool = False) -> msgspec.Raw:
        """Give the answer as JSON.

        A call that was sent and got no answer is sent again only if it *only_asks*; while LuxiD cannot be reached, the
        call is tried again for *patience_s*.
        """
        request = msgspec.json.encode({"method": method, "args": arguments, "version": VERSION}) + b"\x03"
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + patience_s
        while True:
            kept = self._take()
            connection = kept
            try:
                connection = connection or await connect(self._path, limit_bytes=ANSWER_LIMIT_BYTES)
                return await self._exchange(connection, request)
            except TransportError:
                if connection is not None:
                    connection.abort()
                    if not only_asks:
                        raise
                if kept is None and loop.time() >= deadline_s:
                    raise
                if kept is None:
                    await asyncio.sleep(_RETRY_S)
            except BaseException:
                if connection is not None:
                    connection.abort()
                raise

    async def stream(self, method: str, *arguments: Any) -> tuple[Any, Connection]:
        """Make a call that turns its connection into a stream; gives the first answer and the connection."""
        connection = await connect(self._path, limit_bytes=ANSWER_LIMIT_BYTES)
        try:
            await connection.send({"method": method, "args": arguments, "version": VERSION})
            answer = await connection.receive()
            if not answer.get("success"):
                raise from_wire(answer.get("result"))
        except BaseException:
            connection.abort()
            raise
        return answer["result"], connection

    def life(self) -> object:
        """Give what changes whenever another LuxiD answers: after a restart, or once another master was there."""
        try:
            state = os.stat(self._path)
        except OSError:
            return None
        return state.st_ino, state.st_mtime_ns

    def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    async def _exchange(self, connection: Connection, request: bytes) -> msgspec.Raw:
        await connection.send_bytes(request)
        data = await connection.receive_bytes()
        if data is None:
            raise TransportError("The master daemon closed the connection")
        try:
            answer = _DECODER.decode(data)
        except UNREADABLE_JSON as err:
            raise TransportError(f"The answer of the master daemon is not understood: {err}") from err
        self._keep(connection)
        if not answer.success:
            raise from_wire(msgspec.json.decode(answer.result))
        return answer.result

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_over:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: Connection) -> None:
        if len(self._idle) < _KEPT:
            self._idle.append(connection)
        else:
            connection.abort()

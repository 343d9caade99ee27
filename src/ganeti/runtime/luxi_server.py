# SPDX-License-Identifier: BSD-2-Clause
"""Serving LUXI connections: requests in order, answers in order, and whatever comes in, the daemon goes on.

A request that cannot be understood is answered by a plain sentence, and its connection ends (protocols, section 2).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ganeti.base.errors import GanetiError, TransportError
from ganeti.runtime.unix_socket import UnixServer, serve
from ganeti.wire.framing import Connection, MessageTooLong, decode, encode
from ganeti.wire.luxi import MAX_MESSAGE_BYTES, MalformedRequest, read_request

_log = logging.getLogger(__name__)
_SEND_TIMEOUT_S = 180.0

Handler = Callable[[list[Any]], Awaitable[Any]]


class LuxiServer:
    """Answers calls by name; *calls* maps names to handlers of the argument list."""

    def __init__(self, calls: dict[str, Handler]) -> None:
        self._calls = calls
        self._servers: list[UnixServer] = []

    async def listen(self, path: str) -> None:
        self._servers.append(await serve(path, self.serve, limit_bytes=MAX_MESSAGE_BYTES))

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    async def serve(self, connection: Connection) -> None:
        while True:
            try:
                data = await connection.receive_bytes()
                if data is None:
                    return
                answer = await self._answer(data)
            except MessageTooLong as err:
                await _send(connection, {"success": False, "result": f"Failed to parse request: {err}"})
                return
            except MalformedRequest as err:
                await _send(connection, {"success": False, "result": str(err)})
                return
            await _send(connection, answer)

    async def _answer(self, data: bytes) -> dict[str, Any]:
        try:
            message = decode(data)
        except (TransportError, RecursionError) as err:
            raise MalformedRequest(f"Failed to parse request: {err}") from err
        method, arguments = read_request(message)
        call = self._calls.get(method)
        if call is None:
            raise MalformedRequest(f"Failed to parse request: there is no call '{method}'")
        try:
            return {"success": True, "result": await call(arguments)}
        except GanetiError as err:
            return {"success": False, "result": err.to_wire()}
        except Exception as err:
            _log.exception("the call %s failed by a fault of its own", method)
            fault = GanetiError(f"The call {method} failed by a fault of its own: {type(err).__name__}: {err}")
            return {"success": False, "result": fault.to_wire()}


async def _send(connection: Connection, answer: dict[str, Any]) -> None:
    try:
        framed = encode(answer)
    except (TypeError, ValueError) as err:
        _log.error("an answer cannot be written as JSON: %s", err)
        framed = encode({"success": False, "result": GanetiError(f"The answer cannot be written: {err}").to_wire()})
    try:
        async with asyncio.timeout(_SEND_TIMEOUT_S):
            await connection.send_bytes(framed)
    except TimeoutError as err:
        raise TransportError("The client does not take its answer") from err

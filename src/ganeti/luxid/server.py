# SPDX-License-Identifier: BSD-2-Clause
"""Serving LUXI connections: requests in order, answers in order, and whatever comes in, the daemon goes on.

A request that cannot be understood is answered by a plain sentence, and its connection ends (protocols, section 2).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ganeti.base.errors import GanetiError, TransportError
from ganeti.calls.serving import Handler
from ganeti.system.unix_socket import UnixServer, serve
from ganeti.wire.framing import Connection, MessageTooLong, MessageTooSlow, Pieces, decode, encode
from ganeti.wire.framing_sync import END
from ganeti.wire.luxi import MAX_MESSAGE_BYTES, MalformedRequest, read_request

_log = logging.getLogger(__name__)
_SEND_TIMEOUT_S = 180.0
_MESSAGE_TIMEOUT_S = 180.0
"""How long a client may take for one request, from its first byte to its last."""

Stream = Callable[[Connection, list[Any]], Awaitable[None]]
"""Answers its call itself and then sends for as long as it likes; raises `GanetiError` before it has sent anything."""


class LuxiServer:
    """Answers calls by name; *calls* maps names to handlers of the argument list, *streams* those that turn the
    connection into a stream."""

    def __init__(self, calls: dict[str, Handler], streams: dict[str, Stream] | None = None) -> None:
        self._calls = calls
        self._streams = streams or {}
        self._servers: list[UnixServer] = []

    async def listen(self, path: str) -> None:
        self._servers.append(await serve(path, self.serve, limit_bytes=MAX_MESSAGE_BYTES))

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    async def serve(self, connection: Connection) -> None:
        while True:
            try:
                data = await connection.receive_bytes(_MESSAGE_TIMEOUT_S)
                if data is None:
                    return
                method, arguments = _read(data)
                stream = self._streams.get(method)
                if stream is not None:
                    answer = await _stream(stream, connection, method, arguments)
                    if answer is None:
                        return
                else:
                    answer = await self._answer(method, arguments)
            except (MessageTooLong, MessageTooSlow) as err:
                await _send(connection, {"success": False, "result": f"Failed to parse request: {err}"})
                return
            except MalformedRequest as err:
                await _send(connection, {"success": False, "result": str(err)})
                return
            await _send(connection, answer)

    async def _answer(self, method: str, arguments: list[Any]) -> dict[str, Any]:
        call = self._calls.get(method)
        if call is None:
            raise MalformedRequest(f"Failed to parse request: there is no call '{method}'")
        try:
            return {"success": True, "result": await call(arguments)}
        except Exception as err:
            return _failure(method, err)


async def _stream(stream: Stream, connection: Connection, method: str, arguments: list[Any]) -> dict[str, Any] | None:
    """Let the call have the connection; gives the answer if it refused, None if the stream is over."""
    try:
        await stream(connection, arguments)
    except TransportError:
        raise
    except Exception as err:
        return _failure(method, err)
    return None


def _read(data: bytes) -> tuple[str, list[Any]]:
    try:
        message = decode(data)
    except TransportError as err:
        raise MalformedRequest(f"Failed to parse request: {err}") from err
    return read_request(message)


def _failure(method: str, error: Exception) -> dict[str, Any]:
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        where = f" ({error.filename})" if error.filename else ""
        error = GanetiError(f"The call {method} could not be carried out: {error.strerror or error}{where}")
        _log.error("%s", error)
    if not isinstance(error, GanetiError):
        _log.error("the call %s failed by a fault of its own", method, exc_info=error)
        error = GanetiError(f"The call {method} failed by a fault of its own: {type(error).__name__}: {error}")
    return {"success": False, "result": error.to_wire()}


async def _send(connection: Connection, answer: dict[str, Any]) -> None:
    try:
        async with asyncio.timeout(_SEND_TIMEOUT_S):
            for part in _framed(answer):
                await connection.send_bytes(part)
                await asyncio.sleep(0)  # a client that reads quickly would otherwise have us to itself
    except TimeoutError as err:
        raise TransportError("The client does not take its answer") from err


def _framed(answer: dict[str, Any]) -> list[bytes]:
    result = answer["result"]
    if isinstance(result, Pieces):
        return result.within(b'{"success":true,"result":', b"}" + END).parts
    try:
        return [encode(answer)]
    except (TypeError, ValueError) as err:
        _log.error("an answer cannot be written as JSON: %s", err)
        return [encode({"success": False, "result": GanetiError(f"The answer cannot be written: {err}").to_wire()})]

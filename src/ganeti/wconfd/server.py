# SPDX-License-Identifier: BSD-2-Clause
"""WConfD's socket: requests, answers, and streams of commits and locks (protocols, section 3).

A request is ``{"method", "args"}``, an answer ``{"success", "result"}``; calls of one connection are answered in order.
Whatever a client sends, it gets an error and the others notice nothing. Our own calls: `docs/design/wconfd-socket.md`.
"""

import asyncio
import inspect
import logging
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError, TransportError
from ganeti.master.config.stream import snapshot_of
from ganeti.wconfd.arguments import read_lock_file, read_position
from ganeti.wconfd.calls import Call, Parts, calls_of
from ganeti.wconfd.lock_stream import LockStream
from ganeti.wire.framing import Connection, MessageTooLong, MessageTooSlow, decode
from ganeti.wire.framing_sync import END

_log = logging.getLogger(__name__)
_SEND_TIMEOUT_S = 60.0
_MESSAGE_TIMEOUT_S = 60.0
"""How long a client may take for one request, from its first byte to its last."""
_SUBSCRIBER_LAG_BYTES = 64 * 1024 * 1024


class Request(msgspec.Struct, forbid_unknown_fields=True):
    method: str
    args: list[Any] = []


class Server:
    """Answers one socket; `serve` is run for each connection."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._subscribers: dict[Connection, None] = {}
        self._calls = {name: (call, _argument_count(call)) for name, call in calls_of(parts).items()}
        self._lock_stream = LockStream(parts.locks)
        self._streams = {"subscribe": self._subscribe, "followLocks": self._follow_locks}

    def tell(self, event: bytes | None) -> None:
        """Send a commit to all subscribers; those who do not read are dropped and come back with their position."""
        for subscriber in list(self._subscribers):
            if event is None or subscriber.unsent_bytes > _SUBSCRIBER_LAG_BYTES:
                _log.warning("A subscriber is dropped: %s", "it must begin anew" if event is None else "it lags")
                self._drop(subscriber)
                continue
            try:
                subscriber.send_soon(event + END)
            except TransportError:
                self._drop(subscriber)

    async def serve(self, connection: Connection) -> None:
        while True:
            try:
                data = await connection.receive_bytes(_MESSAGE_TIMEOUT_S)
            except (MessageTooLong, MessageTooSlow) as err:
                await self._answer(connection, _failure(err))
                return
            if data is None:
                return
            try:
                request = _read_request(data)
                if (stream := self._streams.get(request.method)) is not None:
                    await stream(connection, request)
                    return
                answer = {"success": True, "result": await self._call(request)}
            except GanetiError as err:
                answer = _failure(err)
            except Exception as err:
                _log.exception("A call failed by a fault of its own")
                answer = _failure(GanetiError(f"The call failed by a fault of its own: {type(err).__name__}: {err}"))
            await self._answer(connection, answer)

    async def _call(self, request: Request) -> Any:
        found = self._calls.get(request.method)
        if found is None:
            raise GanetiError(f"No such method: {request.method}")
        call, expected = found
        if len(request.args) != expected:
            raise GanetiError(f"{request.method} takes {expected} arguments, not {len(request.args)}")
        return await call(*request.args)

    async def _answer(self, connection: Connection, answer: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(_SEND_TIMEOUT_S):
                await connection.send(answer)
        except TimeoutError as err:
            raise TransportError("The client does not take its answer") from err

    async def _subscribe(self, connection: Connection, request: Request) -> None:
        """Turn the connection into a stream: what was missed, then every commit, until the client goes."""
        if len(request.args) != 1:
            raise GanetiError("subscribe takes 1 argument, the position after which to begin")
        position = read_position(request.args[0])
        committer = self._parts.committer
        missed = committer.stream.since(position)
        if missed is None:
            form = committer.form
            missed = [snapshot_of(form.position, b"".join(form.config_parts()))]
        for event in missed:
            connection.send_soon(event + END)
        self._subscribers[connection] = None
        try:
            while await connection.receive_bytes() is not None:
                pass
        finally:
            self._subscribers.pop(connection, None)

    async def _follow_locks(self, connection: Connection, request: Request) -> None:
        if len(request.args) != 1:
            raise GanetiError("followLocks takes 1 argument, a lock file, or null for all that happens")
        await self._lock_stream.serve(connection, read_lock_file(request.args[0]))

    def _drop(self, subscriber: Connection) -> None:
        self._subscribers.pop(subscriber, None)
        subscriber.abort()


def _read_request(data: bytes) -> Request:
    try:
        return msgspec.convert(decode(data), Request)
    except (msgspec.ValidationError, TransportError) as err:
        raise GanetiError(f'This is not a request ({err}): write {{"method": name, "args": [...]}}') from err


def _failure(error: GanetiError) -> dict[str, Any]:
    return {"success": False, "result": error.to_wire()}


def _argument_count(call: Call) -> int:
    return len(inspect.signature(call).parameters)

# SPDX-License-Identifier: BSD-2-Clause
"""WConfD's socket: requests, answers, and streams of commits and locks (protocols, section 3).

A request is ``{"method", "args"}``, an answer ``{"success", "result"}``; calls of one connection are answered in order.
Whatever a client sends, it gets an error and the others notice nothing. Our own calls: `docs/design/wconfd-socket.md`.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError, TransportError
from ganeti.calls.serving import CallServer, stream_of
from ganeti.master.config.stream import snapshot_of
from ganeti.wconfd.arguments import After
from ganeti.wconfd.calls import Parts, calls_of
from ganeti.wconfd.lock_stream import LockStream
from ganeti.wire.framing import Connection, decode
from ganeti.wire.framing_sync import END

_log = logging.getLogger(__name__)
_SUBSCRIBER_LAG_BYTES = 64 * 1024 * 1024


class Request(msgspec.Struct):
    """Other keys are let through, as in 3.1: clients of LUXI send a version, too."""

    method: str
    args: list[Any] = []


class Server(CallServer):
    """Answers one socket; `serve` is run for each connection."""

    message_s = send_s = 60.0
    takes_turns = False

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._subscribers: dict[Connection, None] = {}
        streams: dict[str, Callable[..., Awaitable[None]]] = {
            "subscribe": self._subscribe,
            "followLocks": LockStream(parts.locks).serve,
        }
        super().__init__(calls_of(parts), {name: stream_of(name, method) for name, method in streams.items()})

    def read(self, data: bytes) -> tuple[str, list[Any]]:
        try:
            request = msgspec.convert(decode(data), Request)
        except (msgspec.ValidationError, TransportError) as err:
            raise GanetiError(f'This is not a request ({err}): write {{"method": name, "args": [...]}}') from err
        return request.method, request.args

    def unknown(self, method: str) -> Exception:
        return GanetiError(f"No such method: {method}")

    def unreadable(self, error: TransportError) -> Any:
        return error.to_wire()

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

    async def _subscribe(self, connection: Connection, position: After) -> None:
        """Turn the connection into a stream: what was missed, then every commit, until the client goes."""
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

    def _drop(self, subscriber: Connection) -> None:
        self._subscribers.pop(subscriber, None)
        subscriber.abort()

# SPDX-License-Identifier: BSD-2-Clause
"""Calling node daemons from jobs and from the daemons of the master (`NodesPort`).

A job's call has a number, so it may be sent again: when a node daemon restarts under a call, the next one gets the same
call and either carries it out or repeats the answer. A call that takes long is watched: if the node does not even
answer `version` any more, it hangs or has lost its power, and the call ends without waiting out its time. If it does,
a job's call is sent again from time to time, over another connection: the answer may have been lost with the one before
(the node was without power for a moment, or something between forgot the connection), and nobody would ever say so.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any

import msgspec

from ganeti.base.clocks import SENT_AT
from ganeti.base.errors import (
    UNREADABLE_JSON,
    GanetiError,
    NodeCallError,
    NodeTimeoutError,
    NodeUnreachableError,
    OtherReleaseError,
    from_wire,
)
from ganeti.base.paths import NODED_PORT, Paths
from ganeti.calls.node_requests import RequestBody
from ganeti.model.node_calls import NORMAL_S, NodeRequest
from ganeti.model.objects import Node
from ganeti.model.view import ConfigView
from ganeti.ports.nodes import NodeAnswer
from ganeti.system.call_delay import delay_s
from ganeti.system.http_client import BrokenError, HttpClient
from ganeti.system.tls import client_contexts
from ganeti.wire.traceparent import Place

_PATIENCE = float(os.environ.get("GANETI_PATIENCE", "1"))
"""Tests make the waits for silent nodes shorter."""
CONNECT_S = 5.0 * _PATIENCE
RESTART_PATIENCE_S = 8.0
"""How long a refused or broken connection is taken for a restart of the node daemon."""
REPEAT_EVERY_S = 0.3
WATCH_AFTER_S = 10.0 * _PATIENCE
PROBE_S = 10.0 * _PATIENCE
PROBE_EVERY_S = 5.0 * _PATIENCE
PROBES = 3
ASK_AGAIN_S = 60.0 * _PATIENCE
"""Twice as long each time: a call that only reads is carried out again."""
_BEGUN_AT_ONCE = 32
"""To begin the calls of 1,000 nodes without a break keeps the clients of a daemon waiting for a tenth of a second."""
PLACE: ContextVar[Place | None] = ContextVar("PLACE", default=None)
"""The span of the call that is being made, where it is traced: the node's own spans lie below it."""
_STOPPING = 503
_ANSWER_SLACK_S = 5.0
"""The node ends a call in time itself, and then says so."""

_UNKNOWN_THERE = re.compile(r"Node call '?\w+'?(?: is not known here|: .*(?:unknown|missing required) field)")
"""How a node daemon refuses a call, or an argument, that it has no declaration of."""
_ANSWER = msgspec.json.Decoder(tuple[bool, Any])


class NodeClient:
    """Calls of one job attempt, or of a daemon (job 0, whose calls are only read, or fit for repeating)."""

    def __init__(
        self,
        paths: Paths,
        view: Callable[[], ConfigView],
        job: int = 0,
        attempt: int = 0,
        next_step: Callable[[], int] = lambda: 0,
        *,
        port: int = NODED_PORT,
        use_tls: bool = True,
    ) -> None:
        self._view = view
        self._job = job
        self._attempt = attempt
        self._next_step = next_step
        self._port = port
        self._addresses: dict[str, str] = {}
        """Of the nodes that were called, as of the newest call."""
        self._http = HttpClient(partial(client_contexts, paths) if use_tls else None, self._address_of)

    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        """See `NodesPort.call`."""
        view = self._view()
        node = view.node(node_uuid)
        declared = NodeRequest.registry.get(call)
        if node.offline and not (declared is not None and declared.reaches_offline):
            raise NodeUnreachableError(f"Node {node.name} is marked offline, it is not called")
        if (limit_s := deadline_s) is None:
            limit_s = declared.answer_within_s if declared is not None else NORMAL_S
        fields = {
            "epoch": view.position[0],
            "job": self._job,
            "attempt": self._attempt,
            "step": self._next_step(),
            "timeout_s": deadline_s,
        }
        del view  # a handle of the database, which others may use meanwhile
        self._addresses[node.name] = node.primary_ip
        body = RequestBody(fields, arguments)
        return await self._repeat(node, call, body, limit_s + (_ANSWER_SLACK_S if self._job else 0))

    async def call_many(
        self, node_uuids: Iterable[str], call: str, /, *, deadline_s: float | None = None, **arguments: Any
    ) -> list[NodeAnswer]:
        """See `NodesPort.call_many`."""

        async def one(node_uuid: str) -> NodeAnswer:
            try:
                return NodeAnswer(node_uuid, await self.call(node_uuid, call, deadline_s=deadline_s, **arguments))
            except GanetiError as err:
                return NodeAnswer(node_uuid, error=err)

        calls = []
        try:
            for number, uuid in enumerate(node_uuids, 1):
                calls.append(asyncio.ensure_future(one(uuid)))
                if number % _BEGUN_AT_ONCE == 0:
                    await asyncio.sleep(0)
            return await asyncio.gather(*calls)
        finally:
            for call_of_one in calls:
                call_of_one.cancel()

    async def close(self) -> None:
        await self._http.close()

    def _address_of(self, host: str) -> str:
        return self._addresses[host]

    async def _repeat(self, node: Node, call: str, body: RequestBody, limit_s: float) -> Any:
        """Send until there is an answer, or the node is not merely restarting."""
        deadline = time.monotonic() + limit_s
        broken_since: float | None = None
        fresh = False
        while True:
            begun = time.monotonic()
            try:
                return await self._watched(node, call, body, deadline - begun)
            except BrokenError as err:
                now = time.monotonic()
                if err.has_other and now < deadline:
                    continue
                if err.stale and not fresh:
                    fresh = True  # a connection kept from before the node's last start: the next one is new
                    continue
                if broken_since is None or now - begun > RESTART_PATIENCE_S:
                    broken_since = now
                patient = self._job != 0 and err.may_restart and now - broken_since < RESTART_PATIENCE_S
                if not patient or now + REPEAT_EVERY_S > deadline:
                    raise NodeUnreachableError(f"Node {node.name} cannot be reached: {err.reason}") from err
            await asyncio.sleep(REPEAT_EVERY_S)

    async def _watched(self, node: Node, call: str, body: RequestBody, limit_s: float) -> Any:
        if limit_s <= WATCH_AFTER_S:
            return await self._exchange(node, call, body, limit_s)
        deadline = time.monotonic() + limit_s
        exchange = asyncio.ensure_future(self._exchange(node, call, body, limit_s))
        patience_s, asked = ASK_AGAIN_S, time.monotonic()
        try:
            done, _ = await asyncio.wait([exchange], timeout=WATCH_AFTER_S)
            missed = 0
            while not done:
                missed = 0 if await self._lives(node) else missed + 1
                if missed == PROBES:
                    raise NodeTimeoutError(
                        f"Node {node.name} does not answer any more, since the call {call} began: it hangs or has lost "
                        "its power or network"
                    )
                if self._job and not missed and not exchange.done() and time.monotonic() - asked > patience_s:
                    await _end(exchange)
                    patience_s, asked = patience_s * 2, time.monotonic()
                    exchange = asyncio.ensure_future(self._exchange(node, call, body, deadline - asked))
                done, _ = await asyncio.wait([exchange], timeout=PROBE_EVERY_S)
            return exchange.result()
        finally:
            await _end(exchange)

    async def _lives(self, node: Node) -> bool:
        body = RequestBody({"epoch": 0, "job": 0, "attempt": 0, "step": 0}, {})
        try:
            await self._exchange(node, "version", body, PROBE_S, connect_s=PROBE_S)
        except (BrokenError, NodeTimeoutError):
            return False
        except NodeCallError:
            return True
        return True

    async def _exchange(
        self, node: Node, call: str, body: RequestBody, limit_s: float, *, connect_s: float = CONNECT_S
    ) -> Any:
        if held_back_s := delay_s(node.name, call):
            await asyncio.sleep(held_back_s)
        status, answer = await self._http.post(
            node.name,
            self._port,
            f"/{call}",
            body.data,
            limit_s=limit_s,
            connect_s=connect_s,
            headers=_headers(),
        )
        if status == _STOPPING:
            raise BrokenError("its node daemon is ending", may_restart=True)
        return _read_answer(node, call, status, answer)


def _headers() -> dict[str, str]:
    headers = {SENT_AT: f"{time.time():.0f}"}
    if (place := PLACE.get()) is not None:
        headers["traceparent"] = str(place)
    return headers


async def _end(exchange: "asyncio.Future[Any]") -> None:
    if not exchange.done():
        exchange.cancel()
        await asyncio.gather(exchange, return_exceptions=True)


def _read_answer(node: Node, call: str, status: int, body: bytes) -> Any:
    try:
        succeeded, value = _ANSWER.decode(body)
    except UNREADABLE_JSON as err:
        raise NodeCallError(
            f"Node {node.name} gave an answer to {call} that cannot be read (HTTP status {status})"
        ) from err
    if succeeded:
        return value
    failure = from_wire(value)
    if _UNKNOWN_THERE.match(failure.message):
        raise OtherReleaseError(
            f"Node {node.name} runs another release than the master ({failure.message}): install the master's package "
            "there"
        )
    sentence = f"Node {node.name}: {failure.message}"
    if status != 200:
        raise NodeCallError(sentence)
    failure.message = sentence
    failure.args = (sentence, *failure.args[1:])
    raise failure

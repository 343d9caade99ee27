# SPDX-License-Identifier: BSD-2-Clause
"""LUXI as a job process speaks it: to submit jobs of its own, and to ask LuxiD."""

import asyncio
from typing import Any

import msgspec

from ganeti.base.errors import TransportError, from_wire
from ganeti.base.paths import Paths
from ganeti.ports.luxid import PATIENCE_S, Answer, Question
from ganeti.system.unix_socket import connect
from ganeti.wire.framing import Connection
from ganeti.wire.luxi import VERSION

_RETRY_S = 0.2


class LuxiClient:
    """One connection per call; LuxiD may be restarted at any moment. Implements `LuxidPort`."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.luxi_socket

    async def ask(self, question: Question[Answer], *, patience_s: float = PATIENCE_S) -> Answer:
        """Ask a job's question; raises what LuxiD answers, or `TransportError`."""
        arguments = msgspec.to_builtins(question)
        answer = await self.call(type(question).__name__, *arguments, patience_s=patience_s, only_asks=True)
        found: Answer = msgspec.convert(answer, question.answer_type())
        return found

    async def call(self, method: str, *arguments: Any, patience_s: float = 30.0, only_asks: bool = False) -> Any:
        """Make one call; raises what it answers, or `TransportError`.

        While LuxiD cannot be reached, the call is tried again. One that was sent and got no answer is sent again only
        if it *only_asks*: of another one nobody knows whether it was carried out.
        """
        loop = asyncio.get_running_loop()
        deadline_s: float | None = None
        while True:
            connection: Connection | None = None
            try:
                connection = await connect(self._path)
                await connection.send({"method": method, "args": list(arguments), "version": VERSION})
                answer = await connection.receive()
                break
            except TransportError:
                deadline_s = deadline_s or loop.time() + patience_s
                if (connection is not None and not only_asks) or loop.time() >= deadline_s:
                    raise
            finally:
                if connection is not None:
                    connection.abort()
            await asyncio.sleep(_RETRY_S)
        if not answer.get("success"):
            raise from_wire(answer.get("result"))
        return answer["result"]

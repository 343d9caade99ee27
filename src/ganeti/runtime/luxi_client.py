# SPDX-License-Identifier: BSD-2-Clause
"""LUXI as a job process speaks it: to submit jobs of its own, and to ask the placement worker."""

import asyncio
from typing import Any

from ganeti.base.errors import TransportError, from_wire
from ganeti.base.paths import Paths
from ganeti.runtime.unix_socket import connect
from ganeti.wire.luxi import VERSION

_RETRY_S = 0.2


class LuxiClient:
    """One connection per call; a call is only repeated while LuxiD cannot be reached at all."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.luxi_socket

    async def call(self, method: str, *arguments: Any, patience_s: float = 30.0) -> Any:
        """Make one call; raises what it answers, or `TransportError`."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + patience_s
        while True:
            try:
                connection = await connect(self._path)
                break
            except TransportError:
                if loop.time() >= deadline_s:
                    raise
            await asyncio.sleep(_RETRY_S)
        try:
            await connection.send({"method": method, "args": list(arguments), "version": VERSION})
            answer = await connection.receive()
        finally:
            connection.abort()
        if not answer.get("success"):
            raise from_wire(answer.get("result"))
        return answer["result"]

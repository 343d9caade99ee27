# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's placement worker: one process that holds NumPy and answers allocation requests, one after the other.

It is started when the first request comes, and again after it ended. Run as a program, this module is the worker.
"""

import asyncio
import logging
import socket
import subprocess
import sys
from typing import Any

from ganeti.base.errors import ExecutionError, GanetiError, TransportError, from_wire
from ganeti.wire.framing import Connection
from ganeti.wire.framing_sync import SyncConnection

_log = logging.getLogger(__name__)
_ANSWER_S = 300.0


class PlacementWorker:
    """LuxiD's side."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Give the iallocator response, and in ``reasons`` a line for each node that was not chosen.

        Raises `GanetiError`. A worker that dies is asked once more, anew.
        """
        async with self._turn:
            for attempt in (1, 2):
                try:
                    return await self._ask(request)
                except TransportError as err:
                    self.close()
                    if attempt == 2:
                        raise ExecutionError(f"The placement worker ended without an answer: {err}") from err
                    _log.warning("the placement worker has ended (%s); starting another", err)
        raise AssertionError

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        connection = await self._connect()
        complete = False
        try:
            async with asyncio.timeout(_ANSWER_S):
                await connection.send(request)
                answer: dict[str, Any] = await connection.receive()
            complete = True
        except TimeoutError as err:
            raise ExecutionError(f"The placement worker did not answer within {_ANSWER_S:g} seconds") from err
        finally:
            if not complete:
                self.close()
        if "error" in answer:
            raise from_wire(answer["error"])
        return answer

    async def _connect(self) -> Connection:
        if self._connection is None:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "ganeti.runtime.placement_worker", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._connection = Connection(*await asyncio.open_unix_connection(sock=ours))
        return self._connection

    def close(self) -> None:
        """End the worker, if there is one."""
        connection, self._connection = self._connection, None
        process, self._process = self._process, None
        if connection is not None:
            connection.abort()
        if process is not None:
            process.kill()
            process.wait()


def work(connection: SyncConnection) -> None:
    """Answer requests until LuxiD goes away."""
    from ganeti.placement.service import answer_with_reasons

    while True:
        try:
            request = connection.receive()
        except TransportError:
            return
        try:
            result, reasons = answer_with_reasons(request)
            result["reasons"] = reasons
        except GanetiError as err:
            result = {"error": err.to_wire()}
        except Exception as err:
            result = {"error": ExecutionError(f"The allocator failed: {type(err).__name__}: {err}").to_wire()}
        connection.send(result)


if __name__ == "__main__":
    work(SyncConnection(socket.socket(fileno=int(sys.argv[1]))))

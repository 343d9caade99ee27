# SPDX-License-Identifier: BSD-2-Clause
"""Calling WConfD from a job process: what it answers at once is asked for without the event loop.

Most jobs do nothing but take locks, act, and free them; opening streams for that costs more than the rest of the job.
"""

import socket
from typing import Any

from ganeti.base.errors import TransportError, from_wire
from ganeti.runtime import blocking_calls
from ganeti.runtime.wconfd_client import WConfdClient

_AT_ONCE = frozenset({"claimLocks", "freeLocks", "tryUpdateLocks", "downGradeLocksLevel"})
"""Calls that wait for nothing and may be repeated."""
_AT_ONCE_S = 1.0


class JobWConfdClient(WConfdClient):
    """Where a daemon is away or slow, the call is repeated in the patient way, which lets other work go on."""

    def __init__(self, socket_path: str) -> None:
        super().__init__(socket_path)
        self._socket_path = socket_path
        self._connection: socket.socket | None = None

    async def call(self, method: str, *arguments: Any, **how: Any) -> Any:
        """As in `WConfdClient`."""
        if method in _AT_ONCE:
            try:
                answer = self._ask_now({"method": method, "args": arguments})
            except TransportError:
                self._disconnect()
            else:
                if not answer["success"]:
                    raise from_wire(answer["result"])
                return answer["result"]
        return await super().call(method, *arguments, **how)

    async def close(self) -> None:
        self._disconnect()
        await super().close()

    def _ask_now(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._connection is None:
            self._connection = blocking_calls.connect(self._socket_path, _AT_ONCE_S)
        blocking_calls.send(self._connection, message)
        answer = blocking_calls.receive(self._connection)
        if not isinstance(answer, dict) or "success" not in answer:
            raise TransportError(f"WConfD gave an answer that is none: {answer!r}")
        return answer

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

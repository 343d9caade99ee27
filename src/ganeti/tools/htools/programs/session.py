# SPDX-License-Identifier: BSD-2-Clause
"""A conversation with the master daemon in which jobs are submitted (spec: protocols, 2).

Questions outlive a restart of the daemon: they are asked again. What changes something is sent once, as nobody knows
whether it was done when the answer is lost.
"""

import time
from typing import Any

from ganeti.base.errors import TransportError
from ganeti.wire.framing_sync import SyncConnection, connect

_CONNECT_TIMEOUT_S, _TIMEOUT_S = 30, 180
_PATIENCE_S, _RETRY_S = 60, 1


class Session:
    """One connection to the master daemon at a socket's path, opened when it is needed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: SyncConnection | None = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """Make a call once; raises `TransportError`, or the error the daemon answers."""
        try:
            return (self._connection or self._connect()).call(method, *arguments)
        except TransportError:
            self.close()
            raise

    def ask(self, method: str, *arguments: Any) -> Any:
        """Make a call that changes nothing; while nobody answers it is tried again for a minute. Raises as `call`."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return self.call(method, *arguments)
            except TransportError:
                if time.monotonic() >= deadline_s:
                    raise
            time.sleep(_RETRY_S)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connect(self) -> SyncConnection:
        self._connection = connect(self._path, _CONNECT_TIMEOUT_S)
        self._connection.set_timeout(_TIMEOUT_S)
        return self._connection

# SPDX-License-Identifier: BSD-2-Clause
"""Calling WConfD from a job process: what it answers at once is asked for without the event loop.

Most jobs do nothing but take locks, act, and free them; opening streams for that costs more than the rest of the job.
"""

import logging
import os
from typing import Any, NoReturn

from ganeti.base.errors import EXIT_NOT_MASTER, DeposedError, TransportError
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.wire.framing import CODEC
from ganeti.wire.framing_sync import SyncConnection, connect

_AT_ONCE = frozenset({"claimLocks", "freeLocks", "tryUpdateLocks", "downGradeLocksLevel", "replicateQueue", "commit"})
"""Calls that wait for nothing, or for no longer than a candidate's disk, and may be repeated."""
_AT_ONCE_S = 1.0
_log = logging.getLogger(__name__)


class JobWConfdClient(WConfdClient):
    """Where a daemon is away or slow, the call is repeated in the patient way, which lets other work go on."""

    def __init__(self, socket_path: str) -> None:
        super().__init__(socket_path)
        self._socket_path = socket_path
        self._connection: SyncConnection | None = None

    async def call(self, method: str, *arguments: Any, **how: Any) -> Any:
        """As in `WConfdClient`; but where another node is the master now, the process ends."""
        try:
            return await self._call(method, *arguments, **how)
        except DeposedError as err:
            _leave_everything(err)

    async def _call(self, method: str, *arguments: Any, **how: Any) -> Any:
        if method in _AT_ONCE:
            try:
                return self._ask_now(method, *arguments)
            except TransportError:
                self._disconnect()
        return await super().call(method, *arguments, **how)

    def ask_over(self, connection: SyncConnection) -> None:
        """Ask what is answered at once over this connection."""
        self._connection = connection

    async def close(self) -> None:
        self._disconnect()
        await super().close()

    def _ask_now(self, method: str, *arguments: Any) -> Any:
        if self._connection is None:
            self._connection = connect(self._socket_path, _AT_ONCE_S, waits_in_line=False, **CODEC)
        return self._connection.call(method, *arguments)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _leave_everything(err: DeposedError) -> NoReturn:
    """The new master undoes or repeats what this job did, from its own copies: here nothing may be touched any more.

    Not even by the clean-up of what is under way, so nothing is raised.
    """
    _log.error("the job's process ends and leaves everything as it is: %s", err)
    os._exit(EXIT_NOT_MASTER)

# SPDX-License-Identifier: BSD-2-Clause
"""Following WConfD's locks: LuxiD learns which parked jobs may start, the event API learns everything.

Order. The answer to ``askLocks`` and the grant of the same request come over two connections, in either order. A grant
is told only of requests whose answer named blockers. So LuxiD takes a grant of a job for which it is still asking as
the grant, and the blockers in the answer that comes after it as old. In the other direction a grant can be old: it was
under way while LuxiD withdrew the request. LuxiD ignores grants of jobs it neither asks for nor has parked. If it has
asked anew meanwhile, a job starts for nothing: its process claims, is told who is in the way, and hands the job back.

What is told at each (re)connection is the truth about what was asked before: a parked job that is neither held nor
waiting was forgotten (WConfD lost its file of locks) and must be asked for again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ganeti.base.errors import GanetiError, TransportError, from_wire
from ganeti.master.locks.owners import Owner
from ganeti.system.unix_socket import connect
from ganeti.wire.framing import Connection

_log = logging.getLogger(__name__)
_PAUSE_FIRST_S = 0.02
_PAUSE_LONGEST_S = 1.0
Plain = list[Any]


class LockFollower:
    """One stream of ``followLocks``, kept open by `run` until cancelled; the callbacks are called on its event loop."""

    def __init__(
        self,
        socket_path: str,
        lock_file: str | None,
        *,
        snapshot: Callable[[Plain, Plain], None],
        granted: Callable[[list[Owner]], None] = lambda clients: None,
        changed: Callable[[int, Plain], None] = lambda serial, changes: None,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        """With a *lock_file*: *snapshot* gets the owners with it that hold, and those that wait, after each
        connection; *granted* those whose waiting requests were granted since.

        Without: *snapshot* gets ``[[lock, [[client, state]…]]…]`` and ``[[priority, client, request]…]``, *changed* a
        serial number and ``[[kind, client, {lock: state}]…]``, where ``waiting`` has its priority besides; also after
        the snapshot, with that serial number and no change. *lost* is called when the connection has gone.
        """
        self._path = socket_path
        self._lock_file = lock_file
        self._snapshot = snapshot
        self._granted = granted
        self._changed = changed
        self._lost = lost

    async def run(self) -> None:
        """Follow until cancelled; connects again at once, then with growing pauses up to a second."""
        pause_s = 0.0
        while True:
            try:
                connection = await connect(self._path)
                try:
                    await connection.send({"method": "followLocks", "args": [self._lock_file]})
                    self._dispatch(await connection.receive())
                    pause_s = 0.0
                    await self._follow(connection)
                finally:
                    connection.abort()
                    self._lost()
            except TransportError as err:
                _log.debug("The locks cannot be followed now: %s", err)
            except GanetiError as err:
                _log.error("WConfD does not tell about locks: %s", err)
                pause_s = _PAUSE_LONGEST_S
            await asyncio.sleep(pause_s)
            pause_s = min(max(2 * pause_s, _PAUSE_FIRST_S), _PAUSE_LONGEST_S)

    async def _follow(self, connection: Connection) -> None:
        while True:
            self._dispatch(await connection.receive())

    def _dispatch(self, event: Any) -> None:
        match event:
            case {"event": "granted", "clients": clients}:
                self._granted([Owner.from_wire(client) for client in clients])
            case {"event": "lock-changes", "serial": serial, "changes": changes}:
                self._changed(serial, changes)
            case {"event": "locks", "held": held, "waiting": waiting}:
                if self._lock_file is not None:
                    held, waiting = (list(map(Owner.from_wire, clients)) for clients in (held, waiting))
                self._snapshot(held, waiting)
                if "serial" in event:
                    self._changed(event["serial"], [])
            case {"success": False, "result": result}:
                raise from_wire(result)
            case _:
                raise TransportError(f"WConfD sent an event that cannot be read: {event!r}")

# SPDX-License-Identifier: BSD-2-Clause
"""What happens to locks, told to those who follow: LuxiD about its parked jobs, the event API about everything.

A follower first gets what is, then what changes, each change after it is on disk. Something that changed just before
may be told twice, once with what is; nothing is left out.
"""

from functools import partial
from typing import Any

from ganeti.base.errors import TransportError
from ganeti.calls.serving import serves
from ganeti.master.locks.effects import tell
from ganeti.wconfd.arguments import LockFile
from ganeti.wconfd.locks import LockService, News
from ganeti.wire.framing import Connection, encode

_LAG_BYTES = 16 * 1024 * 1024


class LockStream:
    """Serves the connections that have called ``followLocks``."""

    def __init__(self, locks: LockService) -> None:
        self._locks = locks

    async def serve(self, connection: Connection, lock_file: LockFile) -> None:
        """Tell about owners with *lock_file*, or about all, until the client goes.

        When it goes it may have died: what it has asked for is looked at then, and not only when somebody waits.
        """
        await self._locks.free_the_dead()  # those that a follower's predecessor asked for must not be served first
        await self._locks.saved()
        self._locks.flush()
        if lock_file is None:
            connection.send_soon(encode(self._everything()))
            tell = partial(self._tell_everything, connection)
        else:
            connection.send_soon(encode(self._of(lock_file)))
            tell = partial(self._tell_grants, connection, lock_file)

        def tell_news(news: News) -> None:
            try:
                tell(news)
            except Exception:
                connection.abort()  # it must not take silence for nothing having happened
                raise

        self._locks.listeners[tell_news] = None
        try:
            while await connection.receive_bytes() is not None:
                pass
        finally:
            self._locks.listeners.pop(tell_news, None)
            if lock_file is not None:
                self._locks.free_if_dead(lock_file)

    def _of(self, lock_file: str) -> dict[str, Any]:
        table = self._locks.table
        owners = [owner for owner in table.owners() if owner.lock_file == lock_file]
        return {
            "event": "locks",
            "held": [owner.to_wire() for owner in owners if table.held(owner)],
            "waiting": [owner.to_wire() for owner in owners if table.has_pending(owner)],
        }

    def _everything(self) -> dict[str, Any]:
        table = self._locks.table
        return {
            "event": "locks",
            "serial": self._locks.serial,
            "held": [
                [lock, [[owner.to_wire(), state] for owner, state in table.holders(lock)]] for lock in table.locks()
            ],
            "waiting": [
                [pending.priority, pending.owner.to_wire(), list(pending.request.items())]
                for pending in table.waiting()
            ],
        }

    def _tell_grants(self, connection: Connection, lock_file: str, news: News) -> None:
        if clients := [owner.to_wire() for owner in news.granted if owner.lock_file == lock_file]:
            self._send(connection, {"event": "granted", "clients": clients})

    def _tell_everything(self, connection: Connection, news: News) -> None:
        """Also where nothing has changed: somebody may wait to have heard of this serial number."""
        changes = [(kind, owner.to_wire(), *rest) for kind, owner, *rest in tell(news.effects)]
        self._send(connection, {"event": "lock-changes", "serial": news.serial, "changes": changes})

    def _send(self, connection: Connection, event: dict[str, Any]) -> None:
        """One who does not read is dropped: it comes back and begins with what is then."""
        try:
            if connection.unsent_bytes > _LAG_BYTES:
                connection.abort()
            else:
                connection.send_soon(encode(event))
        except TransportError:
            connection.abort()


class NewsCalls:
    """The call of those who must know whether they have heard of everything."""

    def __init__(self, locks: LockService) -> None:
        self._locks = locks

    @serves("lockSerial")
    async def lock_serial(self) -> Any:
        """The number of the last news that followers were told: who has heard of it knows all locks as they are."""
        await self._locks.saved()
        return self._locks.serial

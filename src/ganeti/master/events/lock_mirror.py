# SPDX-License-Identifier: BSD-2-Clause
"""Who holds and who waits for which locks, kept up to date from WConfD's stream of lock changes.

`followLocks` gives everything first and each change then; a snapshot for one more client is taken from here, at the
very place in our own log that the changes have reached.
"""

from collections.abc import Mapping
from typing import Any

from ganeti.base.errors import TransportError

Fields = dict[str, Any]
_Client = tuple[Any, ...]


class LockMirror:
    """The lock table as the stream tells it."""

    def __init__(self) -> None:
        self._held: dict[_Client, dict[str, str]] = {}
        self._waiting: dict[_Client, tuple[int | None, dict[str, str]]] = {}

    def load(self, held: list[Any], waiting: list[Any]) -> Fields:
        """Take in the whole table, ``[[lock, [[client, state]…]]…]`` and ``[[priority, client, request]…]``; gives the
        event that replaces all that was told before.
        """
        self._held, self._waiting = {}, {}
        for lock, holders in held:
            for client, state in holders:
                self._held.setdefault(tuple(client), {})[lock] = state
        for priority, client, request in waiting:
            self._waiting[tuple(client)] = (priority, dict(request))
        return {"what": "table", **self.state()}

    def change(self, what: str, client: list[Any], locks: Mapping[str, str], priority: int | None = None) -> Fields:
        """Take in one change of the contract of `followLocks`; gives its event. Raises `TransportError`."""
        owner, named = tuple(client), dict(locks)
        fields: Fields = {"what": what, "client": client, "locks": named}
        if what == "granted":
            if self._waiting.get(owner, (None, {}))[1].keys() <= named.keys():
                self._waiting.pop(owner, None)
            self._held.setdefault(owner, {}).update(named)
        elif what == "waiting":
            self._waiting[owner] = (priority, named)
            fields["priority"] = priority
        elif what == "withdrawn":
            self._waiting.pop(owner, None)
        elif what == "freed":
            self._free(owner, named)
        else:
            raise TransportError(f"'{what}' is no change of locks: do the master's daemons come from the same release?")
        return fields

    def state(self) -> Fields:
        """``{"held": [[lock, [[client, state]…]]…], "waiting": [[priority, client, request]…]}``."""
        held: dict[str, list[Any]] = {}
        for client, locks in self._held.items():
            for lock, state in locks.items():
                held.setdefault(lock, []).append([list(client), state])
        waiting = [[priority, list(client), request] for client, (priority, request) in self._waiting.items()]
        return {"held": [[lock, held[lock]] for lock in sorted(held)], "waiting": waiting}

    def _free(self, owner: _Client, locks: Mapping[str, str]) -> None:
        held = self._held.get(owner, {})
        for lock in locks:
            held.pop(lock, None)
        if not held:
            self._held.pop(owner, None)

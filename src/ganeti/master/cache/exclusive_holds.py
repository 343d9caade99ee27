# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes may be other than they reported because a job had something of theirs for itself (S1.46, S1.47). Pure.

Who changes a node or an instance holds its lock exclusively; who only looks shares it, and so makes nothing void. What
was held counts as changed when it is given up: until then the job may still be at it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ganeti.model.locks import BGL, EXCLUSIVE, Level, is_set_lock, lock_level
from ganeti.model.view import ConfigView

_Client = tuple[Any, ...]


class ExclusiveHolds:
    """Follows the lock table; both calls give the locks that have been given up."""

    def __init__(self) -> None:
        self._holder: dict[str, _Client] = {}

    @property
    def held(self) -> list[str]:
        """The locks that somebody has for himself now."""
        return list(self._holder)

    def holds(self, lock: str) -> bool:
        return lock in self._holder

    def table(self, held: Iterable[Sequence[Any]]) -> list[str]:
        """Take in the whole table, ``[[lock, [[client, state]…]]…]``."""
        before, self._holder = self._holder, {}
        for lock, holders in held:
            for client, state in holders:
                if state == EXCLUSIVE:
                    self._holder[lock] = tuple(client)
        return [lock for lock, client in before.items() if self._holder.get(lock) != client]

    def change(self, what: str, client: Sequence[Any], locks: Mapping[str, str], *_: Any) -> list[str]:
        """Take in one change of the contract of `followLocks`."""
        owner, given_up = tuple(client), []
        if what not in ("granted", "freed"):
            return []
        for lock, state in locks.items():
            if what == "granted" and state == EXCLUSIVE:
                self._holder[lock] = owner
            elif self._holder.get(lock) == owner:
                del self._holder[lock]
                given_up.append(lock)
        return given_up


_EVERYTHING = (Level.CLUSTER, Level.INSTANCE, Level.NODE, Level.NODE_RES)


def nodes_under(view: ConfigView, locks: Iterable[str]) -> list[str]:
    """Uuids of the nodes that these locks guard; those of an instance's lock are all its nodes."""
    guarded = list(locks)
    if any(lock == BGL or (is_set_lock(lock) and lock_level(lock) in _EVERYTHING) for lock in guarded):
        return list(view.uuids("nodes"))
    found: dict[str, None] = {}
    for lock in guarded:
        level, name = lock_level(lock), lock.partition("/")[2]
        if level is Level.INSTANCE and (uuid := view.uuid_by_name("instances", name)) is not None:
            found.update(dict.fromkeys(view.instance_nodes(view.instance(uuid))))
        elif level in (Level.NODE, Level.NODE_RES) and view.get("nodes", name) is not None:
            found[name] = None
    return list(found)

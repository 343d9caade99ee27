# SPDX-License-Identifier: BSD-2-Clause
"""Who holds which lock, and who therefore stands in the way of whom (spec: protocols 3.1, "Blocking").

Two claims of different owners conflict if they are for the same lock, or for a set lock and one of its members, and at
least one of them is exclusive. This one symmetric rule is the table of 3.1 read from both sides.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ganeti.master.locks.owners import Owner
from ganeti.model.locks import EXCLUSIVE, set_lock_of


class Obstacle(NamedTuple):
    """*wanted* cannot be had while *holder* keeps *held* in *state*."""

    wanted: str
    held: str
    holder: Owner
    state: str


class Holdings:
    """Held locks, indexed by owner, by lock and by set. Dictionaries throughout: their order is that of the calls."""

    def __init__(self) -> None:
        self.by_owner: dict[Owner, dict[str, str]] = {}
        self.by_lock: dict[str, dict[Owner, str]] = {}
        self._held_members: dict[str, dict[str, None]] = {}

    def of(self, owner: Owner) -> Mapping[str, str]:
        return self.by_owner.get(owner, {})

    def put(self, owner: Owner, lock: str, state: str) -> None:
        self.by_owner.setdefault(owner, {})[lock] = state
        self.by_lock.setdefault(lock, {})[owner] = state
        if (set_lock := set_lock_of(lock)) is not None:
            self._held_members.setdefault(set_lock, {})[lock] = None

    def drop(self, owner: Owner, lock: str) -> None:
        held, holders = self.by_owner[owner], self.by_lock[lock]
        del held[lock], holders[owner]
        if not held:
            del self.by_owner[owner]
        if holders:
            return
        del self.by_lock[lock]
        if (set_lock := set_lock_of(lock)) is not None:
            del self._held_members[set_lock][lock]
            if not self._held_members[set_lock]:
                del self._held_members[set_lock]

    def hand_over(self, old: Owner, new: Owner) -> None:
        held = self.by_owner.pop(old)
        self.by_owner[new] = held
        for lock in held:
            holders = self.by_lock[lock]
            holders[new] = holders.pop(old)

    def sharers(self, lock: str) -> int:
        return len(self.by_lock.get(lock, ()))

    def held_exclusively(self, lock: str) -> bool:
        holders = self.by_lock.get(lock)
        return holders is not None and len(holders) == 1 and EXCLUSIVE in holders.values()

    def holders_about(self, lock: str) -> Iterator[Owner]:
        """Who holds the lock, its set lock or one of its members, in whatever state."""
        for related in self._related(lock):
            yield from self.by_lock.get(related, ())

    def obstacles(self, owner: Owner, wants: Mapping[str, str]) -> Iterator[Obstacle]:
        """Everything others hold that conflicts with *wants*."""
        for wanted, state in wants.items():
            for lock in self._related(wanted):
                holders = self.by_lock.get(lock, {})
                if state != EXCLUSIVE and len(holders) > 1:
                    continue  # several holders: all shared
                for holder, held in holders.items():
                    if holder != owner and EXCLUSIVE in (state, held):
                        yield Obstacle(wanted, lock, holder, held)

    def _related(self, lock: str) -> Iterator[str]:
        yield lock
        if (set_lock := set_lock_of(lock)) is not None:
            yield set_lock
        else:
            yield from self._held_members.get(lock, ())

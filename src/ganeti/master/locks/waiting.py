# SPDX-License-Identifier: BSD-2-Clause
"""Pending lock requests in the order in which they are served, indexed by the locks they want (S1.91-S1.95).

The order is (priority, rank, arrival), lower first. The rank is the arrival, except that a request for shared locks
only takes the rank of the shared requests of its priority that already wait for those locks: it joins their group and
so skips ahead of exclusive requests that came between (S1.93).
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ganeti.master.locks.owners import Owner
from ganeti.model.locks import EXCLUSIVE, RELEASE, SHARED, set_lock_of

Key = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Pending:
    """One waiting request; *request* is in lock order, *wants* is it without its releases."""

    owner: Owner
    priority: int
    rank: int
    arrival: int
    request: Mapping[str, str]
    wants: Mapping[str, str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        wants = self.request
        if RELEASE in wants.values():
            wants = {lock: state for lock, state in wants.items() if state != RELEASE}
        object.__setattr__(self, "wants", wants)

    @property
    def key(self) -> Key:
        return self.priority, self.rank, self.arrival


@dataclass(slots=True)
class Queue:
    """Those who wait for one lock, or for any member of one set; *holding* are those who hold locks meanwhile."""

    shared: list[Key] = field(default_factory=list)
    exclusive: list[Key] = field(default_factory=list)
    holding: list[Key] = field(default_factory=list)

    def side(self, state: str) -> list[Key]:
        return self.exclusive if state == EXCLUSIVE else self.shared

    def heads(self, against: str) -> Iterator[list[Key]]:
        """The lists that conflict with a claim of state *against*."""
        yield self.exclusive
        if against == EXCLUSIVE:
            yield self.shared


class Waiters:
    """All pending requests, at most one an owner."""

    def __init__(self) -> None:
        self.by_owner: dict[Owner, Pending] = {}
        self._by_key: dict[Key, Pending] = {}
        self._by_lock: dict[str, Queue] = {}
        self._by_set: dict[str, Queue] = {}
        self._wanted_members: dict[str, dict[str, None]] = {}

    def in_order(self) -> list[Pending]:
        return sorted(self.by_owner.values(), key=lambda pending: pending.key)

    def wanted(self) -> Iterator[str]:
        """Every lock that somebody waits for."""
        return iter(self._by_lock)

    def queued_for(self, lock: str) -> list[Pending]:
        """Those who want exactly this lock, in serving order."""
        queue = self._by_lock.get(lock, Queue())
        return [self._by_key[key] for key in heapq.merge(queue.shared, queue.exclusive)]

    def rank_for(self, priority: int, arrival: int, wants: Mapping[str, str]) -> int:
        """The rank of a new request: that of the youngest group it joins, if there is one at every lock it wants."""
        ranks = []
        for lock, state in wants.items():
            shared = self._by_lock[lock].shared if lock in self._by_lock else []
            place = bisect_left(shared, (priority, -1, -1))
            if state != SHARED or place == len(shared) or shared[place][0] != priority:
                return arrival
            ranks.append(shared[place][1])
        return min(arrival, max(ranks, default=arrival))

    def add(self, pending: Pending, *, holds_locks: bool) -> None:
        self.by_owner[pending.owner] = pending
        self._by_key[pending.key] = pending
        for lock in pending.wants:
            if (set_lock := set_lock_of(lock)) is not None:
                self._wanted_members.setdefault(set_lock, {})[lock] = None
        for queue, state in self._places(pending):
            insort(queue.side(state), pending.key)
            if holds_locks:
                _insert_once(queue.holding, pending.key)

    def remove(self, owner: Owner) -> Pending:
        pending = self.by_owner.pop(owner)
        del self._by_key[pending.key]
        for queue, state in self._places(pending):
            _remove(queue.side(state), pending.key)
            _remove(queue.holding, pending.key)
        for lock in pending.wants:
            self._forget_if_empty(lock)
        return pending

    def ahead(self, key: Key, wants: Mapping[str, str]) -> Iterator[tuple[str, Pending]]:
        """For each wanted lock the first requests before *key* that conflict with it."""
        for lock, state in wants.items():
            for queue in self._related(lock):
                for side in queue.heads(state):
                    if side and side[0] < key:
                        yield lock, self._by_key[side[0]]

    def all_ahead(self, key: Key, wants: Mapping[str, str]) -> list[tuple[str, Pending]]:
        """Every request before *key* that conflicts with it, in serving order, with the first lock over which."""
        found: dict[Key, str] = {}
        for lock, state in wants.items():
            for queue in self._related(lock):
                for side in queue.heads(state):
                    for other in side[: bisect_left(side, key)]:
                        found.setdefault(other, lock)
        return [(found[other], self._by_key[other]) for other in sorted(found)]

    def wanted_by_others(self, held: Mapping[str, str], own: Key) -> bool:
        """True if a request other than *own* conflicts with one of the locks in *held*."""
        return any(
            len(side) > 1 or (side and side[0] != own)
            for lock, state in held.items()
            for queue in self._related(lock)
            for side in queue.heads(state)
        )

    def at(self, key: Key) -> Pending | None:
        return self._by_key.get(key)

    def concerned(self, lock: str, gone: str) -> Iterator[tuple[str, list[Key]]]:
        """Per lock, in serving order, the requests that may pass now that a claim at *lock* of state *gone* is no more.

        These are at the lock itself, its set, its members. A shared claim has kept back exclusive requests only: of a
        thousand that share a lock none is looked at when one more lets it go. Behind the first exclusive request only
        those who hold locks can pass, see `LockTable`.
        """
        set_lock = set_lock_of(lock)
        related = [lock, *self._wanted_members.get(lock, ())] if set_lock is None else [lock, set_lock]
        for name in related:
            if name in self._by_lock and (keys := _may_pass(self._by_lock[name], gone)):
                yield name, keys

    def _places(self, pending: Pending) -> Iterator[tuple[Queue, str]]:
        sets: dict[tuple[str, str], None] = {}
        for lock, state in pending.wants.items():
            yield self._by_lock.setdefault(lock, Queue()), state
            if (set_lock := set_lock_of(lock)) is not None:
                sets[set_lock, state] = None
        for set_lock, state in sets:
            yield self._by_set.setdefault(set_lock, Queue()), state

    def _related(self, lock: str) -> Iterator[Queue]:
        if lock in self._by_lock:
            yield self._by_lock[lock]
        set_lock = set_lock_of(lock)
        if set_lock is None:
            if lock in self._by_set:
                yield self._by_set[lock]
        elif set_lock in self._by_lock:
            yield self._by_lock[set_lock]

    def _forget_if_empty(self, lock: str) -> None:
        queue = self._by_lock[lock]
        if queue.shared or queue.exclusive:
            return
        del self._by_lock[lock]
        if (set_lock := set_lock_of(lock)) is not None:
            members = self._wanted_members[set_lock]
            del members[lock]
            if not members:
                del self._wanted_members[set_lock], self._by_set[set_lock]


def _insert_once(keys: list[Key], key: Key) -> None:
    place = bisect_left(keys, key)
    if keys[place : place + 1] != [key]:
        keys.insert(place, key)


def _remove(keys: list[Key], key: Key) -> None:
    place = bisect_left(keys, key)
    if keys[place : place + 1] == [key]:
        del keys[place]


def _may_pass(queue: Queue, gone: str) -> list[Key]:
    front = queue.exclusive[:1]
    if queue.shared and (not front or queue.shared[0] < front[0]):
        end = bisect_left(queue.shared, front[0]) if front else len(queue.shared)
        front = queue.shared[:end] if gone == EXCLUSIVE else []
    return front + queue.holding[bisect_right(queue.holding, front[-1]) if front else 0 :]

# SPDX-License-Identifier: BSD-2-Clause
"""The state of the lock table and what can be said about it: who is in whose way, and whether all is well."""

from collections.abc import Mapping

from ganeti.master.locks.effects import Effect
from ganeti.master.locks.holdings import Holdings, Obstacle
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.waiting import Key, Pending, Waiters
from ganeti.model.locks import EXCLUSIVE, RELEASE, lock_order

Request = Mapping[str, str]


class LockState:
    """Held locks and waiting requests. Reading only; the changes are `LockTable`, which notes them as effects."""

    def __init__(self) -> None:
        self._holdings = Holdings()
        self._waiters = Waiters()
        self._arrivals = 0
        self._effects: list[Effect] = []

    def take_effects(self) -> list[Effect]:
        """All that changed since this was asked last."""
        effects, self._effects = self._effects, []
        return effects

    # What is

    @property
    def arrivals(self) -> int:
        """How many requests have ever had to wait."""
        return self._arrivals

    def held(self, owner: Owner) -> dict[str, str]:
        """Lock to state, in lock order (S2.53)."""
        held = self._holdings.of(owner)
        return {lock: held[lock] for lock in sorted(held, key=lock_order)}

    def all_held(self) -> list[tuple[Owner, dict[str, str]]]:
        """Everyone who holds, with the locks in lock order."""
        return [(owner, self.held(owner)) for owner in self._holdings.by_owner]

    def locks(self) -> list[str]:
        """All locks held by anybody, in lock order."""
        return sorted(self._holdings.by_lock, key=lock_order)

    def holders(self, lock: str) -> list[tuple[Owner, str]]:
        return list(self._holdings.by_lock.get(lock, {}).items())

    def waiting(self) -> list[Pending]:
        """All waiting requests in the order in which they are served."""
        return self._waiters.in_order()

    def waiting_for(self, lock: str) -> list[Pending]:
        """The waiting requests that name this lock, in the order in which they are served."""
        return self._waiters.queued_for(lock)

    def pending(self, owner: Owner) -> Pending | None:
        return self._waiters.by_owner.get(owner)

    def has_pending(self, owner: Owner) -> bool:
        return owner in self._waiters.by_owner

    def owners(self) -> list[Owner]:
        """Everyone who holds or waits: those whose lock files are looked at."""
        return list(self._holdings.by_owner | self._waiters.by_owner)

    def owners_concerned(self) -> list[Owner]:
        """Everyone who waits, and everyone whose locks somebody waits for (or would, if they were exclusive)."""
        found = dict.fromkeys(self._waiters.by_owner)
        for lock in self._waiters.wanted():
            found |= dict.fromkeys(self._holdings.holders_about(lock))
        return list(found)

    def obstacles(self, owner: Owner, request: Request | None = None) -> list[Obstacle]:
        """Which held locks stand in the way of a request, or of the owner's waiting one; with their holders."""
        if request is None:
            pending = self._waiters.by_owner.get(owner)
            request = pending.wants if pending else {}
        return list(self._holdings.obstacles(owner, wants_of(request)))

    def ahead(self, owner: Owner) -> list[tuple[str, Pending]]:
        """The next waiting requests that the owner's own one lets go first, with the locks over which."""
        pending = self._waiters.by_owner.get(owner)
        return self.queued_behind(pending) if pending else []

    def all_ahead(self, owner: Owner) -> list[tuple[str, Pending]]:
        """As `ahead`, but with all requests that are served first, in serving order; each with one lock over which."""
        pending = self._waiters.by_owner.get(owner)
        return self._waiters.all_ahead(pending.key, pending.wants) if pending and self.queued_behind(pending) else []

    # Who is in the way

    def may_go(self, pending: Pending) -> bool:
        if next(self._holdings.obstacles(pending.owner, pending.wants), None) is not None:
            return False
        return not self.queued_behind(pending)

    def queued_behind(self, pending: Pending) -> list[tuple[str, Pending]]:
        """The requests ahead that a request queues behind; none while others wait for locks of its owner."""
        ahead = list(self._waiters.ahead(pending.key, pending.wants))
        if ahead and self._waiters.wanted_by_others(self._holdings.of(pending.owner), pending.key):
            return []
        return ahead

    def in_the_way(self, pending: Pending) -> tuple[Owner, ...]:
        """Those a waiting request waits for: holders; if there is none, requests ahead of it."""
        holders = self.holders_in_the_way(pending.owner, pending.wants)
        return holders or tuple(dict.fromkeys(other.owner for _, other in self.queued_behind(pending)))

    def holders_in_the_way(self, owner: Owner, request: Request) -> tuple[Owner, ...]:
        return tuple(dict.fromkeys(hit.holder for hit in self._holdings.obstacles(owner, wants_of(request))))

    def waiters_in_the_way(self, owner: Owner, key: Key, request: Request) -> tuple[Owner, ...]:
        if self._waiters.wanted_by_others(self._holdings.of(owner), key):
            return ()
        return tuple(dict.fromkeys(other.owner for _, other in self._waiters.ahead(key, wants_of(request))))

    # Keeping itself honest

    def check(self) -> None:
        """Raise `AssertionError` if one of the invariants at the head of `table` is broken."""
        for lock, states in self._holdings.by_lock.items():
            assert len(states) == 1 or EXCLUSIVE not in states.values(), f"{lock} is held twice"
        for owner, held in self._holdings.by_owner.items():
            assert held, f"{owner} is listed without locks"
            for lock, state in held.items():
                assert self._holdings.by_lock[lock][owner] == state, f"{lock} of {owner} is indexed wrongly"
            clash = next(self._holdings.obstacles(owner, held), None)
            assert clash is None, f"{owner} and {clash} hold conflicting locks"
        assert sum(map(len, self._holdings.by_lock.values())) == sum(map(len, self._holdings.by_owner.values()))
        edges = {}
        for pending in self._waiters.by_owner.values():
            holders = self.holders_in_the_way(pending.owner, pending.wants)
            edges[pending.owner] = (*holders, *(other.owner for _, other in self.queued_behind(pending)))
        for owner, blockers in edges.items():
            assert blockers, f"{owner} waits for nothing"
        _check_acyclic(edges)


def wants_of(request: Request) -> Request:
    return {lock: state for lock, state in request.items() if state != RELEASE}


def _check_acyclic(edges: Mapping[Owner, tuple[Owner, ...]]) -> None:
    settled = {owner for blockers in edges.values() for owner in blockers if owner not in edges}
    left = dict(edges)
    while left:
        free = [owner for owner, blockers in left.items() if settled.issuperset(blockers)]
        assert free, f"{', '.join(map(str, left))} wait for each other"
        settled.update(free)
        for owner in free:
            del left[owner]

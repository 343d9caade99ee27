# SPDX-License-Identifier: BSD-2-Clause
"""The lock table of the cluster: who holds what, who waits, who may go next. Pure: a call in, a `Change` out.

What always holds (`check`):
 1. Two owners never hold conflicting locks (`holdings`).
 2. No request waits without a reason: it is kept back by a holder, or by a request ahead that conflicts.
 3. Nobody waits for himself, over any number of others: the wait-for graph of waiting requests has no cycle.

Why 3 holds. Waiting for *holders* alone gives no cycle: what is asked for is greater than all that is held (S2.51), and
the one way around this, two owners that upgrade locks they share, is refused when the second one asks (S2.61). Waiting
for *requests ahead* alone gives none: (priority, rank, arrival) is one order over all locks. Mixed cycles would pass
through a request that waits for one ahead while somebody waits for locks its owner holds; such a request does not
queue behind others, it waits for holders only. It passes to get out of the way.

Why 2 holds. A request can become possible only when a lock is given up or weakened, when a request ahead goes away, or
when somebody begins to wait for what its owner holds. Each of these calls `_serve` with the locks concerned.

A call is all or nothing. `update` and the opportunistic calls look at holders only, as in 3.1; `update` with a priority
also respects those who wait.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ganeti.base.errors import LockError
from ganeti.master.locks.effects import Effect, EndsWaiting, HandsOver, Holds, Waits
from ganeti.master.locks.names import OrderRule, order_violation, strengthens
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.state import LockState, Request, wants_of
from ganeti.master.locks.waiting import Key, Pending
from ganeti.model.locks import EXCLUSIVE, RELEASE, SHARED, Level, lock_level, lock_order

_LAST = 2**62
_NOTHING: Request = {}


class Change(NamedTuple):
    """The effects of one call.

    blockers: empty if the caller has what it asked for; else those it waits for, or would have to.
    granted: waiting requests of other owners that have been granted by this call, in serving order: wake them.
    weakened: locks that somebody gave up or holds less strongly now: those parked elsewhere may try again.
    acquired: what an opportunistic call has got.
    """

    blockers: tuple[Owner, ...] = ()
    granted: tuple[Pending, ...] = ()
    weakened: tuple[str, ...] = ()
    acquired: tuple[str, ...] = ()


class Turn(NamedTuple):
    """The next request to look at in the queue of *lock*, and those after it."""

    key: Key
    lock: str
    others: Iterator[Key]

    def __lt__(self, other: tuple[object, ...]) -> bool:
        return self[:2] < other[:2]


class LockTable(LockState):
    """One call, one change. Requests are mappings from lock to state, see `names.read_request`."""

    # Asking for locks

    def update(self, owner: Owner, request: Request, priority: int | None = None) -> Change:
        """Change what the owner holds now, or say who is in the way (S2.51). Raises `LockError`, nothing changed.

        With a *priority*, those who wait with that priority or a better one are in the way too.
        """
        return self._try(owner, request, None if priority is None else (priority, _LAST, _LAST))

    def update_waiting(self, owner: Owner, priority: int, request: Request) -> Change:
        """As `update`, but a request that cannot be granted waits; one for each owner, and asking it again is harmless.

        Raises `LockOrderError` also when waiting would never end, because those waited for wait for the owner.
        """
        waiting = self._waiters.by_owner.get(owner)
        if waiting is not None and (waiting.priority, dict(waiting.request)) == (priority, dict(request)):
            return Change(self.in_the_way(waiting))
        arrival = self._arrivals + 1
        pending = self._as_pending(owner, priority, arrival, request)
        tried = self._try(owner, pending.request, pending.key)
        if not tried.blockers:
            return tried
        self._refuse_deadlock(owner, request)
        self._arrivals = arrival
        self._enqueue(pending)
        return self._seen_by(owner, self._serve({}, also=self._waiting_holders(pending)))

    def change_priority(self, owner: Owner, priority: int) -> Change:
        """Move a waiting request (S1.84); its arrival stays. Raises `LockError` if there is none."""
        if owner not in self._waiters.by_owner:
            raise LockError(f"{owner} waits for no lock, so there is no priority to change")
        old = self._waiters.remove(owner)
        pending = self._as_pending(owner, priority, old.arrival, old.request)
        self._enqueue(pending)
        return self._seen_by(owner, self._serve({}, also_at=pending.wants, also=[pending]))

    def cancel(self, owner: Owner) -> Change:
        """Withdraw the owner's waiting request, if it has one; what it holds stays."""
        return self._give_up([owner], {})

    def opportunistic_union(self, owner: Owner, request: Request, at_least: int = 0) -> Change:
        """Take what can be had at once and in order (S2.52); with fewer than *at_least* locks, none. Never fails.

        A waiting owner gets none here: locks taken out of turn could make others wait for ever.
        """
        if self.has_pending(owner):
            return Change()
        rule = OrderRule(self._holdings.of(owner))
        got = {
            lock: state
            for lock, state in request.items()
            if strengthens(rule.held, lock, state)
            and rule.violation(lock, state) is None
            and not self.holders_in_the_way(owner, {lock: state})
        }
        if len(got) < at_least:
            return Change()
        self._apply(owner, got)
        return Change(acquired=tuple(got))

    # Giving up locks: none of these fails

    def intersect(self, owner: Owner, keep: Iterable[str]) -> Change:
        """Keep only the given locks (S2.54)."""
        kept = set(keep)
        return self._release(owner, [lock for lock in self._holdings.of(owner) if lock not in kept])

    def free_level(self, owner: Owner, level: Level) -> Change:
        return self._release(owner, [lock for lock in self._holdings.of(owner) if lock_level(lock) is level])

    def downgrade_level(self, owner: Owner, level: Level) -> Change:
        """Hold the level's locks shared from now on."""
        return self._give_up([], {owner: {lock: SHARED for lock in self.held(owner) if lock_level(lock) is level}})

    def free(self, *owners: Owner) -> Change:
        """Give up all that the owners hold and wait for: they are done, or dead (S2.30)."""
        return self._give_up(owners, {owner: dict.fromkeys(self.held(owner), RELEASE) for owner in owners})

    def hand_over(self, old: Owner, new: Owner) -> Change:
        """Give the locks of a dead owner to its successor in one step (D5); what it waited for is withdrawn.

        Doing it again is harmless. Raises `LockError` if the successor already holds or waits for locks of its own.
        """
        if old == new or (old not in self._holdings.by_owner and not self.has_pending(old)):
            return Change()
        if new in self._holdings.by_owner or self.has_pending(new):
            raise LockError(f"{new} already has locks of its own and cannot take over those of {old}")
        if old in self._holdings.by_owner:
            self._holdings.hand_over(old, new)
            self._effects.append(HandsOver(old, new, self.held(new)))
        return self._give_up([old], {})

    @classmethod
    def restored(cls, held: Mapping[Owner, Request], waiting: Iterable[Pending], arrivals: int) -> "LockTable":
        """A table as it was before a restart; raises `AssertionError` if it never can have been so."""
        table = cls()
        table._arrivals = arrivals
        for owner, locks in held.items():
            table._apply(owner, locks)
        for pending in waiting:
            assert pending.arrival <= arrivals and not table.has_pending(pending.owner), f"{pending.owner} waits twice"
            table._enqueue(pending)
        table.check()
        table.take_effects()
        return table

    def redo(self, effect: Effect) -> None:
        """Do what another table has noted in `take_effects`; raises `AssertionError` if it cannot have been this one.

        The caller calls `check` at the end.
        """
        match effect:
            case Holds(owner, now, freed):
                request = {**now, **dict.fromkeys(freed, RELEASE)}
                self._apply(owner, {lock: request[lock] for lock in sorted(request, key=lock_order)})
            case Waits(pending):
                if self.has_pending(pending.owner):
                    self._waiters.remove(pending.owner)
                self._arrivals = max(self._arrivals, pending.arrival)
                self._enqueue(pending)
            case EndsWaiting(pending):
                self._waiters.remove(pending.owner)
            case HandsOver(old, new, locks):
                assert locks and new not in self._holdings.by_owner, f"{old} has nothing that {new} could take over"
                self._holdings.hand_over(old, new)
        self._effects.clear()

    # How

    def _try(self, owner: Owner, request: Request, key: Key | None) -> Change:
        """Grant the request if no holder is in the way, and with a *key* nobody who waits ahead of it."""
        rule = OrderRule(self._holdings.of(owner))
        asks_more = any(strengthens(rule.held, lock, state) for lock, state in request.items())
        if asks_more:
            self._refuse_if_waiting(owner)
            rule.check(request)
        blockers = self.holders_in_the_way(owner, request)
        if not blockers and key is not None and asks_more:
            blockers = self.waiters_in_the_way(owner, key, request)
        return Change(blockers) if blockers else self._serve(self._apply(owner, request))

    def _apply(self, owner: Owner, request: Request) -> dict[str, str]:
        """Carry out a request that nothing hinders; gives the locks that are weaker now, with their former states."""
        weakened = {}
        now, freed = {}, {}
        for lock, state in request.items():
            held = self._holdings.of(owner).get(lock)
            if state != RELEASE and held != state:
                self._holdings.put(owner, lock, state)
                now[lock] = state
            elif state == RELEASE and held is not None:
                self._holdings.drop(owner, lock)
                freed[lock] = held
            if held is not None and (state == RELEASE or (held, state) == (EXCLUSIVE, SHARED)):
                weakened[lock] = held
        if now or freed:
            self._effects.append(Holds(owner, now, freed))
        return weakened

    def _release(self, owner: Owner, locks: Iterable[str]) -> Change:
        return self._give_up([], {owner: dict.fromkeys(sorted(locks, key=lock_order), RELEASE)})

    def _give_up(self, withdraw: Sequence[Owner], requests: Mapping[Owner, Request]) -> Change:
        concerned: dict[str, str] = {}
        for owner in withdraw:
            if self.has_pending(owner):
                pending = self._waiters.remove(owner)
                self._effects.append(EndsWaiting(pending, granted=False))
                _add_stronger(concerned, pending.wants)
        weakened: dict[str, str] = {}
        for owner, request in requests.items():
            _add_stronger(weakened, self._apply(owner, request))
        return self._serve(weakened, also_at=concerned)

    def _as_pending(self, owner: Owner, priority: int, arrival: int, request: Request) -> Pending:
        ordered = {lock: request[lock] for lock in sorted(request, key=lock_order)}
        return Pending(owner, priority, self._waiters.rank_for(priority, arrival, wants_of(ordered)), arrival, ordered)

    def _enqueue(self, pending: Pending) -> None:
        self._waiters.add(pending, holds_locks=pending.owner in self._holdings.by_owner)
        self._effects.append(Waits(pending))

    def _waiting_holders(self, pending: Pending) -> list[Pending]:
        """Those in the way that wait themselves. Since somebody waits for them now, they no longer queue behind."""
        holders = self.holders_in_the_way(pending.owner, pending.wants)
        return [self._waiters.by_owner[holder] for holder in holders if self.has_pending(holder)]

    def _serve(self, weakened: Request, also_at: Request = _NOTHING, also: Iterable[Pending] = ()) -> Change:
        """Grant what has become possible by weaker locks, by withdrawn requests at *also_at*, or for *also*.

        Both mappings tell how strong the claim was that went away.
        """
        granted: list[Pending] = []
        all_weakened = dict.fromkeys(weakened)
        turns = [Turn(pending.key, "", iter(())) for pending in also]
        heapify(turns)
        for lock, state in weakened.items():
            if self._holdings.sharers(lock) < 2:
                self._add_turns(turns, lock, state)
        for lock, state in also_at.items():
            self._add_turns(turns, lock, state)
        while turns:
            key, lock, others = heappop(turns)
            if lock and self._holdings.held_exclusively(lock):
                continue  # nobody in this queue can pass
            if (following := next(others, None)) is not None:
                heappush(turns, Turn(following, lock, others))
            pending = self._waiters.at(key)
            if pending is None or not self.may_go(pending):
                continue
            self._waiters.remove(pending.owner)
            self._effects.append(EndsWaiting(pending, granted=True))
            granted.append(pending)
            for weaker, state in self._apply(pending.owner, pending.request).items():
                all_weakened[weaker] = None
                self._add_turns(turns, weaker, state)
        return Change(granted=tuple(granted), weakened=tuple(all_weakened))

    def _add_turns(self, turns: list[Turn], lock: str, gone: str) -> None:
        for name, keys in self._waiters.concerned(lock, gone):
            others = iter(keys)
            heappush(turns, Turn(next(others), name, others))

    def _seen_by(self, owner: Owner, change: Change) -> Change:
        """For the owner of a request just queued or moved: whether it is granted, or who is in the way."""
        waiting = self._waiters.by_owner.get(owner)
        others = tuple(pending for pending in change.granted if pending.owner != owner)
        return change._replace(blockers=self.in_the_way(waiting) if waiting else (), granted=others)

    def _refuse_if_waiting(self, owner: Owner) -> None:
        if (pending := self._waiters.by_owner.get(owner)) is not None:
            locks = ", ".join(pending.wants)
            raise LockError(f"{owner} already waits for {locks}: withdraw that request before asking for other locks")

    def _refuse_deadlock(self, owner: Owner, request: Request) -> None:
        """Follow holders that wait, and what they wait for, back to the owner (S2.61)."""
        if owner not in self._holdings.by_owner:
            return
        first = self.obstacles(owner, request)
        seen = {hit.holder: None for hit in first}
        trail = list(seen)
        while trail:
            for hit in self.obstacles(trail.pop()):
                if hit.holder == owner:
                    raise order_violation(first[0].wanted, hit.held)
                if hit.holder not in seen:
                    seen[hit.holder] = None
                    trail.append(hit.holder)


def _add_stronger(claims: dict[str, str], others: Request) -> None:
    """Add claims; what is claimed both ways is exclusive."""
    for lock, state in others.items():
        if claims.get(lock) != EXCLUSIVE:
            claims[lock] = state

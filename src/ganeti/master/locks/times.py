# SPDX-License-Identifier: BSD-2-Clause
"""Since when locks are held and requests wait, for people who ask why; decides nothing."""

from collections.abc import Iterable

from ganeti.master.locks.effects import Effect, EndsWaiting, HandsOver, Holds, Waits
from ganeti.master.locks.owners import Owner


class Times:
    """Seconds since the epoch. A lock that changes its state or its owner's attempt keeps its time."""

    def __init__(self) -> None:
        self.held: dict[Owner, dict[str, float]] = {}
        self.waiting: dict[Owner, float] = {}

    def note(self, effects: Iterable[Effect], now_s: float) -> None:
        for effect in effects:
            match effect:
                case Waits(pending):
                    self.waiting.setdefault(pending.owner, now_s)
                case EndsWaiting(pending):
                    self.waiting.pop(pending.owner, None)
                case HandsOver(old, new):
                    self.held[new] = self.held.pop(old, {})
                case Holds(owner, now, freed):
                    self._note_held(owner, now, freed, now_s)

    def held_since(self, owner: Owner, lock: str) -> float | None:
        return self.held.get(owner, {}).get(lock)

    def _note_held(self, owner: Owner, now: Iterable[str], freed: Iterable[str], now_s: float) -> None:
        times = self.held.setdefault(owner, {})
        for lock in now:
            times.setdefault(lock, now_s)
        for lock in freed:
            times.pop(lock, None)
        if not times:
            del self.held[owner]

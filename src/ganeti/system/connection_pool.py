# SPDX-License-Identifier: BSD-2-Clause
"""Connections that may be let go: how many there may be, for how long, and whose turn it is when there are too many.

Beyond the most, the oldest of the address that has most of them goes: nobody crowds out others by coming often.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Hashable
from typing import NamedTuple

_log = logging.getLogger(__name__)
_TELL_EVERY_S = 60.0


class _Member(NamedTuple):
    address: str
    since_s: float
    drop: Callable[[], None]


class Pool:
    """Connections in one state, oldest first; each may stay for *time_s*, or for as long as there is room."""

    def __init__(self, what: str, most: int, time_s: float | None = None) -> None:
        """*what* they are, in the plural, for the log."""
        self._what = what
        self._most = most
        self._time_s = time_s
        self._members: dict[Hashable, _Member] = {}
        self._of_address: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._told_s = float("-inf")

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._members

    def add(self, key: Hashable, address: str, drop: Callable[[], None]) -> None:
        """Take a new one; *drop* is called once it has to go, when it is no member any more."""
        if len(self._members) >= self._most:
            self._tell()
            self.drop_one()
        self._members[key] = _Member(address, asyncio.get_running_loop().time(), drop)
        self._of_address[address] += 1
        self._set_timer()

    def remove(self, key: Hashable) -> None:
        """It has gone, or is in another state now; one that is no member is fine."""
        self._take(key)

    def stir(self, key: Hashable) -> None:
        """It has done something, and is the newest again."""
        member = self._take(key)
        if member is not None:
            self.add(key, member.address, member.drop)

    def drop_one(self) -> bool:
        """Let the next one go; False if there is none."""
        if not self._members:
            return False
        ((crowding, _),) = self._of_address.most_common(1)
        self._drop(next(key for key, member in self._members.items() if member.address == crowding))
        return True

    def drop_all(self) -> None:
        while self._members:
            self._drop(next(iter(self._members)))

    def _drop(self, key: Hashable) -> None:
        member = self._take(key)
        if member is not None:
            member.drop()

    def _take(self, key: Hashable) -> _Member | None:
        member = self._members.pop(key, None)
        if member is not None:
            self._of_address[member.address] -= 1
            if not self._of_address[member.address]:
                del self._of_address[member.address]
            self._set_timer()
        return member

    def _set_timer(self) -> None:
        """One for all: the oldest is the first whose time is over."""
        if not self._members and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif self._members and self._timer is None and self._time_s is not None:
            oldest = next(iter(self._members.values()))
            self._timer = asyncio.get_running_loop().call_at(oldest.since_s + self._time_s, self._end_of_time)

    def _end_of_time(self) -> None:
        self._timer = None
        assert self._time_s is not None
        now_s = asyncio.get_running_loop().time()
        for key in [key for key, member in self._members.items() if member.since_s + self._time_s <= now_s]:
            self._drop(key)
        self._set_timer()

    def _tell(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._told_s >= _TELL_EVERY_S:
            self._told_s = now_s
            _log.warning("there are %d %s, which is the most: the oldest are let go", len(self._members), self._what)

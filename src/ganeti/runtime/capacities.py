# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's side of capacity: what is known of it, and what jobs had counted (S1.41, S1.53, S1.64).

A job asks what is known, has an allocator count the rest, and tells what came of it. That is kept only if this LuxiD
told the same job that it is missing, and nothing became less since: so nobody feeds the cache from outside (S1.43).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ganeti.base.errors import ExecutionError
from ganeti.master.cache.capacity_cache import groups_of
from ganeti.master.locks.owners import Owner
from ganeti.model.capacity import Capacity
from ganeti.model.promises import Promise
from ganeti.runtime.config_follower import ConfigFollower
from ganeti.runtime.promise_calls import list_promises
from ganeti.runtime.state_cache import StateCache
from ganeti.runtime.wconfd_client import WConfdClient

_FOLLOW_S = 10.0
_ASKED_MOST = 100
"""Jobs that were told what is missing and did not come back yet; of those that died nobody hears."""
Plain = dict[str, Any]
_Held = dict[str, list[Promise]]
"""Promises by the group of their nodes."""


class _Asked(NamedTuple):
    begun: int
    at_s: float
    questions: Mapping[str, Plain]
    promises: _Held


class Capacities:
    """Answers jobs, by the group."""

    def __init__(self, follower: ConfigFollower, wconfd: WConfdClient, cache: StateCache) -> None:
        self._follower = follower
        self._wconfd = wconfd
        self._cache = cache
        self._asked: dict[Owner, _Asked] = {}

    async def known(self, owner: Owner, questions: Mapping[str, Plain], *, cached: bool) -> dict[str, Capacity]:
        """What was counted before, by group; what is not there *owner* may have counted, and `keep`.

        Unless *cached*, nothing counts that was. Raises `GanetiError` where WConfD does not answer.
        """
        settled = await self._cache.settled() is not None
        begun, at_s = self._cache.capacity.begin(), self._cache.now_s()
        held = await self._held()
        found: dict[str, Capacity] = {}
        for group, question in questions.items() if settled and cached else ():
            capacity = self._cache.capacity.find(group, question, held.get(group, ()), at_s)
            if capacity is not None:
                found[group] = capacity
        missing = {group: question for group, question in questions.items() if group not in found}
        self._asked.pop(owner, None)
        if missing and settled:
            self._asked[owner] = _Asked(begun, at_s, missing, held)
            for oldest in list(self._asked)[:-_ASKED_MOST]:
                del self._asked[oldest]
        return found

    def keep(self, owner: Owner, counted: Mapping[str, Capacity]) -> list[str]:
        """Keep what *owner* had counted of what it was told is missing; gives the groups of which it is kept."""
        asked = self._asked.pop(owner, None)
        if asked is None:
            return []
        return [
            group
            for group, capacity in counted.items()
            if group in asked.questions
            and self._cache.capacity.keep(
                group,
                asked.questions[group],
                capacity,
                begun=asked.begun,
                promises=asked.promises.get(group, []),
                asked_at_s=asked.at_s,
            )
        ]

    async def _held(self) -> _Held:
        """What is promised now; what no promise shows any more is in our copy of the configuration by then."""
        promises = await list_promises(self._wconfd)
        if not await self._follower.reached(promises.position, _FOLLOW_S):
            raise ExecutionError("ganeti-luxid does not get the configuration from ganeti-wconfd: is that running?")
        held: _Held = {}
        for _, promise in promises.held:
            for group in groups_of(self._follower.configuration, promise.nodes):
                held.setdefault(group, []).append(promise)
        return held

# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's side of capacity: what is known of it, and what jobs had counted (S1.41, S1.53, S1.64).

A job asks what is known, has an allocator count the rest, and tells what came of it. That is kept only if this LuxiD
told the same job that it is missing, and nothing became less since: so nobody feeds the cache from outside (S1.43).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.reservation_calls import list_reservations
from ganeti.calls.serving import serves
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.queries.state_cache import StateCache
from ganeti.master.cache.capacity_cache import groups_of
from ganeti.master.cache.node_reports import FRESH_S
from ganeti.master.locks.owners import Owner
from ganeti.model.capacity import Capacity
from ganeti.model.reservations import Reservation
from ganeti.ports.luxid import KeepCapacity, KnownCapacity

_YOUNG_S = FRESH_S / 2
"""Reports as young as this serve for counting, which then has no need to renew them itself."""
_PENDING_MOST = 100
"""Jobs that were told what is missing and did not come back yet; of those that died nobody hears."""
Plain = dict[str, Any]
RenewReports = Callable[[Sequence[str], float | None], Awaitable[None]]
"""Has the nodes of these groups report unless their reports are as young; with None, anyway."""
_Held = dict[str, list[Reservation]]
"""Reservations by the group of their nodes."""


class _Pending(NamedTuple):
    begun: int
    at_s: float
    questions: Mapping[str, Plain]
    reservations: _Held


class Capacities:
    """Answers jobs, by the group."""

    def __init__(
        self, follower: ConfigFollower, wconfd: WConfdClient, cache: StateCache, renew_reports: RenewReports
    ) -> None:
        self._follower = follower
        self._wconfd = wconfd
        self._cache = cache
        self._renew_reports = renew_reports
        self._pending: dict[Owner, _Pending] = {}

    @serves(KnownCapacity)
    async def answer_known(self, asked: KnownCapacity) -> dict[str, Capacity]:
        return await self.known(Owner.from_wire(asked.client), asked.questions, cached=asked.cached)

    @serves(KeepCapacity)
    async def answer_keep(self, asked: KeepCapacity) -> list[str]:
        return self.keep(Owner.from_wire(asked.client), asked.counted)

    async def known(self, owner: Owner, questions: Mapping[str, Plain], *, cached: bool) -> dict[str, Capacity]:
        """What was counted before, by group; what is not there *owner* may have counted, and `keep`.

        Unless *cached*, nothing counts that was, and the nodes of all groups are asked. Nodes are asked before the
        counting begins: what they have less than before would else make void what is counted of it. Raises
        `GanetiError` where WConfD does not answer.
        """
        settled = await self._cache.settled() is not None
        found = await self._find(questions) if settled and cached else {}
        missing = {group: question for group, question in questions.items() if group not in found}
        self._pending.pop(owner, None)
        if missing:
            await self._renew_reports(list(missing), _YOUNG_S if cached else None)
        if missing and settled:
            begun, at_s = self._cache.capacity.begin(), self._cache.now_s()
            self._pending[owner] = _Pending(begun, at_s, missing, await self._held())
            for oldest in list(self._pending)[:-_PENDING_MOST]:
                del self._pending[oldest]
        return found

    async def _find(self, questions: Mapping[str, Plain]) -> dict[str, Capacity]:
        held, now_s = await self._held(), self._cache.now_s()
        kept = {
            group: self._cache.capacity.find(group, question, held.get(group, ()), now_s)
            for group, question in questions.items()
        }
        return {group: capacity for group, capacity in kept.items() if capacity is not None}

    def keep(self, owner: Owner, counted: Mapping[str, Capacity]) -> list[str]:
        """Keep what *owner* had counted of what it was told is missing; gives the groups of which it is kept."""
        asked = self._pending.pop(owner, None)
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
                reservations=asked.reservations.get(group, []),
                asked_at_s=asked.at_s,
            )
        ]

    async def _held(self) -> _Held:
        """What is reserved now; what no reservation shows any more is in our copy of the configuration by then."""
        reservations = await list_reservations(self._wconfd)
        await self._follower.follow(reservations.position)
        held: _Held = {}
        for _, reservation in reservations.held:
            for group in groups_of(self._follower.configuration, reservation.nodes):
                held.setdefault(group, []).append(reservation)
        return held

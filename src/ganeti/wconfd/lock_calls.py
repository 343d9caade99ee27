# SPDX-License-Identifier: BSD-2-Clause
"""The calls of WConfD's socket about locks: those of 3.1 (protocols, section 3), and those of the job engine."""

from collections.abc import Awaitable, Callable
from typing import Any

from ganeti.base.errors import GanetiError, LockError
from ganeti.calls.serving import serves
from ganeti.master.locks import asking
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.state import wants_of
from ganeti.system.livelock import attempt_of, is_alive
from ganeti.wconfd.arguments import (
    Client,
    Clients,
    Count,
    Former,
    Living,
    LockLevel,
    LockNames,
    LockQuestions,
    Locks,
    Priority,
    Timeout,
    no_locks_for,
    read_locks,
    read_number,
)
from ganeti.wconfd.locks import LockService
from ganeti.wconfd.reservations import ReservationService

VOID: list[Any] = []


class LockCalls:
    """The locks."""

    def __init__(
        self,
        locks: LockService,
        reservations: ReservationService,
        supersede: Callable[[int, int], Awaitable[None]],
        clean_up: Callable[[], Awaitable[None]],
    ) -> None:
        """*supersede* (job, attempt) has no earlier attempt of a job change anything any more."""
        self._locks = locks
        self._reservations = reservations
        self._table = locks.table
        self._supersede = supersede
        self._clean_up = clean_up

    @serves("listLocks")
    async def list_locks(self, client: Client) -> Any:
        return list(self._table.held(client).items())

    @serves("listAllLocks")
    async def list_all_locks(self) -> Any:
        return self._table.locks()

    @serves("listAllLocksOwners")
    async def list_all_locks_owners(self) -> Any:
        return [
            [lock, [[owner.to_wire(), state] for owner, state in self._table.holders(lock)]]
            for lock in self._table.locks()
        ]

    @serves("listLocksWaitingStatus")
    async def list_locks_waiting_status(self) -> Any:
        waiting = [
            [pending.priority, pending.owner.to_wire(), list(pending.request.items())]
            for pending in self._table.waiting()
        ]
        return [[owner.to_wire() for owner in self._table.owners()], waiting]

    @serves("tryUpdateLocks")
    async def try_update_locks(self, client: Living, request: Locks) -> Any:
        change = self._table.update(client, request)
        if wants_of(request):
            await self._locks.apply(change)
        else:
            await self._locks.give_up(change)
        return [blocker.to_wire() for blocker in change.blockers]

    @serves("updateLocksWaiting")
    async def update_locks_waiting(self, client: Living, priority: Priority, request: Locks) -> Any:
        change = await self._locks.apply(self._table.update_waiting(client, priority, request))
        return [blocker.to_wire() for blocker in change.blockers]

    @serves("waitLocks")
    async def wait_locks(self, client: Living, priority: Priority, request: Locks) -> Any:
        await self._locks.wait(client, priority, request)
        return VOID

    @serves("cancelLockRequest")
    async def cancel_lock_request(self, client: Client) -> Any:
        await self._locks.cancel(client)
        return VOID

    @serves("handOverLocks")
    async def hand_over_locks(self, old: Client, new: Client) -> Any:
        await self._locks.hand_over(old, new)
        if isinstance(new.name, int) and (attempt := attempt_of(new.lock_file)) is not None:
            await self._supersede(new.name, attempt)
        return VOID

    @serves("freeLocks")
    async def free_locks(self, client: Client) -> Any:
        """An owner that frees all its locks has ended or begins anew: its reserved room is freed as well."""
        self._reservations.drop(client)
        await self._locks.free(client)
        return VOID

    @serves("freeLocksLevel")
    async def free_locks_level(self, client: Client, level: LockLevel) -> Any:
        await self._locks.give_up(self._table.free_level(client, level))
        return VOID

    @serves("downGradeLocksLevel")
    async def down_grade_locks_level(self, client: Client, level: LockLevel) -> Any:
        await self._locks.give_up(self._table.downgrade_level(client, level))
        return VOID

    @serves("intersectLocks")
    async def intersect_locks(self, client: Client, keep: LockNames) -> Any:
        await self._locks.give_up(self._table.intersect(client, keep))
        return VOID

    @serves("opportunisticLockUnion")
    async def opportunistic_lock_union(self, client: Living, request: Locks) -> Any:
        return await self.guarded_opportunistic_lock_union(0, client, request)

    @serves("guardedOpportunisticLockUnion")
    async def guarded_opportunistic_lock_union(self, count: Count, client: Living, request: Locks) -> Any:
        union = self._table.opportunistic_union(client, request, count)
        return (await self._locks.apply(union)).acquired

    @serves("opportunisticLockUnionWaiting")
    async def opportunistic_lock_union_waiting(
        self, count: Count, timeout_s: Timeout, client: Living, request: Locks
    ) -> Any:
        return await self._locks.take_some(client, request, count, timeout_s)

    @serves("hasPendingRequest")
    async def has_pending_request(self, client: Client) -> Any:
        return self._table.has_pending(client)

    @serves("cleanupLocks")
    async def cleanup_locks(self) -> Any:
        await self._clean_up()
        return VOID

    # Waiting without a process: LuxiD asks in the name of its jobs, their processes claim

    @serves("askLocks")
    async def ask_locks(self, items: LockQuestions) -> Any:
        """Answer each ``[client, priority, request]``: granted now, waiting behind whom, or refused."""
        alive: dict[str, bool] = {}
        answers = [self._ask_one(item, alive) for item in items]
        await self._locks.saved()
        return answers

    @serves("withdrawLocks")
    async def withdraw_locks(self, clients: Clients) -> Any:
        await self._locks.free(*clients)
        return VOID

    @serves("changeLockPriority")
    async def change_lock_priority(self, client: Client, priority: Priority) -> Any:
        return await self._locks.change_priority(client, priority)

    @serves("claimLocks")
    async def claim_locks(self, old: Former, new: Living, priority: Priority, request: Locks) -> Any:
        change, error = await self._locks.claim(old, new, priority, request)
        if error is not None:
            raise error
        return [blocker.to_wire() for blocker in change.blockers]

    @serves("explainLocks")
    async def explain_locks(self, client: Client) -> Any:
        return asking.explain(self._locks.table, self._locks.times, client)

    def _ask_one(self, item: Any, alive: dict[str, bool]) -> dict[str, Any]:
        try:
            if not (isinstance(item, list) and len(item) == 3):
                raise LockError(f"{item!r} asks for nothing: write [client, priority, request]")
            owner, priority, request = Owner.from_wire(item[0]), read_number(item[1], "priority"), read_locks(item[2])
            if owner.lock_file not in alive:
                alive[owner.lock_file] = is_alive(owner.lock_file)
            if not alive[owner.lock_file]:
                raise no_locks_for(owner)
            change, error = self._locks.ask(owner, priority, request)
            if error is not None:
                raise error
        except GanetiError as err:
            return {"error": err.to_wire()}
        return {"blockers": [blocker.to_wire() for blocker in change.blockers]}

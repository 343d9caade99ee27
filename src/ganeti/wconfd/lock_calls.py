# SPDX-License-Identifier: BSD-2-Clause
"""The calls of WConfD's socket that are about locks: those of 3.1 (protocols, section 3), and those of the job engine.

The public methods are the calls: `list_all_locks` answers ``listAllLocks``.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from ganeti.base.errors import GanetiError, LockError
from ganeti.master.locks import asking
from ganeti.master.locks.names import read_level
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.state import wants_of
from ganeti.system.livelock import attempt_of, is_alive
from ganeti.wconfd.arguments import (
    no_locks_for,
    read_living,
    read_locks,
    read_names,
    read_number,
    read_seconds,
)
from ganeti.wconfd.locks import LockService
from ganeti.wconfd.promises import PromiseService

VOID: list[Any] = []


class LockCalls:
    """The locks."""

    def __init__(
        self,
        locks: LockService,
        promises: PromiseService,
        supersede: Callable[[int, int], Awaitable[None]],
        clean_up: Callable[[], Awaitable[None]],
    ) -> None:
        """*supersede* (job, attempt) has no earlier attempt of a job change anything any more."""
        self._locks = locks
        self._promises = promises
        self._table = locks.table
        self._supersede = supersede
        self._clean_up = clean_up

    async def list_locks(self, client: Any) -> Any:
        return list(self._table.held(Owner.from_wire(client)).items())

    async def list_all_locks(self) -> Any:
        return self._table.locks()

    async def list_all_locks_owners(self) -> Any:
        return [
            [lock, [[owner.to_wire(), state] for owner, state in self._table.holders(lock)]]
            for lock in self._table.locks()
        ]

    async def list_locks_waiting_status(self) -> Any:
        waiting = [
            [pending.priority, pending.owner.to_wire(), list(pending.request.items())]
            for pending in self._table.waiting()
        ]
        return [[owner.to_wire() for owner in self._table.owners()], waiting]

    async def try_update_locks(self, client: Any, request: Any) -> Any:
        owner, wanted = read_living(client), read_locks(request)
        change = self._table.update(owner, wanted)
        if wants_of(wanted):
            await self._locks.apply(change)
        else:
            await self._locks.give_up(change)
        return [blocker.to_wire() for blocker in change.blockers]

    async def update_locks_waiting(self, client: Any, priority: Any, request: Any) -> Any:
        level = read_number(priority, "priority")
        change = await self._locks.apply(self._table.update_waiting(read_living(client), level, read_locks(request)))
        return [blocker.to_wire() for blocker in change.blockers]

    async def wait_locks(self, client: Any, priority: Any, request: Any) -> Any:
        await self._locks.wait(read_living(client), read_number(priority, "priority"), read_locks(request))
        return VOID

    async def cancel_lock_request(self, client: Any) -> Any:
        await self._locks.cancel(Owner.from_wire(client))
        return VOID

    async def hand_over_locks(self, old: Any, new: Any) -> Any:
        successor = Owner.from_wire(new)
        await self._locks.hand_over(Owner.from_wire(old), successor)
        if isinstance(successor.name, int) and (attempt := attempt_of(successor.lock_file)) is not None:
            await self._supersede(successor.name, attempt)
        return VOID

    async def free_locks(self, client: Any) -> Any:
        """Whoever frees all its locks has ended or begins anew: it needs no room any more either."""
        owner = Owner.from_wire(client)
        self._promises.drop(owner)
        await self._locks.free(owner)
        return VOID

    async def free_locks_level(self, client: Any, level: Any) -> Any:
        await self._locks.give_up(self._table.free_level(Owner.from_wire(client), read_level(level)))
        return VOID

    async def down_grade_locks_level(self, client: Any, level: Any) -> Any:
        await self._locks.give_up(self._table.downgrade_level(Owner.from_wire(client), read_level(level)))
        return VOID

    async def intersect_locks(self, client: Any, keep: Any) -> Any:
        await self._locks.give_up(self._table.intersect(Owner.from_wire(client), read_names(keep)))
        return VOID

    async def opportunistic_lock_union(self, client: Any, request: Any) -> Any:
        return await self.guarded_opportunistic_lock_union(0, client, request)

    async def guarded_opportunistic_lock_union(self, count: Any, client: Any, request: Any) -> Any:
        wanted = read_locks(request)
        union = self._table.opportunistic_union(read_living(client), wanted, read_number(count, "count"))
        return (await self._locks.apply(union)).acquired

    async def opportunistic_lock_union_waiting(self, count: Any, timeout_s: Any, client: Any, request: Any) -> Any:
        at_least, seconds = read_number(count, "count"), read_seconds(timeout_s, "timeout")
        return await self._locks.take_some(read_living(client), read_locks(request), at_least, seconds)

    async def has_pending_request(self, client: Any) -> Any:
        return self._table.has_pending(Owner.from_wire(client))

    async def cleanup_locks(self) -> Any:
        await self._clean_up()
        return VOID

    # Waiting without a process: LuxiD asks in the name of its jobs, their processes claim

    async def ask_locks(self, items: Any) -> Any:
        """Answer each ``[client, priority, request]``: granted now, waiting behind whom, or refused."""
        if not isinstance(items, list):
            raise GanetiError("askLocks takes a list of [client, priority, request]")
        alive: dict[str, bool] = {}
        answers = [self._ask_one(item, alive) for item in items]
        await self._locks.saved()
        return answers

    async def withdraw_locks(self, clients: Any) -> Any:
        if not isinstance(clients, list):
            raise GanetiError("withdrawLocks takes a list of clients")
        await self._locks.free(*map(Owner.from_wire, clients))
        return VOID

    async def change_lock_priority(self, client: Any, priority: Any) -> Any:
        return await self._locks.change_priority(Owner.from_wire(client), read_number(priority, "priority"))

    async def claim_locks(self, old: Any, new: Any, priority: Any, request: Any) -> Any:
        former = None if old is None else Owner.from_wire(old)
        wanted, level = read_locks(request), read_number(priority, "priority")
        change, error = await self._locks.claim(former, read_living(new), level, wanted)
        if error is not None:
            raise error
        return [blocker.to_wire() for blocker in change.blockers]

    async def explain_locks(self, client: Any) -> Any:
        return asking.explain(self._locks.table, self._locks.times, Owner.from_wire(client))

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

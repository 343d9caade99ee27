# SPDX-License-Identifier: BSD-2-Clause
"""What each call of WConfD's socket does with its arguments, and how these are read.

The public methods are the calls: `list_all_locks` answers ``listAllLocks``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ganeti.base.errors import ConfigVerifyError, GanetiError, LockError
from ganeti.master.config.invariants import verify_all
from ganeti.master.config.records import Position
from ganeti.master.locks.names import read_level, read_request
from ganeti.master.locks.owners import Owner
from ganeti.ports.config import Change
from ganeti.runtime.config_view import ConfigReader
from ganeti.runtime.livelock import attempt_of, is_alive
from ganeti.runtime.publisher import Publisher
from ganeti.runtime.wconfd_commits import Committer, JobStep
from ganeti.runtime.wconfd_locks import LockService

_log = logging.getLogger(__name__)
VOID: list[Any] = []
_LARGEST_NUMBER = 2**62
Call = Callable[..., Awaitable[Any]]


@dataclass
class Parts:
    """What the calls work on."""

    committer: Committer
    locks: LockService
    publisher: Publisher
    database: str
    clean_up: Callable[[], Awaitable[None]]


def calls_of(parts: Parts) -> dict[str, Call]:
    """All calls by the names they have on the socket."""
    table: dict[str, Call] = {}
    for calls in (ConfigCalls(parts), LockCalls(parts)):
        for name, method in vars(type(calls)).items():
            if not name.startswith("_") and callable(method):
                first, *others = name.split("_")
                table[first + "".join(map(str.capitalize, others))] = getattr(calls, name)
    return table


class ConfigCalls:
    """The configuration."""

    def __init__(self, parts: Parts) -> None:
        self._committer = parts.committer
        self._publisher = parts.publisher
        self._database = parts.database

    async def echo(self, text: Any) -> Any:
        return text

    async def commit(self, owner: Any, step: Any, name: Any, fields: Any, settles: Any) -> Any:
        job_step = read_step(owner, step, settles)
        change = read_change(name, fields)
        if not is_alive(job_step.lock_file):
            raise LockError(f"{job_step} is refused: nobody holds its lock file {job_step.lock_file}")
        return msgspec.Raw(await self._committer.commit(job_step, change))

    async def last_step(self, job: Any) -> Any:
        return self._committer.steps.last_settling(read_number(job, "job id"))

    async def position(self) -> Any:
        return self._committer.form.position

    async def wait_published(self, wanted: Any) -> Any:
        await self._publisher.wait_published(read_position(wanted))
        return VOID

    async def read_config(self) -> Any:
        parts_of_file = self._committer.form.config_parts()
        return msgspec.Raw(await asyncio.to_thread(b"".join, parts_of_file))

    async def verify_config(self) -> Any:
        problems = await asyncio.to_thread(_verify, self._database)
        if problems:
            raise ConfigVerifyError(f"The configuration has {len(problems)} problems", problems)
        return VOID

    async def flush_config(self) -> Any:
        await self._publisher.flush()
        return VOID

    async def prepare_cluster_destruction(self, client: Any) -> Any:
        owner = Owner.from_wire(client)
        _log.info("%s prepares the end of the cluster: nothing is published any more", owner)
        self._publisher.stop_publishing()
        return VOID


class LockCalls:
    """The locks."""

    def __init__(self, parts: Parts) -> None:
        self._locks = parts.locks
        self._table = parts.locks.table
        self._committer = parts.committer
        self._clean_up = parts.clean_up

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
        change = await self._locks.apply(self._table.update(read_living(client), read_locks(request)))
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
            self._committer.steps.supersede(successor.name, attempt)
        return VOID

    async def free_locks(self, client: Any) -> Any:
        await self._locks.free(Owner.from_wire(client))
        return VOID

    async def free_locks_level(self, client: Any, level: Any) -> Any:
        await self._locks.apply(self._table.free_level(Owner.from_wire(client), read_level(level)))
        return VOID

    async def down_grade_locks_level(self, client: Any, level: Any) -> Any:
        await self._locks.apply(self._table.downgrade_level(Owner.from_wire(client), read_level(level)))
        return VOID

    async def intersect_locks(self, client: Any, keep: Any) -> Any:
        await self._locks.apply(self._table.intersect(Owner.from_wire(client), read_names(keep)))
        return VOID

    async def opportunistic_lock_union(self, client: Any, request: Any) -> Any:
        return await self.guarded_opportunistic_lock_union(0, client, request)

    async def guarded_opportunistic_lock_union(self, count: Any, client: Any, request: Any) -> Any:
        wanted = read_locks(request)
        union = self._table.opportunistic_union(read_living(client), wanted, read_number(count, "count"))
        return (await self._locks.apply(union)).acquired

    async def has_pending_request(self, client: Any) -> Any:
        return self._table.has_pending(Owner.from_wire(client))

    async def cleanup_locks(self) -> Any:
        await self._clean_up()
        return VOID


def read_living(client: Any) -> Owner:
    """Read who asks for locks; a request that a dead process has left in its socket is refused (S2.28)."""
    owner = Owner.from_wire(client)
    if not is_alive(owner.lock_file):
        raise LockError(f"{owner} gets no locks: nobody holds its lock file {owner.lock_file}")
    return owner


def read_locks(request: Any) -> dict[str, str]:
    if not isinstance(request, list) or not all(isinstance(element, list) for element in request):
        raise LockError("A lock request must be a list of [lock, state]")
    return read_request(request)


def read_names(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise LockError("The locks to keep must be a list of names")
    return names


def read_number(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST_NUMBER:
        raise GanetiError(f"The {what} must be a whole number, not {value!r}")
    return value


def read_position(value: Any) -> Position:
    match value:
        case [int() as epoch, int() as serial]:
            return epoch, serial
    raise GanetiError(f"{value!r} is not a position: write [epoch, serial]")


def read_step(owner: Any, step: Any, settles: Any) -> JobStep:
    match owner, settles:
        case [job, str() as lock_file, attempt], bool():
            numbers = read_number(job, "job id"), read_number(attempt, "attempt"), read_number(step, "step")
            return JobStep(*numbers, lock_file, settles)
    raise GanetiError("A commit needs [job id, lock file, attempt], step, change name, fields, settles (true or false)")


def read_change(name: Any, fields: Any) -> Change:
    """Decode a change strictly; raises `GanetiError` naming the field."""
    cls = Change.registry.get(name) if isinstance(name, str) else None
    if cls is None:
        raise GanetiError(f"There is no change of the configuration called {name!r}")
    if not isinstance(fields, dict):
        raise GanetiError(f"The fields of the change {name} must be an object")
    unknown = sorted(set(fields) - set(cls.__struct_fields__))
    if unknown:
        raise GanetiError(f"The change {name} has no field '{unknown[0]}'")
    try:
        return msgspec.convert(fields, cls)
    except msgspec.ValidationError as err:
        raise GanetiError(f"The change {name} cannot be read: {err}") from err


def _verify(database: str) -> list[str]:
    with ConfigReader(database).view() as view:
        return verify_all(view)

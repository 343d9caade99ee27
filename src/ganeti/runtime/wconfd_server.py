# SPDX-License-Identifier: BSD-2-Clause
"""The calls of WConfD's socket (protocols, section 3, and `docs/architecture.md`).

A request is ``{"method", "args"}``, an answer ``{"success", "result"}``; calls of one connection are answered in order.
Whatever a client sends, it gets an error and the others notice nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ganeti.base.errors import ConfigVerifyError, GanetiError, LockError, TransportError
from ganeti.master.config.invariants import verify_all
from ganeti.master.config.records import Position
from ganeti.master.config.stream import snapshot_of
from ganeti.master.locks.names import read_level, read_request
from ganeti.master.locks.owners import Owner
from ganeti.ports.config import Change
from ganeti.runtime.config_view import ConfigReader
from ganeti.runtime.livelock import attempt_of, is_alive
from ganeti.runtime.publisher import Publisher
from ganeti.runtime.wconfd_commits import Committer, JobStep
from ganeti.runtime.wconfd_locks import LockService
from ganeti.wire.framing import Connection, MessageTooLong, decode
from ganeti.wire.framing_sync import END

_log = logging.getLogger(__name__)
_SEND_TIMEOUT_S = 60.0
_SUBSCRIBER_LAG_BYTES = 64 * 1024 * 1024
VOID: list[Any] = []


class Request(msgspec.Struct, forbid_unknown_fields=True):
    method: str
    args: list[Any] = []


@dataclass
class Parts:
    """What the calls work on."""

    committer: Committer
    locks: LockService
    publisher: Publisher
    database: str
    clean_up: Callable[[], Awaitable[None]]


class Server:
    """Answers one socket; `serve` is run for each connection."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._subscribers: dict[Connection, None] = {}
        self._calls: dict[str, Callable[..., Awaitable[Any]]] = {
            **config_calls(parts),
            **lock_calls(parts),
        }

    def tell(self, event: bytes | None) -> None:
        """Send a commit to all subscribers; those who do not read are dropped and come back with their position."""
        for subscriber in list(self._subscribers):
            if event is None or subscriber.unsent_bytes > _SUBSCRIBER_LAG_BYTES:
                _log.warning("A subscriber is dropped: %s", "it must begin anew" if event is None else "it lags")
                self._drop(subscriber)
                continue
            try:
                subscriber.send_soon(event + END)
            except TransportError:
                self._drop(subscriber)

    async def serve(self, connection: Connection) -> None:
        while True:
            try:
                data = await connection.receive_bytes()
            except MessageTooLong as err:
                await self._answer(connection, _failure(err))
                return
            if data is None:
                return
            try:
                request = _read_request(data)
                if request.method == "subscribe":
                    await self._subscribe(connection, request)
                    return
                answer = {"success": True, "result": await self._call(request)}
            except GanetiError as err:
                answer = _failure(err)
            except Exception as err:
                _log.exception("A call failed by a fault of its own")
                answer = _failure(GanetiError(f"The call failed by a fault of its own: {type(err).__name__}: {err}"))
            await self._answer(connection, answer)

    async def _call(self, request: Request) -> Any:
        call = self._calls.get(request.method)
        if call is None:
            raise GanetiError(f"No such method: {request.method}")
        expected = _argument_count(call)
        if len(request.args) != expected:
            raise GanetiError(f"{request.method} takes {expected} arguments, not {len(request.args)}")
        return await call(*request.args)

    async def _answer(self, connection: Connection, answer: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(_SEND_TIMEOUT_S):
                await connection.send(answer)
        except TimeoutError as err:
            raise TransportError("The client does not take its answer") from err

    async def _subscribe(self, connection: Connection, request: Request) -> None:
        """Turn the connection into a stream: what was missed, then every commit, until the client goes."""
        if len(request.args) != 1:
            raise GanetiError("subscribe takes 1 argument, the position after which to begin")
        position = read_position(request.args[0])
        committer = self._parts.committer
        missed = committer.stream.since(position)
        if missed is None:
            form = committer.form
            missed = [snapshot_of(form.position, b"".join(form.config_parts()))]
        for event in missed:
            connection.send_soon(event + END)
        self._subscribers[connection] = None
        try:
            while await connection.receive_bytes() is not None:
                pass
        finally:
            self._subscribers.pop(connection, None)

    def _drop(self, subscriber: Connection) -> None:
        self._subscribers.pop(subscriber, None)
        subscriber.abort()


def config_calls(parts: Parts) -> dict[str, Callable[..., Awaitable[Any]]]:
    committer, publisher = parts.committer, parts.publisher

    async def echo(text: Any) -> Any:
        return text

    async def commit(owner: Any, step: Any, name: Any, fields: Any, settles: Any) -> Any:
        job_step = read_step(owner, step, settles)
        change = read_change(name, fields)
        if not is_alive(job_step.lock_file):
            raise LockError(f"{job_step} is refused: nobody holds its lock file {job_step.lock_file}")
        return msgspec.Raw(await committer.commit(job_step, change))

    async def last_step(job: Any) -> Any:
        return committer.steps.last_settling(read_number(job, "job id"))

    async def position() -> Any:
        return committer.form.position

    async def wait_published(wanted: Any) -> Any:
        await publisher.wait_published(read_position(wanted))
        return VOID

    async def read_config() -> Any:
        parts_of_file = committer.form.config_parts()
        return msgspec.Raw(await asyncio.to_thread(b"".join, parts_of_file))

    async def verify_config() -> Any:
        problems = await asyncio.to_thread(_verify, parts.database)
        if problems:
            raise ConfigVerifyError(f"The configuration has {len(problems)} problems", problems)
        return VOID

    async def flush_config() -> Any:
        await publisher.flush()
        return VOID

    async def prepare_cluster_destruction(client: Any) -> Any:
        owner = Owner.from_wire(client)
        _log.info("%s prepares the end of the cluster: nothing is published any more", owner)
        publisher.stop_publishing()
        return VOID

    return {
        "echo": echo,
        "commit": commit,
        "lastStep": last_step,
        "position": position,
        "waitPublished": wait_published,
        "readConfig": read_config,
        "verifyConfig": verify_config,
        "flushConfig": flush_config,
        "prepareClusterDestruction": prepare_cluster_destruction,
    }


def lock_calls(parts: Parts) -> dict[str, Callable[..., Awaitable[Any]]]:
    locks = parts.locks
    table = locks.table

    async def list_locks(client: Any) -> Any:
        return list(table.held(Owner.from_wire(client)).items())

    async def list_all_locks() -> Any:
        return table.locks()

    async def list_all_locks_owners() -> Any:
        return [[lock, [[owner.to_wire(), state] for owner, state in table.holders(lock)]] for lock in table.locks()]

    async def list_locks_waiting_status() -> Any:
        waiting = [
            [pending.priority, pending.owner.to_wire(), list(pending.request.items())] for pending in table.waiting()
        ]
        return [[owner.to_wire() for owner in table.owners()], waiting]

    async def try_update_locks(client: Any, request: Any) -> Any:
        change = await locks.apply(table.update(Owner.from_wire(client), read_locks(request)))
        return [blocker.to_wire() for blocker in change.blockers]

    async def update_locks_waiting(client: Any, priority: Any, request: Any) -> Any:
        level = read_number(priority, "priority")
        change = await locks.apply(table.update_waiting(Owner.from_wire(client), level, read_locks(request)))
        return [blocker.to_wire() for blocker in change.blockers]

    async def wait_locks(client: Any, priority: Any, request: Any) -> Any:
        await locks.wait(Owner.from_wire(client), read_number(priority, "priority"), read_locks(request))
        return VOID

    async def cancel_lock_request(client: Any) -> Any:
        await locks.cancel(Owner.from_wire(client))
        return VOID

    async def hand_over_locks(old: Any, new: Any) -> Any:
        successor = Owner.from_wire(new)
        await locks.hand_over(Owner.from_wire(old), successor)
        if isinstance(successor.name, int) and (attempt := attempt_of(successor.lock_file)) is not None:
            parts.committer.steps.supersede(successor.name, attempt)
        return VOID

    async def free_locks(client: Any) -> Any:
        await locks.free(Owner.from_wire(client))
        return VOID

    async def free_locks_level(client: Any, level: Any) -> Any:
        await locks.apply(table.free_level(Owner.from_wire(client), read_level(level)))
        return VOID

    async def down_grade_locks_level(client: Any, level: Any) -> Any:
        await locks.apply(table.downgrade_level(Owner.from_wire(client), read_level(level)))
        return VOID

    async def intersect_locks(client: Any, keep: Any) -> Any:
        await locks.apply(table.intersect(Owner.from_wire(client), read_names(keep)))
        return VOID

    async def opportunistic_lock_union(client: Any, request: Any) -> Any:
        return await guarded_opportunistic_lock_union(0, client, request)

    async def guarded_opportunistic_lock_union(count: Any, client: Any, request: Any) -> Any:
        wanted = read_locks(request)
        union = table.opportunistic_union(Owner.from_wire(client), wanted, read_number(count, "count"))
        return (await locks.apply(union)).acquired

    async def has_pending_request(client: Any) -> Any:
        return table.has_pending(Owner.from_wire(client))

    async def cleanup_locks() -> Any:
        await parts.clean_up()
        return VOID

    return {
        "listLocks": list_locks,
        "listAllLocks": list_all_locks,
        "listAllLocksOwners": list_all_locks_owners,
        "listLocksWaitingStatus": list_locks_waiting_status,
        "tryUpdateLocks": try_update_locks,
        "updateLocksWaiting": update_locks_waiting,
        "waitLocks": wait_locks,
        "cancelLockRequest": cancel_lock_request,
        "handOverLocks": hand_over_locks,
        "freeLocks": free_locks,
        "freeLocksLevel": free_locks_level,
        "downGradeLocksLevel": down_grade_locks_level,
        "intersectLocks": intersect_locks,
        "opportunisticLockUnion": opportunistic_lock_union,
        "guardedOpportunisticLockUnion": guarded_opportunistic_lock_union,
        "hasPendingRequest": has_pending_request,
        "cleanupLocks": cleanup_locks,
    }


def read_locks(request: Any) -> dict[str, str]:
    if not isinstance(request, list) or not all(isinstance(element, list) for element in request):
        raise LockError("A lock request must be a list of [lock, state]")
    return read_request(request)


def read_names(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise LockError("The locks to keep must be a list of names")
    return names


def read_number(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise GanetiError(f"The {what} must be a whole number, not {value!r}")
    return value


def read_position(value: Any) -> Position:
    match value:
        case [int() as epoch, int() as serial]:
            return epoch, serial
    raise GanetiError(f"{value!r} is not a position: write [epoch, serial]")


def read_step(owner: Any, step: Any, settles: Any) -> JobStep:
    match owner, settles:
        case [int() as job, str() as lock_file, int() as attempt], bool():
            return JobStep(job, attempt, read_number(step, "step"), lock_file, settles)
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


def _read_request(data: bytes) -> Request:
    try:
        return msgspec.convert(decode(data), Request)
    except (msgspec.ValidationError, TransportError) as err:
        raise GanetiError(f'This is not a request ({err}): write {{"method": name, "args": [...]}}') from err


def _failure(error: GanetiError) -> dict[str, Any]:
    return {"success": False, "result": error.to_wire()}


def _argument_count(call: Callable[..., Any]) -> int:
    code = call.__code__
    return int(code.co_argcount)


def _verify(database: str) -> list[str]:
    with ConfigReader(database).view() as view:
        return verify_all(view)

# SPDX-License-Identifier: BSD-2-Clause
"""Calling WConfD: the configuration port of jobs, and their locks.

WConfD may be restarted at any moment: calls connect again and repeat until a deadline. Repeating is harmless: a
commit repeats its step number and gets its first answer, lock requests are the same when asked again.

    client = WConfdClient(paths.wconfd_socket)
    owner = JobOwner(job_id, lock_file, attempt, os.getpid())
    await client.wait_locks(owner.for_locks, priority, plan.request())
    view = ConfigReader(paths.config_database).view()          # runtime.config_view
    position, result = await client.commit(owner, step, change, settles)
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from ganeti.base.errors import GanetiError, TransportError, from_wire
from ganeti.master.config.records import Position
from ganeti.master.locks.owners import Owner
from ganeti.ports.config import Change
from ganeti.system.unix_socket import connect
from ganeti.wire.framing import Connection

PATIENCE_S = 60.0
_CONNECT_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S = 60.0
_BRISK_S = 1.0
_PAUSE_FIRST_S = 0.05
_PAUSE_LONGEST_S = 1.0
_LASTED_S = 2.0
"""A connection that lasted this long and broke is the first failure of a new series."""


class _NoAnswer(TransportError):
    """WConfD was reached and kept silent: asking again would wait as long again."""


@dataclass(frozen=True)
class JobOwner:
    """One attempt of a job, as WConfD knows it."""

    job_id: int
    lock_file: str
    attempt: int
    pid: int = 0

    @property
    def for_commits(self) -> list[Any]:
        return [self.job_id, self.lock_file, self.attempt]

    @property
    def for_locks(self) -> Owner:
        return Owner(self.job_id, self.lock_file, self.pid)


class Committed(NamedTuple):
    """Answer to a commit: where it stands in the change stream, and what the change returned (plain)."""

    position: Position
    result: Any


class WConfdClient:
    """One client of the socket. Calls may run side by side: each takes a connection of its own while it lasts."""

    def __init__(self, socket_path: str, patience_s: float = PATIENCE_S) -> None:
        self._path = socket_path
        self._patience_s = patience_s
        self._idle: list[Connection] = []

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def call(
        self,
        method: str,
        *arguments: Any,
        answer_timeout_s: float | None = _ANSWER_TIMEOUT_S,
        patience_s: float | None = None,
    ) -> Any:
        """Make one call, again after a lost connection; raises the error WConfD gave, or `TransportError`.

        *patience_s* takes the place of the client's own; with 0 the call is made once.
        """
        patience_s = self._patience_s if patience_s is None else patience_s
        message = {"method": method, "args": arguments}
        pause_s = _PAUSE_FIRST_S
        failing_since: float | None = None
        while True:
            began = time.monotonic()
            try:
                connection = self._idle.pop() if self._idle else await connect(self._path, _CONNECT_TIMEOUT_S)
                return await self._ask(connection, message, answer_timeout_s)
            except TransportError as err:
                self._drop_idle()
                now = time.monotonic()
                if failing_since is None or now - began > _LASTED_S:
                    failing_since, pause_s = now, _PAUSE_FIRST_S
                if now - failing_since >= patience_s or isinstance(err, _NoAnswer):
                    raise TransportError(f"WConfD does not answer the call {method}: {err}") from err
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_LONGEST_S)

    # The configuration

    async def commit(
        self, owner: JobOwner, step: int, change: Change, settles: bool, files: Sequence[str] = ()
    ) -> Committed:
        """Commit *change* as this step; raises what the change raises. Repeating the step gives the same answer.

        *files* of the queue are at each member before the commit is, as they are on disk now (`replicate_queue`).
        """
        fields = msgspec.to_builtins(change)
        answer = await self.call("commit", owner.for_commits, step, type(change).__name__, fields, settles, list(files))
        return Committed((answer["position"][0], answer["position"][1]), answer["result"])

    async def last_step(self, job_id: int) -> tuple[int, int] | None:
        """(attempt, step) of the job's last commit that settled its undo records."""
        answer = await self.call("lastStep", job_id)
        return None if answer is None else (answer[0], answer[1])

    async def position(self) -> Position:
        answer = await self.call("position")
        return answer[0], answer[1]

    async def wait_published(self, position: Position) -> None:
        """Return when `config.data` and ssconf on the master hold *position*."""
        await self.call("waitPublished", list(position))

    async def flush(self, timeout_s: float, group: str | None = None) -> None:
        """Return when every reachable node, or each of a *group*, has been sent what is committed now."""
        if group is None:
            await self.call("flushConfig", answer_timeout_s=timeout_s)
        else:
            await self.call("flushConfigGroup", group, answer_timeout_s=timeout_s)

    async def compare_queue(self) -> None:
        """Have the files of every candidate compared with the queue on this disk before `replicate_queue` says yes.

        For who begins to serve the queue: what its predecessor removed or archived last, it may not have told. Raises
        `DeposedError`, and `TransportError` where WConfD stays away.
        """
        await self.call("compareQueue")

    async def replicate_queue(
        self, names: Iterable[str], archived: Iterable[int] = (), patience_s: float | None = None
    ) -> None:
        """Return when every member of the in-sync set has these files of the queue as they are on disk now (S2.7).

        Waits as long as it takes: WConfD cannot say yes while a member neither answers nor may be left out. Names are
        `job-N`, `job-N.undo` and `drain`; *archived* are ids of jobs that were moved into the archive. Raises
        `DeposedError` where another node is the master, and `TransportError` where WConfD stays away.
        """
        await self.call("replicateQueue", list(names), list(archived), answer_timeout_s=None, patience_s=patience_s)

    async def events(self, position: Callable[[], Position]) -> AsyncIterator[dict[str, Any]]:
        """Follow the change stream after *position*, asked again at each reconnection; ends with `TransportError`
        when WConfD is away for longer than the patience.

        Gives ``{"event": "commit", "position", "put": [[kind, uuid, plain]], "remove": [[kind, uuid]]}`` and, when the
        position is too old, ``{"event": "snapshot", "position", "config": whole config.data}`` first.
        """
        deadline = time.monotonic() + self._patience_s
        pause_s = _PAUSE_FIRST_S
        while True:
            try:
                connection = await connect(self._path, _CONNECT_TIMEOUT_S)
                try:
                    await connection.send({"method": "subscribe", "args": [list(position())]})
                    while True:
                        event = await connection.receive()
                        if "event" not in event:
                            raise from_wire(event.get("result"))
                        deadline, pause_s = time.monotonic() + self._patience_s, _PAUSE_FIRST_S
                        yield event
                finally:
                    connection.abort()
            except TransportError:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_LONGEST_S)

    # Locks

    async def try_locks(self, owner: Owner, request: Iterable[tuple[str, str]]) -> list[Owner]:
        """Take or change locks now, all or none; gives those in the way, nothing if it worked."""
        answer = await self.call("tryUpdateLocks", owner.to_wire(), _elements(request))
        return [Owner.from_wire(blocker) for blocker in answer]

    async def wait_locks(self, owner: Owner, priority: int, request: Iterable[tuple[str, str]]) -> None:
        """Take locks, waiting as long as it takes; raises `LockError` if the request is withdrawn meanwhile.

        Who is cancelled while waiting withdraws the request, and may yet hold the locks: free them at the end.
        """
        try:
            await self.call("waitLocks", owner.to_wire(), priority, _elements(request), answer_timeout_s=None)
        except asyncio.CancelledError:
            await self.cancel_lock_request(owner)
            raise

    async def ask_locks(
        self, items: Iterable[tuple[Owner, int, Iterable[tuple[str, str]]]]
    ) -> list[list[Owner] | GanetiError]:
        """Ask in the name of jobs that have no process, each as (owner, priority, request).

        Gives for each who is in the way, nobody if it is granted, or why it was refused. Each owner is to hold exactly
        its request: what it held or waited for otherwise is given up. What waits and is granted later is told by
        `lock_follower.LockFollower`.
        """
        asked = [[owner.to_wire(), priority, _elements(request)] for owner, priority, request in items]
        return [_read_asked(answer) for answer in await self.call("askLocks", asked)]

    async def withdraw_locks(self, owners: Iterable[Owner]) -> None:
        """Give up whatever these owners wait for or hold."""
        await self.call("withdrawLocks", [owner.to_wire() for owner in owners])

    async def change_lock_priority(self, owner: Owner, priority: int) -> bool:
        """Move a waiting request; False if there is none. If that lets it pass, a follower is told of the grant."""
        return bool(await self.call("changeLockPriority", owner.to_wire(), priority))

    async def claim_locks(
        self, old: Owner | None, new: Owner, priority: int, request: Iterable[tuple[str, str]]
    ) -> list[Owner]:
        """Take over what *old* was given and take the request now; gives those in the way, nothing if it is held."""
        former = None if old is None else old.to_wire()
        answer = await self.call("claimLocks", former, new.to_wire(), priority, _elements(request))
        return [Owner.from_wire(blocker) for blocker in answer]

    async def explain_locks(self, owner: Owner) -> dict[str, Any]:
        """Who is in the way of a waiting request; plain values.

        ``holders``: ``[lock, wanted state, held lock, client, held state, since_s]``; ``ahead``: ``[lock, client,
        priority]`` in serving order; ``waiting_since_s``: null if nothing waits. Times are seconds since the epoch.
        """
        return dict(await self.call("explainLocks", owner.to_wire()))

    async def cancel_lock_request(self, owner: Owner) -> None:
        await self.call("cancelLockRequest", owner.to_wire())

    async def hand_over_locks(self, old: Owner, new: Owner) -> None:
        await self.call("handOverLocks", old.to_wire(), new.to_wire())

    async def list_locks(self, owner: Owner) -> dict[str, str]:
        return dict(await self.call("listLocks", owner.to_wire()))

    async def all_locks(self) -> list[tuple[str, list[tuple[Owner, str]]]]:
        """Every held lock with its holders and how they hold it."""
        answer = await self.call("listAllLocksOwners")
        return [(lock, [(Owner.from_wire(owner), state) for owner, state in holders]) for lock, holders in answer]

    async def waiting_locks(self) -> list[tuple[int, Owner, dict[str, str]]]:
        """(priority, owner, request) of all who wait, in serving order."""
        _, waiting = await self.call("listLocksWaitingStatus")
        return [(priority, Owner.from_wire(owner), dict(request)) for priority, owner, request in waiting]

    async def free_locks(self, owner: Owner, patience_s: float | None = None) -> None:
        """Give up what *owner* holds and waits for; with a patience of 0 a daemon that hangs is not waited for, too."""
        answer_s = _ANSWER_TIMEOUT_S if patience_s is None else max(patience_s, _BRISK_S)
        await self.call("freeLocks", owner.to_wire(), answer_timeout_s=answer_s, patience_s=patience_s)

    async def release_locks(self, owner: Owner, locks: Iterable[str]) -> None:
        await self.call("tryUpdateLocks", owner.to_wire(), [[lock, "release"] for lock in locks])

    async def downgrade_level(self, owner: Owner, level: str) -> None:
        await self.call("downGradeLocksLevel", owner.to_wire(), level)

    async def intersect_locks(self, owner: Owner, keep: Iterable[str]) -> None:
        await self.call("intersectLocks", owner.to_wire(), list(keep))

    async def opportunistic_union(
        self, owner: Owner, request: Iterable[tuple[str, str]], at_least: int = 0
    ) -> list[str]:
        answer = await self.call("guardedOpportunisticLockUnion", at_least, owner.to_wire(), _elements(request))
        return list(answer)

    async def opportunistic_union_waiting(
        self, owner: Owner, request: Iterable[tuple[str, str]], at_least: int, timeout_s: float
    ) -> list[str]:
        """As `opportunistic_union`, but wait up to *timeout_s* until *at_least* locks can be had (S2.52)."""
        arguments = at_least, timeout_s, owner.to_wire(), _elements(request)
        limit_s = timeout_s + _ANSWER_TIMEOUT_S
        return list(await self.call("opportunisticLockUnionWaiting", *arguments, answer_timeout_s=limit_s))

    async def clean_up_locks(self) -> None:
        await self.call("cleanupLocks")

    async def _ask(self, connection: Connection, message: dict[str, Any], timeout_s: float | None) -> Any:
        finished = False
        try:
            async with asyncio.timeout(timeout_s):
                await connection.send(message)
                answer = await connection.receive()
            finished = True
        except TimeoutError as err:
            raise _NoAnswer(f"no answer within {timeout_s:g} s") from err
        finally:
            if finished:
                self._idle.append(connection)
            else:
                connection.abort()
        if not isinstance(answer, dict) or "success" not in answer:
            raise GanetiError(f"WConfD gave an answer that cannot be read: {answer!r}")
        if not answer["success"]:
            raise from_wire(answer["result"])
        return answer["result"]

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().abort()


def _elements(request: Iterable[tuple[str, str]]) -> list[list[str]]:
    return [[lock, state] for lock, state in request]


def _read_asked(answer: dict[str, Any]) -> list[Owner] | GanetiError:
    return from_wire(answer["error"]) if "error" in answer else list(map(Owner.from_wire, answer["blockers"]))

# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's side of jobs that wait for locks: it asks WConfD in their names and hears of grants (S2.6).

Invariant: calls about one job reach WConfD in the order in which they were made here, one after the other; what is
asked for in one turn of the loop goes in one call. A daemon that is away is waited for; the jobs stay where they are.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ganeti.base.errors import GanetiError
from ganeti.calls.lock_follower import LockFollower
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.master.locks.owners import Owner
from ganeti.system.event_loop import Background

_log = logging.getLogger(__name__)
_AGAIN_S = 1.0
_BATCH = 200

LockRequest = list[tuple[str, str]]


class Heard(Protocol):
    """What the queue wants to know."""

    def granted(self, job_id: int) -> None: ...

    def refused(self, job_id: int, blockers: tuple[int | str, ...]) -> None: ...

    def cannot_ask(self, job_id: int, error: GanetiError) -> None: ...

    def locks_resumed(self, held: set[int], waiting: set[int]) -> None:
        """WConfD is there (again): the jobs in whose names it holds locks, and those whose requests wait."""
        ...


class _Ask(NamedTuple):
    job_id: int
    priority: int
    request: LockRequest


class _Withdraw(NamedTuple):
    job_id: int


class _Move(NamedTuple):
    job_id: int
    priority: int


class QueueLocks:
    """Requests go in by `ask`, `withdraw` and `move`; answers and grants come out by *heard*."""

    def __init__(self, wconfd: WConfdClient, socket_path: str, lock_file: str, heard: Heard) -> None:
        self._wconfd = wconfd
        self._lock_file = lock_file
        self._heard = heard
        self._calls: list[_Ask | _Withdraw | _Move] = []
        self._wake = asyncio.Event()
        self._follower = LockFollower(socket_path, lock_file, snapshot=self._snapshot, granted=self._granted)

    def start(self, background: Background) -> None:
        background.start(self._follower.run(), "following the locks of waiting jobs")
        background.start(self._work(), "asking for the locks of jobs")

    def owner(self, job_id: int) -> Owner:
        """In whose name the locks of a job without a process are asked for."""
        return Owner(job_id, self._lock_file)

    def ask(self, job_id: int, priority: int, request: LockRequest) -> None:
        self._add(_Ask(job_id, priority, request))

    def withdraw(self, job_id: int) -> None:
        self._add(_Withdraw(job_id))

    def move(self, job_id: int, priority: int) -> None:
        self._add(_Move(job_id, priority))

    def _add(self, call: _Ask | _Withdraw | _Move) -> None:
        self._calls.append(call)
        self._wake.set()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._calls:
                kind = type(self._calls[0])
                batch = []
                for call in self._calls[:_BATCH]:
                    if type(call) is not kind:
                        break
                    batch.append(call)
                await self._send(batch)
                del self._calls[: len(batch)]

    async def _send(self, batch: Sequence[_Ask | _Withdraw | _Move]) -> None:
        """Make one call, until it is answered."""
        while True:
            try:
                return await self._send_once(batch)
            except GanetiError as err:
                _log.warning("locks cannot be asked for now, trying again: %s", err)
                await asyncio.sleep(_AGAIN_S)

    async def _send_once(self, batch: Sequence[_Ask | _Withdraw | _Move]) -> None:
        match batch[0]:
            case _Ask():
                asks = [call for call in batch if isinstance(call, _Ask)]
                answers = await self._wconfd.ask_locks(
                    [(self.owner(call.job_id), call.priority, call.request) for call in asks]
                )
                for call, answer in zip(asks, answers, strict=True):
                    self._tell(call.job_id, answer)
            case _Withdraw():
                await self._wconfd.withdraw_locks([self.owner(call.job_id) for call in batch])
            case _Move():
                for move in batch:
                    if isinstance(move, _Move):
                        await self._wconfd.change_lock_priority(self.owner(move.job_id), move.priority)

    def _tell(self, job_id: int, answer: list[Owner] | GanetiError) -> None:
        if isinstance(answer, GanetiError):
            self._heard.cannot_ask(job_id, answer)
        elif answer:
            self._heard.refused(job_id, tuple(owner.name for owner in answer))
        else:
            self._heard.granted(job_id)

    def _granted(self, clients: Sequence[Owner]) -> None:
        for client in clients:
            if isinstance(client.name, int):
                self._heard.granted(client.name)

    def _snapshot(self, held: Sequence[Owner], waiting: Sequence[Owner]) -> None:
        self._heard.locks_resumed(_jobs(held), _jobs(waiting))


def _jobs(owners: Sequence[Owner]) -> set[int]:
    return {owner.name for owner in owners if isinstance(owner.name, int)}

# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's side of jobs that wait for locks: it asks WConfD in their names and hears of grants (S2.6).

Invariant: calls about one job reach WConfD in the order in which they were made here, one after the other; what is
asked for in one turn of the loop goes in one call. A daemon that is away is waited for; the jobs stay where they are.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ganeti.base.errors import GanetiError
from ganeti.calls.lock_follower import LockFollower
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.queue.decisions import Decisions
from ganeti.master.locks.owners import Owner
from ganeti.master.queue import events as ev
from ganeti.master.queue.lock_needs import next_locks
from ganeti.master.queue.machine import Phase
from ganeti.model.view import ConfigView
from ganeti.system.event_loop import Background
from ganeti.system.pause_points import reach

_log = logging.getLogger(__name__)
_AGAIN_S = 1.0
_BATCH = 200

LockRequest = list[tuple[str, str]]


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
    """Carries out `AskLocks`, `WithdrawLocks`, `MoveRequest` and `ReleaseOwner`; tells of answers and grants."""

    def __init__(
        self,
        wconfd: WConfdClient,
        socket_path: str,
        decisions: Decisions,
        view: Callable[[], ConfigView],
        release_owner: Callable[[int, int], None],
    ) -> None:
        self._wconfd = wconfd
        self._lock_file = decisions.machine.own_lock_file
        self._decisions = decisions
        self._view = view
        self._release_owner = release_owner
        self._calls: list[_Ask | _Withdraw | _Move] = []
        self._wake = asyncio.Event()
        self._follower = LockFollower(socket_path, self._lock_file, snapshot=self._snapshot, granted=self._granted)

    def start(self, background: Background) -> None:
        background.start(self._follower.run(), "following the locks of waiting jobs")
        background.start(self._work(), "asking for the locks of jobs")

    def owner(self, job_id: int) -> Owner:
        """In whose name the locks of a job without a process are asked for."""
        return Owner(job_id, self._lock_file)

    def ask(self, effect: ev.AskLocks) -> None:
        """Where the plan cannot be made, there is nothing to wait for: the job's process will say why."""
        job_id = effect.job_id
        try:
            plan = next_locks(self._decisions.machine.jobs[job_id].file, self._view())
        except Exception as err:  # a fault of one operation, too: else the job would keep its slot for ever
            if not isinstance(err, GanetiError):
                _log.exception("the locks that job %d needs cannot be said", job_id)
            self._decisions.tell_soon(ev.Granted(job_id))
        else:
            self._add(_Ask(job_id, effect.priority, plan.request()))

    def withdraw(self, effect: ev.WithdrawLocks) -> None:
        self._add(_Withdraw(effect.job_id))

    def move(self, effect: ev.MoveRequest) -> None:
        self._add(_Move(effect.job_id, effect.priority))

    def release(self, effect: ev.ReleaseOwner) -> None:
        """The locks of all attempts of a job go, and what is asked for in its name."""
        self._add(_Withdraw(effect.job_id))
        self._release_owner(effect.job_id, effect.attempts)

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
            _log.info("the locks of job %d cannot be asked for: %s", job_id, answer)
            self._decisions.tell(ev.Granted(job_id))  # its process will meet the same error, and write it down
        elif answer:
            self._decisions.tell(ev.Refused(job_id, tuple(owner.name for owner in answer)))
        else:
            self._tell_granted(job_id)

    def _granted(self, clients: Sequence[Owner]) -> None:
        for client in clients:
            if isinstance(client.name, int):
                self._tell_granted(client.name)

    def _tell_granted(self, job_id: int) -> None:
        reach("luxid-granted")
        self._decisions.tell(ev.Granted(job_id))

    def _snapshot(self, held: Sequence[Owner], waiting: Sequence[Owner]) -> None:
        """WConfD is there (again): in whose names it holds locks, and whose requests wait."""
        holders, waiters, jobs = _jobs(held), _jobs(waiting), self._decisions.machine.jobs
        for job_id, job in list(jobs.items()):
            if job.phase is Phase.PARKED and job_id not in waiters:
                self._decisions.tell(ev.Granted(job_id) if job_id in holders else ev.RequestLost(job_id))
        for job_id in holders | waiters:
            if job_id not in jobs:
                self._add(_Withdraw(job_id))


def _jobs(owners: Sequence[Owner]) -> set[int]:
    return {owner.name for owner in owners if isinstance(owner.name, int)}

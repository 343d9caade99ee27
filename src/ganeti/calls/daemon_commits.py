# SPDX-License-Identifier: BSD-2-Clause
"""Commits of a daemon, which for WConfD is job 0 (D5, D6).

WConfD gives a repeated (job, attempt, step) its first answer, and hears no attempt once a later one has committed. So
each life of a daemon is an attempt with a number of its own: the time it began at, or, if a clock was set back in
between, the one after the newest that WConfD knows. The first commit of a life settles, which is how the next life
learns of its number from `lastStep`.

    commits = DaemonCommits(wconfd, lock.path)
    position, result = await commits.commit(change)
"""

import asyncio
import logging
import time

from ganeti.base.errors import LockError
from ganeti.calls.wconfd_client import Committed, JobOwner, WConfdClient
from ganeti.ports.config import Change

_log = logging.getLogger(__name__)
_DAEMONS = 0
"""The job id of all daemons."""


class DaemonCommits:
    """What one daemon commits, in its order."""

    def __init__(self, client: WConfdClient, lock_file: str) -> None:
        """*lock_file* is the daemon's own; it must be held while commits are sent."""
        self._client = client
        self._lock_file = lock_file
        self._one_at_a_time = asyncio.Lock()
        self._attempt: int | None = None
        self._step = 0
        self._is_known = False
        """Whether WConfD has a commit of this attempt that settled."""

    async def commit(self, change: Change) -> Committed:
        """Commit *change* durably; raises what the change raises, or `TransportError` if WConfD stays away."""
        async with self._one_at_a_time:
            try:
                return await self._commit(change)
            except LockError as err:
                if self._attempt is None or not await self._is_superseded():
                    raise
                _log.info("commits go on under a new number: %s", err)
            self._attempt = None
            return await self._commit(change)

    async def _commit(self, change: Change) -> Committed:
        if self._attempt is None:
            newest = await self._client.last_step(_DAEMONS)
            self._attempt = max(time.time_ns(), newest[0] + 1 if newest else 0)
            self._step, self._is_known = 0, False
        self._step += 1
        owner = JobOwner(_DAEMONS, self._lock_file, self._attempt)
        done = await self._client.commit(owner, self._step, change, not self._is_known)
        self._is_known = True
        return done

    async def _is_superseded(self) -> bool:
        """Another daemon, whose clock is ahead, has committed since: nothing of the refused commit has happened."""
        newest = await self._client.last_step(_DAEMONS)
        return newest is not None and self._attempt is not None and newest[0] > self._attempt

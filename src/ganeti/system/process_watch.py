# SPDX-License-Identifier: BSD-2-Clause
"""Being told when the processes of jobs end, also of those another life of LuxiD has started (S2.21 to S2.23)."""

import asyncio
import errno
import logging
import os
import signal
from collections.abc import Callable

from ganeti.system.livelock import is_alive

_log = logging.getLogger(__name__)
_AGAIN_S = 1.0
_GONE = (errno.ESRCH, errno.EINVAL)


class ProcessWatches:
    """One descriptor per process; *ended* is called, in the loop, with the id of the job whose process is gone."""

    def __init__(self, ended: Callable[[int], None]) -> None:
        self._ended = ended
        self._descriptors: dict[int, int] = {}
        self._delayed: dict[int, asyncio.TimerHandle] = {}

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._descriptors

    def add(self, job_id: int, pid: int | None, lock_file: str | None) -> None:
        """Watch a process; one that is gone already is told of at once, whichever process has its number now."""
        loop = asyncio.get_running_loop()
        self._delayed.pop(job_id, None)
        try:
            descriptor = os.pidfd_open(pid or 0)
        except OSError as err:
            if err.errno in _GONE:
                loop.call_soon(self._tell, job_id)
            else:  # out of descriptors: its death must not go unnoticed for that
                _log.warning("process %s of job %d cannot be watched now: %s", pid, job_id, err.strerror)
                self._delayed[job_id] = loop.call_later(_AGAIN_S, self.add, job_id, pid, lock_file)
            return
        self._descriptors[job_id] = descriptor
        loop.add_reader(descriptor, self._tell, job_id)
        if lock_file is not None and not is_alive(lock_file):
            loop.call_soon(self._tell, job_id)

    def send(self, job_id: int, number: signal.Signals) -> bool:
        """Send a signal to the very process that is watched; False if there is none any more."""
        try:
            signal.pidfd_send_signal(self._descriptors[job_id], number)
        except (KeyError, ProcessLookupError):
            return False
        return True

    def drop(self, job_id: int) -> None:
        if (delayed := self._delayed.pop(job_id, None)) is not None:
            delayed.cancel()
        descriptor = self._descriptors.pop(job_id, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        for job_id in [*self._descriptors, *self._delayed]:
            self.drop(job_id)

    def _tell(self, job_id: int) -> None:
        self.drop(job_id)
        self._ended(job_id)

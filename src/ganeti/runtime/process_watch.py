# SPDX-License-Identifier: BSD-2-Clause
"""Being told when the processes of jobs end, also of those another life of LuxiD has started (S2.21 to S2.23)."""

import asyncio
import os
from collections.abc import Callable

from ganeti.runtime.livelock import is_alive


class ProcessWatches:
    """One descriptor per process; *ended* is called, in the loop, with the id of the job whose process is gone."""

    def __init__(self, ended: Callable[[int], None]) -> None:
        self._ended = ended
        self._descriptors: dict[int, int] = {}

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._descriptors

    def add(self, job_id: int, pid: int | None, lock_file: str | None) -> None:
        """Watch a process; one that is gone already is told of at once, whoever has its number now."""
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(pid or 0)
        except OSError:
            loop.call_soon(self._tell, job_id)
            return
        self._descriptors[job_id] = descriptor
        loop.add_reader(descriptor, self._tell, job_id)
        if lock_file is not None and not is_alive(lock_file):
            loop.call_soon(self._tell, job_id)

    def drop(self, job_id: int) -> None:
        descriptor = self._descriptors.pop(job_id, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        for job_id in list(self._descriptors):
            self.drop(job_id)

    def _tell(self, job_id: int) -> None:
        self.drop(job_id)
        self._ended(job_id)

# SPDX-License-Identifier: BSD-2-Clause
"""The job files that LuxiD writes: what cannot be written or removed is remembered, and done later.

What somebody may count on is copied to the candidates as well, in the order in which it was written. Nobody waits for
that here: who is told that something was done waits for the copies of it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from ganeti.calls.queue_replication import job_name
from ganeti.master.query.queue_facts import Unwritable
from ganeti.master.queue import events as ev
from ganeti.master.queue.machine import Phase, QueueMachine
from ganeti.stores.job_files import JobFiles
from ganeti.wire.job_file import JobFile

_log = logging.getLogger(__name__)
AGAIN_S = 5.0
_LATELY_S = 30.0
"""For so long a lack counts although nothing is owed: the job that met it is queued and tried again."""


class QueueWrites:
    """Carries out `WriteJob`. A job's file is never written from here while its process may write it."""

    def __init__(self, files: JobFiles, machine: QueueMachine, copy: Callable[[Iterable[str]], object]) -> None:
        """*copy* has files copied soon."""
        self._files = files
        self._machine = machine
        self._copy = copy
        self._owed: dict[int, JobFile] = {}
        self._failed: set[int] = set()
        self._unwanted: dict[int, None] = {}
        self._lack: Unwritable | None = None
        self._met_s = 0.0

    def owed(self, job_id: int) -> JobFile | None:
        """What should stand in a job's file and does not, yet."""
        return self._owed.get(job_id)

    def is_stored(self, job_id: int) -> bool:
        """Whether what was last to be written of a job stands in its file."""
        return job_id not in self._failed

    @property
    def unwritable(self) -> Unwritable | None:
        """Since when, and why, nothing can be written; what has been tried lately and worked says that it is over."""
        return self._lack if self._owed or time.time() - self._met_s < _LATELY_S else None

    def _meet(self, err: OSError) -> None:
        since_s = time.time() if (lack := self.unwritable) is None else lack.since_s
        self._lack = Unwritable(self._files.directory, err.strerror or str(err), since_s)
        self._met_s = time.time()

    def write(self, effect: ev.WriteJob) -> None:
        """Raises `OSError`; what then is not on disk is tried again from time to time."""
        file = effect.file
        self._failed.add(file.id)
        try:
            self._files.write(file, durable=effect.durable)
        except OSError as err:
            self._meet(err)
            if not self._owed:
                asyncio.get_running_loop().call_later(AGAIN_S, self._write_again)
            self._owed[file.id] = file
            raise
        self._failed.discard(file.id)
        self._owed.pop(file.id, None)
        self._lack = None
        if effect.durable or file.final:
            self._copy([job_name(file.id)])

    async def take_back(self, job_ids: Iterable[int]) -> None:
        """Remove new jobs that nobody was told of, here and at the candidates; if the disk fails, as soon as it can."""
        jobs = list(job_ids)
        try:
            await asyncio.to_thread(self._files.remove, jobs)
        except OSError as err:
            _log.warning("files of jobs that were not taken cannot be removed now: %s", err)
            if not self._unwanted:
                asyncio.get_running_loop().call_later(AGAIN_S, self._remove_again)
            self._unwanted.update(dict.fromkeys(jobs))
        else:
            self._copy([job_name(job_id) for job_id in jobs])

    def _remove_again(self) -> None:
        jobs = list(self._unwanted)
        try:
            self._files.remove(jobs)
        except OSError:
            asyncio.get_running_loop().call_later(AGAIN_S, self._remove_again)
            return
        self._unwanted.clear()
        self._copy([job_name(job_id) for job_id in jobs])

    def _write_again(self) -> None:
        for job_id, file in list(self._owed.items()):
            job = self._machine.jobs.get(job_id)
            if job is None or job.phase not in (Phase.ANNOUNCED, Phase.STARTED):
                try:
                    self._files.write(file if job is None else job.file, durable=True)
                except OSError as err:
                    self._meet(err)
                    asyncio.get_running_loop().call_later(AGAIN_S, self._write_again)
                    return
                self._lack = None
                self._copy([job_name(job_id)])
                _log.info("the file of job %d could be written now", job_id)
            del self._owed[job_id]

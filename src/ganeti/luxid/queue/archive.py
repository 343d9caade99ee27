# SPDX-License-Identifier: BSD-2-Clause
"""Archiving jobs that have ended: their files move, here and at the candidates, and LuxiD forgets them."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from ganeti.base.paths import Paths
from ganeti.calls.queue_replication import job_name, undo_name
from ganeti.luxid.queue.copies import QueueCopies
from ganeti.luxid.queue.writes import QueueWrites
from ganeti.master.queue.machine import QueueMachine
from ganeti.stores.job_files import JobFiles
from ganeti.stores.undo_files import undo_path
from ganeti.wire.job_file import SUCCESS

_RENEWAL = "OP_UPDATE_NODE_GROUP_CACHE"


class QueueArchive:
    """*gone* is told of each job that is in the lists no more."""

    def __init__(
        self,
        paths: Paths,
        files: JobFiles,
        machine: QueueMachine,
        writes: QueueWrites,
        copies: QueueCopies,
        gone: Callable[[int], None],
    ) -> None:
        self._paths = paths
        self._files = files
        self._machine = machine
        self._writes = writes
        self._copies = copies
        self._gone = gone

    async def archive(self, job_ids: Sequence[int], *, dealt_with: bool = False) -> int:
        """Archive jobs that have ended; gives how many.

        One that left something behind stays until somebody names it (*dealt_with*): verify no longer tells of it then.
        """
        await self._copies.wait([name for name in map(job_name, job_ids) if self._copies.owes(name)])
        ended = self._may_be_archived(job_ids)
        if not dealt_with:
            ended = [job_id for job_id in ended if not os.path.exists(undo_path(self._paths, job_id))]
        moved = self._files.archive(ended)
        logs = [job_id for job_id in ended if _unlink(undo_path(self._paths, job_id))]
        self._forget(ended, logs)
        return moved

    async def archive_many(self, job_ids: Sequence[int]) -> int:
        """Archive jobs that have ended and left nothing behind; a thread moves their files, as the disk may be busy."""
        ended = self._may_be_archived(job_ids)
        moved = await asyncio.to_thread(self._files.archive, ended)
        self._forget(ended)
        return moved

    async def forget_renewal(self, job_id: int) -> bool:
        """Keep nothing of a job that has renewed what is known of a node group; gives False for any other.

        The watcher has one every five minutes for each group, and what it told, 40 kB for 400 instances, is of use
        once: the archives of fifty groups would grow by half a gigabyte a day, here and at each candidate.
        """
        name = job_name(job_id)
        if self._copies.owes(name):
            await self._copies.wait([name])
        if not self._may_be_archived([job_id]) or not self._is_renewal(job_id):
            return False
        self._files.forget(job_id)
        self._copies.soon([name])
        if self._machine.archive(job_id):
            self._gone(job_id)
        return True

    def _is_renewal(self, job_id: int) -> bool:
        job = self._files.read(job_id)
        if job is None or job.status != SUCCESS or os.path.exists(undo_path(self._paths, job_id)):
            return False
        return all(entry.input.get("OP_ID") == _RENEWAL for entry in job.ops)

    def _may_be_archived(self, job_ids: Sequence[int]) -> list[int]:
        """Those that have ended, in their files too, and in the copies of these."""
        return [
            job_id
            for job_id in job_ids
            if job_id in self._machine.ended
            and self._writes.owed(job_id) is None
            and not self._copies.owes(job_name(job_id))
        ]

    def _forget(self, job_ids: Sequence[int], undo_logs: Sequence[int] = ()) -> None:
        """Forget them, now that their files are moved: where that fails, they stay in the lists."""
        if job_ids:
            self._copies.soon(map(undo_name, undo_logs), job_ids)
        for job_id in job_ids:
            if self._machine.archive(job_id):
                self._gone(job_id)


def _unlink(path: str) -> bool:
    with suppress(FileNotFoundError):
        os.unlink(path)
        return True
    return False

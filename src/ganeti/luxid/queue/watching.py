# SPDX-License-Identifier: BSD-2-Clause
"""Watching jobs that have a process: their files, their deaths, and what must be cleaned up after them (S2.63).

The directory tells of files, a descriptor of each process of its end; nobody polls. Looks at one job never overlap.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ganeti.base.errors import GanetiError, JobFileCorrupted
from ganeti.base.paths import Paths
from ganeti.calls.queue_replication import job_name, undo_name
from ganeti.luxid.queue.decisions import Decisions
from ganeti.luxid.queue.locks import QueueLocks
from ganeti.master.queue import events as ev
from ganeti.master.queue.machine import Phase
from ganeti.master.queue.state import Job
from ganeti.model.view import ConfigView
from ganeti.stores import priority_messages
from ganeti.stores.job_files import JobFiles, job_id_of
from ganeti.stores.undo_files import UndoFile, clear_moot, jobs_with_undo, left_by, settle_for_good, undo_path
from ganeti.system.directory_sync import DirectorySync
from ganeti.system.directory_watch import DirectoryWatch
from ganeti.system.event_loop import Background
from ganeti.system.livelock import is_alive
from ganeti.system.process_watch import ProcessWatches
from ganeti.wire.job_file import FINAL_STATUSES, JobFile

_log = logging.getLogger(__name__)
AGAIN_S = 1.0
_PUBLISH_S = 10.0
"""How long the end of a job may be held back until our view of the configuration holds its last commit."""

ViewReached = Callable[[tuple[int, int], float], Coroutine[Any, Any, bool]]


class QueueWatching:
    """Tells what happens to started jobs, and carries out `SendSignal`, `TellPriority` and `Forget`."""

    def __init__(
        self,
        paths: Paths,
        files: JobFiles,
        decisions: Decisions,
        copy: Callable[[Sequence[str]], "asyncio.Future[str]"],
        view_reached: ViewReached,
        locks: QueueLocks,
        configuration: Callable[[], ConfigView],
    ) -> None:
        self.processes = ProcessWatches(self._process_ended)
        self._paths = paths
        self._files = files
        self._machine = decisions.machine
        self._tell = decisions.tell
        self._copy = copy
        self._view_reached = view_reached
        self._locks = locks
        self._configuration = configuration
        self._tasks = Background()
        self._directory_sync = DirectorySync(files.directory, self._tasks)
        self._observing: set[int] = set()
        self._observe_again: set[int] = set()
        self._left_behind: set[int] = set()
        """Jobs that have ended with steps that nobody could undo."""
        self._leaving: dict[int, JobFile] = {}
        """Jobs that have ended and whose process has not, quite."""
        self._without_undo: set[int] = set()
        """Jobs that had ended and had no undo log when the candidates were told so: none comes any more."""
        self._watch: DirectoryWatch | None = None

    def watch_files(self) -> None:
        """Begin to hear of the files; done before they are read, so that no change is missed."""
        self._watch = DirectoryWatch(self._files.directory, self._file_replaced, self._look_at_all)

    def watch_processes(self) -> None:
        """Take up the processes of an earlier life, and what was left for those that gave their jobs back meanwhile."""
        for job in list(self._machine.jobs.values()):
            if job.phase is Phase.STARTED:
                self.processes.add(job.file.id, job.file.process_id, job.file.livelock)
            elif job.file.start_timestamp is not None:
                self._take_message(job.file.id)
        self._clean_up_after_others()

    async def close(self) -> None:
        await self._tasks.cancel()
        if self._watch is not None:
            self._watch.close()
        self.processes.close()

    def read(self, job_id: int) -> JobFile | None:
        """A job's file; a damaged one counts as none."""
        try:
            return self._files.read(job_id)
        except JobFileCorrupted as err:
            _log.error("%s", err)
            return None

    def send(self, effect: ev.SendSignal) -> None:
        """Signal the job's process, if that is still there."""
        if not self.processes.send(effect.job_id, signal.SIGKILL if effect.kill else signal.SIGTERM):
            _log.info("process %d of job %d has ended already", effect.pid, effect.job_id)

    def tell_priority(self, effect: ev.TellPriority) -> None:
        """Leave the job's process a message, and wake it; raises `OSError`."""
        priority_messages.leave(self._paths, effect.job_id, effect.priority)
        self.processes.send(effect.job_id, signal.SIGUSR1)

    def forget(self, effect: ev.Forget) -> None:
        """A job has ended: clean up after it, once its process is gone."""
        file = effect.file
        if file.id in self.processes:
            self._leaving[file.id] = file
        else:
            self._clean_up(file)
        priority_messages.take(self._paths, file.id)  # one that came too late for the process

    def _process_ended(self, job_id: int) -> None:
        leaving = self._leaving.pop(job_id, None)
        if leaving is not None:
            self._clean_up(leaving)
        self._observe(job_id)

    def _file_replaced(self, name: str) -> None:
        job_id = job_id_of(name)
        if job_id is not None:
            self._observe(job_id)

    def _look_at_all(self) -> None:
        for job_id in list(self._machine.jobs):
            self._observe(job_id)

    def _observe(self, job_id: int) -> None:
        job = self._machine.jobs.get(job_id)
        if job is None or job.phase is not Phase.STARTED:
            return
        if job_id in self._observing:
            self._observe_again.add(job_id)
            return
        try:
            self._look_at(job)
        except OSError as err:  # out of descriptors, say: nothing else may come to tell of this job
            _log.warning("job %d cannot be looked at now: %s", job_id, err.strerror)
            asyncio.get_running_loop().call_later(AGAIN_S, self._observe, job_id)

    def _look_at(self, job: Job) -> None:
        job_id = job.file.id
        alive = job_id in self.processes or (job.file.livelock is not None and is_alive(job.file.livelock))
        file = self.read(job_id) or job.file
        if file.status in FINAL_STATUSES:
            self._observing.add(job_id)
            self._tasks.start(self._hold_back(file, alive), f"end of job {job_id}")
        else:
            self._judge(file, alive)

    async def _hold_back(self, file: JobFile, alive: bool) -> None:
        """Announce the end when every candidate in sync has it (S2.7) and our view holds the job's last commit (D6).

        It is asked for here and not left to the process, which may have died between writing and asking.
        """
        try:
            had_undo = os.path.exists(undo_path(self._paths, file.id))
            copied = self._copy([job_name(file.id), undo_name(file.id)] if file.begun else [job_name(file.id)])
            await self._name_is_durable(file.id)  # meanwhile: the end counts with both
            if await copied:
                return  # the queue is another master's now, and so is the end of this job
            if file.begun and not had_undo:
                self._without_undo.add(file.id)
            if file.position is not None and not await self._view_reached(
                (file.position[0], file.position[1]), _PUBLISH_S
            ):
                _log.warning("the end of job %d is announced although its last commit is not seen yet", file.id)
        finally:
            self._observing.discard(file.id)
        self._judge(file, alive)
        if file.id in self._observe_again:
            self._observe_again.discard(file.id)
            self._observe(file.id)

    async def _name_is_durable(self, job_id: int) -> None:
        """The file was synced before it was renamed; its process may not have synced the name yet, or have died."""
        try:
            await self._directory_sync.wait()
        except OSError as err:
            _log.error("the end of job %d is announced although its file may not be on disk: %s", job_id, err.strerror)

    def _judge(self, file: JobFile, alive: bool) -> None:
        if file.status in FINAL_STATUSES:
            self._tell(ev.Changed(file.id, file))
        elif file.livelock is None:
            self.processes.drop(file.id)
            self._tell(ev.HandedBack(file.id, file))
            self._take_message(file.id)
        elif alive:
            self._tell(ev.Changed(file.id, file))
        else:
            self._tell(ev.Died(file.id, file, *left_by(self._paths, file)))

    def _take_message(self, job_id: int) -> None:
        """A priority that came too late for the job's process."""
        if (priority := priority_messages.take(self._paths, job_id)) is not None:
            self._tell(ev.PriorityAsked(job_id, priority))

    def _clean_up(self, file: JobFile) -> None:
        """The job has ended and its process is gone: free and clear what the process did not come to any more."""
        self._clear_what_is_moot(file)
        has_undo = os.path.exists(undo_path(self._paths, file.id))
        is_told = file.id in self._without_undo
        self._without_undo.discard(file.id)
        had_process = file.livelock is not None and file.livelock != self._machine.own_lock_file
        if had_process and file.livelock is not None and (has_undo or os.path.exists(file.livelock)):
            self._tasks.start(self._settle(file), f"what the process of job {file.id} has left")
        elif has_undo or (file.begun and not is_told):  # it went in good order, or there was no process
            if has_undo:
                self._left_behind.add(file.id)
            self._copy([undo_name(file.id)])

    async def _settle(self, file: JobFile) -> None:
        """The candidates have the end first: with the records alone, one that takes over would carry them out."""
        if await self._copy([job_name(file.id)]):
            return
        try:
            settle_for_good(UndoFile(self._paths, file.id), file)
        except (GanetiError, OSError) as err:
            _log.error("the undo log of job %d stays as it is: %s", file.id, err)
        self._left_behind.add(file.id)
        self._copy([undo_name(file.id)])
        self._locks.release(ev.ReleaseOwner(file.id, file.attempt))

    def _clear_what_is_moot(self, later: JobFile) -> None:
        """Steps that earlier jobs could not undo, and that nobody need undo now that this one has ended."""
        for job_id in sorted(self._left_behind - {later.id}):
            try:
                failed = self.read(job_id) if os.path.exists(undo_path(self._paths, job_id)) else None
                if failed is None:  # archived
                    self._left_behind.discard(job_id)
                elif clear_moot(UndoFile(self._paths, job_id), failed, later, self._configuration()):
                    self._copy([undo_name(job_id)])
            except (GanetiError, OSError) as err:
                _log.error("what job %d has left behind stays as it is: %s", job_id, err)

    def _clean_up_after_others(self) -> None:
        """Jobs that ended before LuxiD was restarted, whose process may have died before its last steps."""
        for job_id in jobs_with_undo(self._paths):
            file = self.read(job_id) if job_id in self._machine.ended else None
            if file is not None and file.livelock is not None and is_alive(file.livelock):
                self._leaving[job_id] = file
                self.processes.add(file.id, file.process_id, file.livelock)
            elif file is not None:
                self._clean_up(file)

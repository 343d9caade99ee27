# SPDX-License-Identifier: BSD-2-Clause
"""Carries out what the queue machine decides: files, processes, signals; and tells it what happens.

Invariant: effects of one event are carried out in order and in one go; no await lies between a decision of the machine
and its writes. Only the syncs of new jobs run in a thread, before the machine hears of them.
"""

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from ganeti.base.errors import GanetiError, JobFileCorrupted, TransportError
from ganeti.base.paths import Paths
from ganeti.master.queue import events as ev
from ganeti.master.queue.machine import Phase, QueueMachine
from ganeti.runtime.directory_watch import DirectoryWatch
from ganeti.runtime.event_loop import Background
from ganeti.runtime.group_commit import GroupCommit
from ganeti.runtime.job_files import JobFiles, job_id_of
from ganeti.runtime.livelock import is_alive
from ganeti.runtime.pause_points import reach
from ganeti.runtime.process_watch import ProcessWatches
from ganeti.runtime.queue_scan import scan
from ganeti.runtime.spawner_client import SpawnerClient
from ganeti.runtime.undo_files import UndoFile, jobs_with_undo, settle_for_good, undo_path
from ganeti.wire.framing import Connection, encode
from ganeti.wire.job_file import FINAL_STATUSES, RUNNING, JobFile, secrets_of

_log = logging.getLogger(__name__)

_PUBLISH_S = 10.0
"""How long the end of a job may be held back until our view of the configuration holds its last commit."""
_CANCEL_S = 44.0
_STARTING_S = 6.3
_TROUBLE_PAUSE_S = 5.0
_RECENT_JOBS = 64
_STOP_S = 5.0

ViewReached = Callable[[tuple[int, int], float], Coroutine[Any, Any, bool]]


class QueueDriver:
    """The queue of one LuxiD."""

    def __init__(
        self,
        paths: Paths,
        machine: QueueMachine,
        spawner: SpawnerClient,
        view_reached: ViewReached,
        release_owner: Callable[[int, int], None],
    ) -> None:
        self.files = JobFiles(paths)
        self.machine = machine
        self._paths = paths
        self._spawner = spawner
        self._view_reached = view_reached
        self._release_owner = release_owner
        self._tasks = Background()
        self._pipes: dict[int, Connection] = {}
        self._processes = ProcessWatches(self._process_ended)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._observing: set[int] = set()
        self._observe_again: set[int] = set()
        self._recent: dict[int, JobFile] = {}
        self._leaving: dict[int, JobFile] = {}
        """Jobs that have ended and whose process has not, quite."""
        self._next_id = 0
        self._watch: DirectoryWatch | None = None
        self._handshakes: set[asyncio.Task[Any]] = set()
        self._store = GroupCommit(self.files.add, self._stored, self._tasks)
        self._known_archived: dict[int, str] = {}

    # Start and stop

    def start(self) -> None:
        """Take up what is on disk and begin to start jobs."""
        self.files.prepare()
        self._next_id = self.files.highest_id() + 1
        self._watch = DirectoryWatch(self.files.directory, self._file_replaced, self._look_at_all)
        found, ended, archived = scan(self._paths, self.files)
        for job_id, status, end_s in ended:
            self.machine.remember(job_id, status, end_s)
        self.machine.held_back = True
        self._carry_out(self.machine.recover(found, time.time(), archived))
        for job in list(self.machine.jobs.values()):
            if job.phase is Phase.STARTED:
                self._processes.add(job.file.id, job.file.process_id, job.file.livelock)
        self._clean_up_after_others()
        _log.info("the queue has %d unfinished jobs, %d ended ones", len(self.machine.jobs), len(ended))
        self._spawner.came = self._spawner_came
        self._spawner.went = self._spawner_went
        self._spawner.attach()

    async def stop(self) -> None:
        """Start no more jobs, and let those being started get under way."""
        self.machine.held_back = True
        try:
            async with asyncio.timeout(_STOP_S):
                await asyncio.gather(*self._handshakes, return_exceptions=True)
        except TimeoutError:
            _log.warning("jobs still being started will be found dead")
        self._spawner.close()
        await self._tasks.cancel()
        if self._watch is not None:
            self._watch.close()
        self._processes.close()

    def _spawner_came(self) -> None:
        self.machine.held_back = False
        self._carry_out(self.machine.resume(time.time()))

    def _trouble_over(self) -> None:
        if self._spawner.is_there:  # if not, its coming is what starts jobs again
            self._spawner_came()

    def _spawner_went(self) -> None:
        self.machine.held_back = True

    def set_limits(self, limits: ev.Limits) -> None:
        if limits != self.machine.limits:
            self._carry_out(self.machine.resume(time.time(), limits))

    # Submission

    async def submit(self, makers: Sequence[Callable[[int], JobFile]]) -> list[JobFile]:
        """Give new jobs their ids, make all of them durable, or none, and queue them. Raises `JobQueueError`."""
        self.machine.room_for(len(makers) + self._store.pending)
        jobs = [make(job_id) for job_id, make in enumerate(makers, self._next_id)]
        self._next_id += len(jobs)
        await self._store.add(jobs)
        return jobs

    def _stored(self, jobs: Sequence[JobFile]) -> None:
        reach("luxid-submitted")
        self._carry_out(self.machine.submit(jobs, time.time(), self._known_archived))

    def status_for_dependency(self, job_id: int) -> str | None:
        """Status of a job something wants to depend on; archived ones count by what they ended with."""
        status = self.machine.status_of(job_id)
        if status is None and 0 < job_id < self._next_id:
            file = self._read(job_id)
            if file is not None:
                status = self._known_archived[job_id] = file.status
        return status

    @property
    def next_id(self) -> int:
        return self._next_id

    # Requests

    def job(self, job_id: int) -> JobFile | None:
        """The job as clients may see it; None if there is none. Raises `JobFileCorrupted`."""
        live = self.machine.jobs.get(job_id)
        if live is not None:
            return live.file
        recent = self._recent.get(job_id)
        return recent if recent is not None else self.files.read(job_id)

    def readable_job(self, job_id: int) -> JobFile | None:
        """As `job`, but a damaged file counts as none."""
        try:
            return self.job(job_id)
        except JobFileCorrupted as err:
            _log.error("%s", err)
            return None

    def job_ids(self, *, archived: bool = False) -> list[int]:
        """Ids of all jobs, in order."""
        ids = {*self.machine.jobs, *self.machine.ended}
        if archived:
            ids.update(self.files.archived_ids())
        return sorted(ids)

    async def cancel(self, job_id: int, kill: bool) -> tuple[bool, str]:
        await self._while_starting(job_id)
        answer = self._carry_out(self.machine.handle(ev.CancelAsked(job_id, kill), time.time()))
        if answer is not None:
            return answer
        return await self._await_cancel(job_id)

    def change_priority(self, job_id: int, priority: int) -> tuple[bool, str]:
        answer = self._carry_out(self.machine.handle(ev.PriorityAsked(job_id, priority), time.time()))
        return answer if answer is not None else (False, f"Job {job_id} not found in queue")

    async def changed(self, job_id: int) -> None:
        """Wait until the job has changed in a way a client may see."""
        future = self._waiting.get(job_id)
        if future is None:
            future = self._waiting[job_id] = asyncio.get_running_loop().create_future()
        await asyncio.shield(future)

    def archive(self, job_ids: Sequence[int], *, dealt_with: bool = False) -> int:
        """Archive jobs that have ended; gives how many.

        One that left something behind stays until somebody names it (*dealt_with*): verify no longer tells of it then.
        """
        ended = []
        for job_id in job_ids:
            left_behind = undo_path(self._paths, job_id)
            if os.path.exists(left_behind) and not dealt_with:
                continue
            if self.machine.archive(job_id):
                ended.append(job_id)
                with suppress(FileNotFoundError):
                    os.unlink(left_behind)
        for job_id in ended:
            self._recent.pop(job_id, None)
        return self.files.archive(ended)

    async def _while_starting(self, job_id: int) -> None:
        """Wait, not for long, until a job that is being started has a process that can be told something."""
        try:
            async with asyncio.timeout(_STARTING_S):
                while (job := self.machine.jobs.get(job_id)) is not None and job.phase is Phase.ANNOUNCED:
                    await self.changed(job_id)
        except TimeoutError:
            return

    async def _await_cancel(self, job_id: int) -> tuple[bool, str]:
        try:
            async with asyncio.timeout(_CANCEL_S):
                while (job := self.machine.jobs.get(job_id)) is not None:
                    if job.file.status == RUNNING:
                        return False, "Job no longer waiting, can't cancel (informed it anyway)"
                    await self.changed(job_id)
        except TimeoutError:
            return False, f"Job {job_id} was told to stop but has not ended yet"
        status = self.machine.status_of(job_id)
        if status == "canceled":
            return True, f"Job {job_id} canceled"
        return False, f"Job {job_id} ended with {status} before it could be canceled"

    # Effects

    def _handle(self, event: ev.JobEvent) -> None:
        self._carry_out(self.machine.handle(event, time.time()))

    def _carry_out(self, effects: Sequence[ev.Effect]) -> tuple[bool, str] | None:
        """Carry out effects in order; gives the answer for who asked, if there is one."""
        answer: tuple[bool, str] | None = None
        unwritten: set[int] = set()
        for effect in effects:
            if isinstance(effect, ev.Answer):
                answer = (effect.ok, effect.message)
                continue
            try:
                self._carry_out_one(effect, unwritten)
            except Exception:  # a fault in one effect must not swallow those of other jobs
                _log.exception("%s could not be carried out", effect)
        return answer

    def _carry_out_one(self, effect: ev.Effect, unwritten: set[int]) -> None:
        match effect:
            case ev.WriteJob(file, durable):
                if not self._write(file, durable):
                    unwritten.add(file.id)
            case ev.StartProcess(job_id, attempt):
                self._start_process(job_id, attempt, allowed=job_id not in unwritten)
            case ev.Confirm(job_id):
                self._confirm(job_id, allowed=job_id not in unwritten)
            case ev.SendSignal(job_id, pid, kill):
                if not self._processes.send(job_id, signal.SIGKILL if kill else signal.SIGTERM):
                    _log.info("process %d of job %d has ended already", pid, job_id)
            case ev.ReleaseOwner(job_id, attempts):
                self._release_owner(job_id, attempts)
            case ev.Announce(job_id):
                _wake(self._waiting.pop(job_id, None))
            case ev.Forget(file):
                self._forget(file)
            case ev.Log(sentence):
                _log.info("%s", sentence)

    def _write(self, file: JobFile, durable: bool) -> bool:
        try:
            self.files.write(file, durable=durable)
        except OSError as err:
            _log.error("the file of job %d cannot be written: %s", file.id, err)
            return False
        return True

    def _start_process(self, job_id: int, attempt: int, *, allowed: bool) -> None:
        reach("luxid-announced")
        if not allowed:
            self.machine.held_back = True
            loop = asyncio.get_running_loop()
            loop.call_later(_TROUBLE_PAUSE_S, self._trouble_over)
            loop.call_soon(self._handle, ev.SpawnerLost(job_id))
            return
        pipe = self._spawner.request(job_id, attempt)
        task = self._tasks.start(self._shake_hands(job_id, pipe), f"start of job {job_id}")
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, job_id: int, pipe: socket.socket) -> None:
        """Steps 3 to 5 of the handshake, from this side (S2.36 to S2.40)."""
        connection = Connection(*await asyncio.open_unix_connection(sock=pipe))
        try:
            greeting = await connection.receive()
            event: ev.JobEvent = ev.Greeted(job_id, str(greeting["lock_file"]), int(greeting["pid"]))
            reach("luxid-greeted")
            self._pipes[job_id] = connection
        except TransportError:
            connection.abort()
            if await self._spawner.alive():
                event = ev.StartFailed(job_id, "it ended before it said that it is there")
            else:
                event = ev.SpawnerLost(job_id)
        self._handle(event)

    def _confirm(self, job_id: int, *, allowed: bool) -> None:
        """Let the process run; whether it still lives, its lock file says from here on."""
        connection = self._pipes.pop(job_id)
        job = self.machine.jobs[job_id].file
        reach("luxid-stored")
        if allowed:
            secrets = [secrets_of(entry.input) for entry in job.ops]
            connection.send_soon(encode({"confirmed": True, "secrets": secrets}))
            reach("luxid-confirmed")
        self._tasks.start(connection.close(), f"pipe of job {job_id}")
        self._processes.add(job.id, job.process_id, job.livelock)

    # What happens to processes and files

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
        for job_id in list(self.machine.jobs):
            self._observe(job_id)

    def _observe(self, job_id: int) -> None:
        """Look at the file and the process of a started job; looks at one job never overlap."""
        job = self.machine.jobs.get(job_id)
        if job is None or job.phase is not Phase.STARTED:
            return
        if job_id in self._observing:
            self._observe_again.add(job_id)
            return
        alive = job_id in self._processes or (job.file.livelock is not None and is_alive(job.file.livelock))
        file = self._read(job_id) or job.file
        if file.status in FINAL_STATUSES and file.position is not None:
            self._observing.add(job_id)
            self._tasks.start(self._hold_back(file, alive), f"end of job {job_id}")
        else:
            self._judge(file, alive)

    async def _hold_back(self, file: JobFile, alive: bool) -> None:
        """Announce the end only when our view holds the job's last commit (D6)."""
        assert file.position is not None
        try:
            position = (file.position[0], file.position[1])
            if not await self._view_reached(position, _PUBLISH_S):
                _log.warning("the end of job %d is announced although its last commit is not seen yet", file.id)
        finally:
            self._observing.discard(file.id)
        self._judge(file, alive)
        if file.id in self._observe_again:
            self._observe_again.discard(file.id)
            self._observe(file.id)

    def _judge(self, file: JobFile, alive: bool) -> None:
        if alive or file.status in FINAL_STATUSES:
            self._handle(ev.Changed(file.id, file))
            return
        self._handle(ev.Died(file.id, file, self._records_owed(file)))

    def _records_owed(self, file: JobFile) -> int:
        ended = [index for index, entry in enumerate(file.ops) if entry.status in FINAL_STATUSES]
        try:
            return len(UndoFile(self._paths, file.id).log.owed(None, ended))
        except GanetiError as err:
            _log.error("job %d died and cannot be unwound: %s", file.id, err)
            return 0

    def _forget(self, file: JobFile) -> None:
        if file.id in self._processes:
            self._leaving[file.id] = file
        else:
            self._clean_up(file)
        self._recent[file.id] = file
        while len(self._recent) > _RECENT_JOBS:
            del self._recent[next(iter(self._recent))]

    def _clean_up(self, file: JobFile) -> None:
        """The job has ended and its process is gone: free and clear what the process did not come to any more."""
        if file.livelock is None or file.livelock == self.machine.own_lock_file:
            return
        if not os.path.exists(file.livelock) and not os.path.exists(undo_path(self._paths, file.id)):
            return  # it went in good order
        try:
            settle_for_good(UndoFile(self._paths, file.id), file)
        except (GanetiError, OSError) as err:
            _log.error("the undo log of job %d stays as it is: %s", file.id, err)
        self._release_owner(file.id, file.attempt)

    def _clean_up_after_others(self) -> None:
        """Jobs that ended in an earlier life of ours, whose process may have died before its last steps."""
        for job_id in jobs_with_undo(self._paths):
            file = self._read(job_id) if job_id in self.machine.ended else None
            if file is not None and file.livelock is not None and is_alive(file.livelock):
                self._leaving[job_id] = file
                self._processes.add(file.id, file.process_id, file.livelock)
            elif file is not None:
                self._clean_up(file)

    def _read(self, job_id: int) -> JobFile | None:
        try:
            return self.files.read(job_id)
        except JobFileCorrupted as err:
            _log.error("%s", err)
            return None


def _wake(future: "asyncio.Future[None] | None") -> None:
    if future is not None and not future.done():
        future.set_result(None)

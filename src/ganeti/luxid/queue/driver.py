# SPDX-License-Identifier: BSD-2-Clause
"""Carries out what the queue machine decides: files, processes, locks, signals; and tells it what happens.

Invariant: effects of one event are carried out in order and in one go; no await lies between a decision of the machine
and its writes. Only the syncs of new jobs run in a thread, before the machine hears of them.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from ganeti.base.errors import GanetiError, JobFileCorrupted, JobQueueError
from ganeti.base.paths import Paths
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.queue_replication import DRAIN_NAME, job_name
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.queue.archive import QueueArchive
from ganeti.luxid.queue.cancelling import JobCancelling
from ganeti.luxid.queue.copies import QueueCopies
from ganeti.luxid.queue.group_commit import GroupCommit
from ganeti.luxid.queue.locks import QueueLocks
from ganeti.luxid.queue.scan import PowerOn, scan
from ganeti.luxid.queue.spawner_client import SpawnerClient
from ganeti.luxid.queue.starts import JobStarts
from ganeti.luxid.queue.watching import QueueWatching
from ganeti.luxid.queue.writes import QueueWrites
from ganeti.master.queue import events as ev
from ganeti.master.queue.dependencies import dependencies_of
from ganeti.master.queue.filters import Admission
from ganeti.master.queue.lock_needs import next_locks
from ganeti.master.queue.machine import Phase, QueueMachine
from ganeti.stores import priority_messages
from ganeti.stores.job_files import JobFiles
from ganeti.system.alarm import Alarm
from ganeti.system.event_loop import Background
from ganeti.system.pause_points import reach
from ganeti.wire.job_file import FINAL_STATUSES, JobFile, secrets_of

_log = logging.getLogger(__name__)

_TROUBLE_PAUSE_S = 5.0
_RECENT_JOBS = 64
_STOP_S = 5.0
_SLICE_S = 0.01
_CONFIRM_S = 5.0
_COPIED_WITHIN_S = 600.0

Observer = Callable[[JobFile | None, int], None]


class QueueDriver:
    """The queue of one LuxiD."""

    def __init__(
        self,
        paths: Paths,
        machine: QueueMachine,
        spawner: SpawnerClient,
        wconfd: WConfdClient,
        follower: ConfigFollower,
        release_owner: Callable[[int, int], None],
    ) -> None:
        self.files = JobFiles(paths)
        self.machine = machine
        self.observers: list[Observer] = []
        """Called with the file and the id of a job when something a client can see has changed; without a file, when
        the job has been archived."""
        self.locks = QueueLocks(wconfd, paths.wconfd_socket, machine.own_lock_file, self)
        self._paths = paths
        self._spawner = spawner
        self._follower = follower
        self._release_owner = release_owner
        self._tasks = Background()
        self._copies = QueueCopies(wconfd, self._tasks)
        reached = partial(_readable, wconfd, follower)
        self._watching = QueueWatching(
            paths, self.files, machine, self._copies.soon, reached, self._handle, self._release
        )
        self._starts = JobStarts(spawner, self._handle, self._tasks)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._recent: dict[int, JobFile] = {}
        self._next_id = 0
        self._unconfirmed: list[str] = []
        self._store = GroupCommit(self.files.add, self._stored, self._tasks, self._copy_new)
        self.writes = QueueWrites(self.files, machine, self._copies.soon)
        self.archiving = QueueArchive(paths, self.files, machine, self.writes, self._copies, self._archived)
        self._stopping = False
        self._alarm = Alarm(self._tick)
        self._cancelling = JobCancelling(machine, self._carry_out, self.changed)
        self._reconsidering = False

    # Start and stop

    def start(self) -> None:
        """Take up what is on disk and begin to start jobs."""
        self.files.prepare()
        self._next_id = self.files.highest_id() + 1
        self._watching.watch_files()
        power_on = PowerOn(self._paths, self._follower.configuration.position[0])
        found, ended, archived = scan(self._paths, self.files, foreign=not power_on.is_known)
        for job_id, status, end_s in ended:
            self.machine.remember(job_id, status, end_s)
        self.machine.held_back = True
        self._carry_out(self.machine.recover(found, time.time(), archived))
        power_on.remember()
        self._unconfirmed = [DRAIN_NAME, *map(job_name, self.machine.jobs), *map(job_name, _recent_ends(ended))]
        self._watching.watch_processes()
        _log.info("the queue has %d unfinished jobs, %d ended ones", len(self.machine.jobs), len(ended))
        self.locks.start(self._tasks)
        self._spawner.came = self._spawner_came
        self._spawner.went = partial(setattr, self.machine, "held_back", True)
        self._spawner.attach()

    async def confirm(self) -> None:
        """Wait, not for long, until the candidates have what this life of the queue begins with.

        What lies on this machine's disk may be more than what they have: their copies may be on their way, or this
        machine may have become the master with the only copy. Nobody should be told of what could yet be lost.
        """
        if reason := await self._copies.wait(self._unconfirmed, _CONFIRM_S):
            _log.warning("the queue is served although candidates may not have all of it yet: %s", reason)

    async def stop(self) -> None:
        """Start no more jobs, and let those being started get under way."""
        self._stopping = self.machine.held_back = True
        await self._starts.settle(_STOP_S)
        await self._copies.settle(_STOP_S)
        self._spawner.close()
        await self._tasks.cancel()
        await self._watching.close()

    def _spawner_came(self) -> None:
        if self._stopping:
            return
        self.machine.held_back = False
        self._carry_out(self.machine.resume(time.time()))

    def _pause_for_trouble(self) -> None:
        """Start nothing for a while: there is no space, or there are no descriptors."""
        self.machine.held_back = True
        asyncio.get_running_loop().call_later(_TROUBLE_PAUSE_S, self._trouble_over)

    def _trouble_over(self) -> None:
        if self._spawner.is_there:  # if not, its coming is what starts jobs again
            self._spawner_came()

    def set_limits(self, limits: ev.Limits) -> None:
        if limits != self.machine.limits:
            self._carry_out(self.machine.resume(time.time(), limits))

    def set_admission(self, admission: Admission) -> None:
        """Other job filters hold from now on; very many jobs are asked about in slices: each may cost a write."""
        self._carry_out(self.machine.set_admission(admission, time.time()))
        if not self._reconsidering:
            self._reconsider()

    def _reconsider(self) -> None:
        until_s = time.monotonic() + _SLICE_S
        self._reconsidering = self.machine.outdated > 0
        if self._reconsidering:
            asyncio.get_running_loop().call_soon(self._reconsider)
        while self.machine.outdated and time.monotonic() < until_s:
            self._carry_out(self.machine.reconsider(time.time()))

    # Submission

    async def submit(self, makers: Sequence[Callable[[int], JobFile]]) -> list[JobFile]:
        """Give new jobs their ids, make all of them durable, or none, and queue them. Raises `JobQueueError`.

        They are durable when they are on disk here and at every candidate in sync (S2.7).
        """
        self.machine.room_for(len(makers) + self._store.pending)
        jobs = [make(job_id) for job_id, make in enumerate(makers, self._next_id)]
        self._next_id += len(jobs)
        await self._store.add(jobs)
        return jobs

    async def _copy_new(self, jobs: Sequence[JobFile]) -> None:
        """Ids of jobs that are taken back are not given again."""
        names = [job_name(job.id) for job in jobs]
        reach("luxid-written")
        reason = await self._copies.wait(names)
        if reason:
            await self.writes.take_back([job.id for job in jobs])
            raise JobQueueError(
                f"The job is not taken, since not every master candidate in sync can store it ({reason}): "
                "see which one is behind with `gnt-node list -o +sync_state`, and submit the job again"
            )

    def _stored(self, jobs: Sequence[JobFile]) -> None:
        reach("luxid-submitted")
        self._carry_out(
            self.machine.submit(jobs, time.time(), _archived_dependencies(jobs, self.status_for_dependency))
        )

    def status_for_dependency(self, job_id: int) -> str | None:
        """Status of a job something wants to depend on; archived ones count by what they ended with."""
        status = self.machine.status_of(job_id)
        if status is None and 0 < job_id < self._next_id:
            file = self._watching.read(job_id)
            status = file.status if file is not None else None
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
        recent = self.writes.owed(job_id) or self._recent.get(job_id)
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

    def may_continue(self, job_id: int, attempt: int) -> bool:
        """Asked by a job between two opcodes: go on, or give way to a better one (S1.81)."""
        job = self.machine.jobs.get(job_id)
        return job is None or job.file.attempt != attempt or self.machine.may_continue(job_id)

    async def cancel(self, job_id: int, kill: bool) -> tuple[bool, str]:
        return await self._confirmed(job_id, await self._cancelling.cancel(job_id, kill))

    async def change_priority(self, job_id: int, priority: int) -> tuple[bool, str]:
        answer = self._carry_out(self.machine.handle(ev.PriorityAsked(job_id, priority), time.time()))
        return await self._confirmed(job_id, answer or (False, f"Job {job_id} not found in queue"))

    async def _confirmed(self, job_id: int, answer: tuple[bool, str]) -> tuple[bool, str]:
        """Promise only what the candidates have as well."""
        ok, sentence = answer
        if ok and (reason := await self._copies.wait([job_name(job_id)])):
            return False, (
                f"{sentence}, but not every master candidate in sync knows that yet ({reason}): it holds unless this "
                "master is lost before"
            )
        return answer

    async def set_drained(self, flag: bool) -> None:
        """Let jobs in, or not, from now on; raises `JobQueueError` where another master might not know of it."""
        self.files.set_drained(flag)
        if reason := await self._copies.wait([DRAIN_NAME]):
            raise JobQueueError(
                f"The queue is {'drained' if flag else 'open'} now, but not every master candidate in sync knows that "
                f"yet ({reason}): see which one is behind with `gnt-node list -o +sync_state`"
            )

    async def changed(self, job_id: int) -> None:
        """Wait until the job has changed in a way a client may see."""
        future = self._waiting.get(job_id)
        if future is None:
            future = self._waiting[job_id] = asyncio.get_running_loop().create_future()
        await asyncio.shield(future)

    def _archived(self, job_id: int) -> None:
        self._recent.pop(job_id, None)
        self._observed(None, job_id)

    # What locks tell

    def granted(self, job_id: int) -> None:
        reach("luxid-granted")
        self._handle(ev.Granted(job_id))

    def refused(self, job_id: int, blockers: tuple[int | str, ...]) -> None:
        self._handle(ev.Refused(job_id, blockers))

    def cannot_ask(self, job_id: int, error: GanetiError) -> None:
        """The process will meet the same error, and write it down as the job's end."""
        _log.info("the locks of job %d cannot be asked for: %s", job_id, error)
        self._handle(ev.Granted(job_id))

    def locks_resumed(self, held: set[int], waiting: set[int]) -> None:
        for job_id, job in list(self.machine.jobs.items()):
            if job.phase is Phase.PARKED and job_id not in waiting:
                self._handle(ev.Granted(job_id) if job_id in held else ev.RequestLost(job_id))
        for job_id in held | waiting:
            if job_id not in self.machine.jobs:
                self.locks.withdraw(job_id)

    # Effects

    def _handle(self, event: ev.JobEvent) -> None:
        try:
            effects = self.machine.handle(event, time.time())
        except Exception:  # a mistake of ours about one job must not end the task that tells of all of them
            _log.exception("%s could not be dealt with", event)
        else:
            self._carry_out(effects)

    def _tick(self) -> None:
        self._carry_out(self.machine.tick(time.time()))

    def _carry_out(self, effects: Sequence[ev.Effect]) -> tuple[bool, str] | None:
        """Carry out effects in order; gives the answer for who asked, if there is one.

        What cannot be written down is not promised, though it is done and will be written when there is space.
        """
        answer: tuple[bool, str] | None = None
        unwritten: set[int] = set()
        trouble = None
        for effect in effects:
            if isinstance(effect, ev.Answer):
                answer = (effect.ok, effect.message)
                continue
            try:
                self._carry_out_one(effect, unwritten)
            except OSError as err:
                _log.error("%s", _not_done(effect, err))
                if isinstance(effect, ev.TellPriority) or (isinstance(effect, ev.WriteJob) and effect.durable):
                    trouble = trouble or _not_done(effect, err)
            except Exception:  # a fault in one effect must not swallow those of other jobs
                _log.exception("%s could not be carried out", effect)
        self._alarm.set(self.machine.next_alarm_s())
        return (False, trouble) if trouble is not None and answer is not None and answer[0] else answer

    def _carry_out_one(self, effect: ev.Effect, unwritten: set[int]) -> None:
        match effect:
            case ev.WriteJob(file, durable):
                unwritten.add(file.id)
                self.writes.write(file, durable=durable)
                unwritten.discard(file.id)
            case ev.AskLocks(job_id, priority):
                self._ask_locks(job_id, priority)
            case ev.WithdrawLocks(job_id):
                self.locks.withdraw(job_id)
            case ev.MoveRequest(job_id, priority):
                self.locks.move(job_id, priority)
            case ev.StartProcess(job_id, attempt):
                self._start_process(job_id, attempt, allowed=job_id not in unwritten)
            case ev.Confirm(job_id):
                self._confirm(job_id, allowed=job_id not in unwritten)
            case ev.SendSignal(job_id, pid, kill):
                if not self._watching.processes.send(job_id, signal.SIGKILL if kill else signal.SIGTERM):
                    _log.info("process %d of job %d has ended already", pid, job_id)
            case ev.TellPriority(job_id, priority):
                priority_messages.leave(self._paths, job_id, priority)
                self._watching.processes.send(job_id, signal.SIGUSR1)
            case ev.ReleaseOwner(job_id, attempts):
                self._release(job_id, attempts)
            case ev.Announce(job_id):
                self._announce(job_id)
            case ev.Forget(file):
                self._forget(file)
            case ev.Log(sentence):
                _log.info("%s", sentence)

    def _ask_locks(self, job_id: int, priority: int) -> None:
        """Where the plan cannot be made, there is nothing to wait for: the job's process will say why."""
        try:
            plan = next_locks(self.machine.jobs[job_id].file, self._follower.configuration)
        except Exception as err:  # also a mistake of ours in one operation: else the job would keep its slot for ever
            if not isinstance(err, GanetiError):
                _log.exception("the locks that job %d needs cannot be said", job_id)
            asyncio.get_running_loop().call_soon(self._handle, ev.Granted(job_id))
        else:
            self.locks.ask(job_id, priority, plan.request())

    def _release(self, job_id: int, attempts: int) -> None:
        self.locks.withdraw(job_id)
        self._release_owner(job_id, attempts)

    def _announce(self, job_id: int) -> None:
        waiting = self._waiting.pop(job_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        if self.observers and (job := self.machine.jobs.get(job_id)) is not None:
            self._observed(job.file, job_id)

    def _observed(self, file: JobFile | None, job_id: int) -> None:
        for observer in self.observers:
            observer(file, job_id)

    def _start_process(self, job_id: int, attempt: int, *, allowed: bool) -> None:
        reach("luxid-announced")
        if allowed:
            try:
                self._starts.start(job_id, attempt)
            except OSError as err:
                _log.error("job %d cannot be started now: %s", job_id, err.strerror)
            else:
                return
        self._pause_for_trouble()
        asyncio.get_running_loop().call_soon(self._handle, ev.SpawnerLost(job_id))

    def _confirm(self, job_id: int, *, allowed: bool) -> None:
        """Let the process run; whether it still lives, its lock file says from here on.

        Where its name could not be stored it must not run: it ends without having begun (S2.39), and another one is
        made when there is space.
        """
        job = self.machine.jobs[job_id].file
        reach("luxid-stored")
        if allowed:
            secrets = [secrets_of(entry.input) for entry in job.ops]
            claim = self.locks.owner(job_id).to_wire()
            self._starts.confirm(job_id, {"confirmed": True, "secrets": secrets, "claim": claim})
            reach("luxid-confirmed")
        self._starts.over(job_id)
        if allowed or job.deaths:
            self._watching.processes.add(job.id, job.process_id, job.livelock)
        else:
            self._pause_for_trouble()
            given_back = replace(job, livelock=None, process_id=None)
            asyncio.get_running_loop().call_soon(self._handle, ev.HandedBack(job_id, given_back))

    def _forget(self, file: JobFile) -> None:
        self._recent[file.id] = file
        while len(self._recent) > _RECENT_JOBS:
            del self._recent[next(iter(self._recent))]
        self._observed(file, file.id)
        self._watching.forget(file)
        priority_messages.take(self._paths, file.id)  # one that came too late for the process


async def _readable(wconfd: WConfdClient, follower: ConfigFollower, position: tuple[int, int], within_s: float) -> bool:
    """Wait until the files for readers and LuxiD's view hold *position*; False if they do not in time."""
    try:
        async with asyncio.timeout(within_s):
            await wconfd.wait_published(position)
    except (GanetiError, TimeoutError):
        return False
    return await follower.reached(position, within_s)


def _archived_dependencies(jobs: Sequence[JobFile], status_of: Callable[[int], str | None]) -> dict[int, str]:
    """How those ended that are archived: perhaps since the jobs came in, so it is looked up when they are taken."""
    wanted = {dependency.job_id for file in jobs for dependency in dependencies_of(file)}
    known = {job_id: status_of(job_id) for job_id in wanted - {file.id for file in jobs}}
    return {job_id: status for job_id, status in known.items() if status in FINAL_STATUSES}


def _recent_ends(ended: Iterable[tuple[int, str, float]]) -> list[int]:
    """Jobs whose end may not have been copied before an earlier life of LuxiD was over."""
    since_s = time.time() - _COPIED_WITHIN_S
    return [job_id for job_id, _, end_s in ended if end_s > since_s]


def _not_done(effect: ev.Effect, err: OSError) -> str:
    """What a client is told, and the log."""
    match effect:
        case ev.WriteJob(file):
            return (
                f"What was decided about job {file.id} holds but cannot be written ({err.strerror}): free some space, "
                "or the next start of the master daemon forgets it"
            )
        case ev.TellPriority(job_id):
            return f"Job {job_id} cannot be told its new priority ({err.strerror}): free some space and try again"
    return f"{effect} could not be carried out: {err}"

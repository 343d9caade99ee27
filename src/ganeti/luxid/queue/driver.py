# SPDX-License-Identifier: BSD-2-Clause
"""The job queue of one LuxiD: put together here, and what clients ask of it.

What happens to jobs is told by `locks`, `starts` and `watching`; the machine decides (`decisions`); what it wants done
is carried out by `writes`, `locks`, `starts`, `watching` and `announcing`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ganeti.base.errors import GanetiError, JobFileCorrupted, JobQueueError
from ganeti.base.paths import Paths
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.queue_replication import DRAIN_NAME, job_name
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.queue.announcing import JobAnnouncements
from ganeti.luxid.queue.archive import QueueArchive
from ganeti.luxid.queue.cancelling import JobCancelling
from ganeti.luxid.queue.copies import QueueCopies
from ganeti.luxid.queue.decisions import Answered, Decisions
from ganeti.luxid.queue.group_commit import GroupCommit
from ganeti.luxid.queue.locks import QueueLocks
from ganeti.luxid.queue.rules import QueueRules
from ganeti.luxid.queue.scan import IssuedIds, PowerOn, scan
from ganeti.luxid.queue.spawner_client import SpawnerClient
from ganeti.luxid.queue.starts import JobStarts
from ganeti.luxid.queue.watching import QueueWatching
from ganeti.luxid.queue.writes import QueueWrites
from ganeti.master.queue import events as ev
from ganeti.master.queue.dependencies import dependencies_of
from ganeti.master.queue.machine import QueueMachine
from ganeti.master.queue.submission import refuse_if_full
from ganeti.model.objects import Cluster
from ganeti.stores.job_files import JobFiles
from ganeti.system.event_loop import Background
from ganeti.system.pause_points import reach
from ganeti.wire.job_file import FINAL_STATUSES, JobFile

_log = logging.getLogger(__name__)

_STOP_S = 5.0
_CONFIRM_S = 5.0
_COPIED_WITHIN_S = 600.0


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
        self._paths = paths
        self._spawner = spawner
        self._follower = follower
        self._tasks = Background()
        self._decisions = Decisions(machine)
        self._announcements = JobAnnouncements(machine)
        self.observers = self._announcements.observers
        self.rules = QueueRules(self._decisions, follower)
        self._copies = QueueCopies(wconfd, self._tasks)
        self.writes = QueueWrites(self.files, machine, self._copies.soon)
        self._locks = QueueLocks(
            wconfd, paths.wconfd_socket, self._decisions, lambda: follower.configuration, release_owner
        )
        self._watching = QueueWatching(
            paths,
            self.files,
            self._decisions,
            self._copies.soon,
            partial(_readable, wconfd, follower),
            self._locks,
            lambda: follower.configuration,
        )
        self._starts = JobStarts(
            spawner, self._decisions, self.writes, self._locks, self._watching.processes, self._tasks
        )
        self._store = GroupCommit(self.files.add, self._stored, self._tasks, self._copy_new)
        self._next_id = 0
        self._issued = IssuedIds(paths, "-")
        self._unconfirmed: list[str] = []
        self.archiving = QueueArchive(
            paths, self.files, machine, self.writes, self._copies, self._announcements.archived
        )
        self._cancelling = JobCancelling(self._decisions, self._announcements.changed)
        self._say_who_carries_out()

    def _say_who_carries_out(self) -> None:
        on = self._decisions.on
        on(ev.WriteJob, self.writes.write)
        on(ev.AskLocks, self._locks.ask)
        on(ev.WithdrawLocks, self._locks.withdraw)
        on(ev.MoveRequest, self._locks.move)
        on(ev.ReleaseOwner, self._locks.release)
        on(ev.StartProcess, self._starts.start)
        on(ev.Confirm, self._starts.confirm)
        on(ev.SendSignal, self._watching.send)
        on(ev.TellPriority, self._watching.tell_priority)
        on(ev.Announce, self._announcements.announce)
        on(ev.Forget, self._announcements.ended, self._watching.forget)
        on(ev.AwaitCancel)  # who asked waits for the job's end
        on(ev.Log, lambda effect: _log.info("%s", effect.sentence))

    # Start and stop

    def start(self) -> None:
        """Take up what is on disk and begin to start jobs."""
        self.files.prepare()
        self._next_id = self._highest_id() + 1
        self._watching.watch_files()
        power_on = PowerOn(self._paths, self._follower.configuration.position[0])
        found, ended, archived = scan(self._paths, self.files, foreign=not power_on.is_known)
        for job_id, status, end_s in ended:
            self.machine.remember(job_id, status, end_s)
        self.machine.held_back = True
        self._decisions.carry_out(self.machine.recover(found, time.time(), archived))
        power_on.remember()
        self._unconfirmed = [DRAIN_NAME, *map(job_name, self.machine.jobs), *map(job_name, _recent_ends(ended))]
        self._watching.watch_processes()
        _log.info("the queue has %d unfinished jobs, %d ended ones", len(self.machine.jobs), len(ended))
        self._locks.start(self._tasks)
        self._starts.attach()

    def _highest_id(self) -> int:
        cluster = self._follower.configuration.get("cluster", "cluster")
        self._issued = IssuedIds(self._paths, cluster.uuid if isinstance(cluster, Cluster) else "-")
        found, issued = self.files.highest_id(), self._issued.highest()
        if issued > found:
            _log.warning(
                "the queue knows jobs up to %d, and %d has run: it is older, or was removed; new jobs get higher ids",
                *(found, issued),
            )
        return max(found, issued)

    async def confirm(self) -> None:
        """Wait, not for long, until the candidates have what this life of the queue begins with.

        What lies on this machine's disk may be more than what they have: their copies may be on their way, or this
        machine may have become the master with the only copy. Nobody should be told of what could yet be lost.
        """
        if reason := await self._copies.wait(self._unconfirmed, _CONFIRM_S):
            _log.warning("the queue is served although candidates may not have all of it yet: %s", reason)

    async def stop(self) -> None:
        """Start no more jobs, and let those being started get under way."""
        await self._starts.stop(_STOP_S)
        await self._copies.settle(_STOP_S)
        self._spawner.close()
        await self._tasks.cancel()
        await self._watching.close()

    # Submission

    async def submit(self, makers: Sequence[Callable[[int], JobFile]]) -> list[JobFile]:
        """Give new jobs their ids, make all of them durable, or none, and queue them. Raises `JobQueueError`.

        They are durable when they are on disk here and at every candidate in sync (S2.7).
        """
        refuse_if_full(self.machine, len(makers) + self._store.pending)
        jobs = [make(job_id) for job_id, make in enumerate(makers, self._next_id)]
        self._next_id += len(jobs)
        self._issued.note(self._next_id - 1)
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
        known = _archived_dependencies(jobs, self.status_for_dependency)
        self._decisions.carry_out(self.machine.submit(jobs, time.time(), known))

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
        recent = self.writes.owed(job_id) or self._announcements.recent.get(job_id)
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

    async def cancel(self, job_id: int, kill: bool) -> Answered:
        return await self._confirmed(job_id, await self._cancelling.cancel(job_id, kill))

    async def change_priority(self, job_id: int, priority: int) -> Answered:
        answer = self._decisions.ask(ev.PriorityAsked(job_id, priority))
        return await self._confirmed(job_id, answer or (False, f"Job {job_id} not found in queue"))

    async def _confirmed(self, job_id: int, answer: Answered) -> Answered:
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
        await self._announcements.changed(job_id)


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

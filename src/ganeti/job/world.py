# SPDX-License-Identifier: BSD-2-Clause
"""The world of a job process: files, WConfD, nodes, clock, for the engine and the operations it runs (D3).

Everything is made when it is first asked for: a job that touches nothing pays for nothing. A daemon that is being
restarted is waited for; repeating a call to it is harmless, as every step has its number.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from ganeti.base.errors import INTERNAL_ERROR, GanetiError, TransportError
from ganeti.calls.copies import ask_copies
from ganeti.calls.luxi_client import LuxiClient
from ganeti.calls.wconfd_client import JobOwner
from ganeti.job import loop as job_loop
from ganeti.job.context import Clock, JobContext
from ganeti.job.records import JobRecords
from ganeti.job.wconfd import JobWConfdClient
from ganeti.master.locks.owners import Owner
from ganeti.master.operation import find
from ganeti.master.parameter import declared
from ganeti.model.copies import Copies
from ganeti.model.node_calls.node import AbortAttempt
from ganeti.model.objects import KINDS
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import JobIdentity, JobLogPort, OperationContext, UndoPort
from ganeti.ports.luxid import MayContinue
from ganeti.ports.nodes import NodesPort, ask
from ganeti.stores import priority_messages
from ganeti.stores.config_view import ConfigReader
from ganeti.stores.job_files import JobFiles
from ganeti.stores.lazy_view import LazyView
from ganeti.system import process_title
from ganeti.system.environment import Environment
from ganeti.system.livelock import LiveLock, attempt_of, job_lock_path
from ganeti.system.pause_points import reach
from ganeti.wire.job_file import JobFile, OpcodeEntry
from ganeti.wire.job_file import decode as decode_job
from ganeti.wire.job_file import encode as encode_job

if TYPE_CHECKING:
    from ganeti.job.nodes import NodeCallNote

_log = logging.getLogger(__name__)
_SAVE_PAUSE_S = 0.04
"""Short enough for a user who watches; most small jobs have their next state on disk by then anyway."""
_FLUSH_S = 120.0
"""The caller gives a node that hangs up within a minute."""
_SUBMIT_S = 60.0
_CONTINUE_S = 5.0

_catalogue: Catalogue | None = None


def install(catalogue: Catalogue) -> None:
    """Give all jobs of this process and its children what the drivers can do; done once, in the spawner."""
    global _catalogue
    _catalogue = catalogue


def warm_up() -> None:
    """Do once in the spawner what the first job would otherwise do, and every other job again."""
    entry = OpcodeEntry(input={"OP_ID": ""})
    decode_job(encode_job(JobFile(id=1, ops=[entry])))
    for cls in KINDS.values():
        with suppress(msgspec.ValidationError):
            msgspec.convert({}, cls)
    job_loop.the_loop().run_until_complete(asyncio.sleep(0))


def learn(op_id: str) -> None:
    """Import an operation and what it needs, and have msgspec look at its annotations."""
    changes = set(Change.registry)
    if (operation := find(op_id)) is None:
        return  # a job of a later version
    declared(operation)
    for cls in [operation, *(cls for name, cls in Change.registry.items() if name not in changes)]:
        with suppress(msgspec.ValidationError):
            msgspec.convert({}, cls)


class JobWorld:
    """Implements `EngineWorld` for one attempt of one job.

    *claim* is who holds locks in the job's name until the job claims them: LuxiD, which asked for them before there was
    a process (S2.6).
    """

    def __init__(self, environment: Environment, job: JobFile, lock: LiveLock, claim: Owner | None = None) -> None:
        self._paths = environment.paths
        self._job = job
        self._claim = claim
        self._files = JobFiles(environment.paths)
        self._reader = ConfigReader(environment.paths.config_database)
        self.wconfd = JobWConfdClient(environment.paths.wconfd_socket)
        self.owner = JobOwner(job.id, lock.path, job.attempt, os.getpid())
        self._save_timer: asyncio.TimerHandle | None = None
        self._nodes: Any = None
        self.undo = JobRecords(environment.paths, job, self.wconfd)
        self.config = JobConfig(self)
        self.step = 0
        self.is_traced = os.path.exists(environment.paths.tracing_file)

    def next_step(self) -> int:
        self.step += 1
        reach(f"job-step-{self.step}")
        return self.step

    # Time and the job file

    def now_s(self) -> float:
        return Clock().now_s()

    async def begin(self) -> None:
        """To be called before what must not happen twice: commits, submissions, node calls that change something."""
        await self.undo.begin()

    async def save(self, job: JobFile) -> None:
        if self._save_timer is not None:
            self._save_timer.cancel()
            self._save_timer = None
        await self.undo.save(job)

    async def end(self, job: JobFile) -> bool:
        if self._save_timer is not None:
            self._save_timer.cancel()
        reach("job-before-end")
        is_copied = await self.undo.end(job)
        reach("job-after-end")
        return is_copied

    async def hand_back(self, job: JobFile) -> None:
        reach("job-before-hand-back")
        await self.save(job)
        reach("job-after-hand-back")

    def priority_message(self) -> int | None:
        return priority_messages.take(self._paths, self._job.id)

    def save_soon(self, job: JobFile) -> None:
        if self._save_timer is None:
            self._save_timer = asyncio.get_running_loop().call_later(_SAVE_PAUSE_S, self._save_now, job)

    def _save_now(self, job: JobFile) -> None:
        self._save_timer = None
        try:
            self._files.write(job, durable=False)
        except OSError as err:
            _log.warning("job %d: its file cannot be written now: %s", job.id, err)

    # Configuration

    def view(self) -> ConfigView:
        return LazyView(self._reader)

    def commits(self) -> int:
        return self.config.commits

    async def last_settled(self) -> tuple[int, int] | None:
        if not self._job.deaths and not self.config.in_doubt:  # every record is this process's own
            return self.config.last_settled
        return await self.wconfd.last_step(self._job.id)

    def position(self) -> list[int] | None:
        return self._job.position if self.config.position is None else self.config.position

    # Locks

    async def claim_locks(self, priority: int, request: Sequence[tuple[str, str]]) -> bool:
        reach("job-before-claim")
        blockers = await self.wconfd.claim_locks(self._claim, self.owner.for_locks, priority, request)
        self._claim = None
        reach("job-after-claim")
        if blockers:
            _log.info("job %d makes way: its locks are held by %s", self._job.id, ", ".join(map(str, blockers)))
        return not blockers

    async def free_locks(self, *, ending: bool = False) -> None:
        """A daemon that cannot be told now sees the end by the lock file."""
        patience_s = 0.0 if ending else None
        try:
            if self._claim is not None:  # nothing was ever claimed: LuxiD holds it still
                await self.wconfd.free_locks(self._claim, patience_s)
                self._claim = None
            await self.wconfd.free_locks(self.owner.for_locks, patience_s)
        except GanetiError as err:
            _log.warning("job %d could not free its locks: %s", self._job.id, err)

    async def take_over(self) -> None:
        """Any attempt before ours may have died as owner; those that were handed back own nothing."""
        owners = [Owner.from_wire(each) for each in (await self.wconfd.call("listLocksWaitingStatus"))[0]]
        newest = Owner(self._job.id, job_lock_path(self._paths.livelock_dir, self._job.id, self._job.attempt - 1))
        for owner in dict.fromkeys([*owners, newest]):  # the newest in any case: its steps are superseded with it
            if owner.name == self._job.id and (attempt_of(owner.lock_file) or self._job.attempt) < self._job.attempt:
                await self.wconfd.hand_over_locks(owner, self.owner.for_locks)

    async def may_continue(self) -> bool:
        """Ask LuxiD; whatever keeps it from answering does not keep the job from going on."""
        try:
            async with asyncio.timeout(_CONTINUE_S):
                return await LuxiClient(self._paths).ask(MayContinue(self._job.id, self._job.attempt), patience_s=0.0)
        except (GanetiError, TimeoutError):
            return True

    async def abort_attempt(self, node_uuid: str) -> None:
        try:
            await ask(self.nodes, node_uuid, AbortAttempt(job=self._job.id, attempt=self._job.attempt - 1))
        except GanetiError as err:
            _log.warning("job %d: what it still does on node %s could not be ended: %s", self._job.id, node_uuid, err)

    # Other jobs, nodes, hooks

    async def submit_jobs(self, jobs: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[Any]]:
        await self.begin()  # they would be submitted twice
        answer = await LuxiClient(self._paths).call("SubmitManyJobs", [list(job) for job in jobs], patience_s=_SUBMIT_S)
        return [list(item) for item in answer]

    def has_local_hooks(self, directory: str) -> bool:
        try:
            return bool(os.listdir(f"{self._paths.hooks_dir}/{directory}"))
        except OSError:
            return False

    def note_fault(self, error: BaseException) -> None:
        _log.error("job %d failed with %s", self._job.id, INTERNAL_ERROR, exc_info=error)

    def context(
        self, identity: JobIdentity, log: JobLogPort, undo: UndoPort, stop_if_cancelled: Callable[[], None]
    ) -> OperationContext:
        """What the opcode of *identity* is handed; from now on this process is busy with it, as `ps` shows."""
        opcodes = self._job.ops
        place = f"{identity.opcode_index + 1} of {len(opcodes)}" if len(opcodes) > 1 else ""
        opcode = str(opcodes[identity.opcode_index].input.get("OP_ID", ""))
        process_title.show_job(self._job.id, opcode.removeprefix("OP_"), place)
        if _catalogue is None:
            raise GanetiError("This process was started without the catalogue of drivers")
        return JobContext(
            self._job,
            identity,
            self._paths,
            self.wconfd,
            self.owner.for_locks,
            config=self.config,
            nodes=lambda: self.nodes,
            catalogue=_catalogue,
            log=log,
            undo=undo,
            stop_if_cancelled=stop_if_cancelled,
        )

    @property
    def nodes(self) -> NodesPort:
        if self._nodes is None:
            from ganeti.job.nodes import JobNodes

            self._nodes = JobNodes(self.begin, self._paths, self.view, self._job.id, self._job.attempt, self.next_step)
            if self.is_traced:
                from ganeti.job.spans import place_of

                if (place := place_of(self._job)).is_sampled:
                    self._nodes.trace(place)
        nodes: NodesPort = self._nodes
        return nodes

    def node_call_notes(self) -> "list[NodeCallNote]":
        """Give what was noted of calls to nodes, where the job is traced."""
        return self._nodes.notes if self._nodes is not None else []

    async def close(self) -> None:
        await self.wconfd.close()
        self._reader.close()
        if self._nodes is not None:
            await self._nodes.close()


class JobConfig:
    """Implements `ConfigPort`; writes down what a settling commit makes moot before it is sent (D5).

    The first commit takes the mark along that the job has begun: members write it before the commit.
    """

    def __init__(self, world: JobWorld) -> None:
        self._world = world
        self.commits = 0
        self.position: list[int] | None = None
        self.last_settled: tuple[int, int] | None = None
        self.in_doubt = False
        """A settling commit was sent and its answer never came."""

    def view(self) -> ConfigView:
        return self._world.view()

    async def commit(self, change: Change, *, settles: bool = False) -> Any:
        world = self._world
        mark = world.undo.mark()
        step = world.next_step()
        attempt = world.owner.attempt
        if settles and world.undo.log.has_records():
            await world.undo.append({"settles": step, "attempt": attempt})
            reach(f"job-settling-{step}")
        try:
            done = await world.wconfd.commit(world.owner, step, change, settles, mark)
        except TransportError:
            self.in_doubt = self.in_doubt or settles
            raise
        world.undo.marked()
        reach(f"job-committed-{step}")
        self.commits += 1
        self.position = list(done.position)
        if settles:
            self.last_settled = (attempt, step)
        return done.result

    async def flush(self, group: str | None = None) -> None:
        world = self._world
        try:
            await world.wconfd.flush(_FLUSH_S, group)
        except GanetiError as err:
            _log.warning(
                "job %d continues although not all candidates may have the configuration: %s", world.owner.job_id, err
            )

    async def copies(self) -> Copies:
        return await ask_copies(self._world.wconfd)

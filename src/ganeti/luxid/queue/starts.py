# SPDX-License-Identifier: BSD-2-Clause
"""Jobs whose processes are being started: from the request to the spawner to the confirmation (S2.35 to S2.40)."""

import asyncio
import logging
import time

from msgspec.structs import replace

from ganeti.luxid.queue.decisions import Decisions
from ganeti.luxid.queue.handshake import Greeting, Handshake
from ganeti.luxid.queue.locks import QueueLocks
from ganeti.luxid.queue.spawner_client import SpawnerClient
from ganeti.luxid.queue.writes import QueueWrites
from ganeti.master.queue import events as ev
from ganeti.system.event_loop import Background
from ganeti.system.pause_points import reach
from ganeti.system.process_watch import ProcessWatches
from ganeti.wire.framing import encode
from ganeti.wire.job_file import secrets_of

_log = logging.getLogger(__name__)
_TROUBLE_PAUSE_S = 5.0


class JobStarts:
    """Carries out `StartProcess` and `Confirm`, and tells what becomes of each start.

    While there is no spawner, no space or no descriptor, the machine is held back.
    """

    def __init__(
        self,
        spawner: SpawnerClient,
        decisions: Decisions,
        writes: QueueWrites,
        locks: QueueLocks,
        processes: ProcessWatches,
        tasks: Background,
    ) -> None:
        self._spawner = spawner
        self._decisions = decisions
        self._machine = decisions.machine
        self._writes = writes
        self._locks = locks
        self._processes = processes
        self._tasks = tasks
        self._handshakes: dict[int, Handshake] = {}
        self._settled: asyncio.Future[None] | None = None
        self._stopping = False

    def attach(self) -> None:
        """Begin to listen to the spawner, and to start what the machine wants started."""
        self._spawner.came = self._spawner_came
        self._spawner.went = self._hold_back
        self._spawner.attach()

    def start(self, effect: ev.StartProcess) -> None:
        """Ask the spawner for a process; where the job's file could not be written, no process may claim the job."""
        job_id = effect.job_id
        reach("luxid-announced")
        if self._writes.is_stored(job_id):
            try:
                entries = self._machine.jobs[job_id].file.ops
                pipe = self._spawner.request(job_id, effect.attempt, [entry.input["OP_ID"] for entry in entries])
            except OSError as err:
                _log.error("job %d cannot be started now: %s", job_id, err.strerror)
            else:
                self._handshakes[job_id] = Handshake(
                    pipe, lambda greeting: self._greeted(job_id, greeting), lambda: self._lost(job_id)
                )
                return
        self._pause_for_trouble()
        self._decisions.tell_soon(ev.SpawnerLost(job_id))

    def confirm(self, effect: ev.Confirm) -> None:
        """Let the process run (S2.37); whether it still lives, its lock file says from here on.

        Where its name could not be stored it must not run: it ends without having begun (S2.39), and another one is
        made when there is space.
        """
        job = self._machine.jobs[effect.job_id].file
        allowed = self._writes.is_stored(job.id)
        reach("luxid-stored")
        if allowed:
            secrets = [secrets_of(entry.input) for entry in job.ops]
            claim = self._locks.owner(job.id).to_wire()
            self._handshakes[job.id].confirm(encode({"confirmed": True, "secrets": secrets, "claim": claim}))
            reach("luxid-confirmed")
        self._over(job.id)
        if allowed or job.deaths:
            self._processes.add(job.id, job.process_id, job.livelock)
        else:
            self._pause_for_trouble()
            self._decisions.tell_soon(ev.HandedBack(job.id, replace(job, livelock=None, process_id=None)))

    async def stop(self, timeout_s: float) -> None:
        """Start nothing more; let the starts under way end, and give up those that do not in time."""
        self._stopping = True
        self._hold_back()
        self._settled = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                if self._handshakes:
                    await self._settled
        except TimeoutError:
            _log.warning("jobs still being started will be found dead")
        for handshake in self._handshakes.values():
            handshake.close()

    def _over(self, job_id: int) -> None:
        """Nothing more is to be said; a process that was not confirmed ends."""
        self._handshakes.pop(job_id).close()
        if self._settled is not None and not self._handshakes and not self._settled.done():
            self._settled.set_result(None)

    def _greeted(self, job_id: int, greeting: Greeting) -> None:
        reach("luxid-greeted")
        self._decisions.tell(ev.Greeted(job_id, greeting.lock_file, greeting.pid))

    def _lost(self, job_id: int) -> None:
        self._over(job_id)
        self._tasks.start(self._judge(job_id), f"failed start of job {job_id}")

    async def _judge(self, job_id: int) -> None:
        """The pipe broke before the greeting: the process failed, or never was made (S2.40)."""
        if await self._spawner.alive():
            self._decisions.tell(ev.StartFailed(job_id, "it ended before it said that it is there"))
        else:
            self._decisions.tell(ev.SpawnerLost(job_id))

    def _hold_back(self) -> None:
        self._machine.held_back = True

    def _spawner_came(self) -> None:
        if not self._stopping:
            self._machine.held_back = False
            self._decisions.carry_out(self._machine.resume(time.time()))

    def _pause_for_trouble(self) -> None:
        """Start nothing for a while: there is no space, or there are no descriptors."""
        self._hold_back()
        asyncio.get_running_loop().call_later(_TROUBLE_PAUSE_S, self._trouble_over)

    def _trouble_over(self) -> None:
        if self._spawner.is_there:  # if not, its coming is what starts jobs again
            self._spawner_came()

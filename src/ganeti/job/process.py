# SPDX-License-Identifier: BSD-2-Clause
"""One job in its own process, from the fork to the last write of its file (S2.33 to S2.41).

1. create and lock a file of our own, before talking to anybody     (S2.26)
2. send its name to LuxiD; wait for the confirmation                (S2.36, S2.37)
   a broken pipe here: end without having begun                     (S2.39)
3. get the secret parameters over the same socket, close it; and who holds the job's first locks so far
4. run the opcodes; from here on this process alone writes the job's file (S2.62)
5. the job has ended, or its file is given back to the queue: remove the lock file             (S2.30)
"""

import asyncio
import logging
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

from ganeti.base.errors import GanetiError, TransportError
from ganeti.job import loop as job_loop
from ganeti.master.locks.owners import Owner
from ganeti.master.queue import entries
from ganeti.master.queue.execution import JobRunner
from ganeti.stores.job_files import JobFiles
from ganeti.system import process_title
from ganeti.system.environment import Environment
from ganeti.system.livelock import LiveLock, job_lock_path
from ganeti.system.pause_points import reach
from ganeti.wire.framing import CODEC
from ganeti.wire.framing_sync import SyncConnection
from ganeti.wire.job_file import JobFile, put_secrets

if TYPE_CHECKING:
    from ganeti.job.nodes import NodeCallNote

_log = logging.getLogger(__name__)
SIGNALS = frozenset({signal.SIGTERM, signal.SIGUSR1})
"""The first cancels, the second says that there is a new priority. Blocked until somebody can honour them."""


def run(environment: Environment, job_id: int, attempt: int, pipe: socket.socket) -> int:
    """Be job *job_id*, with `SIGNALS` blocked; gives the exit status of the process."""
    process_title.show_job(job_id)
    reach("job-forked")
    lock = LiveLock(job_lock_path(environment.paths.livelock_dir, job_id, attempt))
    reach("job-locked")
    try:
        job, claim = accept(environment, job_id, lock, pipe)
    except TransportError as err:
        _log.warning("job %s ends before it begins: %s", job_id, err)
        lock.remove()
        return 0
    notes = job_loop.the_loop().run_until_complete(
        _work(environment, job, lock, claim)
    )  # the process ends now: nothing to tear down
    lock.remove()
    if notes is not None:
        _send_spans(environment, job, notes)
    return 0


def accept(environment: Environment, job_id: int, lock: LiveLock, pipe: socket.socket) -> tuple[JobFile, Owner | None]:
    """Take the job over from LuxiD: its file, and who claims its locks so far; raises `TransportError`."""
    confirmation = _shake_hands(lock, pipe)
    reach("job-confirmed")
    job = JobFiles(environment.paths).read(job_id)
    if job is None:
        raise GanetiError(f"The file of job {job_id} has vanished")
    for entry, values in zip(job.ops, confirmation["secrets"], strict=False):
        put_secrets(entry.input, values)
    return job, _claim_of(confirmation)


def _send_spans(environment: Environment, job: JobFile, notes: "list[NodeCallNote]") -> None:
    """Tell the collector what the job has done; nobody waits for this any more."""
    from ganeti.job.spans import spans_of
    from ganeti.system.tracing import Tracing

    Tracing("ganeti-job", environment.paths).send(spans_of(job, notes))


def _shake_hands(lock: LiveLock, pipe: socket.socket) -> dict[str, Any]:
    with SyncConnection(pipe, **CODEC) as connection:
        connection.send({"lock_file": lock.path, "pid": os.getpid()})
        reach("job-greeted")
        answer: dict[str, Any] = connection.receive()
    return answer


def _claim_of(confirmation: dict[str, Any]) -> Owner | None:
    """Who holds the locks the queue has got for the job; nobody, where it asked for none."""
    claim = confirmation.get("claim")
    return Owner.from_wire(claim) if claim is not None else None


async def _work(
    environment: Environment, job: JobFile, lock: LiveLock, claim: Owner | None
) -> "list[NodeCallNote] | None":
    """Give notes of the job's node calls, where it is traced."""
    from ganeti.job.world import JobWorld

    world = JobWorld(environment, job, lock, claim)
    runner = JobRunner(job, world)
    loop = asyncio.get_running_loop()
    signal.signal(signal.SIGTERM, lambda number, frame: loop.call_soon_threadsafe(runner.ask_cancel))
    signal.signal(signal.SIGUSR1, lambda number, frame: loop.call_soon_threadsafe(runner.renew_priority))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        if job.deaths > 0:
            await runner.unwind_for_the_dead(entries.died_sentence(job))
        else:
            await runner.run()
        return world.node_call_notes() if world.is_traced else None
    finally:
        await world.close()

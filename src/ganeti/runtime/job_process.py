# SPDX-License-Identifier: BSD-2-Clause
"""One job in its own process, from the fork to the last write of its file (S2.33 to S2.41).

1. create and lock a file of our own, before talking to anybody     (S2.26)
2. send its name to LuxiD; wait for the confirmation                (S2.36, S2.37)
   a broken pipe here: end without having begun                     (S2.39)
3. get the secret parameters over the same socket, close it
4. run the opcodes; from here on the job's file is ours             (S2.62)
5. remove the lock file                                             (S2.30)
"""

import asyncio
import logging
import os
import signal
import socket
from typing import Any

from ganeti.base.errors import GanetiError, TransportError
from ganeti.master.queue import entries
from ganeti.master.queue.execution import JobRunner
from ganeti.runtime.environment import Environment
from ganeti.runtime.job_files import JobFiles
from ganeti.runtime.livelock import LiveLock, job_lock_path
from ganeti.runtime.pause_points import reach
from ganeti.wire.framing_sync import SyncConnection
from ganeti.wire.job_file import JobFile

_log = logging.getLogger(__name__)


def run(environment: Environment, job_id: int, attempt: int, pipe: socket.socket) -> int:
    """Be job *job_id*; gives the exit status of the process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until somebody can honour it
    reach("job-forked")
    lock = LiveLock(job_lock_path(environment.paths.livelock_dir, job_id, attempt))
    reach("job-locked")
    try:
        secrets = _shake_hands(lock, SyncConnection(pipe))
    except TransportError as err:
        _log.warning("job %s ends before it begins: %s", job_id, err)
        lock.remove()
        return 0
    reach("job-confirmed")
    job = JobFiles(environment.paths).read(job_id)
    if job is None:
        raise GanetiError(f"The file of job {job_id} has vanished")
    for entry, values in zip(job.ops, secrets, strict=False):
        entry.input.update(values)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_work(environment, job, lock))  # the process ends now: nothing to tear down
    lock.remove()
    return 0


def _shake_hands(lock: LiveLock, connection: SyncConnection) -> list[dict[str, Any]]:
    connection.set_timeout(None)
    with connection:
        connection.send({"lock_file": lock.path, "pid": os.getpid()})
        reach("job-greeted")
        answer = connection.receive()
    return list(answer["secrets"])


async def _work(environment: Environment, job: JobFile, lock: LiveLock) -> None:
    from ganeti.runtime.job_world import JobWorld

    world = JobWorld(environment, job, lock)
    runner = JobRunner(job, world)
    loop = asyncio.get_running_loop()
    signal.signal(signal.SIGTERM, lambda number, frame: loop.call_soon_threadsafe(runner.ask_cancel))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        if job.attempt > 1:
            await runner.unwind_for_the_dead(entries.died_sentence(job))
        else:
            await runner.run()
    finally:
        await world.close()

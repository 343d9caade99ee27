# SPDX-License-Identifier: BSD-2-Clause
"""A job that does nothing, carried out in the spawner, so that the jobs share what the first of its kind makes.

Python settles how to run a function while it runs it for the first few times, and much is made when it is first used.
Each job would do that again, in its own copies of the memory it has from the spawner. The job of the rehearsal has a
directory of its own, nobody at the other ends of its sockets, and an event loop of its own: nothing is left of it. The
configuration is read as jobs read it, and closed again: a database handle must not cross a fork.
"""

import asyncio
import io
import logging
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ganeti.base.errors import ConfigurationError
from ganeti.base.paths import Paths
from ganeti.job import process as job_process
from ganeti.job.loop import JobLoop
from ganeti.job.world import JobWorld
from ganeti.master.queue.execution import JobRunner
from ganeti.master.queue.submission import new_job
from ganeti.stores.config_view import ConfigReader
from ganeti.stores.job_files import JobFiles
from ganeti.system import process_title
from ganeti.system.environment import Environment
from ganeti.system.livelock import LiveLock, job_lock_path
from ganeti.system.pause_points import passed_by
from ganeti.wire.framing import CODEC, encode
from ganeti.wire.framing_sync import SyncConnection

_log = logging.getLogger(__name__)
_JOB_ID = 1
_ROUNDS = 8
"""As often as the interpreter sees code run before it settles how to run it."""
_OPCODE = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0001}
_ANSWERS = 8
"""More than the calls of one such job to WConfD."""


def rehearse(environment: Environment) -> None:
    """Carry the job out some times; where that fails, jobs cost more memory, and nothing else."""
    try:
        with (
            passed_by(),
            process_title.kept(),
            _unwritten_log(),
            tempfile.TemporaryDirectory(prefix="ganeti-spawner-") as root,
        ):
            paths = Paths(root)
            JobFiles(paths).prepare()
            os.makedirs(paths.livelock_dir)
            for attempt in range(1, _ROUNDS + 1):
                _carry_out(Environment(paths, environment.hostname), attempt)
                _read_configuration(environment.paths)
    except Exception as err:  # whatever it is: a spawner that ended here would start no job at all
        _log.warning("jobs will cost more memory: the rehearsal of one failed: %s", err)


def _carry_out(environment: Environment, attempt: int) -> None:
    JobFiles(environment.paths).write(new_job(_JOB_ID, [dict(_OPCODE)], 0.0), durable=False)
    lock = LiveLock(job_lock_path(environment.paths.livelock_dir, _JOB_ID, attempt))
    loop = JobLoop()
    try:
        with _answering({"secrets": [], "claim": None}) as luxid:
            job, claim = job_process.accept(environment, _JOB_ID, lock, luxid)
        with _answering(*[{"success": True, "result": []}] * _ANSWERS) as wconfd:
            world = JobWorld(environment, job, lock, claim)
            world.wconfd.ask_over(SyncConnection(wconfd, **CODEC))
            loop.run_until_complete(_run(JobRunner(job, world), world))
    finally:
        loop.close()
        lock.remove()


def _read_configuration(paths: Paths) -> None:
    reader = ConfigReader(paths.config_database)
    try:
        with suppress(ConfigurationError), reader.view() as view:  # there may be none yet
            view.find_node(view.node(view.cluster.master_node).name)
    finally:
        reader.close()


async def _run(runner: JobRunner, world: JobWorld) -> None:
    try:
        await runner.run()
    finally:
        await world.close()
    await asyncio.sleep(0)


@contextmanager
def _answering(*answers: object) -> Iterator[socket.socket]:
    """A socket that has these answers already, whatever is asked."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"".join(map(encode, answers)))
        yield ours


@contextmanager
def _unwritten_log() -> Iterator[None]:
    """Lines are made as they are for the log, which gets none of them."""
    root = logging.getLogger()
    kept = root.handlers[:]
    aside = logging.StreamHandler(io.StringIO())
    if kept:
        aside.setFormatter(kept[0].formatter)
    root.handlers[:] = [aside]
    try:
        yield
    finally:
        root.handlers[:] = kept

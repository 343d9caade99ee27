# SPDX-License-Identifier: BSD-2-Clause
"""The spawner: a single-threaded process with everything imported that forks one process per job (D7).

It is a program of its own (`daemons/spawner.py`), started by LuxiD before that opens its lock file, so that no lock,
database handle, event loop or thread is ever inherited by a job. It ends when LuxiD's end of its socket closes; the
jobs go on.

Messages are JSON in packets: LuxiD sends ``{"job", "attempt", "operations"}`` with the job's end of a socket as
descriptor, or ``{"ping"}``, answered by ``{"pong"}``. What an operation needs is imported here before the first job
that has one is forked: all later ones share it, and of the hundreds of modules most clusters use a few.
"""

import gc
import json
import logging
import os
import select
import signal
import socket
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from ganeti.job import process as job_process
from ganeti.job import world as job_world
from ganeti.system.environment import Environment
from ganeti.system.forking import fork

_log = logging.getLogger(__name__)
_MESSAGE_BYTES = 64 * 1024


class Spawner:
    """Serves one LuxiD until it goes away."""

    def __init__(self, control: socket.socket, environment: Environment) -> None:
        self._control = control
        self._control_descriptor = control.fileno()
        self._environment = environment
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._learned: dict[str, None] = {}

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, _note)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
                _reap()
            if self._control.fileno() in ready and not self._serve_request():
                return

    def _serve_request(self) -> bool:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, _MESSAGE_BYTES, 1)
        except ConnectionResetError:  # LuxiD was killed before it read our last answer
            return False
        if not data:
            return False
        message = json.loads(data)
        if "ping" in message:
            try:
                self._control.send(b'{"pong":true}')
            except (BrokenPipeError, ConnectionResetError):
                return False
            return True
        self._learn(message["operations"])
        signal.pthread_sigmask(signal.SIG_BLOCK, job_process.SIGNALS)  # for the job
        try:
            fork(lambda: self._become_job(message["job"], message["attempt"], descriptors[0]))
        except OSError as err:  # the job's socket closes below, and LuxiD ends the job in error
            _log.error("job %s cannot be started: %s", message["job"], err.strerror)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, job_process.SIGNALS)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _learn(self, operations: Sequence[str]) -> None:
        """Import what these operations need; what cannot be imported is tried again by its job, and its failure."""
        unknown = [op_id for op_id in operations if op_id not in self._learned]
        if not unknown:
            return
        self._learned.update(dict.fromkeys(unknown))
        gc.disable()
        try:
            for op_id in unknown:
                job_world.learn(op_id)
        except Exception:
            _log.exception("operations of a job cannot be imported: %s", ", ".join(unknown))
        gc.freeze()
        gc.enable()

    def _become_job(self, job_id: int, attempt: int, descriptor: int) -> NoReturn:
        """As little as can be: each page of memory touched here is copied, which is what a job costs."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            os.close(self._control_descriptor)
            os.close(self._wake_read)
            os.close(self._wake_write)
            status = job_process.run(self._environment, job_id, attempt, socket.socket(fileno=descriptor))
        except BaseException:
            _log.exception("job %s ends because of a fault of its own", job_id)
        finally:
            os._exit(status)  # every line of the log is out already


def _note(number: int, frame: FrameType | None) -> None:
    """The wake-up descriptor has said it already."""


def _reap() -> None:
    """Let ended jobs go; LuxiD learns of their end by itself."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if status != 0:
            code = os.waitstatus_to_exitcode(status)
            _log.warning("job process %s ended by %s", pid, f"signal {-code}" if code < 0 else f"exit status {code}")


def serve(descriptor: int, environment: Environment) -> None:
    """Be the spawner of the LuxiD at the other end of *descriptor*; returns when it goes."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    gc.enable()
    Spawner(socket.socket(fileno=descriptor), environment).serve()

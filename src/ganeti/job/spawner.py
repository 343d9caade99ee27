# SPDX-License-Identifier: BSD-2-Clause
"""The spawner: a single-threaded process with everything imported that forks one process per job (D7).

It is a program of its own (`daemons/spawner.py`), started by LuxiD before that opens its lock file, so that no lock,
database handle, event loop or thread is ever inherited by a job. It ends when LuxiD's end of its socket closes; the
jobs go on.

Messages are JSON in packets: LuxiD sends ``{"job", "attempt", "operations"}`` with the job's end of a socket as
descriptor, or ``{"ping"}``, answered by ``{"pong"}``. What an operation needs is imported here before the first job
that has one is forked: all later ones share it, and of the hundreds of modules most clusters use a few.

While nothing is asked for, a process is forked that waits for the next job (`Spare`). A job that finds none, as most of
a bulk do, is forked when it is asked for.
"""

import gc
import json
import logging
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from ganeti.base.errors import INTERNAL_ERROR
from ganeti.job import process as job_process
from ganeti.job import world as job_world
from ganeti.job.spare import Spare
from ganeti.system import forking, process_title
from ganeti.system.environment import Environment

_log = logging.getLogger(__name__)
_MESSAGE_BYTES = 64 * 1024
_QUIET_S = 0.01
"""So long after the last job has ended, a spare process is made."""
_QUIET_BESIDE_JOBS_S = 0.5
"""So long after the last request, a spare process is made beside jobs that run."""
_REFUSED_S = 5.0


class Spawner:
    """Serves one LuxiD until it goes away."""

    def __init__(self, control: socket.socket, environment: Environment) -> None:
        self._control = control
        self._control_descriptor = control.fileno()
        self._environment = environment
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._learned: dict[str, None] = {}
        self._jobs: set[int] = set()
        self._spare: Spare | None = None
        self._quiet_since_s = 0.0

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, _note)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            wait_s = self._spare_in_s()
            ready = {descriptor for descriptor, _ in poll.poll(None if wait_s is None else 1000 * wait_s)}
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
                self._reap()
            if self._control.fileno() in ready and not self._serve_request():
                return
            if not ready and wait_s is not None:
                self._make_spare()

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
        self._quiet_since_s = time.monotonic()
        if not self._give_to_spare(data, descriptors[0]):
            job_id, attempt = message["job"], message["attempt"]
            try:
                self._jobs.add(self._fork(lambda: self._run(job_id, attempt, descriptors[0])))
            except OSError as err:  # the job's socket closes below, and LuxiD ends the job in error
                _log.error("job %s cannot be started: %s", job_id, err.strerror)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    # The process that waits for a job

    def _spare_in_s(self) -> float | None:
        """In how many seconds a spare process is to be made; None if one is there, or nobody knows for what jobs."""
        if self._spare is not None or not self._learned or not forking.PAYS_IN_ADVANCE:
            return None
        quiet_s = _QUIET_BESIDE_JOBS_S if self._jobs else _QUIET_S
        return max(self._quiet_since_s + quiet_s - time.monotonic(), 0.0)

    def _make_spare(self) -> None:
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            self._quiet_since_s = time.monotonic() + _REFUSED_S
            return
        with theirs:
            try:
                self._spare = Spare(self._fork(lambda: self._wait_for_job(ours, theirs)), ours)
            except OSError as err:
                _log.warning("no process can be made in advance now: %s", err.strerror)
                ours.close()
                self._quiet_since_s = time.monotonic() + _REFUSED_S

    def _give_to_spare(self, request: bytes, descriptor: int) -> bool:
        spare, self._spare = self._spare, None
        if spare is None:
            return False
        taken = spare.give(request, descriptor)
        if taken:
            self._jobs.add(spare.pid)
        return taken

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    def _wait_for_job(self, spawners_end: socket.socket, control: socket.socket) -> int:
        """Be the spare process, and then the job: one that is asked for nothing ends with the spawner."""
        spawners_end.close()
        process_title.show_spare()
        data, descriptors, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 1)
        control.close()
        if not data:
            return 0
        message = json.loads(data)
        return self._run(message["job"], message["attempt"], descriptors[0])

    def _learn(self, operations: Sequence[str]) -> None:
        """Import what these operations need; what cannot be imported is tried again by its job, and its failure."""
        unknown = [op_id for op_id in operations if op_id not in self._learned]
        if not unknown:
            return
        self._learned.update(dict.fromkeys(unknown))
        self._drop_spare()  # it lacks what is imported now
        gc.disable()
        try:
            for op_id in unknown:
                job_world.learn(op_id)
        except Exception:
            _log.exception("operations of a job cannot be imported: %s", ", ".join(unknown))
        gc.freeze()
        gc.enable()

    # Processes

    def _fork(self, child: Callable[[], int]) -> int:
        """Make a process that runs *child* and ends with its exit status; gives its id. Raises `OSError`."""
        signal.pthread_sigmask(signal.SIG_BLOCK, job_process.SIGNALS)  # for the job
        try:
            return forking.fork(lambda: self._become_child(child))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, job_process.SIGNALS)

    def _become_child(self, child: Callable[[], int]) -> NoReturn:
        """As little as can be: each page of memory touched here is copied, which is what a job costs."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            os.close(self._control_descriptor)
            os.close(self._wake_read)
            os.close(self._wake_write)
            status = child()
        except BaseException:
            _log.exception("process %d ends because of %s", os.getpid(), INTERNAL_ERROR)
        finally:
            os._exit(status)  # every line of the log is out already

    def _run(self, job_id: int, attempt: int, descriptor: int) -> int:
        try:
            return job_process.run(self._environment, job_id, attempt, socket.socket(fileno=descriptor))
        except BaseException:
            _log.exception("job %s ends because of %s", job_id, INTERNAL_ERROR)
            return 1

    def _reap(self) -> None:
        """Let ended jobs go; LuxiD learns of their end by itself."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._jobs.discard(pid)
            self._quiet_since_s = time.monotonic()
            if self._spare is not None and self._spare.pid == pid:  # killed, or it could not even wait
                self._drop_spare()
                self._quiet_since_s += _REFUSED_S
            if status != 0:
                code = os.waitstatus_to_exitcode(status)
                ending = f"signal {-code}" if code < 0 else f"exit status {code}"
                _log.warning("job process %s ended by %s", pid, ending)


def _note(number: int, frame: FrameType | None) -> None:
    """The wake-up descriptor has said it already."""


def serve(descriptor: int, environment: Environment) -> None:
    """Be the spawner of the LuxiD at the other end of *descriptor*; returns when it goes."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    gc.enable()
    Spawner(socket.socket(fileno=descriptor), environment).serve()

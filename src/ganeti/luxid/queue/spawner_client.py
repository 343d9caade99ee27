# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's side of the spawner: start it, ask it for job processes, start it again when it has ended."""

import asyncio
import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

from ganeti.system.process_title import ROOM

_log = logging.getLogger(__name__)
_RESTART_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_LIVES_S = 60.0
"""A spawner that ended before this was not able to work: the next one is started after a longer pause."""
_PING_S = 10.0
_SEND_S = 5.0


class SpawnerClient:
    """Owns the spawner process. *came* is called when a spawner is there (again), *went* when it ended."""

    def __init__(self, *, debug: bool = False) -> None:
        self._debug = debug
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pongs: list[asyncio.Future[bool]] = []
        self._closed = False
        self._launched_s = 0.0
        self._failures = 0
        """How many spawners in a row ended before they could work."""
        self.came: Callable[[], None] = lambda: None
        self.went: Callable[[], None] = lambda: None

    def launch(self) -> None:
        """Start the program; needs no event loop, so it can be done before anything is opened or locked."""
        self._launched_s = time.monotonic()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [sys.executable, "-m", "ganeti.daemons.spawner", str(theirs.fileno())]
        if self._debug:
            arguments.append("--debug")
        arguments.append(ROOM)
        self._process = subprocess.Popen(
            arguments, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        ours.setblocking(False)
        self._control = ours

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_there(self) -> bool:
        return self._control is not None

    def attach(self) -> None:
        """Begin to listen, inside the event loop."""
        assert self._control is not None
        asyncio.get_running_loop().add_reader(self._control, self._read)
        self.came()

    def request(self, job_id: int, attempt: int, operations: Iterable[str]) -> socket.socket:
        """Ask for a process for a job of these operations (`OP_ID`).

        Gives our end of its socket, which ends at once if the process cannot be made.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        try:
            if self._control is not None:
                asked = {"job": job_id, "attempt": attempt, "operations": sorted(set(operations))}
                message = json.dumps(asked).encode()
                self._control.settimeout(_SEND_S)  # waits only behind hundreds of requests
                try:
                    socket.send_fds(self._control, [message], [theirs.fileno()])
                finally:
                    self._control.setblocking(False)
        except OSError as err:
            _log.warning("the spawner does not take job %s: %s", job_id, err.strerror)
        finally:
            theirs.close()
        return ours

    async def alive(self) -> bool:
        """Ask whether the spawner lives: all it was asked before has been dealt with when this returns."""
        if self._control is None:
            return False
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._pongs.append(answer)
        try:
            self._control.send(b'{"ping":true}')
            async with asyncio.timeout(_PING_S):
                return await answer
        except OSError:  # TimeoutError is one
            return False
        finally:
            if answer in self._pongs:
                self._pongs.remove(answer)

    def close(self) -> None:
        """Let the spawner end; the jobs go on."""
        self._closed = True
        self._process = None
        self._drop()

    def _read(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            while self._pongs:
                answer = self._pongs.pop()
                if not answer.done():
                    answer.set_result(True)
            return
        self._drop()
        self.went()
        if not self._closed:
            self._failures = self._failures + 1 if time.monotonic() - self._launched_s < _LIVES_S else 0
            pause_s = min(_RESTART_PAUSE_S * 2 ** min(self._failures, 10), _LONGEST_PAUSE_S)
            if self._failures > 1:
                _log.error(
                    "the spawner has ended %s times soon after its start, so no job can begin: its log, jobs.log, says "
                    "why; it is started again in %g s",
                    self._failures,
                    pause_s,
                )
            else:
                _log.warning("the spawner has ended; starting it again")
            asyncio.get_running_loop().call_later(pause_s, self._start_again)

    def _drop(self) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
            self._control = None
        for answer in self._pongs:
            if not answer.done():
                answer.set_result(False)
        self._pongs.clear()
        if self._process is not None:
            process, self._process = self._process, None
            asyncio.get_running_loop().run_in_executor(None, process.wait)

    def _start_again(self) -> None:
        if self._closed:
            return
        try:
            self.launch()
        except OSError as err:
            _log.error("the spawner cannot be started: %s", err)
            asyncio.get_running_loop().call_later(_RESTART_PAUSE_S, self._start_again)
            return
        self.attach()

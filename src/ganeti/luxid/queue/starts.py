# SPDX-License-Identifier: BSD-2-Clause
"""Jobs whose processes are being started: from the request to the spawner to the confirmation (S2.35 to S2.40)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ganeti.luxid.queue.handshake import Greeting, Handshake
from ganeti.luxid.queue.spawner_client import SpawnerClient
from ganeti.master.queue import events as ev
from ganeti.system.event_loop import Background
from ganeti.system.pause_points import reach
from ganeti.wire.framing import encode

_log = logging.getLogger(__name__)


class JobStarts:
    """Tells *handle* what becomes of each start: `Greeted`, `StartFailed` or `SpawnerLost`."""

    def __init__(self, spawner: SpawnerClient, handle: Callable[[ev.JobEvent], None], tasks: Background) -> None:
        self._spawner = spawner
        self._handle = handle
        self._tasks = tasks
        self._handshakes: dict[int, Handshake] = {}
        self._settled: asyncio.Future[None] | None = None

    def start(self, job_id: int, attempt: int) -> None:
        pipe = self._spawner.request(job_id, attempt)
        self._handshakes[job_id] = Handshake(
            pipe, lambda greeting: self._greeted(job_id, greeting), lambda: self._lost(job_id)
        )

    def confirm(self, job_id: int, message: dict[str, Any]) -> None:
        """Let the process run (S2.37)."""
        self._handshakes[job_id].confirm(encode(message))

    def over(self, job_id: int) -> None:
        """Nothing more is to be said; a process that was not confirmed ends."""
        self._handshakes.pop(job_id).close()
        if self._settled is not None and not self._handshakes and not self._settled.done():
            self._settled.set_result(None)

    async def settle(self, timeout_s: float) -> None:
        """Let the starts under way come to their end; those that do not in time are given up."""
        self._settled = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                if self._handshakes:
                    await self._settled
        except TimeoutError:
            _log.warning("jobs still being started will be found dead")
        for handshake in self._handshakes.values():
            handshake.close()

    def _greeted(self, job_id: int, greeting: Greeting) -> None:
        reach("luxid-greeted")
        self._handle(ev.Greeted(job_id, greeting.lock_file, greeting.pid))

    def _lost(self, job_id: int) -> None:
        self.over(job_id)
        self._tasks.start(self._judge(job_id), f"failed start of job {job_id}")

    async def _judge(self, job_id: int) -> None:
        """The pipe broke before the greeting: the process failed, or never was made (S2.40)."""
        if await self._spawner.alive():
            self._handle(ev.StartFailed(job_id, "it ended before it said that it is there"))
        else:
            self._handle(ev.SpawnerLost(job_id))

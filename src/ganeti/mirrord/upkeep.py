# SPDX-License-Identifier: BSD-2-Clause
"""While a disk is in use, a storage daemon that ended by itself is started again: the kernel may kill it for memory.

On the secondary it shows the copy under the same name and in the same session as before, so the primary connects again
and copies the changed parts. Whatever fences an old primary is asked as of any other connection.
"""

import asyncio
import math

from ganeti.base.errors import BlockDeviceError
from ganeti.mirrord.copying import WRITING, Copying
from ganeti.mirrord.record import Record
from ganeti.mirrord.storage_daemon import StorageDaemon

LONGEST_PAUSE_S = 16.0
"""A guest's write waits 30 s for its storage daemon (`node/storage/mirror/driver.py`): each one meets a new try."""
_FIRST_PAUSE_S = 1.0
STEADY_S = 60.0
"""One that has lived so long is started again at once."""


class Pauses:
    """How long a storage daemon that has ended waits for its next start: not at first, then longer and longer."""

    def __init__(self) -> None:
        self._pause_s = 0.0
        self._started_s = -math.inf

    def started(self, now_s: float) -> None:
        """It was started, or could not be."""
        self._started_s = now_s

    def ended(self, now_s: float) -> float:
        """Seconds until the next start."""
        is_steady = now_s - self._started_s >= STEADY_S
        self._pause_s = 0.0 if is_steady else min(max(2 * self._pause_s, _FIRST_PAUSE_S), LONGEST_PAUSE_S)
        return self._pause_s


class Upkeep:
    """Its user holds the disk's *lock* around every call; the task that `start` begins takes it itself."""

    def __init__(self, record: Record, daemon: StorageDaemon, copying: Copying, lock: asyncio.Lock) -> None:
        self._record = record
        self._daemon = daemon
        self._copying = copying
        self._lock = lock
        self._pauses = Pauses()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Nothing is started any more. The lock is held, so no start is on its way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def bring_back(self) -> None:
        """Start a storage daemon where none runs; raises `BlockDeviceError`, or `OSError` for a loss not noted."""
        if self._daemon.process_id() is not None:
            return
        try:
            if self._record.opened.role in WRITING:
                await self._copying.note_loss()
                await self._record.until_told(self._record.opened)
            await self._daemon.stop()
            await self._daemon.start(self._record.opened.export)
        finally:
            self._pauses.started(asyncio.get_running_loop().time())

    async def show_again(self, *, is_parted: bool) -> None:
        """Let the guest write again; where its copy *is_parted* from the other one, that is noted first.

        Where that fails no storage daemon runs afterwards: the next one is started once the loss is noted.
        """
        try:
            if is_parted:
                await self._copying.note_loss()
                await self._record.until_told(self._record.opened)
            await self._daemon.show_export(self._record.opened.export)
        except (BlockDeviceError, OSError):
            await self._daemon.stop()
            raise

    async def _keep(self) -> None:
        failure = ""
        while True:
            how = await self._daemon.ended()
            async with self._lock:
                if self._daemon.process_id() is not None:  # it was ended, and another one started, under the lock
                    continue
                pause_s = self._pauses.ended(asyncio.get_running_loop().time())
                self._say(failure or f"its storage daemon {how}", pause_s)
                if not pause_s:
                    failure = await self._try()
                    continue
            await asyncio.sleep(pause_s)
            async with self._lock:
                failure = await self._try()

    async def _try(self) -> str:
        """Gives why it failed."""
        try:
            await self.bring_back()
        except Exception as err:  # whatever it is, the disk is to be served
            return str(err) or repr(err)
        return ""

    def _say(self, why: str, pause_s: float) -> None:
        if pause_s < LONGEST_PAUSE_S:
            self._record.say(f"{why}: it is started again {f'in {pause_s:g} s' if pause_s else 'at once'}")
        else:
            self._record.say(f"{why}, again and again: it is started every {pause_s:g} s")

# SPDX-License-Identifier: BSD-2-Clause
"""Tells the master that a copy of a disk is lost, again and again until the configuration knows.

A guest's write that is on one node only waits for that, for a time: then a failover to the other node is refused.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from ganeti.calls.maintenance_reports import PORT, Fault, send_report
from ganeti.node.storage.mirror.requests import Opened
from ganeti.system.event_loop import Background
from ganeti.wire.loss_report import PATH, LossReport, write_loss_report

WAIT_S = 5.0
"""So long a guest waits for a master that does not answer."""
REFUSED_S = 1.0
"""So long for one where no maintenance daemon runs, which may be starting again, or that does not believe it."""
_AGAIN_S = 0.2
_AT_MOST_S = 10.0
_DISBELIEVED_AT_MOST_S = 600.0
"""A report that is not believed is repeated all the same: a clock or a key may have been wrong."""
_log = logging.getLogger(__name__)


class LossReporter:
    """*master* gives the name and the addresses of the master, *key* the cluster's key."""

    def __init__(
        self, node: str, master: Callable[[], tuple[str, Sequence[str]]], key: Callable[[], bytes], port: int = PORT
    ) -> None:
        self._node, self._master, self._key, self._port = node, master, key, port
        self._background = Background()
        self._untold: dict[str, int] = {}
        """Generations by the UUIDs of disks."""
        self._changed = asyncio.Event()
        self._newer: dict[str, asyncio.Event] = {}
        """Set where another generation is to be told than the one that is."""
        self._is_refused = False
        self._disbelieved: set[str] = set()
        """Disks whose newest generation the master does not believe: that says nothing of other disks."""

    def note(self, disk: Opened, generation: int) -> None:
        """The copy of *disk* on this node has this generation, and the other one has not. For now: a node alone has no
        master to tell.
        """
        if not self._master()[1]:
            return
        is_told = disk.uuid not in self._untold
        self._untold[disk.uuid] = generation
        self._disbelieved.discard(disk.uuid)
        self._newer.setdefault(disk.uuid, asyncio.Event()).set()
        if is_told:
            self._background.start(self._tell(disk), f"telling that a copy of disk {disk.image} is lost")

    async def wait(self, disk: Opened) -> None:
        """Until the master knows; not where the master is the lost node, and not for ever."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        name, addresses = self._master()
        if name == disk.peer or not addresses:
            return
        while disk.uuid in self._untold:
            is_hurried = self._is_refused or disk.uuid in self._disbelieved
            left_s = begun_s + (REFUSED_S if is_hurried else WAIT_S) - loop.time()
            if left_s <= 0:
                _log.warning("disk %s: its guest goes on, the master does not know that a copy is lost", disk.image)
                return
            try:
                async with asyncio.timeout(left_s):
                    self._changed.clear()
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def close(self) -> None:
        await self._background.cancel()

    async def _tell(self, disk: Opened) -> None:
        pause_s, said, newer = _AGAIN_S, "", self._newer[disk.uuid]
        while disk.uuid in self._untold:
            newer.clear()
            generation = self._untold[disk.uuid]
            fault = await self._tell_once(LossReport(self._node, disk.uuid, generation))
            if self._untold[disk.uuid] == generation:
                self._disbelieved.discard(disk.uuid)
                if fault.is_disbelieved:
                    self._disbelieved.add(disk.uuid)
                if not fault.text:
                    del self._untold[disk.uuid], self._newer[disk.uuid]
            self._changed.set()
            if not fault.text:
                continue
            if fault.text != said:
                _log.warning("disk %s: the loss of a copy cannot be reported to the master: %s", disk.image, fault.text)
                said = fault.text
            try:
                async with asyncio.timeout(pause_s):
                    await newer.wait()
                pause_s = _AGAIN_S
            except TimeoutError:
                pause_s = min(2 * pause_s, _DISBELIEVED_AT_MOST_S if fault.is_disbelieved else _AT_MOST_S)

    async def _tell_once(self, report: LossReport) -> Fault:
        fault = await send_report(
            self._master()[1], PATH, lambda: write_loss_report(report, time.time(), self._key()), self._port
        )
        self._is_refused = fault.is_refused
        return fault

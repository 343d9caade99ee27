# SPDX-License-Identifier: BSD-2-Clause
"""Tells the maintenance daemon at once that guests have ended here, so that nobody needs to ask again and again.

The kernel tells of the end of a guest's process; guests without a process of their own are missed by the next sample,
and those that should run and were never seen by the two after.
What cannot be told is dropped after a while: the watcher finds it in its next round.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.calls.maintenance_reports import PORT, send_report
from ganeti.node.hypervisors.interface import Sighting
from ganeti.system.event_loop import Background
from ganeti.wire.guest_report import PATH, GuestReport, write_guest_report

_AGAIN_S = (2.0, 8.0, 30.0)
_log = logging.getLogger(__name__)


class GuestEnds:
    """Has *look* work as soon as the process of a guest has ended."""

    def __init__(self, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._look = look
        self._background = Background()
        self._watched: dict[int, int] = {}
        """Descriptors of processes, by process id."""

    def follow(self, guests: Iterable[Sighting]) -> None:
        """Watch the processes of these guests, and no others any more."""
        pids = {guest.pid for guest in guests if guest.pid}
        for pid in self._watched.keys() - pids:
            self._drop(pid)
        for pid in pids - self._watched.keys():
            with contextlib.suppress(OSError):  # it has ended: the next look misses it
                self._watched[pid] = os.pidfd_open(pid)
                asyncio.get_running_loop().add_reader(self._watched[pid], self._ended, pid)

    async def close(self) -> None:
        self.follow(())
        await self._background.cancel()

    def _ended(self, pid: int) -> None:
        self._drop(pid)
        self._background.start(self._try(), "a look at guests")

    async def _try(self) -> None:
        with contextlib.suppress(GanetiError):  # the next sample misses it
            await self._look()

    def _drop(self, pid: int) -> None:
        descriptor = self._watched.pop(pid)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


class GuestEndReporter:
    """*masters* gives the addresses where the maintenance daemon may be, *key* the cluster's key."""

    def __init__(
        self, node: str, masters: Callable[[], Sequence[str]], key: Callable[[], bytes], port: int = PORT
    ) -> None:
        self._node, self._masters, self._key, self._port = node, masters, key, port
        self._background = Background()

    def tell(self, ended: Sequence[str] | None, running: Sequence[str]) -> None:
        """Tell of guests that have ended, or with None that this node has begun to look; and what runs."""
        report = GuestReport(self._node, ended, running, time.time())
        self._background.start(self._tell(report), "telling of guests")

    async def close(self) -> None:
        await self._background.cancel()

    async def _tell(self, report: GuestReport) -> None:
        fault = ""
        for pause_s in (*_AGAIN_S, None):
            fault = (
                await send_report(self._masters(), PATH, lambda: write_guest_report(report, self._key()), self._port)
            ).text
            if not fault:
                return
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        what = f"that {', '.join(report.ended)} ended" if report.ended else "which guests run"
        _log.info("%s cannot be reported to the maintenance daemon (%s): the watcher looks in its round", what, fault)

# SPDX-License-Identifier: BSD-2-Clause
"""Guests shut down from inside: who ended a guest, by QEMU's own events, and the note that says so (protocols, 1).

A guest started with ``user_shutdown`` keeps its QEMU when it powers off, and has a second QMP socket that says why.
`Follower` listens there; once the guest is off it writes the note, if its user wanted that, and ends QEMU.
"""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm import process, record
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.qmp import Qmp
from ganeti.node.hypervisors.kvm.status import SHUTDOWN, state_of
from ganeti.system.files import write_atomically

SOCKET = "kvmd"
BUTTON_COUNTS_S = 600.0
"""How long a press on the power button explains that the guest powers off."""
_GREETING_S = 90.0
"""QEMU greets when it has its memory and its disks."""
STARTS_WITHIN_S = 90.0
"""A new socket with nobody behind it is asked again so long; a QEMU that lives, as long as it lives."""
_RETRY_S, _LONGEST_RETRY_S = 0.05, 2.0
_BY_GUEST = "guest-shutdown"
_NOTE = ".shutdown"
_PRESSED, _RESET, _OFF = "POWERDOWN", "RESET", "SHUTDOWN"


class PowerStory:
    """What QEMU has told of one guest's power. Pure."""

    def __init__(self) -> None:
        self._pressed_s: float | None = None

    def hear(self, event: dict[str, Any]) -> bool | None:
        """None while the guest is on; once it is off, whether its user wanted that.

        A press on the power button is an administrator's wish; a reboot, a panic and QEMU's own end are nobody's.
        """
        now_s = float(event.get("timestamp", {}).get("seconds", 0))
        if event["event"] == _PRESSED:
            self._pressed_s = now_s
        elif event["event"] == _RESET:
            self._pressed_s = None
        elif event["event"] == _OFF:
            pressed = self._pressed_s is not None and now_s - self._pressed_s <= BUTTON_COUNTS_S
            data = event.get("data", {})
            return bool(data.get("guest")) and data.get("reason", _BY_GUEST) == _BY_GUEST and not pressed
        return None


class Follower:
    """Follows every guest of this node that has the socket, until `close`."""

    def __init__(self, places: Places, log: Callable[[str], None]) -> None:
        self._places = places
        self._log = log
        self._following: dict[str, asyncio.Task[None]] = {}

    def look(self) -> None:
        """Follow those that are there and are not followed yet."""
        for entry in os.listdir(self._places.control_dir):
            if entry.removesuffix(f".{SOCKET}") not in self._following:
                self.appeared(entry)

    def appeared(self, entry: str) -> None:
        """A file has appeared beside the sockets; a guest's new socket means a new QEMU."""
        name = entry.removesuffix(f".{SOCKET}")
        if name == entry:
            return
        if (old := self._following.pop(name, None)) is not None:
            old.cancel()
        task = asyncio.get_running_loop().create_task(self._follow(name))
        self._following[name] = task
        task.add_done_callback(lambda done: self._forget(name, done))

    async def close(self) -> None:
        tasks = list(self._following.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, name: str, task: asyncio.Task[None]) -> None:
        if self._following.get(name) is task:
            del self._following[name]
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._log(f"instance {name} is not followed any more: {fault}")

    async def _follow(self, name: str) -> None:
        """Until QEMU has ended, or none comes: a socket is seen before anybody listens there."""
        path = self._places.socket(name, SOCKET)
        end_s, pause_s = time.monotonic() + STARTS_WITHIN_S, _RETRY_S
        is_over = False
        while True:
            try:
                async with Qmp(path, timeout_s=_GREETING_S) as qmp:
                    end_s = 0.0  # from now on its process says whether it lives
                    if not is_over:  # one that is off and does not quit is asked to quit again: who ended it is known
                        by_user, is_over = await _await_end(qmp), True
                        self._is_off(name, by_user)
                    await self._until_arrived(name)
                    await qmp.execute("quit")
                    return
            except HypervisorError:
                is_awaited = time.monotonic() < end_s and os.path.exists(path)
            if not is_awaited and process.find(self._places, name) is None:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_RETRY_S)

    async def _until_arrived(self, name: str) -> None:
        """A guest that is off before its arrival was told shows by its QEMU that it has arrived."""
        while True:
            if _is_started(self._places, name) or process.find(self._places, name) is None:
                return
            await asyncio.sleep(_RETRY_S)

    def _is_off(self, name: str, by_user: bool) -> None:
        """Note that the guest is off where its user wanted that."""
        if by_user and process.find(self._places, name) is not None:
            _write_note(self._places, name)
        why = "its user shut it down" if by_user else "it is off, not by its user"
        self._log(f"instance {name}: {why}; its QEMU ends")


async def _await_end(qmp: Qmp) -> bool:
    """Whether the guest's user ended it; a guest found off was ended while nobody followed, and is its user's."""
    if state_of((await qmp.execute("query-status"))["status"]) == SHUTDOWN:
        return True
    story = PowerStory()
    while (by_user := story.hear(await qmp.wait_event(_PRESSED, _RESET, _OFF, timeout_s=None))) is None:
        pass
    return by_user


def _is_started(places: Places, name: str) -> bool:
    try:
        known = record.read(places, name)
    except HypervisorError:
        return True
    return known is None or known.started


def _write_note(places: Places, name: str) -> None:
    write_atomically(places.user_shutdown(name), b"%d\n" % int(time.time()), mode=0o600, durable=False)


def noted(places: Places) -> list[str]:
    """Names of guests that have the note."""
    try:
        entries = os.listdir(places.control_dir)
    except FileNotFoundError:
        return []
    return sorted(entry.removesuffix(_NOTE) for entry in entries if entry.endswith(_NOTE))

# SPDX-License-Identifier: BSD-2-Clause
"""Has the watcher look at a node group as soon as a node says that guests have ended there which should run.

What is done about them is the watcher's to decide, with its limits and its pause; it looks again at everything itself.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.model.locks import ALL_INSTANCES, EXCLUSIVE, instance_lock
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.system.event_loop import Background
from ganeti.wire.diagnose_report import MISPLACED, RefusedReport
from ganeti.wire.guest_report import GuestReport, read_guest_report

SETTLE_S = 1.0
"""A guest that a job has stopped is marked as stopped by then."""
APART_S = 10.0
"""Between two looks at one group: a guest that dies again and again is no reason to look without end."""
BUSY_FOR_S = 300.0
"""How long is waited for the end of a job that holds an instance, or of another watcher."""
_log = logging.getLogger(__name__)


class GuestEndsHeard:
    """Call `run` as a task. *busy* gives the locks that jobs hold, *look* runs the watcher for a group (uuid), and
    gives False where another watcher is at work, who may have looked before.
    """

    def __init__(
        self,
        view: Callable[[], ConfigView],
        busy: Callable[[], Awaitable[frozenset[str]]],
        look: Callable[[str], Awaitable[bool]],
        key: Callable[[], bytes],
    ) -> None:
        self._view, self._busy, self._look, self._key = view, busy, look, key
        self._waiting: dict[str, tuple[str, float]] = {}
        """UUIDs of instances, each with that of the node where it ended, and since when (monotonic) it waits."""
        self._looked_s: dict[str, float] = {}
        self._looked_at: set[str] = set()
        """Groups that the watcher looks at now."""
        self._looks = Background()
        self._is_failing = False
        self._heard = asyncio.Event()
        self.refused: Counter[str] = Counter()

    def hear(self, body: bytes) -> str:
        """Take a node's report; gives why it is refused, or nothing."""
        try:
            report = read_guest_report(body, time.time(), self._key())
            found = self._missing(report)
        except RefusedReport as refusal:
            self.refused[refusal.kind] += 1
            if self.refused[refusal.kind] == 1 and refusal.kind != MISPLACED:  # a node that joins is a bit early
                _log.warning("a report of guests is refused, others like it are counted: it %s", refusal)
            return f"The report {refusal}"
        now_s = time.monotonic()
        for instance in found:
            self._waiting.setdefault(instance.uuid, (instance.primary_node, now_s))
        if found:
            self._heard.set()
        return ""

    async def run(self) -> None:
        try:
            while True:
                await self._heard.wait()
                self._heard.clear()
                await asyncio.sleep(SETTLE_S)
                await self._step()
                if self._waiting:
                    self._heard.set()
        finally:
            await self._looks.cancel()

    async def _step(self) -> None:
        """Begin to look at every group with guests that have ended, and that no job is at work on."""
        try:
            busy = await self._busy()
        except GanetiError as err:
            if not self._is_failing:
                _log.warning("guests that ended wait until LuxiD says what jobs are at work on: %s", err)
            self._is_failing = True
            self._forget_old()
            return
        self._is_failing = False
        self._forget_old()
        view, now_s = self._view(), time.monotonic()
        groups: dict[str, list[str]] = {}
        for uuid, (node, _) in list(self._waiting.items()):
            instance = view.get("instances", uuid)
            is_there = isinstance(instance, Instance) and instance.primary_node == node and _should_run(instance)
            if not isinstance(instance, Instance) or not is_there:
                del self._waiting[uuid]
            elif not busy.intersection((ALL_INSTANCES, instance_lock(instance.name))):
                groups.setdefault(view.node(instance.primary_node).group, []).append(uuid)
        for group, uuids in groups.items():
            if group in self._looked_at or now_s - self._looked_s.get(group, -APART_S) < APART_S:
                continue
            self._looked_s[group] = now_s
            self._looked_at.add(group)
            names = sorted(view.instance(uuid).name for uuid in uuids)
            _log.warning("%s ended and should run: the watcher looks at group %s", ", ".join(names), group)
            seen = {uuid: self._waiting.pop(uuid) for uuid in uuids}
            self._looks.start(self._look_at(group, seen), f"the watcher's look at group {group}")

    async def _look_at(self, group: str, seen: dict[str, tuple[str, float]]) -> None:
        """Where another watcher is at work, these guests wait on: it may have asked the nodes before they ended."""
        try:
            if not await self._look(group):
                self._waiting = seen | self._waiting
                self._heard.set()
        except GanetiError as err:
            _log.warning("guests that ended in group %s are left to the watcher's next round: %s", group, err)
        finally:
            self._looked_at.discard(group)

    def _forget_old(self) -> None:
        """The watcher's next round has come to those by now."""
        end_s = time.monotonic() - BUSY_FOR_S
        self._waiting = {uuid: waits for uuid, waits in self._waiting.items() if waits[1] >= end_s}

    def _missing(self, report: GuestReport) -> list[Instance]:
        """Instances of that node that should run, and do not as it says. Raises `RefusedReport`."""
        view = self._view()
        node = view.uuid_by_name("nodes", report.node)
        if node is None:
            raise RefusedReport(MISPLACED, f"is of {report.node}, which is no node of the cluster")
        own = [each for each in view.instances() if each.primary_node == node and _should_run(each)]
        if report.ended is None:
            return [each for each in own if each.name not in set(report.running)]
        return [each for each in own if each.name in set(report.ended)]


def _should_run(instance: Instance) -> bool:
    return instance.admin_state == "up" and not instance.forthcoming


def exclusively_held(rows: list[Any]) -> frozenset[str]:
    """Names of locks that a job has for itself, of the rows of a query for ``name`` and ``mode``."""
    return frozenset(name for (_, name), (_, mode) in rows if mode == EXCLUSIVE)

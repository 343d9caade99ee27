# SPDX-License-Identifier: BSD-2-Clause
"""Has the watcher look at a node group as soon as a node says that guests have ended there which should run.

What is done about them is the watcher's to decide, with its limits and its pause; it looks again at everything itself.
One look is not trusted: an end stays open until the configuration does not want the guest there, or the node says that
it runs.
"""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.model.locks import ALL_INSTANCES, EXCLUSIVE, instance_lock
from ganeti.model.objects import Instance, Node
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
AFTER_JOB_S = 7.0
"""After such a job the node has that long to say that the guest runs: it looks every five seconds."""
CONFIRMED_WITHIN_S = 20.0
"""After a look of the watcher a guest runs by then, and its node has said so; or it is looked again."""
MOST_LOOKS = 3
"""Then an end is left to the watcher's next round."""
_log = logging.getLogger(__name__)


@dataclass
class _End:
    """A guest that ended on *node* (uuid) by a report of *told_s* (the node's clock); other times are monotonic."""

    node: str
    told_s: float
    since_s: float
    looks: int = 0
    not_before_s: float = 0.0


class GuestEndReceiver:
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
        self._open: dict[str, _End] = {}
        """By uuid of the instance."""
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
        self._close_running(report)
        now_s = time.monotonic()
        for instance in found:
            self._open[instance.uuid] = _End(instance.primary_node, report.time_s, now_s)
        if found:
            self._heard.set()
        return ""

    def _close_running(self, report: GuestReport) -> None:
        """A guest that runs again needs nobody; a report from before its end may come late, and counts for nothing."""
        view, running = self._view(), set(report.running)
        for uuid, end in list(self._open.items()):
            instance, node = view.get("instances", uuid), view.get("nodes", end.node)
            is_there = isinstance(instance, Instance) and isinstance(node, Node) and node.name == report.node
            if is_there and getattr(instance, "name", "") in running and report.time_s >= end.told_s:
                del self._open[uuid]

    async def run(self) -> None:
        try:
            while True:
                await self._heard.wait()
                self._heard.clear()
                await asyncio.sleep(SETTLE_S)
                await self._step()
                if self._open:
                    self._heard.set()
        finally:
            await self._looks.cancel()

    async def _step(self) -> None:
        """Begin to look at every group with guests that have ended, and that no job is at work on."""
        now_s = time.monotonic()
        self._forget(now_s)
        due = {uuid: end for uuid, end in self._open.items() if end.not_before_s <= now_s}
        if not due:
            return
        try:
            busy = await self._busy()
        except GanetiError as err:
            if not self._is_failing:
                _log.warning("guests that ended wait until LuxiD says what jobs are at work on: %s", err)
            self._is_failing = True
            return
        self._is_failing = False
        self._forget(now_s)  # what has changed meanwhile
        view = self._view()
        groups: dict[str, list[str]] = {}
        for uuid in [uuid for uuid, end in due.items() if self._open.get(uuid) is end]:
            instance = view.instance(uuid)
            if busy.intersection((ALL_INSTANCES, instance_lock(instance.name))):
                due[uuid].not_before_s = now_s + AFTER_JOB_S
            else:
                groups.setdefault(view.node(instance.primary_node).group, []).append(uuid)
        for group, uuids in groups.items():
            if group in self._looked_at or now_s - self._looked_s.get(group, -APART_S) < APART_S:
                continue
            self._looked_s[group] = now_s
            self._looked_at.add(group)
            names = sorted(view.instance(uuid).name for uuid in uuids)
            _log.warning("%s ended and should run: the watcher looks at group %s", ", ".join(names), group)
            ends = [self._open[uuid] for uuid in uuids]
            for end in ends:
                end.not_before_s = math.inf
            self._looks.start(self._look_at(group, ends), f"the watcher's look at group {group}")

    async def _look_at(self, group: str, ends: list[_End]) -> None:
        """A look of another watcher that is at work is none: it may have asked the nodes before these guests ended."""
        looked, pause_s = 1, CONFIRMED_WITHIN_S
        try:
            if not await self._look(group):
                looked, pause_s = 0, 0.0
        except GanetiError as err:
            _log.warning("the watcher's look at group %s fails: %s", group, err)
        finally:
            self._looked_at.discard(group)
            for end in ends:
                end.looks += looked
                end.not_before_s = time.monotonic() + pause_s

    def _forget(self, now_s: float) -> None:
        """Close what the configuration does not want there any more, and leave to the watcher's round what lasts."""
        view = self._view()
        for uuid, end in list(self._open.items()):
            instance = view.get("instances", uuid)
            is_wanted = isinstance(instance, Instance) and instance.primary_node == end.node and _should_run(instance)
            is_given_up = end.looks >= MOST_LOOKS and end.not_before_s <= now_s
            if is_wanted and is_given_up:
                name = getattr(instance, "name", uuid)
                _log.warning("%s does not run after %d looks: it is left to the watcher's next round", name, end.looks)
            if not is_wanted or is_given_up or end.since_s < now_s - BUSY_FOR_S:
                del self._open[uuid]

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

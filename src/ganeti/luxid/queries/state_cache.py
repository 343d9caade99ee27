# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's cache of the cluster's state (S1.38 to S1.53), told of commits and of locks that jobs give up.

What nodes said is in `reports` for placement and in `live` for lists, what was counted of it in `capacity`. Nothing of
it is on disk, and nothing outside feeds it.

Why a list from the cache shows what a finished job did. A job that changes a node or an instance holds its lock for
itself, and gives it up at its end; so a node's answer counts only if none of its locks is held now, and none was given
up since it was asked. Both are known up to some serial number of WConfD's news: before an answer is used, WConfD is
asked for the newest, and that is waited for. Without WConfD nothing is served from the cache.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.lock_follower import LockFollower
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.master.cache.capacity_cache import CapacityCache, groups_concerned, groups_of, is_less
from ganeti.master.cache.exclusive_holds import ExclusiveHolds, nodes_under
from ganeti.master.cache.live_answers import LiveAnswers, nodes_touched
from ganeti.master.cache.node_reports import NodeReport, NodeReports, nodes_changed
from ganeti.model.configuration import Configuration
from ganeti.system.event_loop import Background

_log = logging.getLogger(__name__)
_SETTLE_S = 1.0
"""How long WConfD may take to say how things stand; after that nodes are asked, which people wait for, too."""


class StateCache:
    """Call `follow` once there is a configuration."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.now_s = now_s
        self.reports = NodeReports(self._has_node)
        self.live = LiveAnswers(self._has_node)
        self.capacity = CapacityCache(self._has_group)
        self.reports.voided.append(self._voided)
        self.reports.renewed.append(self._renewed)
        self._holds = ExclusiveHolds()
        self._under: dict[str, list[str]] = {}
        """Nodes that a held lock guarded when it was taken: afterwards its instance may be gone."""
        self._serial: int | None = None
        """Of the newest news of locks; None while WConfD tells none."""
        self._told: asyncio.Future[None] | None = None
        self._background = Background()
        self._follower: ConfigFollower
        self._wconfd: WConfdClient

    def follow(self, follower: ConfigFollower, wconfd: WConfdClient, wconfd_socket: str) -> None:
        """Begin to hear of commits and locks."""
        self._follower, self._wconfd = follower, wconfd
        locks = LockFollower(
            wconfd_socket, None, snapshot=self._locks_known, changed=self._locks_changed, lost=self._locks_lost
        )
        self._background.start(locks.run(), "following the locks of what jobs change")
        follower.observers.append(self._observe)

    async def close(self) -> None:
        await self._background.cancel()

    async def settled(self) -> list[str] | None:
        """Hear of all that jobs have given up so far; gives the nodes that they may be changing now.

        None where WConfD does not say: then what is kept may be of before something that has ended.
        """
        if self._serial is None:
            return None
        try:
            async with asyncio.timeout(_SETTLE_S):
                newest = int(await self._wconfd.call("lockSerial"))
                while self._serial is not None and self._serial < newest:
                    await self._next_news()
        except (TimeoutError, GanetiError) as err:
            _log.info("lists are asked of the nodes, since WConfD does not tell of its locks: %s", err or "no answer")
            return None
        return None if self._serial is None else self._busy()

    def void_group(self, uuid: str) -> None:
        """Nothing of what is kept of a node group counts any more, its capacity neither (S1.48, S1.54)."""
        self.reports.changed(node.uuid for node in self._view.group_nodes(uuid))
        self.capacity.lessened([uuid])

    def note_answering(self, node: str, answers: bool) -> None:
        """A node has begun to answer, or has fallen silent."""
        if not answers:
            self.live.changed([node])

    @property
    def _view(self) -> Configuration:
        return self._follower.configuration

    def _busy(self) -> list[str]:
        return list(dict.fromkeys(node for lock in self._holds.held for node in self._guarded(lock)))

    def _guarded(self, lock: str) -> list[str]:
        return [*nodes_under(self._view, [lock]), *self._under.get(lock, ())]

    async def _next_news(self) -> None:
        if self._told is None:
            self._told = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._told)

    # Locks

    def _locks_known(self, held: list[Any], _waiting: list[Any]) -> None:
        """The table after each connection, the first one, too; jobs may have come and gone while there was none."""
        self._given_up(self._holds.table(held))
        self._taken(self._holds.held)
        self.reports.changed(self._view.uuids("nodes"))

    def _locks_changed(self, serial: int, changes: list[Any]) -> None:
        self._given_up([lock for change in changes for lock in self._holds.change(*change)])
        self._taken(lock for what, _, locks, *_ in changes if what == "granted" for lock in locks)
        self._heard(serial)

    def _locks_lost(self) -> None:
        self._heard(None)

    def _heard(self, serial: int | None) -> None:
        self._serial = serial
        told, self._told = self._told, None
        if told is not None and not told.done():
            told.set_result(None)

    def _given_up(self, locks: Sequence[str]) -> None:
        nodes = dict.fromkeys(node for lock in locks for node in self._guarded(lock))
        for lock in locks:
            self._under.pop(lock, None)
        self.reports.changed(node for node in nodes if self._view.get("nodes", node) is not None)

    def _taken(self, locks: Iterable[str]) -> None:
        for lock in locks:
            if self._holds.holds(lock) and lock not in self._under:
                self._under[lock] = nodes_under(self._view, [lock])

    # Commits

    def _observe(self, event: dict[str, Any]) -> Callable[[], None]:
        if event["event"] != "commit":
            return self._all_may_differ
        changed, touched = nodes_changed(self._view, event), nodes_touched(self._view, event)
        concerned = groups_concerned(self._view, event)
        gone = any(kind in ("nodes", "nodegroups") for kind, _ in event["remove"])

        def tell() -> None:
            self.reports.changed(changed)
            self.live.changed(touched)
            self.capacity.lessened(concerned)
            if gone:
                self._forget_gone()

        return tell

    def _all_may_differ(self) -> None:
        self.reports.changed(self._view.uuids("nodes"))
        self.capacity.lessened(self._view.uuids("nodegroups"))
        self._forget_gone()

    def _forget_gone(self) -> None:
        for kept in (self.reports, self.live, self.capacity):
            kept.forget_gone()

    def _has_node(self, uuid: str) -> bool:
        return self._view.get("nodes", uuid) is not None

    def _has_group(self, uuid: str) -> bool:
        return self._view.get("nodegroups", uuid) is not None

    # Reports

    def _voided(self, nodes: Sequence[str]) -> None:
        self.live.changed(nodes)
        self.capacity.lessened(self._groups(nodes))

    def _renewed(self, node: str, old: NodeReport, new: NodeReport) -> None:
        if is_less(old, new):
            self.capacity.lessened(self._groups([node]))

    def _groups(self, nodes: Iterable[str]) -> list[str]:
        return groups_of(self._view, nodes)

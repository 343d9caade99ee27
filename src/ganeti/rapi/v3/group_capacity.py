# SPDX-License-Identifier: BSD-2-Clause
"""How many more instances fit into each node group, for `/metrics`: counted by a job, at most one in five minutes.

LuxiD keeps what was counted while nothing has changed, so most of these jobs only read. A scrape never waits for one:
it gets what was counted last, and when.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ganeti.base.errors import GanetiError
from ganeti.rapi.reading import Luxi, ask

_log = logging.getLogger(__name__)
KEPT_S: Final = 300.0
_WAIT_S: Final = 30.0
_MIB: Final = 1024 * 1024
_FINAL: Final = ("success", "error", "canceled")
Row = tuple[Mapping[str, str], float]


class GroupCapacity:
    """What was counted last; renewed in the background while somebody asks."""

    def __init__(self, luxi: Luxi, now_s: Callable[[], float] = time.monotonic) -> None:
        self._luxi = luxi
        self._now_s = now_s
        self._begun_s: float | None = None
        self._answer: dict[str, Any] = {}
        self._work: asyncio.Task[None] | None = None

    def rows(self, names: Mapping[str, str]) -> tuple[list[Row], list[Row]]:
        """Give the counts by group and size, and when they were made; *names* are those of groups by uuid."""
        self._renew()
        groups = {names[uuid]: group for uuid, group in self._answer.get("node_groups", {}).items() if uuid in names}
        counts = [row for name, group in groups.items() for row in _of_group(name, group["tspecs"])]
        return counts, [({}, self._answer["ctime"])] if self._answer else []

    def _renew(self) -> None:
        if self._work is not None and not self._work.done():
            return
        if self._begun_s is None or self._now_s() >= self._begun_s + KEPT_S:
            self._begun_s = self._now_s()
            self._work = asyncio.ensure_future(self._count())

    async def _count(self) -> None:
        try:
            reason = ["gnt:rapi3", "metrics", time.time_ns()]
            opcode = {"OP_ID": "OP_COMPUTE_CAPACITY", "cached": True, "priority": 10, "reason": [reason]}
            job = await self._luxi.call("SubmitJob", [opcode])
            previous: Any = None
            while previous is None or previous[0] not in _FINAL:
                news = await ask(self._luxi, "WaitForJobChange", job, ["status", "opresult"], previous, None, _WAIT_S)
                previous = news[0] if isinstance(news, list) else previous
            if previous[0] == "success":
                self._answer = previous[1][0]
        except GanetiError as err:
            _log.info("the capacity of node groups was not counted: %s", err)


def _of_group(name: str, tiers: Iterable[list[int]]) -> list[Row]:
    """A row for each size that fits, and one of nothing for a group without room."""
    found: list[Row] = [
        (
            {"group": name, "memory_bytes": str(memory * _MIB), "disk_bytes": str(disk * _MIB), "cpus": str(cpus)},
            count,
        )
        for memory, disk, cpus, count in tiers
    ]
    return found or [({"group": name, "memory_bytes": "0", "disk_bytes": "0", "cpus": "0"}, 0)]

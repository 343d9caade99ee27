# SPDX-License-Identifier: BSD-2-Clause
"""The capacity of node groups in the metrics: counted by a job now and then, never waited for."""

import asyncio
from typing import Any

from ganeti.base.errors import JobQueueFull
from ganeti.rapi.v3.group_capacity import KEPT_S, GroupCapacity

NAMES = {"g-1": "default", "g-2": "full"}
ANSWER = {"node_groups": {"g-1": {"tspecs": [[1024, 2048, 2, 7]]}, "g-2": {"tspecs": []}, "g-9": {"tspecs": []}}}


class Luxi:
    """A LuxiD whose job ends at the second question."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []
        self.is_full = False
        self.status = "success"

    async def call(self, method: str, *arguments: Any, patience_s: float = 0.0, only_asks: bool = False) -> Any:
        if method == "SubmitJob":
            if self.is_full:
                raise JobQueueFull("full")
            self.jobs.append(arguments[0])
            return len(self.jobs)
        assert method == "WaitForJobChange" and arguments[0] == len(self.jobs)
        if arguments[2] is None:
            return [["running", [None]], []]
        return [[self.status, [ANSWER | {"ctime": 100.0 + len(self.jobs)}]], []]


def test_what_was_counted_last_is_given_and_counted_again_after_a_while() -> None:
    async def story() -> None:
        luxi, now = Luxi(), [0.0]
        capacity = GroupCapacity(luxi, lambda: now[0])  # type: ignore[arg-type]
        assert capacity.rows(NAMES) == ([], [])
        await asyncio.sleep(0.01)
        counts, counted = capacity.rows(NAMES)
        assert [(row["group"], row["memory_bytes"], count) for row, count in counts] == [
            ("default", str(1024 << 20), 7),
            ("full", "0", 0),
        ]
        assert counted == [({}, 101.0)] and len(luxi.jobs) == 1
        now[0] += KEPT_S
        luxi.is_full = True
        assert capacity.rows(NAMES)[1] == [({}, 101.0)]
        await asyncio.sleep(0.01)
        luxi.is_full = False
        now[0] += KEPT_S
        capacity.rows(NAMES)
        await asyncio.sleep(0.01)
        assert capacity.rows(NAMES)[1] == [({}, 102.0)]
        now[0] += KEPT_S
        luxi.status = "error"
        capacity.rows(NAMES)
        await asyncio.sleep(0.01)
        assert capacity.rows(NAMES)[1] == [({}, 102.0)] and len(luxi.jobs) == 3

    asyncio.run(story())

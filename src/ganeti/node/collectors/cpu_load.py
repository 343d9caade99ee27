# SPDX-License-Identifier: BSD-2-Clause
"""How busy processors are over a time: of counters that only grow, the mean growth in a window (protocols, 5). Pure."""

import os
from collections import deque
from collections.abc import Mapping
from typing import Any

from ganeti.node.collectors.report import UnreadableError, whole

NAME, CATEGORY = "cpu-avg-load", None
PLACE = "/proc/stat"
SAMPLE_S = 5.0
WINDOW_S = 600.0
MOST_SAMPLES = 150
_IDLE = (3, 4)
"""Idle, and waiting for disks."""
_GUEST = 8
"""From here on the kernel tells shares of the counters before."""


class Window:
    """The last samples of some counters in seconds, each by its name, and how fast they have grown."""

    def __init__(self, window_s: float = WINDOW_S, most: int = MOST_SAMPLES) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=most)

    def add(self, now_s: float, counters: Mapping[str, float]) -> None:
        """*now_s* is of a clock that never jumps."""
        while self._samples and now_s - self._samples[0][0] > self._window_s:
            self._samples.popleft()
        self._samples.append((now_s, counters))

    def growth(self) -> dict[str, float]:
        """The mean growth per second of each counter that the last sample has; 0 for one that was seen once.

        A counter that has become smaller is of another thing with the same name: it counts from there on.
        """
        if not self._samples:
            return {}
        last_s, last = self._samples[-1]
        return {name: self._growth_of(name, value, last_s) for name, value in last.items()}

    def _growth_of(self, name: str, value: float, last_s: float) -> float:
        first_s, first = last_s, value
        for seen_s, counters in reversed(self._samples):
            earlier = counters.get(name)
            if earlier is None or earlier > first:
                break
            first_s, first = seen_s, earlier
        return (value - first) / (last_s - first_s) if last_s > first_s else 0.0


def busy_s(text: str) -> dict[str, float]:
    """Seconds that each processor has been busy since the machine was started, by ``cpu`` (all), ``cpu0`` and so on.

    Raises `UnreadableError`.
    """
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, *rest = line.split() or [""]
        if not name.startswith("cpu"):
            continue
        ticks = [whole(word, f"line {number}") for word in rest[:_GUEST]]
        busy = sum(tick for place, tick in enumerate(ticks) if place not in _IDLE)
        found[name] = busy / os.sysconf("SC_CLK_TCK")
    if "cpu" not in found:
        raise UnreadableError("nothing is said of processors")
    return found


def loads(growth: Mapping[str, float]) -> dict[str, Any]:
    """The data of the report: processors busy in the mean, each and all."""
    each = [growth[name] for name in growth if name != "cpu"]
    return {"cpu_number": len(each), "cpus": each, "cpu_total": growth.get("cpu", 0.0)}

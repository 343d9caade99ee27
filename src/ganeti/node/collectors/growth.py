# SPDX-License-Identifier: BSD-2-Clause
"""The mean growth of counters over the last minutes. Pure."""

from collections import deque
from collections.abc import Mapping

WINDOW_S = 600.0
MOST_SAMPLES = 150


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

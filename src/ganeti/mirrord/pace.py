# SPDX-License-Identifier: BSD-2-Clause
"""How fast a copy is made equal, over the last seconds, and how long that will take."""

from collections import deque

_OVER_S = 10.0
"""QEMU copies in bursts: a shorter time would say something else at each look."""
_AT_LEAST_S = 1.0


class Pace:
    """Of one mirror job: what is done and what there is to do, in bytes, noted now and then."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, int]] = deque()
        self._left = 0

    def note(self, now_s: float, done: int, total: int) -> None:
        if self._noted and done < self._noted[-1][1]:  # another job
            self._noted.clear()
        self._noted.append((now_s, done))
        while now_s - self._noted[0][0] > _OVER_S and len(self._noted) > 2:
            self._noted.popleft()
        self._left = max(total - done, 0)

    @property
    def speed_kib(self) -> int | None:
        """KiB in a second; None where it is not known yet."""
        if len(self._noted) < 2 or (took_s := self._noted[-1][0] - self._noted[0][0]) < _AT_LEAST_S:
            return None
        return round((self._noted[-1][1] - self._noted[0][1]) / took_s / 1024)

    @property
    def seconds_left(self) -> int | None:
        """None where nobody knows: nothing moves, or it has just begun."""
        speed = self.speed_kib
        return None if not speed else -(-self._left // (speed * 1024))

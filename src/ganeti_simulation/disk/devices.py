# SPDX-License-Identifier: BSD-2-Clause
"""Devices of a simulated machine, and files that are made up when somebody opens them, as in /proc."""

import errno
import os
from collections.abc import Callable
from random import Random


class MadeUp:
    """*give* is asked for the bytes at every open for reading; *take* gets what is written (None: EACCES)."""

    def __init__(self, give: Callable[[], bytes], take: Callable[[bytes], None] | None = None) -> None:
        self.give = give
        self._take = take

    def write(self, data: bytes) -> int:
        if self._take is None:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        self._take(data)
        return len(data)


class NullDevice:
    """/dev/null; with *fill* it gives as many zeros as are wanted, as /dev/zero does."""

    def __init__(self, fill: bool = False) -> None:
        self._fill = fill

    def read(self, count: int) -> bytes:
        return bytes(count) if self._fill else b""

    def write(self, data: bytes) -> int:
        return len(data)


class RandomDevice(NullDevice):
    """/dev/urandom of a machine with a seed."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    def read(self, count: int) -> bytes:
        return self._random.randbytes(count)

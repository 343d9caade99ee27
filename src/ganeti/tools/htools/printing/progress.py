# SPDX-License-Identifier: BSD-2-Clause
"""One line on a terminal that says how far something is that takes longer than a moment."""

import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

QUIET_S = 1.0
"""What ends sooner is not spoken of."""
INTERVAL_S = 0.1
_COLUMNS = 80
_CLEAR = "\r\x1b[K"


class Progress:
    """Words about progress on *stream*, standard error by default; nothing where that is no terminal."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._wanted = self._stream.isatty()
        self._next_s = clock() + QUIET_S
        self._shown = False

    def tell(self, words: str) -> None:
        """Show *words* in place of the last ones, unless those are too fresh."""
        if not self._wanted or self._clock() < self._next_s:
            return
        room = self._columns() - 1
        self._stream.write(f"{_CLEAR}{words[:room]}")
        self._stream.flush()
        self._shown, self._next_s = True, self._clock() + INTERVAL_S

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _COLUMNS
        except OSError:
            return _COLUMNS

    def end(self) -> None:
        """Leave the line empty."""
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
        self._shown = False

# SPDX-License-Identifier: BSD-2-Clause
"""Node calls can be held back by a random time, so that tests see what a slow network changes in the order of events.

`GANETI_CALL_DELAY_MS` is the longest delay. With `GANETI_CALL_DELAY_SEED` a process delays its first, second …
call of one name to one node as every other with that seed does. Without the first variable this costs one look-up.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

DELAY, SEED = "GANETI_CALL_DELAY_MS", "GANETI_CALL_DELAY_SEED"
_made: Counter[tuple[str, str]] = Counter()
_suspended = False


def delay_s(node: str, call: str) -> float:
    """Give how long the next call is to be held back."""
    most_ms = os.environ.get(DELAY)
    if most_ms is None or _suspended:
        return 0.0
    seed = os.environ.get(SEED)
    _made[node, call] += 1
    chance = random.Random(seed and f"{seed}/{node}/{call}/{_made[node, call]}")  # noqa: S311 (no secret)
    return chance.uniform(0.0, float(most_ms)) / 1000


@contextmanager
def suspended() -> Iterator[None]:
    """Hold back no call meanwhile, and count none: they are only rehearsed."""
    global _suspended
    _suspended = True
    try:
        yield
    finally:
        _suspended = False

# SPDX-License-Identifier: BSD-2-Clause
"""Positions in the event stream: opaque to clients, here read and written.

A position is ``LIFE-NUMBER-EPOCH.SERIAL``: the life of the LuxiD that gave it, the number of the newest event, and
where the configuration was. The last part lets a follower of the configuration continue in another LuxiD's life.
"""

import re
from typing import NamedTuple

from ganeti.base.errors import ParameterError

_FORM = re.compile(r"([0-9a-z]{1,32})-([0-9]{1,18})-([0-9]{1,18})\.([0-9]{1,18})", re.ASCII)


class EventPosition(NamedTuple):
    """Everything up to and including event *number* of *life* is known, and the configuration up to *commit*."""

    life: str
    number: int
    commit: tuple[int, int]
    """[epoch, serial] of WConfD."""

    def __str__(self) -> str:
        return f"{self.life}-{self.number}-{self.commit[0]}.{self.commit[1]}"


def read_event_position(text: object) -> EventPosition:
    """Read a position as clients hand it back; raises `ParameterError`."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ParameterError(f"{text!r} is not a position of the event stream: give one back as it came, or null")
    life, number, epoch, serial = found.groups()
    return EventPosition(life, int(number), (int(epoch), int(serial)))

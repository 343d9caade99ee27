# SPDX-License-Identifier: BSD-2-Clause
"""The log of events of one LuxiD life: bounded, totally ordered, each event encoded once for all who read it.

Why nobody misses an event or gets one twice: events are numbered without gaps and a reader is nothing but the number
of the last event it was given; it is handed exactly those of its kinds after that number. For each kind the log
remembers the newest event it no longer has (`dropped`), so it knows, and says, when that would leave out one.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from ganeti.base.errors import ParameterError
from ganeti.master.events.positions import EventPosition

CONFIG, JOB, LOCK, NODE = "config", "job", "lock", "node"
EVENT_KINDS = (CONFIG, JOB, LOCK, NODE)
EVENTS_KEPT = 32_768
BYTES_KEPT = 16 * 1024 * 1024


class _Entry(NamedTuple):
    kind: str
    framed: bytes
    end_bytes: int
    """Size of all events of this life up to and including this one."""


class Chunk(NamedTuple):
    """Events for one reader, and the number it has then seen."""

    data: bytes
    number: int


class EventLog:
    """Numbers events, keeps the newest, and gives readers what they have not seen."""

    def __init__(self, life: str, events_kept: int = EVENTS_KEPT, bytes_kept: int = BYTES_KEPT) -> None:
        self.life = life
        self.number = 0
        """Number of the newest event; 0 before the first."""
        self.commit = (0, 0)
        """Where the configuration is, as far as events tell."""
        self._dropped = dict.fromkeys(EVENT_KINDS, 0)
        self._entries: dict[int, _Entry] = {}
        self._first = 1
        self._end_bytes = 0
        self._events_kept = events_kept
        self._bytes_kept = bytes_kept

    @property
    def position(self) -> EventPosition:
        return EventPosition(self.life, self.number, self.commit)

    @property
    def size_bytes(self) -> int:
        """What the kept events take, without the overhead of keeping them."""
        first = self._entries.get(self._first)
        return 0 if first is None else self._end_bytes - first.end_bytes + len(first.framed)

    def append(
        self, kind: str, time_s: float, fields: Mapping[str, Any], commit: tuple[int, int] | None = None
    ) -> None:
        """Add an event; one of the configuration comes with the *commit* it tells of."""
        self.commit = commit or self.commit
        self.number += 1
        framed = encode_event(kind, self.position, time_s, fields)
        self._end_bytes += len(framed)
        self._entries[self.number] = _Entry(kind, framed, self._end_bytes)
        while len(self._entries) > self._events_kept or (self.size_bytes > self._bytes_kept and len(self._entries) > 1):
            self._dropped[self._entries.pop(self._first).kind] = self._first
            self._first += 1

    def lose(self, kinds: Collection[str]) -> None:
        """Events of *kinds* may have gone unseen before now: from no position given so far can these be continued.

        This takes a number of its own, so that the newest position given before is too old as well.
        """
        self.number += 1
        self._entries[self.number] = _Entry("", b"", self._end_bytes)
        for kind in kinds:
            self._dropped[kind] = self.number

    def clear(self) -> None:
        """Forget all events, as nobody reads them, and count those to come as unseen."""
        self.lose(EVENT_KINDS)
        self._entries.clear()
        self._first = self.number + 1

    def reaches(self, number: int, kinds: Collection[str]) -> bool:
        """Whether every event of *kinds* after *number* is still here."""
        return number <= self.number and all(number >= self._dropped[kind] for kind in kinds)

    def after(self, number: int, kinds: Collection[str], most_bytes: int) -> Chunk | None:
        """The events of *kinds* after *number*, in order, up to about *most_bytes*; None if one is missing."""
        if not self.reaches(number, kinds):
            return None
        found: list[bytes] = []
        size_bytes = 0
        next_number = max(number + 1, self._first)
        while next_number <= self.number and size_bytes < most_bytes:
            entry = self._entries[next_number]
            if entry.kind in kinds:
                found.append(entry.framed)
                size_bytes += len(entry.framed)
            next_number += 1
        return Chunk(b"".join(found), next_number - 1)


def encode_event(kind: str, position: EventPosition, time_s: float, fields: Mapping[str, Any]) -> bytes:
    """Give the framed message of one event; *time_s* is seconds since the epoch."""
    return msgspec.json.encode({"event": kind, "position": str(position), "time": round(time_s, 3), **fields}) + b"\x03"


def read_kinds(value: Any) -> frozenset[str]:
    """Read which kinds of events are wanted, null meaning all; raises `ParameterError`."""
    if value is None:
        return frozenset(EVENT_KINDS)
    if not isinstance(value, list) or not value or not all(kind in EVENT_KINDS for kind in value):
        raise ParameterError(
            f"{value!r} are not kinds of events: name some of {', '.join(EVENT_KINDS)}, or null for all"
        )
    return frozenset(value)

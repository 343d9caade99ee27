# SPDX-License-Identifier: BSD-2-Clause
"""The change stream: the newest commits as messages, and who may continue from where.

Bounded by number and size: who asks for a position that is no longer held gets the whole configuration first.
"""

from collections import deque
from collections.abc import Iterable

import msgspec

from ganeti.master.config.records import Commit, Position

COMMITS_KEPT = 1000
BYTES_KEPT = 16 * 1024 * 1024


def event_of(commit: Commit) -> bytes:
    """Give the message of one commit, as subscribers get it (without the end mark)."""
    put = [[item.kind, item.uuid, msgspec.Raw(item.data)] for item in commit.puts]
    event = {"event": "commit", "position": commit.position, "put": put, "remove": commit.removes}
    return msgspec.json.encode(event)


def snapshot_of(position: Position, config_data: bytes) -> bytes:
    """Give the message that replaces everything a subscriber knows: *config_data* is a whole `config.data`."""
    return msgspec.json.encode({"event": "snapshot", "position": position, "config": msgspec.Raw(config_data)})


class ChangeStream:
    """The commits after `start`, oldest first; `end` is the position after the newest."""

    def __init__(self, position: Position, commits_kept: int = COMMITS_KEPT, bytes_kept: int = BYTES_KEPT) -> None:
        self.start = position
        self.end = position
        self._events: deque[tuple[Position, bytes]] = deque()
        self._size_bytes = 0
        self._commits_kept = commits_kept
        self._bytes_kept = bytes_kept

    def restore(self, start: Position, events: Iterable[tuple[Position, bytes]]) -> None:
        """Continue a stream read from disk: *events* are those after *start*."""
        self.start = self.end = start
        for position, event in events:
            self._append(position, event)

    def add(self, commit: Commit) -> bytes | None:
        """Append a commit; gives its message, or None if subscribers need a snapshot."""
        if commit.whole:
            self._events.clear()
            self._size_bytes = 0
            self.start = self.end = commit.position
            return None
        event = event_of(commit)
        self._append(commit.position, event)
        return event

    def since(self, position: Position) -> list[bytes] | None:
        """The messages after *position*; None if it is too old, or none of this stream's."""
        if position == self.end:
            return []
        if not self.start <= position <= self.end:
            return None
        if position != self.start and all(event_position != position for event_position, _ in self._events):
            return None  # a record of a former master that nobody else has
        return [event for event_position, event in self._events if event_position > position]

    def _append(self, position: Position, event: bytes) -> None:
        self._events.append((position, event))
        self._size_bytes += len(event)
        self.end = position
        while len(self._events) > self._commits_kept or (self._size_bytes > self._bytes_kept and len(self._events) > 1):
            self.start, dropped = self._events.popleft()
            self._size_bytes -= len(dropped)

# SPDX-License-Identifier: BSD-2-Clause
"""The newest records, as followers are sent them: commits, and wishes to have files of the queue as they are.

Records are counted from 1, which is the state before the oldest commit held. Bounded: who lacks more gets a snapshot.
"""

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from ganeti.base.errors import UNREADABLE_JSON
from ganeti.master.config.records import Commit, Position, StepAnswer
from ganeti.master.config.store import StoredCommit
from ganeti.model.replica_records import WireStep

COMMITS_KEPT = 1000
BYTES_KEPT = 16 * 1024 * 1024
SENT_COMMITS = 256
SENT_BYTES = 4 * 1024 * 1024
_log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """One record; *position* is that of the configuration as of it."""

    position: Position
    digest: str = ""
    commit: Commit | StoredCommit | None = None
    names: tuple[str, ...] = ()
    archived: tuple[int, ...] = ()
    size_bytes: int = 0
    changes_objects: bool = False


class Commits(NamedTuple):
    """What to send of commits: those after position *after*, up to record *up_to*."""

    after: Position
    encoded: list[msgspec.Raw]
    up_to: int


class ReplicationLog:
    def __init__(
        self, start: Position, commits: Iterable[StoredCommit], steps: Iterable[StepAnswer], start_digest: str = ""
    ) -> None:
        """Begin with what a start finds: commits after *start*, and the answers to steps, whichever they belong to.

        *start_digest* is the fingerprint of the state before the commits; empty where that is not known.
        """
        self._first = 1
        self._entries = [Entry(start, start_digest)]
        self._numbers: dict[Position, int] = {start: 1}
        self._size_bytes = 0
        for commit in commits:
            self._add(Entry(commit.position, commit.digest, commit, (), (), len(commit.event), True))
        end = self._entries[-1]
        for step in steps:
            answered = Commit(end.position, 0.0, step=step, digest=end.digest)
            self._add(Entry(end.position, end.digest, answered, (), (), len(step.answer)))

    @property
    def last(self) -> int:
        return self._first + len(self._entries) - 1

    def add_commit(self, commit: Commit) -> int:
        size_bytes = sum(len(put.data) for put in commit.puts)
        digest = commit.digest if commit.changes_objects else self._entries[-1].digest
        return self._add(Entry(commit.position, digest, commit, (), (), size_bytes, commit.changes_objects))

    def add_queue(self, names: Iterable[str], archived: Iterable[int]) -> int:
        newest = self._entries[-1]
        return self._add(Entry(newest.position, newest.digest, None, tuple(names), tuple(archived)))

    def number_at(self, position: Position, digest: str) -> int | None:
        """The record that led to *position*; None if none is held, or one with other content had the same position."""
        number = self._numbers.get(position)
        if number is None or not digest:
            return None
        return number if self._entries[number - self._first].digest == digest else None

    def is_given_twice(self, position: Position, digest: str) -> bool:
        """Whether somebody has *position* of this very epoch with a content it never had here.

        What others have of an epoch was on its master's disk before: another database has taken the place of that.
        """
        newest = self._entries[-1].position
        if position[0] != newest[0]:
            return False
        number = self._numbers.get(position)
        if number is None:
            return position > newest
        known = self._entries[number - self._first].digest
        return bool(known and digest) and known != digest

    def commits_after(self, number: int, up_to: int) -> Commits | None:
        """As many as are sent at once; None if they are not held any more.

        One that the disk has damaged is let go of, with those before it: what lacks it gets the configuration whole.
        """
        if number < self._first:
            return None
        encoded: list[msgspec.Raw] = []
        size_bytes = 0
        reached = number
        wanted = self._entries[number + 1 - self._first : up_to + 1 - self._first]
        for place, entry in enumerate(wanted, number + 1 - self._first):
            if entry.commit is not None:
                if len(encoded) >= SENT_COMMITS or (encoded and size_bytes + entry.size_bytes > SENT_BYTES):
                    break
                try:
                    encoded.append(encode_commit(entry.commit))
                except UNREADABLE_JSON as err:
                    _log.warning("the record of commit %d.%d is damaged, nobody is sent it: %s", *entry.position, err)
                    self._let_go(place)
                    return None
                size_bytes += entry.size_bytes
            reached += 1
        return Commits(self._entries[number - self._first].position, encoded, reached)

    def queue_after(self, number: int, up_to: int) -> tuple[list[str], list[int]] | None:
        """Files and archived jobs of the records after *number*; None if they are not held any more."""
        if number < self._first:
            return None
        names: dict[str, None] = {}
        archived: dict[int, None] = {}
        for entry in self._entries[number + 1 - self._first : up_to + 1 - self._first]:
            names.update(dict.fromkeys(entry.names))
            archived.update(dict.fromkeys(entry.archived))
        return list(names), list(archived)

    def state_at(self, number: int) -> tuple[Position, str] | None:
        """Position and fingerprint of the configuration as of a record; None where they are not known any more."""
        if not self._first <= number <= self.last:
            return None
        entry = self._entries[number - self._first]
        return (entry.position, entry.digest) if entry.digest else None

    def position_at(self, number: int) -> Position:
        return self._entries[max(number - self._first, 0)].position

    def trim(self, released: int) -> None:
        """Let go of the oldest when there are too many; those that nobody was told of stay."""
        if len(self._entries) <= 2 * COMMITS_KEPT and self._size_bytes <= 2 * BYTES_KEPT:
            return
        drop = max(0, len(self._entries) - COMMITS_KEPT)
        size_bytes = self._size_bytes - sum(entry.size_bytes for entry in self._entries[:drop])
        while size_bytes > BYTES_KEPT and drop < len(self._entries) - 1:
            size_bytes -= self._entries[drop].size_bytes
            drop += 1
        self._let_go(max(0, min(drop, released - self._first)))

    def _let_go(self, drop: int) -> None:
        for entry in self._entries[:drop]:
            self._numbers.pop(entry.position, None)
        self._size_bytes -= sum(entry.size_bytes for entry in self._entries[:drop])
        del self._entries[:drop]
        self._first += drop
        self._numbers.setdefault(self._entries[0].position, self._first)

    def _add(self, entry: Entry) -> int:
        self._entries.append(entry)
        self._size_bytes += entry.size_bytes
        if entry.changes_objects:
            self._numbers[entry.position] = self.last
        return self.last


def encode_commit(commit: Commit | StoredCommit) -> msgspec.Raw:
    """As it stands in the call ``replica_append``."""
    if isinstance(commit, StoredCommit):
        event = msgspec.json.decode(commit.event, type=dict[str, msgspec.Raw])
        put: Any = event["put"]
        remove: Any = event["remove"]
        step = None
    else:
        put = [[item.kind, item.uuid, msgspec.Raw(item.data)] for item in commit.puts]
        remove = commit.removes
        step = encode_step(commit.step) if commit.step is not None else None
    plain = {"position": commit.position, "time_s": commit.time_s, "digest": commit.digest}
    return msgspec.Raw(msgspec.json.encode({**plain, "put": put, "remove": remove, "step": step}))


def encode_step(step: StepAnswer) -> WireStep:
    return step.job, step.attempt, step.step, step.settles, step.lock_file, step.answer.decode()

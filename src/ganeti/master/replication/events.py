# SPDX-License-Identifier: BSD-2-Clause
"""What the machine of the followers is told. Records are counted from 1 in the order in which they became durable."""

from collections.abc import Mapping
from enum import Enum

import msgspec

from ganeti.model.membership import Version


class Problem(Enum):
    """Why a follower did not do what it was asked."""

    UNREACHABLE = "cannot be reached"
    SILENT = "does not answer in time"
    REFUSED = "refuses"


class Durable(msgspec.Struct, frozen=True):
    """All records up to this number are on the master's disk."""

    up_to: int
    is_queue_only: bool = False
    """None of those that are new changes the configuration: nobody has anything to publish for them."""


class Acked(msgspec.Struct, frozen=True):
    """A follower has on disk all commits, and all files of the queue, that the records up to these numbers ask for."""

    node: str
    commits: int
    queue: int
    membership: Version | None = None
    """The membership that went along."""
    told: int = 0
    """Up to which record it has been told that what it has is acknowledged."""


class Failed(msgspec.Struct, frozen=True):
    node: str
    problem: Problem
    reason: str


class Lost(msgspec.Struct, frozen=True):
    """A follower is not where it was thought to be, or what it lacks is not held any more: ask it anew."""

    node: str
    reason: str


class Damaged(msgspec.Struct, frozen=True):
    """A follower cannot read its copy: it must be made anew."""

    node: str
    reason: str


class StateKnown(msgspec.Struct, frozen=True):
    """What a follower has: the number of the record it is at, None if it is at none that is held here."""

    node: str
    commits: int | None
    membership: Version | None
    is_expected: bool = True
    """Whether it is where the last answer left it."""
    told: int = 0
    is_given_twice: bool = False
    """It has a position of this epoch with another content than this master ever gave it."""


class SnapshotTaken(msgspec.Struct, frozen=True):
    """A follower holds the configuration as of this record."""

    node: str
    commits: int
    membership: Version | None = None
    told: int = 0


class QueueEqual(msgspec.Struct, frozen=True):
    """A follower has all files of the queue as they were at this record, or later."""

    node: str
    queue: int


class QueueDoubted(msgspec.Struct, frozen=True):
    """Followers may have files of the queue that nobody will ask for: who should have said so died before."""


class MembershipKept(msgspec.Struct, frozen=True):
    """The master's own disk has what `StoreMembership` asked for."""


class MembershipNotKept(msgspec.Struct, frozen=True):
    reason: str


class MembersAccepted(msgspec.Struct, frozen=True):
    node: str
    version: Version


class MembersRefused(msgspec.Struct, frozen=True):
    """A candidate did not take a membership, or could not be asked."""

    node: str
    reason: str


class CandidatesChanged(msgspec.Struct, frozen=True):
    """From record *number* on, these are the candidates, by UUID and name."""

    number: int
    candidates: Mapping[str, str]


class EpochSeen(msgspec.Struct, frozen=True):
    """A node has promised itself to another epoch; *established* is the highest of which it has a record."""

    node: str
    promised: int
    holder: str | None
    established: int


class Appeared(msgspec.Struct, frozen=True):
    """A node has been heard of: try it at once."""

    node: str


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


Event = (
    Durable
    | Acked
    | Failed
    | Lost
    | Damaged
    | StateKnown
    | SnapshotTaken
    | QueueEqual
    | QueueDoubted
    | MembershipKept
    | MembershipNotKept
    | MembersAccepted
    | MembersRefused
    | CandidatesChanged
    | EpochSeen
    | Appeared
    | Tick
)

# SPDX-License-Identifier: BSD-2-Clause
"""What the machine of the followers is told. Records are counted from 1 in the order in which they became durable."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ganeti.master.replication.membership import Version


class Problem(Enum):
    """Why a follower did not do what it was asked."""

    UNREACHABLE = "cannot be reached"
    SILENT = "does not answer in time"
    REFUSED = "refuses"


@dataclass(frozen=True, slots=True)
class Durable:
    """All records up to this number are on the master's disk."""

    up_to: int


@dataclass(frozen=True, slots=True)
class Acked:
    """A follower has on disk all commits, and all files of the queue, that the records up to these numbers ask for."""

    node: str
    commits: int
    queue: int
    membership: Version | None = None
    """The membership that went along."""


@dataclass(frozen=True, slots=True)
class Failed:
    node: str
    problem: Problem
    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A follower is not where it was thought to be, or what it lacks is not held any more: ask it anew."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Damaged:
    """A follower cannot read its copy: it must be made anew."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class StateKnown:
    """What a follower has: the number of the record it is at, None if it is at none that is held here."""

    node: str
    commits: int | None
    membership: Version | None
    is_expected: bool = True
    """Whether it is where the last answer left it."""


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """A follower holds the configuration as of this record."""

    node: str
    commits: int
    membership: Version | None = None


@dataclass(frozen=True, slots=True)
class QueueEqual:
    """A follower has all files of the queue as they were at this record, or later."""

    node: str
    queue: int


@dataclass(frozen=True, slots=True)
class MembershipKept:
    """The master's own disk has what `StoreMembership` asked for."""


@dataclass(frozen=True, slots=True)
class MembershipNotKept:
    reason: str


@dataclass(frozen=True, slots=True)
class MembersAccepted:
    node: str
    version: Version


@dataclass(frozen=True, slots=True)
class MembersRefused:
    """A candidate did not take a membership, or could not be asked."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class CandidatesChanged:
    """From record *number* on, these are the candidates, by UUID and name."""

    number: int
    candidates: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EpochSeen:
    """A node has promised itself to another epoch; *established* is the highest of which it has a record."""

    node: str
    promised: int
    holder: str | None
    established: int


@dataclass(frozen=True, slots=True)
class Appeared:
    """A node has been heard of: try it at once."""

    node: str


@dataclass(frozen=True, slots=True)
class Tick:
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
    | MembershipKept
    | MembershipNotKept
    | MembersAccepted
    | MembersRefused
    | CandidatesChanged
    | EpochSeen
    | Appeared
    | Tick
)

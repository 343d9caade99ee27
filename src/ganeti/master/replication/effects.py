# SPDX-License-Identifier: BSD-2-Clause
"""What the machine of the followers wants done. Each request to a node is answered by an event, and there is one at a
time for each node, `AskMembers` apart.
"""

from dataclasses import dataclass

from ganeti.master.replication.membership import Kept, Membership


@dataclass(frozen=True, slots=True)
class SendState:
    """Ask a node what it has. Answered by `StateKnown`."""

    node: str


@dataclass(frozen=True, slots=True)
class SendAppend:
    """Send what the records after these numbers ask for, as much as fits. Answered by `Acked`."""

    node: str
    commits_after: int
    queue_after: int
    up_to: int
    membership: Membership | None
    """To be stored along, if the node does not have it yet."""


@dataclass(frozen=True, slots=True)
class SendSnapshot:
    """Send the whole configuration. Answered by `SnapshotTaken`."""

    node: str
    membership: Membership


@dataclass(frozen=True, slots=True)
class SendQueue:
    """Compare the files of the queue and send those that differ. Answered by `QueueEqual`."""

    node: str
    as_of: int
    """The newest record when the comparison begins."""


@dataclass(frozen=True, slots=True)
class AskMembers:
    """Have these candidates store a membership. Each is answered by `MembersAccepted` or `MembersRefused`."""

    membership: Membership
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreMembership:
    """Write this on the master's own disk. Answered by `MembershipKept` or `MembershipNotKept`."""

    kept: Kept


@dataclass(frozen=True, slots=True)
class Release:
    """All records up to this number are on every member: who waits for them may be answered."""

    up_to: int


@dataclass(frozen=True, slots=True)
class NodeOut:
    """A copy is in sync no more."""

    node: str
    sentence: str


@dataclass(frozen=True, slots=True)
class NodeIn:
    """A copy is in sync from now on."""

    node: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Told:
    """For the log."""

    sentence: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Ask for the promises of a new epoch: candidates have promised themselves to somebody who did not begin."""


@dataclass(frozen=True, slots=True)
class Deposed:
    """Another node is the master."""

    sentence: str


Effect = (
    SendState
    | SendAppend
    | SendSnapshot
    | SendQueue
    | AskMembers
    | StoreMembership
    | Release
    | NodeOut
    | NodeIn
    | Told
    | Deposed
    | Reclaim
)

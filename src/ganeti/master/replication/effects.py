# SPDX-License-Identifier: BSD-2-Clause
"""What the machine of the followers wants done. Each request to a node is answered by an event, and there is one at a
time for each node, `AskMembers` apart.
"""

import msgspec

from ganeti.model.membership import Kept, Membership


class SendState(msgspec.Struct, frozen=True):
    """Ask a node what it has. Answered by `StateKnown`."""

    node: str
    acknowledged: int = 0
    """Records up to this number, all of which it has, are on every member; 0 where it is not known what it has."""


class SendAppend(msgspec.Struct, frozen=True):
    """Send what the records after these numbers ask for, as much as fits. Answered by `Acked`."""

    node: str
    commits_after: int
    queue_after: int
    up_to: int
    membership: Membership | None
    """To be stored along, if the node does not have it yet."""
    acknowledged: int = 0
    """Records up to this number are on every member."""


class SendSnapshot(msgspec.Struct, frozen=True):
    """Send the whole configuration. Answered by `SnapshotTaken`."""

    node: str
    membership: Membership
    acknowledged: int = 0


class SendQueue(msgspec.Struct, frozen=True):
    """Compare the files of the queue and send those that differ. Answered by `QueueEqual`."""

    node: str
    as_of: int
    """The newest record when the comparison begins."""


class AskMembers(msgspec.Struct, frozen=True):
    """Have these candidates store a membership. Each is answered by `MembersAccepted` or `MembersRefused`."""

    membership: Membership
    nodes: tuple[str, ...]


class StoreMembership(msgspec.Struct, frozen=True):
    """Write this on the master's own disk. Answered by `MembershipKept` or `MembershipNotKept`."""

    kept: Kept


class Release(msgspec.Struct, frozen=True):
    """All records up to this number are on every member: callers that wait for them may be answered."""

    up_to: int


class NodeOut(msgspec.Struct, frozen=True):
    """A copy is in sync no more."""

    node: str
    sentence: str


class NodeIn(msgspec.Struct, frozen=True):
    """A copy is in sync from now on."""

    node: str
    sentence: str


class LogLine(msgspec.Struct, frozen=True):
    """For the log."""

    sentence: str
    is_warning: bool = False


class Reclaim(msgspec.Struct, frozen=True):
    """Ask for the promises of a new epoch: candidates have promised themselves to somebody who did not begin."""


class Deposed(msgspec.Struct, frozen=True):
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
    | LogLine
    | Deposed
    | Reclaim
)

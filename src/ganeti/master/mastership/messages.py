# SPDX-License-Identifier: BSD-2-Clause
"""What the machine of a take-over is told, and what it wants done."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ganeti.base.errors import ParameterError

Version = tuple[int, int]
"""(epoch, number) of a membership, or (epoch, serial) of a record."""


class Membership(msgspec.Struct, frozen=True):
    """The copies in sync, the master's among them, by the UUIDs of their nodes."""

    version: Version
    members: tuple[str, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a node answers to the call ``promise``; *refused* is the reason for which its copy counts for nothing."""

    refused: str | None = None
    sentence: str = ""
    granted: bool = False
    promised: int = 0
    """The highest epoch the node has promised itself to."""
    holder: str | None = None
    """The node it has promised that epoch to."""
    established: int = 0
    """The highest epoch of which it has a record."""
    position: Version | None = None
    membership: Membership | None = None
    names: str = ""
    """The master its ssconf names."""

    @classmethod
    def from_plain(cls, value: Any) -> "Answer":
        """Raises `ParameterError` for what is no such answer; keys of later releases are passed over."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as err:
            raise ParameterError(f"the answer to 'promise' cannot be read: {err}") from err


@dataclass(frozen=True)
class Claim:
    """What a node that wants to be master knows: its own copy, and what the administrator has said."""

    me: str
    names: Mapping[str, str]
    """All nodes that are not marked offline, UUID to name."""
    candidates: tuple[str, ...]
    """The master candidates among them."""
    old_master: str
    position: Version
    forced: bool = False
    """`--no-voting`: a human says that nobody else is or will be master."""
    reclaims: bool = False
    """The master itself asks, because candidates have promised themselves to somebody who did not begin."""
    resumes: int = 0
    """The epoch of an interrupted take-over of this node, which asks again by itself: refused if it is overtaken."""
    entropy: int = 0
    """From 0 to 999,999: makes a forced epoch one that nobody else can have."""


# Events


@dataclass(frozen=True)
class Answered:
    node: str
    answer: Answer


@dataclass(frozen=True)
class Silent:
    node: str
    why: str


@dataclass(frozen=True)
class OldMasterStopped:
    jobs: int
    """Processes of jobs that were ended."""


@dataclass(frozen=True)
class OldMasterNotStopped:
    why: str


@dataclass(frozen=True)
class MembersWritten:
    """The node has the membership on its disk."""

    node: str


Event = Answered | Silent | OldMasterStopped | OldMasterNotStopped | MembersWritten

# Effects


@dataclass(frozen=True)
class AskBefore:
    """Ask what each would promise; changes nothing anywhere. Every node must be answered for, or be `Silent`."""

    nodes: tuple[str, ...]


@dataclass(frozen=True)
class StopOldMaster:
    node: str


@dataclass(frozen=True)
class AskPromise:
    """Ask for the promise of *epoch*; answers of *awaited* are waited for, those of the others need not come."""

    nodes: tuple[str, ...]
    awaited: tuple[str, ...]
    epoch: int


@dataclass(frozen=True)
class WriteMembers:
    """Have the membership that the epoch begins with written down at these candidates, members or not."""

    nodes: tuple[str, ...]
    membership: Membership


@dataclass(frozen=True)
class Begin:
    """Be master from now on, with the first commit of *epoch*."""

    epoch: int
    old_master: str
    old_master_stopped: bool
    members: tuple[str, ...]
    """The copies in sync: nothing is acknowledged until each has everything, or was taken out by the rules."""
    away: tuple[str, ...] = ()
    """Those of them that did not answer."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refuse:
    """Go no further: *why*, and in *remedy* what would make it possible."""

    why: str
    remedy: str


Effect = AskBefore | StopOldMaster | AskPromise | WriteMembers | Begin | Refuse

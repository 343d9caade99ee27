# SPDX-License-Identifier: BSD-2-Clause
"""What the machine of a take-over is told, and what it wants done."""

from collections.abc import Mapping
from dataclasses import dataclass

from ganeti.model.membership import Membership
from ganeti.model.node_calls.replica import CopyAnswer

Version = tuple[int, int]
"""(epoch, number) of a membership, or (epoch, serial) of a record."""


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
    answer: CopyAnswer


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
class PromiseItself:
    """Have this node's own promise of *epoch* on its disk: nobody else is asked before."""

    node: str
    epoch: int


@dataclass(frozen=True)
class AskPromise:
    """Ask others for the promise of *epoch*; answers of *awaited* are waited for, those of the rest need not come."""

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


Effect = AskBefore | StopOldMaster | PromiseItself | AskPromise | WriteMembers | Begin | Refuse

# SPDX-License-Identifier: BSD-2-Clause
"""What the machine of a take-over is told, and what it wants done."""

from collections.abc import Mapping

import msgspec

from ganeti.model.membership import Membership
from ganeti.model.node_calls.replica import CopyAnswer

Version = tuple[int, int]
"""(epoch, number) of a membership, or (epoch, serial) of a record."""


class Claim(msgspec.Struct, frozen=True):
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


class Answered(msgspec.Struct, frozen=True):
    node: str
    answer: CopyAnswer


class Silent(msgspec.Struct, frozen=True):
    node: str
    why: str


class OldMasterStopped(msgspec.Struct, frozen=True):
    jobs: int
    """Processes of jobs that were ended."""


class OldMasterNotStopped(msgspec.Struct, frozen=True):
    why: str


class MembersWritten(msgspec.Struct, frozen=True):
    """The node has the membership on its disk."""

    node: str


Event = Answered | Silent | OldMasterStopped | OldMasterNotStopped | MembersWritten

# Effects


class AskBefore(msgspec.Struct, frozen=True):
    """Ask what each would promise; changes nothing anywhere. Every node must be answered for, or be `Silent`."""

    nodes: tuple[str, ...]


class StopOldMaster(msgspec.Struct, frozen=True):
    node: str


class PromiseItself(msgspec.Struct, frozen=True):
    """Have this node's own promise of *epoch* on its disk: nobody else is asked before."""

    node: str
    epoch: int


class AskPromise(msgspec.Struct, frozen=True):
    """Ask others for the promise of *epoch*; answers of *awaited* are waited for, those of the rest need not come."""

    nodes: tuple[str, ...]
    awaited: tuple[str, ...]
    epoch: int


class WriteMembers(msgspec.Struct, frozen=True):
    """Have the membership that the epoch begins with written down at these candidates, members or not."""

    nodes: tuple[str, ...]
    membership: Membership


class Begin(msgspec.Struct, frozen=True):
    """Be master from now on, with the first commit of *epoch*."""

    epoch: int
    old_master: str
    old_master_stopped: bool
    members: tuple[str, ...]
    """The copies in sync: nothing is acknowledged until each has everything, or was taken out by the rules."""
    away: tuple[str, ...] = ()
    """Those of them that did not answer."""
    warnings: tuple[str, ...] = ()


class Refuse(msgspec.Struct, frozen=True):
    """Go no further: *why*, and in *remedy* what would make it possible."""

    why: str
    remedy: str


Effect = AskBefore | StopOldMaster | PromiseItself | AskPromise | WriteMembers | Begin | Refuse

# SPDX-License-Identifier: BSD-2-Clause
"""Which copies of the configuration are in sync, and what of it must survive the death of the master's machine.

Invariant: whatever was acknowledged is on disk at every member of every membership that a take-over may still find to
be the newest. So a copy that joins is waited for before the membership that names it is written anywhere, and one that
leaves is waited for until R candidates know the membership without it. No two memberships have one version: a version
is reserved on the master's disk before any other node hears of it.

The master decides (`master.replication`), nodes are told by node calls, and all of them store it. Keys of later
releases are passed over.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

Version = tuple[int, int]
"""(epoch, number): the greater one is newer."""


class Membership(msgspec.Struct, frozen=True):
    """The nodes that every acknowledged record is on, the master among them, by their UUIDs."""

    version: Version
    members: tuple[str, ...]

    def to_plain(self) -> dict[str, Any]:
        return {"version": list(self.version), "members": list(self.members)}

    def without(self, leaving: Iterable[str], number: int) -> "Membership":
        gone = frozenset(leaving)
        return Membership((self.version[0], number), tuple(node for node in self.members if node not in gone))

    def joined_by(self, joining: Iterable[str], number: int) -> "Membership":
        new = tuple(node for node in joining if node not in self.members)
        return Membership((self.version[0], number), self.members + new)


class Kept(msgspec.Struct, frozen=True):
    """What the master keeps in its own database."""

    membership: Membership
    reserved: int = 0
    """No membership of this epoch with a higher number has been told to anybody."""
    candidates: tuple[str, ...] = ()
    """The candidates of whom every member knows: quorums count among these too. Empty if that is not known."""

    @property
    def highest(self) -> int:
        return max(self.reserved, self.membership.version[1])

# SPDX-License-Identifier: BSD-2-Clause
"""Which failures of a node the others could not absorb, and what is missing where (spec: htools, 9).

What has a second node is taken over there: each secondary must have the memory for it, and disks that are not over
their limit. That is all where everything has a second node. What runs from shared or local disks is started
again wherever it scores best; whether that works `redundancy` alone knows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.lack import DISK, MEMORY, REDUNDANCY, at_least, at_most
from ganeti.placement.kernel.state import NOWHERE
from ganeti.placement.why.room import Limit, Room


@dataclass(frozen=True, slots=True)
class Shortage:
    """*node* could not take over what it must when *failing* fails: *missing_mib* more of *resource* must be free."""

    failing: int
    node: int
    resource: str
    needed_mib: int
    free_mib: int

    @property
    def missing_mib(self) -> int:
        return self.needed_mib - self.free_mib + 1


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of another node that asks most of a node: number *failing* (NOWHERE: none asks) for *needed_mib*.

    *mirrored*: something that runs there has a second node. *quick*: everything has.
    """

    needed_mib: int
    failing: int
    mirrored: bool
    quick: bool
    free_memory_mib: int
    free_disk_mib: int


class Absorption:
    """What the failure of each node asks of the others; mirrored pairs are within one group.

    By node number: *failures*, *names*, and whether the node is *online*.
    """

    def __init__(self, failures: Sequence[Failure], names: Sequence[str], online: Sequence[bool]) -> None:
        self._failures = failures
        self._names = names
        self.shortages = [one for number in range(len(names)) for one in self._present(number, online[number])]
        """Those there are now, without anything new."""

    def _present(self, number: int, online: bool) -> Iterator[Shortage]:
        own = self._failures[number]
        asked = own.failing != NOWHERE
        failing = own.failing if asked else number
        if asked and own.needed_mib >= own.free_memory_mib:
            yield Shortage(failing, number, MEMORY, own.needed_mib, own.free_memory_mib)
        if own.free_disk_mib <= 0 and ((online and own.mirrored) or asked):
            yield Shortage(failing, number, DISK, 0, own.free_disk_mib)

    def primary_limits(self, room: Room, memory_mib: int) -> Iterator[Limit]:
        """What a primary must leave free for the failure of others."""
        own = self._failures[room.number]
        if own.failing != NOWHERE:
            yield self._limit(room, memory_mib, own.needed_mib, own.failing)

    def secondary_limits(self, room: Room, primary: int, memory_mib: int) -> Iterator[Limit]:
        """What a secondary must find if *primary*, which is to run the instance, fails; and if others do."""
        if primary >= 0:
            yield self._limit(room, memory_mib, room.claims.get(primary, 0), primary)
        own = self._failures[room.number]
        if own.failing != NOWHERE:
            yield self._limit(room, 0, own.needed_mib, own.failing)

    def _limit(self, room: Room, memory_mib: int, needed: int, failing: int) -> Limit:
        free = room.free_memory_mib
        words = (
            f"the failure of {self._names[failing]} could not be absorbed: {room.name} would have to find "
            f"{at_least(needed + memory_mib)} of memory, {at_most(free)} are free"
        )
        return Limit(MEMORY, memory_mib, free - needed - 1, words, REDUNDANCY, FailMode.FailN1)

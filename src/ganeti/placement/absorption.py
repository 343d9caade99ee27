# SPDX-License-Identifier: BSD-2-Clause
"""Which failures of a node the others could not absorb, and what is missing where (spec: htools, 9).

What has a second node is taken over there: each secondary must have the memory for it, and disks that are not over
their limit. That is all where everything has a second node. What runs from shared or local disks is started
again wherever it scores best; whether that works `redundancy` alone knows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ganeti.placement.failure import FailMode
from ganeti.placement.lack import DISK, MEMORY, REDUNDANCY
from ganeti.placement.room import Limit, Room


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


class Absorption:
    """What the failure of each node asks of the others; mirrored pairs are within one group."""

    def __init__(self, rooms: Sequence[Room], online: Sequence[bool]) -> None:
        self._rooms = rooms
        self._worst: dict[int, tuple[int, int]] = {}
        for room in rooms:
            if room.claims:
                failing = max(room.claims, key=room.claims.__getitem__)
                self._worst[room.number] = (room.claims[failing], failing)
        self.shortages = [shortage for room in rooms for shortage in self._present(room, online[room.number])]
        """Those there are now, without anything new."""

    def _present(self, room: Room, online: bool) -> Iterator[Shortage]:
        number = room.number
        needed, failing = self._worst.get(number, (0, number))
        if number in self._worst and needed >= room.free_memory_mib:
            yield Shortage(failing, number, MEMORY, needed, room.free_memory_mib)
        mirrored = online and any(instance.secondary for instance in room.primaries)
        if room.free_disk_mib <= 0 and (mirrored or number in self._worst):
            yield Shortage(failing, number, DISK, 0, room.free_disk_mib)

    def primary_limits(self, room: Room, memory_mib: int) -> Iterator[Limit]:
        """What a primary must leave free for the failure of others."""
        if room.number in self._worst:
            needed, failing = self._worst[room.number]
            yield self._limit(room, memory_mib, needed, failing)

    def secondary_limits(self, room: Room, primary: int, memory_mib: int) -> Iterator[Limit]:
        """What a secondary must find if *primary*, which is to run the instance, fails; and if others do."""
        if primary >= 0:
            yield self._limit(room, memory_mib, room.claims.get(primary, 0), primary)
        if room.number in self._worst:
            needed, failing = self._worst[room.number]
            yield self._limit(room, 0, needed, failing)

    def _limit(self, room: Room, memory_mib: int, needed: int, failing: int) -> Limit:
        free = room.free_memory_mib
        words = (
            f"the failure of {self._rooms[failing].name} could not be absorbed: {room.name} would have to find "
            f"{needed + memory_mib:,} MiB of memory, {free:,} are free"
        )
        return Limit(MEMORY, memory_mib, free - needed - 1, words, REDUNDANCY, FailMode.FailN1)

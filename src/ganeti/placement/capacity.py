# SPDX-License-Identifier: BSD-2-Clause
"""How many more instances fit: of one size (standard), or of sizes that shrink as room runs out (tiered; htools, 11).

Both allocate one instance after the other on the same state, where they stay. Global N+1 is asked as 3.1 does: for each
single step, but of mirrored instances for blocks of steps.
"""

import enum
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ganeti.placement.cluster import Disk, Instance
from ganeti.placement.failure import FailMode
from ganeti.placement.policy import Spec
from ganeti.placement.redundancy import redundant
from ganeti.placement.searches import Asked, Found, fill_nodes, find_nodes
from ganeti.placement.state import NOWHERE, ClusterState

Failures = Counter[FailMode]

_LEAST_BLOCK, _SMALL_BLOCK, _AT_ONCE = 20, 10, 1000
UNITS = {FailMode.FailMem: 64, FailMode.FailDisk: 256, FailMode.FailCPU: 1, FailMode.FailSpindles: 1}
"""By how much a size is made smaller at a time; it never falls below one unit."""


@dataclass(frozen=True, slots=True)
class Size:
    """What one of the new instances asks for; *spindles* are those of its disk, on exclusive storage."""

    memory_mib: int
    disk_mib: int
    vcpus: int
    spindles: int


@dataclass(frozen=True, slots=True)
class Room:
    """Where new instances may go, fixed at the start.

    *candidates* are the nodes they may be placed on, *members* those whose score decides; *checked* are asked for
    global N+1 (none: it is not asked for). *nodes_each* is 1 or 2.
    """

    template: str
    nodes_each: int
    spindle_use: int
    candidates: tuple[int, ...]
    members: tuple[int, ...]
    checked: tuple[int, ...] = ()


class Allocation:
    """Allocates on *state* and keeps the sizes of what was placed, in order."""

    def __init__(self, state: ClusterState, room: Room) -> None:
        self.state = state
        self.room = room
        self.placed: list[Size] = []
        self.numbers: list[int] = []
        self._fruitless: dict[tuple[Size, bool], Failures] = {}
        self._known_at = 0

    # one size

    def fill(self, size: Size, limit: int | None = None) -> Failures:
        """Place instances of *size*, at most *limit*, until one does not fit; gives what was against it."""
        end = None if limit is None else len(self.placed) + limit
        if self.room.nodes_each == 1 or not self.room.checked:
            return self._fill_singly(size, end, checked=True)
        return self._fill_by_blocks(size, end)

    def _fill_singly(self, size: Size, end: int | None, *, checked: bool) -> Failures:
        if self.room.nodes_each == 1 and self._fill_at_once(size, end, checked=checked):
            return self._refusals(size, checked=checked)
        while end is None or len(self.placed) < end:
            fits, failures = self._step(size, checked=checked)
            if not fits:
                return failures
        return self._refusals(size, checked=checked)

    def _fill_at_once(self, size: Size, end: int | None, *, checked: bool) -> bool:
        """Place many before asking one by one; gives whether the end was reached. Not for a single one, as most are."""
        fits, _ = self._step(size, checked=checked) if end is None or len(self.placed) < end else (False, {})
        while fits and (end is None or len(self.placed) < end):
            state, room, mark = self.state, self.room, self.state.mark()
            number = state.add_instance(self._instance(size), NOWHERE)
            asked = Asked(number, room.nodes_each, room.candidates, room.members, room.checked if checked else ())
            limit = _AT_ONCE if end is None else min(_AT_ONCE, end - len(self.placed))
            nodes, _ = fill_nodes(state, asked, limit)
            state.rollback(mark)
            for node in nodes:
                self.numbers.append(state.add_instance(self._instance(size), node))
                self.placed.append(size)
            fits = len(nodes) == limit
        return end is not None and len(self.placed) >= end

    def _fill_by_blocks(self, size: Size, end: int | None) -> Failures:
        small = False
        while end is None or len(self.placed) < end:
            before = len(self.placed)
            block_end = before + (_SMALL_BLOCK if small else self._first_block(size))
            mark = self.state.mark()
            failures = self._fill_singly(size, block_end if end is None else min(block_end, end), checked=False)
            if redundant(self.state, self.room.checked):
                self.state.settle(mark)
                if len(self.placed) == before:
                    return failures
                continue
            self.state.rollback(mark)
            del self.placed[before:], self.numbers[before:]
            self._known_at = -1
            if small:
                return self._fill_singly(size, end, checked=False)
            small = True
        return self._refusals(size, checked=False)

    def _refusals(self, size: Size, *, checked: bool) -> Failures:
        """What is against one more at the limit, of which 3.1 tells as if it were the reason to end."""
        mark = self.state.mark()
        failures = self._search(size, checked=checked).failures
        self.state.rollback(mark)
        return _counted(failures)

    def _first_block(self, size: Size) -> int:
        """A guess at how many will fit."""
        free = sum(self.state.view(node).available_memory_mib for node in self.room.members)
        return max(_LEAST_BLOCK, free // max(1, size.memory_mib) - len(self.room.members))

    def _step(self, size: Size, *, checked: bool) -> tuple[bool, Failures]:
        """Place one more; gives whether it fitted, and else why not. What did not fit before does not fit again."""
        state = self.state
        if self._known_at != len(self.placed):
            self._fruitless.clear()
            self._known_at = len(self.placed)
        if (size, checked) in self._fruitless:
            return False, self._fruitless[size, checked]
        mark = state.mark()
        found = self._search(size, checked=checked)
        if found.nodes:
            number = len(state.instances) - 1
            state.move(number, *found.nodes)
            state.settle(mark)
            self.placed.append(size)
            self.numbers.append(number)
            return True, Counter()
        state.rollback(mark)
        failures = _counted(found.failures)
        self._fruitless[size, checked] = failures
        return False, failures

    def _search(self, size: Size, *, checked: bool) -> Found:
        """Add an instance of *size* to the state, on no node, and find nodes for it."""
        room = self.room
        number = self.state.add_instance(self._instance(size), NOWHERE)
        asked = Asked(number, room.nodes_each, room.candidates, room.members, room.checked if checked else ())
        return find_nodes(self.state, asked)

    def _instance(self, size: Size) -> Instance:
        return Instance(
            name=f"new-{len(self.placed)}",
            memory_mib=size.memory_mib,
            disk_mib=size.disk_mib,
            vcpus=size.vcpus,
            template=self.room.template,
            disks=(Disk(size.disk_mib, size.spindles),),
            spindle_use=self.room.spindle_use,
        )

    # shrinking sizes

    def fill_tiered(self, size: Size, limit: int | None = None) -> Failures:
        """Place instances of *size*, then of smaller ones, each time a unit less of what is most often short.

        Where that leads nowhere, for each mode the largest size that fits is gone on with. As in 3.1 each size takes
        all that were placed so far from the *limit*, not only its own.
        """
        failures = self.fill(size, limit)
        placed = len(self.placed)
        if limit is not None and limit <= placed:
            return failures
        last, after = self._descend(size, rising(failures)[-1])
        if limit is not None and placed and (stop := max(1, math.ceil(limit / placed) - 1)) <= last.step:
            last, after = last.back_to(stop - 1), None
        left = None if limit is None else limit - placed * (last.step + 1)
        if after is not None:
            result = self.fill_tiered(after, left)
            if len(self.placed) > placed:
                return result
        fitting = self._largest_fitting(last.size)
        return failures if fitting is None else self.fill_tiered(fitting, left)

    def _descend(self, size: Size, mode: FailMode) -> "tuple[_Place, Size | None]":
        """Go down by *mode* as long as nothing fits and nothing else is more often short.

        Gives the last such size, and the next one, where that is no longer so (None: there is none). The sizes between
        need no look: the smaller an instance, the fewer nodes are too small for it, and what does not help the smallest
        does not help those before it.
        """
        chain = _Chain(size, mode)

        def goes_on(step: int) -> Verdict:
            smaller = chain.at(step)
            if smaller is None:
                return Verdict.ENDS
            fits, failures = self._would_fit(smaller, checked=self.room.nodes_each == 1)
            return _verdict(not fits and rising(failures)[-1] == mode, failures)

        last, ends = self._last_true(goes_on, chain)
        return _Place(chain, last), None if ends else chain.at(last + 1)

    def _largest_fitting(self, size: Size) -> Size | None:
        """Shrink by one mode until it fits, the most frequent one first; None if another thing is always in the way."""
        _, failures = self._would_fit(size, checked=self.room.nodes_each == 1)
        for mode in (mode for mode in reversed(rising(failures)) if failures[mode]):
            chain = _Chain(size, mode)

            def goes_on(step: int, mode: FailMode = mode, chain: _Chain = chain) -> Verdict:
                smaller = chain.at(step)
                if smaller is None:
                    return Verdict.ENDS
                fits, failures = self._would_fit(smaller, checked=True)
                return _verdict(not fits and bool(failures[mode]), failures)

            last, ends = self._last_true(goes_on, chain)
            smaller = None if ends else chain.at(last + 1)
            if smaller is not None and self._would_fit(smaller, checked=True)[0]:
                return smaller
        return None

    def _last_true(self, goes_on: "Callable[[int], Verdict]", chain: "_Chain") -> tuple[int, bool]:
        """The last step of those from 1 on for which *goes_on* (0: none), and whether all that follow are too small.

        As long as no node passes the checks, the smaller an instance, the fewer nodes are too small for it: so those
        steps need not be tried one by one. Global N+1 knows no such order, as it follows the scores. One size range
        admits all sizes above its least one; below it nothing fits any more for the same reason.
        """
        policies = [group.policy for group in self.state.groups]
        one_range = all(len(policy.ranges) <= 1 for policy in policies)
        floor = max((chain.steps_above(policy.ranges[0][0]) for policy in policies if policy.ranges), default=0)
        below = _last_plain(goes_on, floor) if one_range else 0
        while (below < floor or not one_range) and goes_on(below + 1) != Verdict.ENDS:
            below += 1
        return below, below == floor and (floor == chain.length or goes_on(floor + 1) != Verdict.ENDS)

    def _would_fit(self, size: Size, *, checked: bool) -> tuple[bool, Failures]:
        before, mark = len(self.placed), self.state.mark()
        fits, failures = self._step(size, checked=checked)
        self.state.rollback(mark)
        del self.placed[before:], self.numbers[before:]
        return fits, failures


class Verdict(enum.Enum):
    """Whether a chain of sizes goes on behind one: `PLAINLY` if no node passed even the checks of its own."""

    PLAINLY = 1
    GOES_ON = 2
    ENDS = 3


def _verdict(goes_on: bool, failures: Failures) -> Verdict:
    if not goes_on:
        return Verdict.ENDS
    return Verdict.GOES_ON if failures[FailMode.FailN1] else Verdict.PLAINLY


def _last_plain(goes_on: Callable[[int], Verdict], floor: int) -> int:
    """The last step up to *floor* that goes on plainly, found by doubling and halving strides."""
    below, stride = 0, 1
    while below + stride <= floor and goes_on(below + stride) == Verdict.PLAINLY:
        below += stride
        stride *= 2
    while stride > 1:
        stride //= 2
        if below + stride <= floor and goes_on(below + stride) == Verdict.PLAINLY:
            below += stride
    return below


@dataclass(frozen=True, slots=True)
class _Place:
    """One step of a chain."""

    chain: "_Chain"
    step: int

    @property
    def size(self) -> Size:
        return self.chain.reached(self.step)

    def back_to(self, step: int) -> "_Place":
        return replace(self, step=step)


class _Chain:
    """What becomes of a size that shrinks by one mode again and again."""

    def __init__(self, size: Size, mode: FailMode) -> None:
        self._size, self._mode = size, mode
        self._unit = UNITS.get(mode, 0)
        amounts = {
            FailMode.FailMem: size.memory_mib,
            FailMode.FailDisk: size.disk_mib,
            FailMode.FailCPU: size.vcpus,
            FailMode.FailSpindles: size.spindles,
        }
        self._amount = amounts.get(mode, 0)
        self.length = max(0, self._amount // self._unit - 1) if self._unit else 0

    def reached(self, step: int) -> Size:
        """The size after *step* steps."""
        amount = self._amount - step * self._unit
        match self._mode:
            case FailMode.FailMem:
                return replace(self._size, memory_mib=amount)
            case FailMode.FailDisk:
                return replace(self._size, disk_mib=amount)
            case FailMode.FailCPU:
                return replace(self._size, vcpus=amount)
            case FailMode.FailSpindles:
                return replace(self._size, spindles=amount)
        return self._size

    def at(self, step: int) -> Size | None:
        """The same, or None if less than a unit would be left."""
        return self.reached(step) if step <= self.length else None

    def steps_above(self, least: Spec) -> int:
        """How many steps stay at or above the least size a policy admits."""
        bounds = {
            FailMode.FailMem: least.memory_mib,
            FailMode.FailDisk: least.disk_mib,
            FailMode.FailCPU: least.cpus,
            FailMode.FailSpindles: least.spindle_use,
        }
        if not self._unit:
            return 0
        return min(self.length, max(0, (self._amount - bounds[self._mode]) // self._unit))


def _counted(failures: Sequence[int]) -> Failures:
    return Counter({FailMode(mode): count for mode, count in enumerate(failures) if mode and count})


def rising(failures: Failures) -> list[FailMode]:
    """All modes, the most frequent last; of equals the later one."""
    return sorted(FailMode, key=lambda mode: failures[mode])


def most_likely(failures: Failures) -> FailMode:
    """The most frequent mode, of equals the first."""
    return max(FailMode, key=lambda mode: (failures[mode], -mode))


def runs(sizes: Sequence[Size]) -> list[tuple[Size, int]]:
    """Sizes in order of allocation, with how many of each came one after the other."""
    found: list[tuple[Size, int]] = []
    for size in sizes:
        if found and found[-1][0] == size:
            found[-1] = size, found[-1][1] + 1
        else:
            found.append((size, 1))
    return found

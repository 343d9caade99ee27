# SPDX-License-Identifier: BSD-2-Clause
"""How many more instances fit: of one size (standard), or of sizes that shrink as room runs out (tiered; htools, 11).

Both allocate one instance after the other on the same state, where they stay. Global N+1 is asked as 3.1 does: for
blocks of steps, and where a small block fails, for each step from there on; of mirrored instances no more.
"""

import enum
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.picture import Disk, Instance
from ganeti.placement.cluster.policy import Spec
from ganeti.placement.kernel.searches import Found, NodeSearch, fill_nodes, find_nodes, redundant
from ganeti.placement.kernel.state import NOWHERE, ClusterState

Failures = Counter[FailMode]

_LEAST_BLOCK, _SMALL_BLOCK, _AT_ONCE = 20, 10, 200
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


class _Trial(NamedTuple):
    """What came of placing one more, and what was against it; *hopeless*: no size whatever would have fitted."""

    fits: bool
    failures: Failures
    hopeless: bool


class _Pending(NamedTuple):
    """A size to go back to if nothing fits of those below it, when *placed* were there."""

    size: Size
    limit: int | None
    placed: int
    failures: Failures


class Allocation:
    """Allocates on *state* and keeps the sizes of what was placed, in order; *tell* is called now and then."""

    def __init__(self, state: ClusterState, room: Room, tell: Callable[["Allocation"], None] | None = None) -> None:
        self.state = state
        self.room = room
        self.placed: list[Size] = []
        self.numbers: list[int] = []
        self._tell = tell
        self._refused: dict[tuple[Size, bool], _Trial] = {}

    # one size

    def fill(self, size: Size, limit: int | None = None) -> Failures:
        """Place instances of *size*, at most *limit*, until one does not fit.

        Gives what was against the one that did not fit, at the limit what is against one more.
        """
        end = None if limit is None else len(self.placed) + limit
        if self.room.checked:
            return self._fill_by_blocks(size, end)
        return self._fill_to_the_end(size, end, checked=False)

    def _fill_to_the_end(self, size: Size, end: int | None, *, checked: bool) -> Failures:
        failures = self._fill(size, end, checked=checked)
        return self._would_fit(size, checked=checked).failures if end == len(self.placed) else failures

    def _fill(self, size: Size, end: int | None, *, checked: bool) -> Failures:
        failures: Failures = Counter()
        going = True
        while going and (end is None or len(self.placed) < end):
            limit = _AT_ONCE if end is None else min(_AT_ONCE, end - len(self.placed))
            trial = self._refused.get((size, checked)) or self._place(size, limit, checked=checked)
            going, failures = trial.fits, trial.failures
        return failures

    def _fill_by_blocks(self, size: Size, end: int | None) -> Failures:
        failures: Failures = Counter()
        small = False
        while end is None or len(self.placed) < end:
            before = len(self.placed)
            block_end = before + (_SMALL_BLOCK if small else self._first_block(size))
            held, failures = self._fill_block(size, block_end if end is None else min(block_end, end))
            if held:
                if len(self.placed) == before:
                    break
                continue
            if small:
                return self._fill_to_the_end(size, end, checked=self.room.nodes_each == 1)
            small = True
        return self._would_fit(size, checked=False).failures if end == len(self.placed) else failures

    def _fill_block(self, size: Size, end: int) -> tuple[bool, Failures]:
        """Place a block, and take it away again if the group could not lose a node with it; gives whether it stays."""
        before, mark, stays = len(self.placed), self.state.mark(), False
        try:
            failures = self._fill(size, end, checked=False)
            stays = redundant(self.state, self.room.checked)
        finally:
            if stays:
                self.state.settle(mark)
            else:
                self.state.rollback(mark)
                del self.placed[before:], self.numbers[before:]
                self._refused.clear()
        return stays, failures

    def _first_block(self, size: Size) -> int:
        """A guess at how many will fit."""
        free = sum(self.state.view(node).available_memory_mib for node in self.room.members)
        return max(_LEAST_BLOCK, free // max(1, size.memory_mib) - len(self.room.members))

    def _place(self, size: Size, limit: int, *, checked: bool) -> _Trial:
        """Place up to *limit* instances; gives how it went with the last one that was looked at."""
        mark = self.state.mark()
        try:
            places, found = fill_nodes(self.state, self._asked(size, checked=checked), limit)
        finally:
            self.state.rollback(mark)
        for nodes in places:
            self.numbers.append(self.state.add_instance(self._instance(size), *nodes))
            self.placed.append(size)
            self._refused.clear()
        return self._judged(size, found, checked=checked)

    def _would_fit(self, size: Size, *, checked: bool) -> _Trial:
        """Look for nodes for one more. What did not fit before does not fit again."""
        known = self._refused.get((size, checked))
        if known is not None:
            return known
        mark = self.state.mark()
        try:
            found = find_nodes(self.state, self._asked(size, checked=checked))
        finally:
            self.state.rollback(mark)
        return self._judged(size, found, checked=checked)

    def _judged(self, size: Size, found: Found, *, checked: bool) -> _Trial:
        if self._tell is not None:
            self._tell(self)
        trial = _Trial(bool(found.nodes), _counted(found.failures), found.hopeless)
        if not trial.fits:
            self._refused[size, checked] = trial
        return trial

    def against(self, size: Size) -> Failures | None:
        """What is against one more of *size*; None if it fits."""
        trial = self._would_fit(size, checked=bool(self.room.checked))
        return None if trial.fits else trial.failures

    def _asked(self, size: Size, *, checked: bool) -> NodeSearch:
        """Add an instance of *size* to the state, on no node, and ask for nodes for it."""
        room = self.room
        number = self.state.add_instance(self._instance(size), NOWHERE)
        return NodeSearch(number, room.nodes_each, room.candidates, room.members, room.checked if checked else ())

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
        pending: list[_Pending] = []
        following: tuple[Size, int | None] | None = size, limit
        failures: Failures = Counter()
        while following is not None:
            size, limit = following
            failures = self.fill(size, limit)
            following, placed = None, len(self.placed)
            if limit is None or limit > placed:
                last, after = self._descend(size, rising(failures)[-1])
                if limit is not None and placed and (stop := max(1, math.ceil(limit / placed) - 1)) <= last.step:
                    last, after = last.back_to(stop - 1), None
                pending += self._ways_back(last, limit, placed, failures)
                following = None if after is None else (after, pending[-1].limit)
            while following is None and pending:
                former = pending.pop()
                if len(self.placed) == former.placed:
                    fitting = self._largest_fitting(former.size)
                    following = None if fitting is None else (fitting, former.limit)
                    failures = former.failures
        return failures

    def _ways_back(self, last: "_Place", limit: int | None, placed: int, failures: Failures) -> list[_Pending]:
        """Sizes of a chain up to *last* from which another mode may lead on, the smallest last.

        These are the smallest of all, and the smallest that each size range admits: below, the range is in the way of
        what another mode would help. What does not help them does not help the larger ones before them.
        """
        leasts = {least for group in self.state.groups for least, _ in group.policy.ranges}
        steps = {last.step, *(min(last.step, last.chain.steps_above(least)) for least in leasts)}
        return [
            _Pending(last.chain.reached(step), None if limit is None else limit - placed * (step + 1), placed, failures)
            for step in sorted(steps)
        ]

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
            trial = self._would_fit(smaller, checked=self.room.nodes_each == 1)
            return _verdict(not trial.fits and rising(trial.failures)[-1] == mode, trial)

        last, ends = self._last_true(goes_on, chain)
        return _Place(chain, last), None if ends else chain.at(last + 1)

    def _largest_fitting(self, size: Size) -> Size | None:
        """Shrink by one mode until it fits, the most frequent one first; None if another thing is always in the way.

        As in 3.1 the last size of a chain, which cannot be made smaller still, is not tried.
        """
        failures = self._would_fit(size, checked=self.room.nodes_each == 1).failures
        for mode in (mode for mode in reversed(rising(failures)) if failures[mode]):
            chain = _Chain(size, mode, least_units=2)

            def goes_on(step: int, mode: FailMode = mode, chain: _Chain = chain) -> Verdict:
                smaller = chain.at(step)
                if smaller is None:
                    return Verdict.ENDS
                trial = self._would_fit(smaller, checked=True)
                return _verdict(not trial.fits and bool(trial.failures[mode]), trial)

            last, ends = self._last_true(goes_on, chain)
            smaller = None if ends else chain.at(last + 1)
            if smaller is not None and self._would_fit(smaller, checked=True).fits:
                return smaller
        return None

    def _last_true(self, goes_on: "Callable[[int], Verdict]", chain: "_Chain") -> tuple[int, bool]:
        """The last step of those from 1 on for which *goes_on* (0: none), and whether all that follow are too small.

        As long as no node passes the checks, the smaller an instance, the fewer nodes are too small for it: so those
        steps need not be tried one by one. Global N+1 knows no such order, as it follows the scores. A size range
        refuses no size for being smaller than another as long as both are above its least one; below that of the only
        range nothing fits any more for the same reason.
        """
        policies = [group.policy for group in self.state.groups]
        one_range = all(len(policy.ranges) <= 1 for policy in policies)
        floor = max((chain.steps_above(policy.ranges[0][0]) for policy in policies if policy.ranges), default=0)
        above_all = min((chain.steps_above(least) for policy in policies for least, _ in policy.ranges), default=0)
        below = _last_plain(goes_on, floor if one_range else above_all)
        while (below < floor or not one_range) and goes_on(below + 1) != Verdict.ENDS:
            below += 1
        return below, below == floor and (floor == chain.length or goes_on(floor + 1) != Verdict.ENDS)


class Verdict(enum.Enum):
    """Whether a chain of sizes goes on behind one: `PLAINLY` if that follows from checks of single nodes alone."""

    PLAINLY = 1
    GOES_ON = 2
    ENDS = 3


def _verdict(goes_on: bool, trial: _Trial) -> Verdict:
    if not goes_on:
        return Verdict.ENDS
    return Verdict.PLAINLY if trial.hopeless or not trial.failures[FailMode.FailN1] else Verdict.GOES_ON


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
    """What becomes of a size that shrinks by one mode again and again, as long as *least_units* are left."""

    def __init__(self, size: Size, mode: FailMode, least_units: int = 1) -> None:
        self._size, self._mode = size, mode
        self._unit = UNITS.get(mode, 0)
        amounts = {
            FailMode.FailMem: size.memory_mib,
            FailMode.FailDisk: size.disk_mib,
            FailMode.FailCPU: size.vcpus,
            FailMode.FailSpindles: size.spindles,
        }
        self._amount = amounts.get(mode, 0)
        self.length = max(0, self._amount // self._unit - least_units) if self._unit else 0

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
        """The same, or None if less than the least would be left."""
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

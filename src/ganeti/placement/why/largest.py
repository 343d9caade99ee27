# SPDX-License-Identifier: BSD-2-Clause
"""The largest instance like the one asked for that fits as things are, and where.

Looked for with less memory alone, less disk alone, fewer vcpus alone, and less of all three in proportion.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from ganeti.placement.cluster.lack import DISK, MEMORY, REDUNDANCY, RESOURCES, VCPUS
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.cluster.policy import refusal_by_policy
from ganeti.placement.request.terms import LargestSize
from ganeti.placement.why.question import Question
from ganeti.placement.why.remedies import Spot
from ganeti.placement.why.room import PRIMARY, SECONDARY, UNLIMITED
from ganeti.placement.why.smaller import shrunk
from ganeti.placement.why.tallies import BITS
from ganeti.placement.why.trials import Trials

EVERYTHING = "everything"
SCALED = (MEMORY, DISK, VCPUS)
_PERCENT = 100
_NOT_BY_SIZE = ("policy-template", "policy-disks", "policy-spindles")
"""What a policy has against an instance whatever its memory, disk and vcpus."""

Caps = tuple[int, int, int]
"""The most memory, disk and vcpus a node leaves."""


def largest_sizes(question: Question) -> tuple[LargestSize, ...]:
    """One size for each scale that helps; none where the cluster could not absorb a failure whatever is asked for."""
    scales = [*(_OneResource(question, name) for name in SCALED), _InProportion(question)]
    trials = Trials(question)
    return tuple(size for size in (_Largest(question, scale, trials).size() for scale in scales) if size is not None)


class _Scale:
    """A way of asking for less: a measure between nothing and what is asked for, and the instance of that measure."""

    name = ""
    resources: tuple[str, ...] = ()

    def measure(self, caps: Caps, number: int) -> int:
        """The largest measure within *caps* that the policy of node *number* admits; 0 for none."""
        raise NotImplementedError

    def instance(self, measure: int) -> Instance:
        raise NotImplementedError


class _OneResource(_Scale):
    """Less of one resource, the others as they are asked for; the measure is MiB, or vcpus."""

    def __init__(self, question: Question, name: str) -> None:
        self.name = name
        self.resources = (name,)
        self._question = question
        self._at = SCALED.index(name)
        self._known: dict[tuple[int, bool, int], int] = {}
        self._instances: dict[int, Instance] = {}

    def measure(self, caps: Caps, number: int) -> int:
        exclusive = self._question.state.nodes[number].exclusive_storage
        key = (
            self._question.group_of[number],
            exclusive,
            min(caps[self._at], _sizes(self._question.instance)[self._at]),
        )
        if key not in self._known:
            self._known[key] = max(self._by_windows(key[2], exclusive, number), default=0)
        return self._known[key]

    def _by_windows(self, cap: int, exclusive: bool, number: int) -> Iterator[int]:
        instance = self._question.instance
        asked = _sizes(instance)
        caps = dict.fromkeys(RESOURCES, UNLIMITED) | {self.name: cap}
        for lacks, window in self._question.policy(number):
            if any(lack.constraint in _NOT_BY_SIZE for lack in lacks):
                continue
            smaller = shrunk(instance, caps, window, exclusive, counted=False)
            if smaller is None or smaller.spindle_use != instance.spindle_use:
                continue
            found = _sizes(smaller)
            if all(found[at] == asked[at] for at in range(len(SCALED)) if at != self._at) and found[self._at] <= cap:
                self._instances[found[self._at]] = smaller
                yield found[self._at]

    def instance(self, measure: int) -> Instance:
        if self.name == MEMORY:
            return replace(self._question.instance, memory_mib=measure)
        return self._instances[measure]


class _InProportion(_Scale):
    """Less of everything; the measure is a percentage."""

    name = EVERYTHING
    resources = SCALED

    def __init__(self, question: Question) -> None:
        self._question = question
        self._admitted: dict[tuple[int, bool], list[int]] = {}

    @cached_property
    def _steps(self) -> list[Instance]:
        return [self._scaled(percent) for percent in range(1, _PERCENT + 1)]

    @cached_property
    def _columns(self) -> list[list[int]]:
        return [[_sizes(step)[at] for step in self._steps] for at in range(len(SCALED))]

    def _scaled(self, percent: int) -> Instance:
        asked = self._question.instance
        disks = tuple(replace(disk, size_mib=disk.size_mib * percent // _PERCENT) for disk in asked.disks)
        beside = asked.disk_mib - sum(disk.size_mib for disk in asked.disks)
        space = beside + sum(disk.size_mib for disk in disks) if disks else asked.disk_mib * percent // _PERCENT
        return replace(
            asked,
            memory_mib=max(1, asked.memory_mib * percent // _PERCENT),
            vcpus=max(1, asked.vcpus * percent // _PERCENT),
            disks=disks,
            disk_mib=space,
        )

    def measure(self, caps: Caps, number: int) -> int:
        highest = min(bisect_right(column, cap) for column, cap in zip(self._columns, caps, strict=True))
        admitted = self._percents(number)
        at = bisect_right(admitted, highest)
        return admitted[at - 1] if at else 0

    def _percents(self, number: int) -> list[int]:
        """Percentages the policy of the node's group admits."""
        exclusive = self._question.state.nodes[number].exclusive_storage
        key = (self._question.group_of[number], exclusive)
        if key not in self._admitted:
            policy = self._question.group_at(number).policy
            self._admitted[key] = [
                percent
                for percent, step in enumerate(self._steps, start=1)
                if refusal_by_policy(policy, step, exclusive) is None
            ]
        return self._admitted[key]

    def instance(self, measure: int) -> Instance:
        return self._steps[measure - 1]


def _sizes(instance: Instance) -> Caps:
    return instance.memory_mib, instance.disk_mib, instance.vcpus


class _Largest:
    """The largest measure of a scale that some node, or pair, takes as things are."""

    def __init__(self, question: Question, scale: _Scale, trials: Trials) -> None:
        self._question = question
        self._scale = scale
        self._trials = trials
        scaled = (*scale.resources, *((REDUNDANCY,) if MEMORY in scale.resources else ()))
        self._own_bits = sum(1 << bit for bit, name in enumerate(BITS) if name in scaled)

    def size(self) -> LargestSize | None:
        """None where nothing of that kind fits."""
        question = self._question
        measure, nodes = self._of_pairs() if question.paired else self._of_singles()
        if measure and not question.exact(question.group_of[nodes[0]]):
            measure = self._absorbed(measure, nodes)
        if not measure:
            return None
        smaller = self._scale.instance(measure)
        names = tuple(question.state.nodes[number].name for number in nodes)
        return LargestSize(self._scale.name, smaller.memory_mib, smaller.disk_mib, smaller.vcpus, names)

    def _of_singles(self) -> tuple[int, tuple[int, ...]]:
        best, nodes = 0, tuple[int, ...]()
        for number in range(len(self._question.state.nodes)):
            measure = self._alone(number, PRIMARY)
            if measure > best:
                best, nodes = measure, (number,)
        return best, nodes

    def _of_pairs(self) -> tuple[int, tuple[int, ...]]:
        """Both nodes alone bound what the pair takes, so those that take most are paired first."""
        best, nodes = 0, tuple[int, ...]()
        everyone = range(len(self._question.state.nodes))
        secondaries: dict[int, list[tuple[int, int]]] = {}
        for number in everyone:
            group = self._question.group_of[number]
            secondaries.setdefault(group, []).append((self._alone(number, SECONDARY), number))
        for members in secondaries.values():
            members.sort(key=lambda one: -one[0])
        primaries = sorted(((self._alone(number, PRIMARY), number) for number in everyone), key=lambda one: -one[0])
        for first, primary in primaries:
            if first <= best:
                break
            for second, secondary in secondaries[self._question.group_of[primary]]:
                if min(first, second) <= best:
                    break
                measure = self._together(primary, secondary) if secondary != primary else 0
                if measure > best:
                    best, nodes = measure, (primary, secondary)
        return best, nodes

    def _alone(self, number: int, role: str) -> int:
        question = self._question
        if question.fixed(number) or not question.known(number):
            return 0
        if not question.paired and question.elsewhere((number,)):
            return 0
        tally = question.tallies.of(number, role)
        if tally.alone_exceeded & ~self._own_bits:
            return 0
        memory, disk, vcpus = (
            cap if name in self._scale.resources else UNLIMITED for name, cap in zip(SCALED, tally.caps, strict=True)
        )
        return self._scale.measure((memory, disk, vcpus), number)

    def _together(self, primary: int, secondary: int) -> int:
        question = self._question
        if question.elsewhere((primary, secondary)):
            return 0
        both = [self._caps(question.spot(primary, PRIMARY)), self._caps(question.spot(secondary, SECONDARY, primary))]
        if both[0] is None or both[1] is None:
            return 0
        memory, disk, vcpus = (min(pair) for pair in zip(both[0], both[1], strict=True))
        return self._scale.measure((memory, disk, vcpus), primary)

    def _caps(self, spot: Spot) -> Caps | None:
        """None where something else than the scaled resources is in the way."""
        caps = dict.fromkeys(SCALED, UNLIMITED)
        for limit in spot.present:
            if limit.resource in self._scale.resources:
                if limit.asked or limit.exceeded:
                    caps[limit.resource] = min(caps[limit.resource], limit.cap)
            elif limit.exceeded:
                return None
        return caps[MEMORY], caps[DISK], caps[VCPUS]

    def _absorbed(self, measure: int, nodes: tuple[int, ...]) -> int:
        """*measure*, or the largest below it with which every failure could be absorbed; found by trial."""
        if self._passes(measure, nodes):
            return measure
        if self._scale.resources != SCALED and self._scale.name != MEMORY:
            return 0
        good, bad = 0, measure
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self._passes(middle, nodes) else (good, middle)
        number = nodes[0]
        policy, exclusive = self._question.group_at(number).policy, self._question.state.nodes[number].exclusive_storage
        return good if good and refusal_by_policy(policy, self._scale.instance(good), exclusive) is None else 0

    def _passes(self, measure: int, nodes: tuple[int, ...]) -> bool:
        return self._trials.absorbed(self._scale.instance(measure), nodes)

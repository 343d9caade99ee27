# SPDX-License-Identifier: BSD-2-Clause
"""A score that no plan for a group gets below, by proof (spec: htools, 3).

Every addend of the score is at least 0, and these are at least something:

- Instances that may not be moved and are on an offline node stay there: 16 for a primary, 4 for either.
- Whole things cannot be shared out evenly. Where a value of all online nodes grows by the same unit with each instance
  (or each vcpu, each MiB of a common divisor), the deviation is least when units go to the emptiest node one by one:
  the sum is given, so the mean is, and a sum of convex functions is least that way. What cannot move stays where it is.
- Memory kept for the failure of the node with most to keep, which is at least the mean, is kept somewhere.

The last two suppose that nothing movable stays on an offline node; if something does, that adds 4 instead.
"""

import heapq
import math
from collections.abc import Callable, Sequence

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.definition.score import COMPONENTS, METRICS, metrics_of, uses_node_disk
from ganeti.placement.kernel.state import NOWHERE, ClusterState

_LEFT_BEHIND, _LEFT_PRIMARY = 4.0, 16.0
_RESERVED_WEIGHT = 0.25
_MOST_UNITS = 200_000
_ROUNDING = 1e-9
"""Sums of floating point numbers may be off by a little: a bound must not be."""

_WEIGHTS = {component.metric: component.weight for component in COMPONENTS if component.kind == "deviation"}

Size = Callable[[Instance], int]


def lower_bound(state: ClusterState, members: Sequence[int], movable: Sequence[bool]) -> float:
    """The bound for the nodes *members*, *movable* saying which instances may be moved."""
    online = [node for node in members if state.online[node]]
    if not online:
        return 0.0
    group = _Group(state, members, online, movable)
    stuck = group.stuck()
    spread = sum(group.spread(metric) for metric in _SIZES) + group.load() + group.reserved()
    if len(online) < len(members):
        spread = 0.0 if group.has_forthcoming() else min(spread, _LEFT_BEHIND)
    return max(0.0, (stuck + spread) * (1 - _ROUNDING) - _ROUNDING)


def _disk(instance: Instance) -> int:
    return instance.disk_mib if uses_node_disk(instance) else 0


def _spindles(instance: Instance) -> int:
    return instance.spindle_use if uses_node_disk(instance) else 0


_SIZES: dict[str, tuple[Size, bool]] = {
    "free_memory": (lambda one: one.memory_mib if one.uses_memory else 0, False),
    "free_memory_forthcoming": (lambda one: one.memory_mib, False),
    "cpus": (lambda one: 0 if one.forthcoming else one.counted_vcpus, False),
    "cpus_forthcoming": (lambda one: one.counted_vcpus, False),
    "free_disk": (lambda one: 0 if one.forthcoming else _disk(one), True),
    "free_disk_forthcoming": (_disk, True),
    "spindles": (lambda one: 0 if one.forthcoming else _spindles(one), True),
    "spindles_forthcoming": (_spindles, True),
}
"""By metric what an instance adds to a node, and whether to its secondary too."""
_LOADS = (("load_cpu", 0, False), ("load_memory", 1, False), ("load_disk", 2, True), ("load_net", 3, False))


class _Group:
    """A group as a bound sees it: its online nodes, and which instances can leave the nodes they are on."""

    def __init__(
        self, state: ClusterState, members: Sequence[int], online: Sequence[int], movable: Sequence[bool]
    ) -> None:
        self._state, self._online, self._members = state, list(online), set(members)
        self._here = [n for n in range(len(state.instances)) if not self._members.isdisjoint(self._places(n))]
        self._free = {n for n in self._here if movable[n] and self._can_move(n)}
        self._metrics = {node: metrics_of(state.view(node)) for node in online}

    def _places(self, number: int) -> list[int]:
        both = self._state.primary_of[number], self._state.secondary_of[number]
        return [node for node in both if node != NOWHERE]

    def _can_move(self, number: int) -> bool:
        instance = self._state.instances[number]
        traits = traits_of(instance.template)
        able = traits is not None and traits.movable and instance.auto_balance
        return able and self._members.issuperset(self._places(number))

    def stuck(self) -> float:
        """What instances cost that stay on offline nodes whatever is done."""
        state, total = self._state, 0.0
        for number in self._here:
            if number in self._free or state.instances[number].forthcoming:
                continue
            for place, node in enumerate((state.primary_of[number], state.secondary_of[number])):
                if node in self._members and not state.online[node]:
                    total += _LEFT_BEHIND + (_LEFT_PRIMARY if place == 0 else 0.0)
        return total

    def has_forthcoming(self) -> bool:
        """Whether something that can move costs nothing where it stays."""
        return any(self._state.instances[number].forthcoming for number in self._free)

    def spread(self, metric: str) -> float:
        """The least deviation of a metric that is a share of equal wholes."""
        size, mirrored = _SIZES[metric]
        wholes = {self._whole(node, metric) for node in self._online}
        if len(wholes) != 1 or not all(map(math.isfinite, wholes)) or 0.0 in wholes:
            return 0.0
        if any(self._state.nodes[node].exclusive_storage for node in self._online) and mirrored:
            return 0.0
        unit = wholes.pop()
        sizes = {n: size(self._state.instances[n]) for n in self._free}
        return _WEIGHTS[metric] * self._least(metric, sizes, unit, mirrored=mirrored)

    def _whole(self, node: int, metric: str) -> float:
        """How much the metric changes with a MiB, a vcpu or a spindle."""
        own = self._state.nodes[node]
        if metric.startswith("free_memory"):
            whole = own.total_memory_mib
        elif metric.startswith("free_disk"):
            whole = own.total_disk_mib
        elif metric.startswith("cpus"):
            whole = own.total_cpus * own.cpu_speed
        else:
            whole = self._state.spindle_ratio[node] * own.spindles
        if not whole > 0:
            return math.nan
        return (-1.0 if metric.startswith("free") else 1.0) / whole

    def load(self) -> float:
        """The least deviation of measured load, where it is the same for every instance."""
        total = 0.0
        for metric, at, mirrored in _LOADS:
            loads = {self._state.instances[n].load[at] for n in self._free if not self._state.instances[n].forthcoming}
            if len(loads) == 1 and 0 < (unit := loads.pop()) < math.inf:
                sizes = {n: 0 if self._state.instances[n].forthcoming else 1 for n in self._free}
                total += _WEIGHTS[metric] * self._least(metric, sizes, unit, mirrored=mirrored)
        return total

    def _least(self, metric: str, sizes: dict[int, int], unit: float, *, mirrored: bool) -> float:
        """The deviation with everything that can move shared out in steps of the common divisor of *sizes*."""
        state, row = self._state, METRICS.index(metric)
        values = {node: self._metrics[node][row] for node in self._online}
        count, divisor = 0, math.gcd(*sizes.values())
        for number, size in sizes.items():
            for node in self._places(number) if mirrored else [state.primary_of[number]]:
                count += size
                if node in values:
                    values[node] -= size * unit
        if not divisor or count // divisor > _MOST_UNITS or not all(map(math.isfinite, values.values())):
            return 0.0
        return _evened(list(values.values()), divisor * unit, count // divisor)

    def reserved(self) -> float:
        """What must be kept free for the node whose failure needs most, on the biggest nodes."""
        state = self._state
        largest = max(state.nodes[node].total_memory_mib for node in self._online)
        mirrored = (n for n in self._here if state.secondary_of[n] in self._members)
        counted = (n for n in mirrored if n in self._free or state.online[state.secondary_of[n]])
        kept = sum(state.instances[n].reserved_memory_mib for n in counted if state.primary_of[n] in self._members)
        return _RESERVED_WEIGHT * kept / len(self._members) / largest if largest > 0 else 0.0


def _evened(values: list[float], unit: float, count: int) -> float:
    """The deviation of *values* after *count* steps of *unit*, each made where the value is farthest behind."""
    sign = 1.0 if unit > 0 else -1.0
    heap = [sign * value for value in values]
    heapq.heapify(heap)
    for _ in range(count):
        heapq.heapreplace(heap, heap[0] + abs(unit))
    mean = math.fsum(heap) / len(heap)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in heap) / len(heap))

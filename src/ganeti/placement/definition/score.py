# SPDX-License-Identifier: BSD-2-Clause
"""What the values of a node and the score mean, in plain Python (spec: htools, 2 and 3).

Everything is computed from the lists of instances, without shortcuts. ``state`` fills its arrays from here node by
node; ``trial`` and ``score`` are the fast forms for many candidates at once, and are tested against this module.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.picture import Instance, Node
from ganeti.placement.cluster.tags import TagRules

Load = tuple[float, float, float, float]
"""Of CPU, memory, disk and network."""

NO_LOAD: Load = (0.0, 0.0, 0.0, 0.0)
_BEYOND_MIB, _HALF_RANGE = 1 << 62, 1 << 63


@dataclass(frozen=True)
class NodeView:
    """One node with what is on it.

    *extra_memory_mib* (x_mem) is fixed when the cluster is read; *free_disk_mib*, *free_spindles* and
    *forthcoming_free_memory_mib* change with each move. *secondaries* pairs an instance with the number of its primary.
    *primary_location_tags* holds, for each primary, the location tags of its secondary node; empty if nobody asks.
    *running_load* is the load as it was added and taken away one instance after the other, which rounds otherwise than
    a sum; None where nobody counted. *judged_failing* says whether it fails N+1 where something else than
    its lists decides that: the memory it reported, as long as nothing has changed on it.
    """

    node: Node
    vcpu_ratio: float
    spindle_ratio: float
    low_disk_mib: int
    extra_memory_mib: int
    free_disk_mib: int
    free_spindles: int
    forthcoming_free_memory_mib: int
    primaries: Sequence[Instance]
    secondaries: Sequence[tuple[Instance, int]]
    primary_location_tags: Sequence[frozenset[str]]
    rules: TagRules
    running_load: Load | None = None
    judged_failing: bool | None = None

    @property
    def most_vcpu_ratio(self) -> float:
        return most_vcpu_ratio(self.vcpu_ratio)

    # memory

    @property
    def used_memory_mib(self) -> int:
        return sum(instance.memory_mib for instance in self.primaries if instance.uses_memory)

    @property
    def recorded_free_mib(self) -> int:
        return wrapped(whole_mib(self.node.total_memory_mib) - self.node.node_memory_mib - self.used_memory_mib)

    @cached_property
    def free_memory_mib(self) -> int:
        """u_mem: what may still be given away."""
        return wrapped(self.recorded_free_mib - max(0, self.extra_memory_mib))

    @cached_property
    def peers(self) -> dict[int, int]:
        """Per primary node the memory this node must find if that node fails."""
        needed: dict[int, int] = {}
        for instance, primary in self.secondaries:
            if instance.reserved_memory_mib:
                needed[primary] = needed.get(primary, 0) + instance.reserved_memory_mib
        return needed

    @cached_property
    def reserved_memory_mib(self) -> int:
        return max(self.peers.values(), default=0)

    @property
    def available_memory_mib(self) -> int:
        return max(0, self.free_memory_mib - self.reserved_memory_mib)

    @property
    def fails_n1(self) -> bool:
        if self.judged_failing is not None:
            return self.judged_failing
        return self.free_memory_mib <= self.reserved_memory_mib

    # disk

    @property
    def forthcoming_free_disk_mib(self) -> int:
        return self.free_disk_mib - sum(i.disk_mib for i in self._local() if i.forthcoming)

    @property
    def forthcoming_free_spindles(self) -> int:
        """On exclusive storage spindles are counted whatever the template."""
        if not self.node.exclusive_storage:
            return self.free_spindles
        return self.free_spindles - sum(i.total_spindles or 0 for i in self._everyone() if i.forthcoming)

    def _everyone(self) -> list[Instance]:
        return [*self.primaries, *(instance for instance, _ in self.secondaries)]

    def _local(self) -> list[Instance]:
        return [instance for instance in self._everyone() if uses_node_disk(instance)]

    # processors and spindles

    def used_cpus(self, *, forthcoming: bool = False) -> int:
        return self.node.node_cpus + sum(i.counted_vcpus for i in self.primaries if forthcoming or not i.forthcoming)

    def instance_spindles(self, *, forthcoming: bool = False) -> int:
        if self.node.exclusive_storage:
            return 0
        return sum(i.spindle_use for i in self._local() if forthcoming or not i.forthcoming)

    @property
    def high_spindles(self) -> float:
        return self.spindle_ratio * self.node.spindles

    # tags

    @cached_property
    def exclusion_counts(self) -> Counter[str]:
        return Counter(tag for instance in self.primaries for tag in self.rules.exclusion_of(instance.tags))

    @property
    def tag_conflicts(self) -> int:
        return sum(self.exclusion_counts.values()) - len(self.exclusion_counts)

    @property
    def location_score(self) -> int:
        own = self.rules.location_of(self.node.tags)
        partners = self.primary_location_tags or [frozenset[str]()] * len(self.primaries)
        found = 0
        for instance, partner in zip(self.primaries, partners, strict=True):
            if not instance.forthcoming:
                found += len(own & partner) + len(self.rules.desired_of(instance.tags) - own)
        return found

    @cached_property
    def location_counts(self) -> Counter[tuple[str, str]]:
        """How often a location tag of this node meets an exclusion tag of a real primary."""
        counts: Counter[tuple[str, str]] = Counter()
        for place in self.rules.location_of(self.node.tags):
            for instance in self.primaries:
                if not instance.forthcoming:
                    counts.update((place, tag) for tag in self.rules.exclusion_of(instance.tags))
        return counts

    # what is there already: a forthcoming instance neither runs nor has disks

    @property
    def real_primaries(self) -> list[Instance]:
        return [instance for instance in self.primaries if not instance.forthcoming]

    @property
    def real_secondaries(self) -> list[Instance]:
        return [instance for instance, _ in self.secondaries if not instance.forthcoming]

    def load(self) -> Load:
        if self.running_load is not None:
            return self.running_load
        load = NO_LOAD
        for instance in reversed(self.real_primaries):
            load = load_changed(load, instance, 1)
        for instance in reversed(self.real_secondaries):
            load = load_changed(load, instance, 1, secondary=True)
        return load


def load_changed(load: Load, instance: Instance, sign: int, *, secondary: bool = False) -> Load:
    """The load of a node when *instance* has come (1) or gone (-1); of a secondary only the disk works."""
    cpu, memory, disk, net = load
    if instance.forthcoming:
        return load
    if secondary:
        return cpu, memory, disk + sign * instance.load[2], net
    return (
        cpu + sign * instance.load[0],
        memory + sign * instance.load[1],
        disk + sign * instance.load[2],
        net + sign * instance.load[3],
    )


def uses_node_disk(instance: Instance) -> bool:
    """Whether the disks of *instance* are cut from the node's own storage."""
    traits = traits_of(instance.template)
    return traits is not None and traits.uses_node_disk


def ratio(part: float, whole: float) -> float:
    """A quotient as floating point defines it: nothing of nothing is not a number."""
    if whole:
        return part / whole
    return math.nan if part == 0 else math.copysign(math.inf, part) * math.copysign(1, whole)


def most_vcpu_ratio(policy_ratio: float) -> float:
    """How many virtual to physical CPUs a policy allows: as in 3.1, what is no number from 0 up sets no limit."""
    return policy_ratio if policy_ratio >= 0 else math.inf


def whole_mib(size_mib: float) -> int:
    """A size without its fraction; as in 3.1, what no 64 bits hold is the least number they do."""
    return math.trunc(size_mib) if -_HALF_RANGE <= size_mib < _HALF_RANGE else -_HALF_RANGE


def wrapped(value: int) -> int:
    """*value* as 64 bits have it."""
    return (value + _HALF_RANGE) % (2 * _HALF_RANGE) - _HALF_RANGE


def disk_floor_mib(ratio: float, total_mib: float) -> int:
    """The least free disk, for a share of all of it. As in 3.1, a floor that no 64 bits hold is no floor, and one far
    below nothing more than any disk has.
    """
    floor = ratio * total_mib
    if floor < -_BEYOND_MIB:
        return _BEYOND_MIB
    return math.floor(floor) if floor < _BEYOND_MIB else -_BEYOND_MIB


def free_ratio(free: float, total: float) -> float:
    """Free share of something a node may have none of."""
    return ratio(free, total) if total else 1.0


METRICS = (
    "free_memory",
    "free_disk",
    "n1",
    "reserved_memory",
    "instances",
    "primaries",
    "cpus",
    "load_cpu",
    "load_memory",
    "load_disk",
    "load_net",
    "conflicts",
    "spindles",
    "free_memory_forthcoming",
    "free_disk_forthcoming",
    "cpus_forthcoming",
    "spindles_forthcoming",
    "location",
)
"""What a node contributes to the score, in the order of the rows of the arrays."""


def metrics_of(view: NodeView) -> tuple[float, ...]:
    """Give the values named by `METRICS` for one node."""
    node = view.node
    primaries = len(view.real_primaries)
    count = primaries + len(view.real_secondaries)
    if node.exclusive_storage:
        disk = free_ratio(view.free_spindles, node.spindles)
        disk_forthcoming = free_ratio(view.forthcoming_free_spindles, node.spindles)
    else:
        disk = free_ratio(view.free_disk_mib, node.total_disk_mib)
        disk_forthcoming = free_ratio(view.forthcoming_free_disk_mib, node.total_disk_mib)
    return (
        ratio(view.free_memory_mib, node.total_memory_mib),
        disk,
        float(count if view.fails_n1 else 0),
        ratio(view.reserved_memory_mib, node.total_memory_mib),
        float(count),
        float(primaries),
        ratio(ratio(view.used_cpus(), node.total_cpus), node.cpu_speed),
        *view.load(),
        float(view.tag_conflicts),
        ratio(view.instance_spindles(), view.high_spindles),
        ratio(view.forthcoming_free_memory_mib, node.total_memory_mib),
        disk_forthcoming,
        ratio(ratio(view.used_cpus(forthcoming=True), node.total_cpus), node.cpu_speed),
        ratio(view.instance_spindles(forthcoming=True), view.high_spindles),
        float(view.location_score),
    )


@dataclass(frozen=True, slots=True)
class Component:
    """One addend of the score: *kind* over *metric*, times *weight*."""

    name: str
    weight: float
    kind: str
    metric: str


DEVIATION, SUM_ONLINE, SUM_OFFLINE, LOCATION_EXCLUSION = "deviation", "sum", "sum-offline", "location-exclusion"

COMPONENTS = (
    Component("free_mem_cv", 0.5, DEVIATION, "free_memory"),
    Component("free_disk_cv", 0.5, DEVIATION, "free_disk"),
    Component("n1_cnt", 1, SUM_ONLINE, "n1"),
    Component("reserved_mem_cv", 1, DEVIATION, "reserved_memory"),
    Component("offline_all_cnt", 4, SUM_OFFLINE, "instances"),
    Component("offline_pri_cnt", 16, SUM_OFFLINE, "primaries"),
    Component("vcpu_ratio_cv", 0.5, DEVIATION, "cpus"),
    Component("cpu_load_cv", 1, DEVIATION, "load_cpu"),
    Component("mem_load_cv", 1, DEVIATION, "load_memory"),
    Component("disk_load_cv", 1, DEVIATION, "load_disk"),
    Component("net_load_cv", 1, DEVIATION, "load_net"),
    Component("pri_tags_score", 2, SUM_ONLINE, "conflicts"),
    Component("spindles_cv", 0.5, DEVIATION, "spindles"),
    Component("free_mem_cv_forth", 0.5, DEVIATION, "free_memory_forthcoming"),
    Component("free_disk_cv_forth", 0.5, DEVIATION, "free_disk_forthcoming"),
    Component("vcpu_ratio_cv_forth", 0.5, DEVIATION, "cpus_forthcoming"),
    Component("spindles_cv_forth", 0.5, DEVIATION, "spindles_forthcoming"),
    Component("location_score", 1, SUM_ONLINE, "location"),
    Component("location_exclusion_score", 1, LOCATION_EXCLUSION, ""),
    Component("reserved_mem_rtotal", 0.25, SUM_ONLINE, "reserved_memory"),
)
"""In the order in which they are added: floating point ties fall by it."""


def deviation(values: Sequence[float]) -> float:
    """Population standard deviation in two passes, added in order."""
    total = 0.0
    for value in values:
        total += value
    mean = total / len(values)
    squares = 0.0
    for value in values:
        squares += (value - mean) * (value - mean)
    return math.sqrt(squares / len(values)) if squares >= 0 else math.nan


def location_exclusion(views: Iterable[NodeView]) -> int:
    """How many instances share a location with another of the same exclusion tag."""
    merged: Counter[tuple[str, str]] = Counter()
    for view in views:
        merged.update(view.location_counts)
    return sum(merged.values()) - len(merged)


def score_components(views: Sequence[NodeView]) -> dict[str, float]:
    """Give each component of the score, unweighted."""
    online = [metrics_of(view) for view in views if not view.node.unavailable]
    offline = [metrics_of(view) for view in views if view.node.unavailable]
    result = {}
    for component in COMPONENTS:
        if component.kind == LOCATION_EXCLUSION:
            result[component.name] = float(location_exclusion(v for v in views if not v.node.unavailable))
            continue
        row = METRICS.index(component.metric)
        values = [metrics[row] for metrics in (offline if component.kind == SUM_OFFLINE else online)]
        if component.kind == DEVIATION:
            result[component.name] = deviation(values) if values else 0.0
        else:
            result[component.name] = _sum(values)
    return result


def _sum(values: Iterable[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def score(views: Sequence[NodeView]) -> float:
    """The cluster score of *views*: lower is better; 0 without an online node."""
    if all(view.node.unavailable for view in views):
        return 0.0
    values = score_components(views)
    return _sum(component.weight * values[component.name] for component in COMPONENTS)

# SPDX-License-Identifier: BSD-2-Clause
"""The cluster as arrays, changed move by move.

Invariant: after every change, the columns of a node equal what ``definition`` says of its lists. A change touches at
most the nodes of one instance before and after it, so only their columns are written again.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
import numpy.typing as npt

from ganeti.placement import definition
from ganeti.placement.cluster import Cluster, Group, Instance
from ganeti.placement.definition import METRICS, NodeView, uses_node_disk
from ganeti.placement.tags import TagRules, read_rules

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_INT_COLUMNS = (
    "free_memory",
    "reserved_memory",
    "free_disk",
    "free_spindles",
    "cpus",
    "instance_spindles",
    "free_memory_forthcoming",
    "free_disk_forthcoming",
    "free_spindles_forthcoming",
    "cpus_forthcoming",
    "instance_spindles_forthcoming",
)
_COLUMN = {name: row for row, name in enumerate(_INT_COLUMNS)}
NOWHERE = -1


class ClusterState:
    """Nodes as columns, instances as numbers; numbers follow the order of the input."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        exclusion_prefixes: Iterable[str] = (),
        min_disk_ratio: float = 0.0,
        max_cpu_ratio: float | None = None,
    ) -> None:
        """Read *cluster*; raises `KeyError` for a node or group that does not exist (readers check before)."""
        self.nodes = tuple(cluster.nodes)
        self.groups = tuple(cluster.groups)
        self.policy = cluster.policy
        self.rules: TagRules = read_rules(cluster.tags, exclusion_prefixes)
        self.node_number = {node.name: number for number, node in enumerate(self.nodes)}
        self._group_number = {group.uuid: number for number, group in enumerate(self.groups)}
        self._read_nodes(min_disk_ratio, max_cpu_ratio)
        self._read_instances(cluster.instances)
        self._load()
        for promise in cluster.promised:
            self.add_instance(promise, self._number_of(promise.primary), self._number_of(promise.secondary))

    def _read_nodes(self, min_disk_ratio: float, max_cpu_ratio: float | None) -> None:
        nodes = self.nodes
        policies = [self.groups[self._group_number[node.group]].policy for node in nodes]
        ratios = [p.vcpu_ratio if max_cpu_ratio is None else max_cpu_ratio for p in policies]
        self.group_of: Ints = np.array([self._group_number[node.group] for node in nodes], dtype=np.int64)
        self.online: Bools = np.array([not node.unavailable for node in nodes], dtype=np.bool_)
        self.total_memory: Floats = np.array([node.total_memory_mib for node in nodes], dtype=np.float64)
        self.total_disk: Floats = np.array([node.total_disk_mib for node in nodes], dtype=np.float64)
        self.total_cpus: Floats = np.array([node.total_cpus for node in nodes], dtype=np.float64)
        self.spindles: Floats = np.array([node.spindles for node in nodes], dtype=np.float64)
        self.exclusive: Bools = np.array([node.exclusive_storage for node in nodes], dtype=np.bool_)
        self.cpu_speed: Floats = np.array([node.cpu_speed for node in nodes], dtype=np.float64)
        self.vcpu_ratio: Floats = np.array(ratios, dtype=np.float64)
        self.spindle_ratio: Floats = np.array([p.spindle_ratio for p in policies], dtype=np.float64)
        self.low_disk: Ints = np.array([math.floor(min_disk_ratio * n.total_disk_mib) for n in nodes], dtype=np.int64)
        self.high_spindles: Floats = self.spindle_ratio * self.spindles

    def _read_instances(self, instances: Sequence[Instance]) -> None:
        self.instances: list[Instance] = list(instances)
        self.primary_of = [self._number_of(instance.primary) for instance in instances]
        self.secondary_of = [self._number_of(instance.secondary) for instance in instances]
        count = len(self.nodes)
        self.primaries: list[tuple[int, ...]] = [()] * count
        self.secondaries: list[tuple[int, ...]] = [()] * count
        lists: list[list[list[int]]] = [[[] for _ in self.nodes] for _ in range(2)]
        for number in range(len(self.instances) - 1, -1, -1):
            for side, where in enumerate((self.primary_of[number], self.secondary_of[number])):
                if where != NOWHERE:
                    lists[side][where].append(number)
        self.primaries = [tuple(numbers) for numbers in lists[0]]
        self.secondaries = [tuple(numbers) for numbers in lists[1]]

    def _number_of(self, name: str) -> int:
        return self.node_number[name] if name else NOWHERE

    def _load(self) -> None:
        count = len(self.nodes)
        self.columns: Ints = np.zeros((len(_INT_COLUMNS), count), dtype=np.int64)
        self.metrics: Floats = np.zeros((len(METRICS), count), dtype=np.float64)
        self.extra_memory: Ints = np.zeros(count, dtype=np.int64)
        self.peers: list[dict[int, int]] = [{} for _ in self.nodes]
        self.exclusion_counts: list[Counter[str]] = [Counter() for _ in self.nodes]
        self.location_counts: list[Counter[tuple[str, str]]] = [Counter() for _ in self.nodes]
        self._free_disk = [node.free_disk_mib for node in self.nodes]
        self._free_spindles = [node.free_spindles for node in self.nodes]
        self._free_memory_forthcoming: list[int] = []
        for number, node in enumerate(self.nodes):
            down = [i for i in self.primary_instances(number) if not i.uses_memory]
            self._free_memory_forthcoming.append(node.free_memory_mib - sum(i.memory_mib for i in down))
        for number in range(count):
            self.extra_memory[number] = self.view(number).recorded_free_mib - self.nodes[number].free_memory_mib
            self._refresh(number)

    # reading

    def primary_instances(self, node: int) -> list[Instance]:
        """Instances whose primary is *node*, newest first."""
        return [self.instances[number] for number in self.primaries[node]]

    def view(self, node: int) -> NodeView:
        """Give *node* as the definition sees it."""
        partner_tags = []
        if self.rules.location:
            for number in self.primaries[node]:
                other = self.secondary_of[number]
                partner_tags.append(self.rules.location_of(self.nodes[other].tags) if other != NOWHERE else frozenset())
        return NodeView(
            node=self.nodes[node],
            vcpu_ratio=float(self.vcpu_ratio[node]),
            spindle_ratio=float(self.spindle_ratio[node]),
            low_disk_mib=int(self.low_disk[node]),
            extra_memory_mib=int(self.extra_memory[node]),
            free_disk_mib=self._free_disk[node],
            free_spindles=self._free_spindles[node],
            forthcoming_free_memory_mib=self._free_memory_forthcoming[node],
            primaries=self.primary_instances(node),
            secondaries=[(self.instances[number], self.primary_of[number]) for number in self.secondaries[node]],
            primary_location_tags=partner_tags,
            rules=self.rules,
        )

    def name_of(self, node: int) -> str:
        return self.nodes[node].name if node != NOWHERE else ""

    def column(self, name: str) -> Ints:
        column: Ints = self.columns[_COLUMN[name]]
        return column

    def group_members(self, group: int) -> Ints:
        """Numbers of the nodes of a group, ascending."""
        return np.flatnonzero(self.group_of == group)

    def everyone(self) -> Ints:
        return np.arange(len(self.nodes))

    def group_of_instance(self, instance: int) -> Group:
        return self.groups[int(self.group_of[self.primary_of[instance]])]

    def instance_number(self, name: str) -> int | None:
        """Find an instance by its exact name."""
        for number, instance in enumerate(self.instances):
            if instance.name == name:
                return number
        return None

    # changing

    def copy(self) -> Self:
        """A state that can be changed without touching this one; descriptions of nodes are shared."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.columns = self.columns.copy()
        other.metrics = self.metrics.copy()
        for name in (
            "instances",
            "primary_of",
            "secondary_of",
            "primaries",
            "secondaries",
            "peers",
            "exclusion_counts",
            "location_counts",
            "_free_disk",
            "_free_spindles",
            "_free_memory_forthcoming",
        ):
            setattr(other, name, list(getattr(self, name)))
        return other

    def add_instance(self, instance: Instance, primary: int, secondary: int = NOWHERE) -> int:
        """Put a new instance on its nodes; gives its number. Nothing is checked."""
        number = len(self.instances)
        self.instances.append(replace(instance, primary=self.name_of(primary), secondary=self.name_of(secondary)))
        self.primary_of.append(NOWHERE)
        self.secondary_of.append(NOWHERE)
        self.move(number, primary, secondary)
        return number

    def with_instance(self, instance: Instance, primary: int, secondary: int = NOWHERE) -> Self:
        other = self.copy()
        other.add_instance(instance, primary, secondary)
        return other

    def move(self, number: int, primary: int, secondary: int = NOWHERE) -> None:
        """Give instance *number* these nodes in place of its present ones. Nothing is checked."""
        touched = {self.primary_of[number], self.secondary_of[number], primary, secondary} - {NOWHERE}
        self._leave(number)
        self.primary_of[number] = primary
        self.secondary_of[number] = secondary
        self._enter(number)
        for node in sorted(touched):
            self._refresh(node)

    def moved(self, number: int, primary: int, secondary: int = NOWHERE) -> Self:
        other = self.copy()
        other.move(number, primary, secondary)
        return other

    def _leave(self, number: int) -> None:
        primary, secondary = self.primary_of[number], self.secondary_of[number]
        if primary != NOWHERE:
            self.primaries[primary] = tuple(n for n in self.primaries[primary] if n != number)
        if secondary != NOWHERE:
            self.secondaries[secondary] = tuple(n for n in self.secondaries[secondary] if n != number)
        self._account(number, sign=1)

    def _enter(self, number: int) -> None:
        primary, secondary = self.primary_of[number], self.secondary_of[number]
        if primary != NOWHERE:
            self.primaries[primary] = (number, *self.primaries[primary])
        if secondary != NOWHERE:
            self.secondaries[secondary] = (number, *self.secondaries[secondary])
        self._account(number, sign=-1)

    def _account(self, number: int, sign: int) -> None:
        """Return (+1) or take (-1) what cannot be recomputed from the lists."""
        instance, primary = self.instances[number], self.primary_of[number]
        if primary != NOWHERE:
            self._free_memory_forthcoming[primary] += sign * instance.memory_mib
        if instance.forthcoming:
            return
        for node in {primary, self.secondary_of[number]} - {NOWHERE}:
            if uses_node_disk(instance):
                self._free_disk[node] += sign * instance.disk_mib
            if self.nodes[node].exclusive_storage:
                self._free_spindles[node] += sign * (instance.total_spindles or 0)

    def _refresh(self, node: int) -> None:
        view = self.view(node)
        self.columns[:, node] = (
            view.free_memory_mib,
            view.reserved_memory_mib,
            view.free_disk_mib,
            view.free_spindles,
            view.used_cpus(),
            view.instance_spindles(),
            view.forthcoming_free_memory_mib,
            view.forthcoming_free_disk_mib,
            view.forthcoming_free_spindles,
            view.used_cpus(forthcoming=True),
            view.instance_spindles(forthcoming=True),
        )
        self.metrics[:, node] = definition.metrics_of(view)
        self.peers[node] = view.peers
        self.exclusion_counts[node] = view.exclusion_counts
        self.location_counts[node] = view.location_counts

# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes can be switched off, or must be switched on, with instances balanced anew (spec: htools, 14).

Instances leave a node only where other nodes reach their disks. As in 3.1 a set of nodes is judged by balancing the
whole cluster without them, from where it is now. That takes minutes on large clusters; there only the instances on the
nodes that go off are moved, which ends in fewer migrations and the same guarantees.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ganeti.model.templates import ANYWHERE, traits_of
from ganeti.placement.balance.steps import BalanceOptions, Step, balance
from ganeti.placement.cluster.picture import Cluster, Instance
from ganeti.placement.cluster.policy import Spec
from ganeti.placement.kernel.state import NOWHERE, ClusterState

STANDBY_PREFIX = "htools:standby:"
STANDBY_TAG = f"{STANDBY_PREFIX}auto"
_OFFLINE = "offline"
_BEYOND_REASON = 1 << 50
_EAGER = BalanceOptions(min_gain=0.0, min_gain_limit=0.0)
LARGE = 60_000
"""From how many nodes times instances on a cluster is large."""

Build = Callable[[Cluster], ClusterState]


@dataclass(frozen=True)
class Plan:
    """*nodes* (by number) to switch on or off, and how the instances move; *state* is that after it.

    *enough* is false where even all nodes together do not yield what was asked for.
    """

    nodes: tuple[int, ...]
    steps: tuple[Step, ...]
    state: ClusterState
    enough: bool = True


def spare_instance(standard: Spec, factor: float) -> Instance:
    """The instance that must find room on every node: *factor* times the standard one."""
    return Instance(
        name="spare",
        memory_mib=_times(standard.memory_mib, factor),
        disk_mib=0,
        vcpus=_times(standard.cpus, factor),
        template=ANYWHERE,
        auto_balance=False,
        spindle_use=_times(standard.spindle_use, factor),
    )


def _times(size: int, factor: float) -> int:
    """The whole part of *size* times *factor*; what is no number, or beyond all reason, is more than any node has."""
    product = size * factor
    return math.floor(product) if abs(product) < _BEYOND_REASON else _BEYOND_REASON


def offline_candidates(state: ClusterState, masters: Collection[str]) -> list[int]:
    """Nodes that could be switched off, those with the most primaries first; forthcoming instances do not count."""
    found = {
        node: _present(state, node)
        for node in state.everyone()
        if state.online[node] and state.name_of(node) not in masters and not _present(state, node, secondary=True)
    }
    free = [node for node, own in found.items() if all(_starts_elsewhere(state, number) for number in own)]
    return sorted(free, key=lambda node: -len(found[node]))


def _present(state: ClusterState, node: int, *, secondary: bool = False) -> list[int]:
    return [number for number in state.listed(node, secondary=secondary) if not state.instances[number].forthcoming]


def _starts_elsewhere(state: ClusterState, number: int) -> bool:
    traits = traits_of(state.instances[number].template)
    return traits is not None and not traits.uses_node_disk


def online_candidates(state: ClusterState) -> list[int]:
    """Nodes that stand by."""
    return [
        node
        for node in state.everyone()
        if not state.online[node] and any(tag.startswith(STANDBY_PREFIX) for tag in state.nodes[node].tags)
    ]


class Squeezing:
    """Decides for one cluster; *build* makes states of variants of it, *movable* says which instances may move."""

    def __init__(self, cluster: Cluster, build: Build, movable: Sequence[bool], *, large: int = LARGE) -> None:
        self._cluster = cluster
        self._build = build
        self._movable = movable
        self._is_large = len(cluster.nodes) * len(cluster.instances) > large
        self.start = build(cluster)
        self._views = [self.start.view(node) for node in self.start.everyone()]
        self._cpus = [view.used_cpus() for view in self._views]
        self._memory = [view.free_memory_mib for view in self._views]

    def fits(self, state: ClusterState, spare: Instance) -> bool:
        """Whether every node has room for *spare*, those that are off as well."""
        mark = state.mark()
        try:
            number = state.add_instance(spare, NOWHERE)
            return not any(state.refuse_primary(number, node) for node in state.everyone())
        finally:
            state.rollback(mark)

    @staticmethod
    def _has_room(state: ClusterState, node: int, spare: Instance) -> bool:
        mark = state.mark()
        try:
            return not state.refuse_primary(state.add_instance(spare, NOWHERE), node)
        finally:
            state.rollback(mark)

    def switch_on(self, standby: Sequence[int], spare: Instance) -> Plan:
        """The least leading part of *standby* with which *spare* fits everywhere; all of it where none suffices."""
        for count in range(len(standby) + 1):
            plan = self._balanced(standby[:count], "", lambda state: self._is_good(state, spare))
            if self._is_good(plan.state, spare):
                return plan
        return replace(plan, enough=False)

    def switch_off(self, candidates: Sequence[int], spare: Instance) -> Plan:
        """As many of *candidates* as can be off together, from the last one on, while *spare* fits everywhere."""
        chosen = Plan((), (), self.start)
        full = {node for node in self.start.everyone() if not self._has_room(self.start, node, spare)}
        for candidate in reversed(candidates):
            nodes = (candidate, *chosen.nodes)
            if (self._is_large and not full <= set(nodes)) or not self._may_suffice(nodes, spare):
                continue  # on a large cluster nothing leaves a node that stays on
            plan = self._without(chosen, nodes) if self._is_large else self._balanced(nodes, _OFFLINE)
            if self._is_good(plan.state, spare):
                chosen = plan
        return chosen

    def _is_good(self, state: ClusterState, spare: Instance) -> bool:
        stranded = any(node != NOWHERE and not state.online[node] for node in state.primary_of)
        return not stranded and self.fits(state, spare)

    def _may_suffice(self, gone: Iterable[int], spare: Instance) -> bool:
        """A bound that costs little: all memory and all processors of the nodes that stay."""
        off, state = set(gone), self.start
        memory, cpus, slack = 0, 0.0, 0.0
        for node in state.everyone():
            view = self._views[node]
            if node in off:
                own = view.primaries
                memory -= sum(instance.memory_mib for instance in own if instance.uses_memory)
                cpus -= sum(instance.counted_vcpus for instance in own)
            elif state.online[node]:
                memory += self._memory[node] - spare.memory_mib
                cpus += view.most_vcpu_ratio * view.node.total_cpus - self._cpus[node] - spare.vcpus
                slack += 1.0
        return memory >= 0 and cpus >= -slack

    def _variant(self, nodes: Iterable[int], unavailable: str) -> Cluster:
        changed = list(self._cluster.nodes)
        for node in nodes:
            changed[node] = replace(changed[node], unavailable=unavailable)
        return replace(self._cluster, nodes=changed)

    def _balanced(
        self, nodes: Sequence[int], unavailable: str, enough: Callable[[ClusterState], bool] | None = None
    ) -> Plan:
        """The cluster with *nodes* switched, balanced; a large one only until it is good *enough*."""
        state = self._build(self._variant(nodes, unavailable))
        steps = []
        if not (self._is_large and enough and enough(state)):
            for step in balance(state, state.everyone(), self._movable, _EAGER):
                steps.append(step)
                if self._is_large and enough and enough(state):
                    break
        return Plan(tuple(nodes), tuple(steps), state)

    def _without(self, before: Plan, nodes: tuple[int, ...]) -> Plan:
        """*before*, with the first of *nodes* emptied, too."""
        state = self._build(self._variant(nodes, _OFFLINE))
        for step in before.steps:
            state.move(step.instance, *step.after)
        leaving = replace(_EAGER, evacuation=True)
        steps = balance(state, state.everyone(), self._movable, leaving)
        return Plan(nodes, (*before.steps, *steps), state)

# SPDX-License-Identifier: BSD-2-Clause
"""Placement on nodes with exclusive storage: what is lost counts, not balance (spec: htools, 10).

For each node: how many instances of each smallest size of the policy would still fit before, and how many after. The
candidate that loses least wins, largest sizes first; of those the one that leaves the least disk free.
"""

from functools import cache

import numpy as np

from ganeti.placement.allocate import Solution
from ganeti.placement.checks import refuse_primary
from ganeti.placement.cluster import Disk, Instance
from ganeti.placement.definition import NodeView
from ganeti.placement.failure import FailMode
from ganeti.placement.numpy_state import NOWHERE, Bools, ClusterState
from ganeti.placement.policy import Policy, Spec
from ganeti.placement.request import Options
from ganeti.placement.templates import UNSHARED
from ganeti.placement.trial import policy_failures, try_primary, try_secondary

Vector = tuple[int, ...]


def applies(state: ClusterState, groups: list[int]) -> bool:
    """Whether every node of *groups* has exclusive storage; so it is for no nodes at all."""
    return bool(state.exclusive[np.isin(state.group_of, groups)].all())


def place_dedicated(
    state: ClusterState, instance: Instance, required: int, allowed: Bools, options: Options
) -> Solution:
    """Find one node, or a pair, by the least loss; global redundancy is not asked for."""
    choice = _Choice(state, instance)
    first = try_primary(state, instance, forced=options.ignore_soft_errors)
    refused = policy_failures(state, instance)
    codes = np.where(refused != 0, refused, first.failures)
    usable = np.flatnonzero(allowed & state.online).tolist()
    for primary in usable:
        partners = [n for n in usable if n != primary and state.group_of[n] == state.group_of[primary]]
        if codes[primary]:
            choice.solution.failures[FailMode(int(codes[primary]))] += len(partners) if required == 2 else 1
        elif required == 1:
            choice.offer((primary,))
        else:
            failures = try_secondary(state, instance, primary).failures
            choice.solution.count(failures[np.array(partners, dtype=np.int64)])
            for secondary in partners:
                if not failures[secondary]:
                    choice.offer((primary, secondary))
    return choice.solution


class _Choice:
    def __init__(self, state: ClusterState, instance: Instance) -> None:
        self.solution = Solution()
        self._state = state
        self._instance = instance
        self._before: dict[int, Vector] = {}
        self._best: tuple[Vector, int] | None = None

    def offer(self, nodes: tuple[int, ...]) -> None:
        """Keep *nodes* if they lose no more than the best so far."""
        self.solution.successes += 1
        after = self._state.with_instance(self._instance, nodes[0], nodes[1] if len(nodes) > 1 else NOWHERE)
        losses = [self._loss(node, after) for node in nodes]
        lost = tuple(sum(parts) for parts in zip(*losses, strict=True))
        left = sum(int(after.column("free_disk")[node]) for node in nodes)
        if self._best is None or (lost, left) <= self._best:
            self._best = (lost, left)
            self.solution.nodes = nodes
            self.solution.key = (*lost, left)
            self.solution.score_text = f"([{','.join(str(number) for number in lost)}],{left})"

    def _loss(self, node: int, after: ClusterState) -> Vector:
        if node not in self._before:
            self._before[node] = room_vector(self._state, node)
        return tuple(b - a for b, a in zip(self._before[node], room_vector(after, node), strict=True))


def room_vector(state: ClusterState, node: int) -> Vector:
    """How many instances of each smallest size of the policy fit on *node*, largest disk first."""
    policy = state.groups[int(state.group_of[node])].policy
    return tuple(_how_many(state.view(node), spec) for spec in smallest_sizes(policy))


@cache
def smallest_sizes(policy: Policy) -> tuple[Spec, ...]:
    return tuple(sorted((low for low, _ in policy.ranges), key=lambda spec: -spec.disk_mib))


def _how_many(view: NodeView, spec: Spec) -> int:
    """The number of such instances a node takes, added one by one; they claim no spindles of exclusive storage."""
    instance = Instance(
        name="",
        memory_mib=spec.memory_mib,
        disk_mib=spec.disk_mib * spec.disks,
        vcpus=spec.cpus,
        template=UNSHARED,
        disks=(Disk(spec.disk_mib, 0),) * spec.disks,
        spindle_use=spec.spindle_use,
    )
    if refuse_primary(view, instance) is not None:
        return 0
    limits = list(_limits(view, instance))
    return min(limits, default=1)


def _limits(view: NodeView, instance: Instance) -> list[int]:
    """For each resource the largest number of *instance*s it allows; resources it does not use are left out."""
    node, memory, disk = view.node, instance.memory_mib, instance.disk_mib
    kept = 0 if view.fails_n1 else view.reserved_memory_mib
    floor = max(1, view.low_disk_mib)
    uses = 0 if node.exclusive_storage else instance.spindle_use
    cpus = int(view.vcpu_ratio * node.total_cpus)
    uses_now, uses_promised = view.instance_spindles(), view.instance_spindles(forthcoming=True)
    room = (
        (memory, view.free_memory_mib - max(0, kept) - 1),
        (memory, view.forthcoming_free_memory_mib - 1),
        (disk, view.free_disk_mib - floor),
        (disk, view.forthcoming_free_disk_mib - floor),
        (uses, int(view.high_spindles) - uses_now),
        (uses, int(view.high_spindles) - uses_promised),
        (instance.vcpus, cpus - view.used_cpus()),
        (instance.vcpus, cpus - view.used_cpus(forthcoming=True)),
    )
    return [available // each for each, available in room if each]

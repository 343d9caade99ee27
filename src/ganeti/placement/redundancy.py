# SPDX-License-Identifier: BSD-2-Clause
"""Global N+1: could every instance of any one node be started elsewhere (spec: htools, 9)."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from ganeti.placement.moves import any_targets, failover
from ganeti.placement.numpy_state import NOWHERE, ClusterState, Ints
from ganeti.placement.request import Options
from ganeti.placement.score import Change, location_exclusion_after, score_changes
from ganeti.placement.templates import TemplateTraits, traits_of
from ganeti.placement.trial import policy_failures, try_primary


def capacity_check(options: Options, members: Ints) -> Callable[[ClusterState], bool]:
    """The test a candidate's result must pass."""

    def passes(state: ClusterState) -> bool:
        return not options.capacity_checks or redundant(state, members)

    return passes


def redundant(state: ClusterState, members: Ints) -> bool:
    """Whether the failure of any one of *members* can be absorbed; offline nodes are asked too."""
    return all(survives(state, int(node), members) for node in members)


def survives(state: ClusterState, node: int, members: Ints) -> bool:
    """Whether everything that runs on *node* finds another place when it fails."""
    mirrored, elsewhere, lost = _by_fate(state, node)
    if not (mirrored or elsewhere or lost):
        return True
    if not elsewhere and not lost and _only_memory_counts(state, mirrored):
        return _failovers_fit(state, mirrored)
    for number in mirrored:
        after = failover(state, number, forced=True)
        if not isinstance(after, ClusterState):
            return False
        state = after
    others = [int(other) for other in state.group_members(int(state.group_of[node])) if other != node]
    for number in elsewhere:
        hop = any_targets(state, number, others, forced=True)
        best = hop.best(state.group_members(int(state.group_of[node])))
        if best is None:
            return False
        state = hop.state_on(best[1])
    return _recreated(state, lost, others, members)


def _by_fate(state: ClusterState, node: int) -> tuple[list[int], list[int], list[int]]:
    """Primaries of *node*: those with a mirror, those whose disks others reach, those whose disks are gone."""
    fates: tuple[list[int], list[int], list[int]] = ([], [], [])
    for number in state.primaries[node]:
        traits: TemplateTraits | None = traits_of(state.instances[number].template)
        if traits is not None and traits.has_secondary:
            fates[0].append(number)
        elif traits is not None and traits.evacuable:
            fates[1].append(number)
        else:
            fates[2].append(number)
    return fates


def _only_memory_counts(state: ClusterState, numbers: list[int]) -> bool:
    plain = not state.rules.migration
    return plain and not any(
        state.instances[number].forthcoming or state.secondary_of[number] == NOWHERE for number in numbers
    )


def _failovers_fit(state: ClusterState, numbers: list[int]) -> bool:
    """The same as failing over one by one with soft errors ignored: then only hard limits can be hit.

    Disks and spindles are on both nodes before and after, so only nodes that are over their limit already refuse.
    """
    needed: dict[int, int] = defaultdict(int)
    touched = {state.primary_of[number] for number in numbers if state.online[state.primary_of[number]]}
    for number in numbers:
        instance, secondary = state.instances[number], state.secondary_of[number]
        needed[secondary] += instance.memory_mib if instance.uses_memory else 0
        touched.add(secondary)
    disk, spindles = state.column("free_disk"), state.column("free_spindles")
    if any(disk[node] <= 0 or (state.exclusive[node] and spindles[node] < 0) for node in touched):
        return False
    free = state.column("free_memory")
    return all(free[node] - memory > 0 for node, memory in needed.items())


def _recreated(state: ClusterState, numbers: list[int], targets: list[int], members: Ints) -> bool:
    """Make lost instances anew, largest memory first; they stay counted on the failed node too."""
    for number in sorted(numbers, key=lambda n: -state.instances[n].memory_mib):
        instance = state.instances[number]
        trial = try_primary(state, instance, forced=True)
        refused = policy_failures(state, instance)
        nodes = np.array([t for t in targets if not refused[t] and not trial.failures[t]], dtype=np.int64)
        if not len(nodes):
            return False
        exclusion = location_exclusion_after(state, instance, members, nodes)
        scores = score_changes(state, members, [Change(nodes, trial.metrics[:, nodes])], len(nodes), exclusion)
        at = int(np.lexsort((-np.arange(len(scores)), scores))[0])
        state = state.with_instance(instance, int(nodes[at]))
    return True

# SPDX-License-Identifier: BSD-2-Clause
"""Moving an instance that exists: single hops, and the best target of a hop (spec: htools, 4 and 10).

A hop takes a state and gives a new one, or the failure mode of the check that forbids it. "Forced" skips the soft
limits; it is meant for an instance that leaves an offline node. Migration tags bind every hop and cannot be forced.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from ganeti.placement import checks, definition
from ganeti.placement.failure import FailMode
from ganeti.placement.numpy_state import NOWHERE, ClusterState, Floats, Ints
from ganeti.placement.score import Change, location_exclusion_after, score_changes
from ganeti.placement.trial import Trial, shared_locations, try_primary, try_secondary


def may_migrate(state: ClusterState, source: int, target: int) -> bool:
    """Whether the migration tags of the two nodes allow a move from *source* to *target*."""
    rules = state.rules
    if not rules.migration:
        return True
    own = rules.migration_of(state.nodes[source].tags)
    return own <= rules.receivable(rules.migration_of(state.nodes[target].tags))


def failover(state: ClusterState, number: int, *, forced: bool = False) -> ClusterState | FailMode:
    """Exchange primary and secondary; gives the failure mode when a check forbids it."""
    primary, secondary = state.primary_of[number], state.secondary_of[number]
    if not may_migrate(state, primary, secondary):
        return FailMode.FailMig
    dead = not state.online[primary]
    bare, instance = state.moved(number, NOWHERE), state.instances[number]
    refusal = checks.refuse_primary(bare.view(secondary), instance, forced=forced or dead)
    refusal = refusal or checks.refuse_secondary(
        bare.view(primary), instance, secondary, forced=forced or dead, ignore_disk=dead
    )
    return refusal.mode if refusal else state.moved(number, secondary, primary)


def any_targets(state: ClusterState, number: int, targets: Iterable[int], *, forced: bool = False) -> "Hop":
    """Move an instance of shared storage to one of *targets*."""
    primary = state.primary_of[number]
    instance = state.instances[number]
    bare = state.moved(number, NOWHERE)
    trial = try_primary(bare, instance, forced=forced or not state.online[primary])
    failures = {t: int(trial.failures[t]) for t in targets if t != primary}
    for target in failures:
        if not may_migrate(state, primary, target):
            failures[target] = FailMode.FailMig
    return Hop(bare, number, failures, trial, NOWHERE)


def secondary_targets(state: ClusterState, number: int, targets: Iterable[int], *, forced: bool = False) -> "Hop":
    """Give an instance one of *targets* as its new secondary."""
    primary, secondary = state.primary_of[number], state.secondary_of[number]
    instance = state.instances[number]
    forced = forced or (secondary != NOWHERE and not state.online[secondary])
    stays = checks.refuse_primary(state.moved(number, NOWHERE).view(primary), instance, forced=True)
    kept = state.moved(number, primary)
    trial = try_secondary(kept, instance, primary, forced=forced)
    failures = {t: int(trial.failures[t]) for t in targets if t not in (primary, secondary)}
    for target, failure in failures.items():
        if not failure and stays is not None:
            failures[target] = stays.mode
    return Hop(kept, number, failures, trial, primary)


class Hop:
    """One instance and the nodes it might go to: *failures* has a mode for each, 0 for those in *targets*.

    *primary* is NOWHERE when the targets would become its primary.
    """

    def __init__(
        self, base: ClusterState, number: int, failures: dict[int, int], trial: Trial, primary: int = NOWHERE
    ) -> None:
        self._base = base
        self._number = number
        self._instance = base.instances[number]
        self._trial = trial
        self._primary = primary
        self.failures = failures
        self.targets: Ints = np.array([t for t, failure in failures.items() if not failure], dtype=np.int64)

    def scores(self, members: Ints) -> Floats:
        """Score over *members* for each target."""
        base, targets = self._base, self.targets
        changes = [Change(targets, self._trial.metrics[:, targets])]
        if self._primary == NOWHERE:
            exclusion = location_exclusion_after(base, self._instance, members, targets)
            return score_changes(base, members, changes, len(targets), exclusion)
        if base.rules.location:
            changes.append(self._primary_change())
        return score_changes(base, members, changes, len(targets))

    def _primary_change(self) -> Change:
        """The primary's location score depends on where its secondary is."""
        count = len(self.targets)
        metrics = np.repeat(self._base.metrics[:, [self._primary]], count, axis=1)
        metrics[definition.METRICS.index("location")] += shared_locations(self._base, self._primary)[self.targets]
        return Change(np.full(count, self._primary), metrics)

    def state_on(self, target: int) -> ClusterState:
        if self._primary == NOWHERE:
            return self._base.moved(self._number, target)
        return self._base.moved(self._number, self._primary, target)

    def failure_counts(self) -> Counter[FailMode]:
        return Counter(FailMode(failure) for failure in self.failures.values() if failure)

    def describe_failures(self) -> str:
        """The words of 3.1 when no target passed."""
        parts = [
            f" Node {self._base.nodes[target].name} failed: {FailMode(failure).name};"
            for target, failure in self.failures.items()
            if failure
        ]
        return "Can't find any good node: " + "".join(parts)

    def best(self, members: Ints) -> tuple[float, int] | None:
        """The lowest score and its target; of equals the later."""
        if not len(self.targets):
            return None
        scores = self.scores(members)
        at = int(np.lexsort((-np.arange(len(scores)), scores))[0])
        return float(scores[at]), int(self.targets[at])


def online_targets(state: ClusterState, group: int) -> Iterator[int]:
    """Nodes of a group that can take instances, ascending."""
    return (int(node) for node in state.group_members(group) if state.online[node])

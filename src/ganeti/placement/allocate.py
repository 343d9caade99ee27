# SPDX-License-Identifier: BSD-2-Clause
"""Nodes for a new instance: every candidate is checked and scored, the lowest score wins (spec: htools, 8)."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ganeti.placement import pairs
from ganeti.placement.cluster import Instance
from ganeti.placement.failure import FailMode, describe_counts
from ganeti.placement.numpy_state import Bools, ClusterState, Floats, Ints
from ganeti.placement.request import Options
from ganeti.placement.score import Change, location_exclusion_after, score_changes
from ganeti.placement.trial import Codes, policy_failures, try_primary

Redundant = Callable[[ClusterState], bool]


@dataclass
class Solution:
    """The best candidate, if any, and the count of the others.

    *nodes*: primary, then secondary where there is one. *key* orders solutions, lower is better; *score_text* shows it.
    """

    nodes: tuple[int, ...] = ()
    key: tuple[float, ...] = ()
    score_text: str = ""
    successes: int = 0
    failures: Counter[FailMode] = field(default_factory=Counter)

    def describe(self, state: ClusterState) -> str:
        """The line of 3.1 about this solution."""
        if not self.nodes:
            return (
                f"No valid allocation solutions, failure reasons: {describe_counts(self.failures) or 'unknown reasons'}"
            )
        names = "/".join(state.nodes[node].name for node in self.nodes)
        failed = f"{sum(self.failures.values())} ({describe_counts(self.failures)})"
        return f"score: {self.score_text}, successes {self.successes}, failures {failed} for node(s) {names}"

    def choose(self, nodes: tuple[int, ...], score: float) -> None:
        self.nodes, self.key, self.score_text = nodes, (score,), f"{score:.8f}"

    def count(self, codes: Codes) -> None:
        """Add the failures among *codes*."""
        for code, number in zip(*np.unique(codes[codes != 0], return_counts=True), strict=True):
            self.failures[FailMode(int(code))] += int(number)


def place_single(
    state: ClusterState, instance: Instance, allowed: Bools, members: Ints, options: Options, redundant: Redundant
) -> Solution:
    """Find one node among *allowed*; the score is that of *members*."""
    candidates = np.flatnonzero(allowed & state.online)
    trial = try_primary(state, instance, forced=options.ignore_soft_errors)
    codes = _combined(policy_failures(state, instance), trial.failures)[candidates]
    solution = Solution()
    solution.count(codes)
    fitting = candidates[codes == 0]
    change = Change(fitting, trial.metrics[:, fitting])
    scores = score_changes(
        state, members, [change], len(fitting), location_exclusion_after(state, instance, members, fitting)
    )
    solution.successes = len(fitting)
    for at in rising(scores):
        node = int(fitting[at])
        if redundant(state.with_instance(instance, node)):
            solution.choose((node,), float(scores[at]))
            break
        solution.failures[FailMode.FailN1] += 1
        solution.successes -= 1
    return solution


def place_pair(
    state: ClusterState, instance: Instance, allowed: Bools, members: Ints, options: Options, redundant: Redundant
) -> Solution:
    """Find an ordered pair of nodes of one group among *allowed*; the score is that of *members*."""
    usable = allowed & state.online
    choice = _PairChoice(state, instance, members, options, redundant)
    for primary in np.flatnonzero(usable).tolist():
        partners = np.flatnonzero(usable & (state.group_of == state.group_of[primary]))
        choice.consider(primary, partners[partners != primary])
    return choice.solution


def place_secondary(
    state: ClusterState, instance: Instance, primary: int, partners: Ints, options: Options, redundant: Redundant
) -> Solution:
    """Find the secondary among *partners* for an instance that is to have its primary on *primary*."""
    choice = _PairChoice(state, instance, state.everyone(), options, redundant)
    choice.consider(primary, partners)
    return choice.solution


class _PairChoice:
    """The best pair among those considered so far."""

    def __init__(
        self, state: ClusterState, instance: Instance, members: Ints, options: Options, redundant: Redundant
    ) -> None:
        self.solution = Solution()
        self._state = state
        self._instance = instance
        self._redundant = redundant
        first = try_primary(state, instance, forced=options.ignore_soft_errors)
        self._codes = _combined(policy_failures(state, instance), first.failures)
        self._scorer = pairs.PairScorer(state, instance, members)

    def consider(self, primary: int, partners: Ints) -> None:
        solution = self.solution
        if self._codes[primary]:
            solution.failures[FailMode(int(self._codes[primary]))] += len(partners)
            return
        failed, scores = self._scorer.partners_of(primary, partners)
        solution.count(failed)
        fitting, scores = partners[failed == 0], scores[failed == 0]
        solution.successes += len(fitting)
        for at in rising(scores):
            secondary = int(fitting[at])
            if self._redundant(self._state.with_instance(self._instance, primary, secondary)):
                if not solution.nodes or scores[at] <= solution.key[0]:
                    solution.choose((primary, secondary), float(scores[at]))
                return
            solution.failures[FailMode.FailN1] += 1
            solution.successes -= 1


def rising(scores: Floats) -> list[int]:
    """Positions by rising score; of equal ones the later first."""
    order = np.lexsort((-np.arange(len(scores)), scores))
    return [int(at) for at in order]


def _combined(first: Codes, second: Codes) -> Codes:
    return np.where(first != 0, first, second).astype(np.int8)

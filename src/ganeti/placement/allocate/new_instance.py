# SPDX-License-Identifier: BSD-2-Clause
"""Nodes for a new instance: every candidate is checked and scored, the lowest score wins (spec: htools, 8)."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ganeti.placement.cluster.failure import FailMode, describe_counts
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.kernel.searches import Found, NodeSearch, checked_nodes, find_nodes
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import Options

_PLACES = 8
_EXACT = 1e6
"""Scores below have more digits than are shown."""


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


def solution_of(found: Found, score_text: str) -> Solution:
    """What the kernel found, with its score as *score_text*."""
    counts = Counter({FailMode(mode): count for mode, count in enumerate(found.failures) if mode and count})
    return Solution(found.nodes, found.key, score_text if found.nodes else "", found.successes, counts)


def place_instance(
    state: ClusterState,
    instance: Instance,
    required: int,
    candidates: Sequence[int],
    members: Sequence[int],
    options: Options,
    *,
    primary: int = NOWHERE,
    checked: Sequence[int] | None = None,
    redundancy: int | None = None,
) -> Solution:
    """Find *required* nodes (1 or 2) among the online *candidates*; the score and global N+1 are those of *members*.

    With a *primary*, only the secondary for it is looked for; then offline candidates count, and are not chosen.
    *checked* are the nodes whose failure must be absorbed where these are not all members, *redundancy* that of
    ``searches.shared_redundancy`` for them, where several searches share it.
    """
    mark = state.mark()
    try:
        asked = NodeSearch(
            state.add_instance(instance, NOWHERE),
            required,
            candidates,
            members,
            _asked_to_fail(state, members, options) if checked is None else checked,
            options.ignore_soft_errors,
            primary,
            redundancy=redundancy,
        )
        found = find_nodes(state, asked)
    finally:
        state.rollback(mark)
    return solution_of(found, shown_score(found.key[0]) if found.nodes else "")


def _asked_to_fail(state: ClusterState, members: Sequence[int], options: Options) -> Sequence[int]:
    return checked_nodes(state, members, options.lost_nodes_fail) if options.capacity_checks else ()


def shown_score(score: float) -> str:
    """As 3.1 shows it: the shortest digits rounded, halves to even, and other words for what is no number."""
    if not math.isfinite(score):
        return "NaN" if math.isnan(score) else "Infinity"
    if abs(score) < _EXACT and len(repr(score).partition(".")[2]) != _PLACES + 1:
        return f"{score:.{_PLACES}f}"
    from decimal import Decimal  # few scores are as large, or end with a 5 just behind the last place

    return f"{Decimal(repr(score)):.{_PLACES}f}"

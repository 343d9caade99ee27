# SPDX-License-Identifier: BSD-2-Clause
"""The cluster score over arrays, for one state or for many candidates at once; ``definition.score`` is its meaning.

Sums run in node order, because candidates that are equal on paper are told apart by their last digits, as in 3.1.
NumPy adds the rows of a C-ordered matrix one after the other when it reduces the first axis, which is that order.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ganeti.placement.cluster import Instance
from ganeti.placement.definition import (
    COMPONENTS,
    DEVIATION,
    LOCATION_EXCLUSION,
    METRICS,
    SUM_OFFLINE,
)
from ganeti.placement.numpy_state import ClusterState, Floats, Ints

_ROW = {name: row for row, name in enumerate(METRICS)}
_CELLS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Change:
    """For each candidate one node (``nodes[c]``) and its metrics after the move (``metrics[:, c]``)."""

    nodes: Ints
    metrics: Floats


def score_of(state: ClusterState, members: Ints) -> float:
    """Score of *state* over the nodes *members*."""
    return float(score_changes(state, members, (), 1)[0])


def score_changes(
    state: ClusterState, members: Ints, changes: Sequence[Change], candidates: int, exclusion: Floats | None = None
) -> Floats:
    """Score of *state* with each candidate's changes applied, over *members* (ascending node numbers).

    *exclusion* is the location exclusion score per candidate; by default that of *state*. Shape: (candidates,).
    """
    if not state.online[members].any():
        return np.zeros(candidates)
    if exclusion is None:
        exclusion = np.full(candidates, float(location_exclusion(state, members)))
    places = [np.searchsorted(members, change.nodes) for change in changes]
    width = max(1, _CELLS_AT_ONCE // max(1, len(members)))
    parts = [
        _score_slice(state, members, changes, places, exclusion, slice(start, min(start + width, candidates)))
        for start in range(0, candidates, width)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _score_slice(
    state: ClusterState,
    members: Ints,
    changes: Sequence[Change],
    places: Sequence[Ints],
    exclusion: Floats,
    part: slice,
) -> Floats:
    online = state.online[members]
    count = part.stop - part.start
    order = np.arange(count)
    total = np.zeros(count)
    for component in COMPONENTS:
        if component.kind == LOCATION_EXCLUSION:
            total += component.weight * exclusion[part]
            continue
        row = _ROW[component.metric]
        values = np.repeat(state.metrics[row, members][:, None], count, axis=1)
        for change, place in zip(changes, places, strict=True):
            values[place[part], order] = change.metrics[row, part]
        chosen = values[~online] if component.kind == SUM_OFFLINE else values[online]
        total += component.weight * (_deviation(chosen) if component.kind == DEVIATION else _sum(chosen))
    return total


def _sum(values: Floats) -> Floats:
    """Sum of each column, row after row. A single column would be added pairwise, so it is accumulated."""
    if values.shape[1] > 1 or not len(values):
        total: Floats = values.sum(axis=0)
        return total
    last: Floats = np.cumsum(values, axis=0)[-1]
    return last


def _deviation(values: Floats) -> Floats:
    count = values.shape[0]
    mean = _sum(values) / count
    values -= mean
    values *= values
    result: Floats = np.sqrt(_sum(values) / count)
    return result


def location_exclusion(state: ClusterState, members: Ints) -> int:
    """How many instances share a location with another of the same exclusion tag."""
    if not state.rules.location or not state.rules.exclusion:
        return 0
    merged = location_counts(state, members)
    return sum(merged.values()) - len(merged)


def location_counts(state: ClusterState, members: Ints) -> Counter[tuple[str, str]]:
    """Merge the location maps of the online nodes among *members*."""
    merged: Counter[tuple[str, str]] = Counter()
    for node in members:
        if state.online[node]:
            merged.update(state.location_counts[node])
    return merged


def location_exclusion_after(state: ClusterState, instance: Instance, members: Ints, nodes: Ints) -> Floats:
    """Location exclusion score with *instance* as a new primary on each of *nodes*."""
    rules = state.rules
    tags = rules.exclusion_of(instance.tags)
    if not rules.location or not rules.exclusion:
        return np.zeros(len(nodes))
    merged = location_counts(state, members)
    present = float(sum(merged.values()) - len(merged))
    if instance.forthcoming:
        return np.full(len(nodes), present)
    added = [
        state.online[node]
        and sum(1 for place in rules.location_of(state.nodes[node].tags) for tag in tags if merged[place, tag])
        for node in nodes.tolist()
    ]
    result: Floats = present + np.array(added, dtype=np.float64)
    return result

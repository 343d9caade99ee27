# SPDX-License-Identifier: BSD-2-Clause
"""Scores of ordered pairs of nodes for a new mirrored instance.

3.1 does not score each pair from scratch: it keeps count, sum and squared deviations of each value and corrects them
twice, for the primary and for the secondary. The correction leaves rounding of about 1e-9 behind, which decides between
pairs that are equal on paper; so the same correction is made here, for all secondaries of a primary at once.
"""

from dataclasses import dataclass

import numpy as np

from ganeti.placement.cluster import Instance
from ganeti.placement.definition import COMPONENTS, DEVIATION, LOCATION_EXCLUSION, METRICS, SUM_OFFLINE
from ganeti.placement.numpy_state import ClusterState, Floats, Ints
from ganeti.placement.score import location_exclusion_after
from ganeti.placement.trial import Codes, shared_locations, try_primary, try_secondary

_ROW = {name: row for row, name in enumerate(METRICS)}


@dataclass(frozen=True)
class Statistics:
    """Running statistics of one value over the nodes: *squares* are squared deviations from the mean."""

    count: int
    total: Floats
    squares: Floats

    @classmethod
    def of(cls, values: Floats) -> "Statistics":
        """Two passes, in node order."""
        if not len(values):
            return cls(0, np.zeros(1), np.zeros(1))
        total = np.cumsum(values)[-1:]
        distance = values - total / len(values)
        return cls(len(values), total, np.cumsum(distance * distance)[-1:])

    def replaced(self, old: Floats, new: Floats) -> "Statistics":
        """Exchange *old* for *new*, elementwise for several alternatives."""
        difference = new - old
        change = new * new - old * old
        shift = (2 * self.total * difference + difference * difference) / self.count
        return Statistics(self.count, self.total + difference, self.squares + change - shift)

    @property
    def deviation(self) -> Floats:
        result: Floats = np.sqrt(np.maximum(0.0, self.squares / self.count))
        return result


class PairScorer:
    """Scores of one instance on pairs of nodes over the same state."""

    def __init__(self, state: ClusterState, instance: Instance, members: Ints) -> None:
        self._state = state
        self._instance = instance
        self._members = members
        online = members[state.online[members]]
        offline = members[~state.online[members]]
        self._first = try_primary(state, instance).metrics
        self._base: dict[str, Statistics] = {}
        self._sums: dict[str, Floats] = {}
        for component in COMPONENTS:
            if component.kind == LOCATION_EXCLUSION:
                continue
            row = _ROW[component.metric]
            if component.kind == DEVIATION:
                self._base[component.name] = Statistics.of(state.metrics[row, online])
            else:
                chosen = offline if component.kind == SUM_OFFLINE else online
                self._sums[component.name] = np.cumsum(np.append(0.0, state.metrics[row, chosen]))[-1:]

    def partners_of(self, primary: int, partners: Ints) -> tuple[Codes, Floats]:
        """Failure and score for each of *partners*, all online, as the secondary of *primary*."""
        state = self._state
        second = try_secondary(state, self._instance, primary)
        old_first = state.metrics[:, [primary]]
        new_first = np.repeat(self._first[:, [primary]], len(partners), axis=1)
        if state.rules.location:
            new_first[_ROW["location"]] += shared_locations(state, primary)[partners]
        old_second, new_second = state.metrics[:, partners], second.metrics[:, partners]
        exclusion = location_exclusion_after(state, self._instance, self._members, np.array([primary]))
        total = np.zeros(len(partners))
        for component in COMPONENTS:
            if component.kind == LOCATION_EXCLUSION:
                value = exclusion
            else:
                row = _ROW[component.metric]
                asked = component.kind != SUM_OFFLINE
                changes = [(old_second[row], new_second[row])] if asked else []
                if state.online[primary] == asked:
                    changes.insert(0, (old_first[row], new_first[row]))
                value = self._value(component.name, component.kind, changes)
            total = total + component.weight * value
        return second.failures[partners], total

    def _value(self, name: str, kind: str, changes: list[tuple[Floats, Floats]]) -> Floats:
        if kind == DEVIATION:
            statistics = self._base[name]
            for old, new in changes:
                statistics = statistics.replaced(old, new)
            return statistics.deviation
        total = self._sums[name]
        for old, new in changes:
            total = total + (new - old)
        return total

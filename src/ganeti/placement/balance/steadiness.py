# SPDX-License-Identifier: BSD-2-Clause
"""What keeps balancing by measured load from moving instances to and fro. Pure.

Load is noise around a mean. Nothing is moved unless one node is clearly busier than the others (threshold), no move is
made for a small gain (`--min-gain` of hbal), and an instance that has just moved stays for a while (cool-down): by then
the means of ten minutes that MonD tells are those of its new node.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ganeti.placement.cluster.picture import Node


@dataclass(frozen=True, slots=True)
class Unevenness:
    """Of the measured load of nodes, each as a share of its processors: the busiest one, and the mean of all."""

    busiest: str
    share: float
    mean: float

    @property
    def above_mean(self) -> float:
        return self.share - self.mean


def unevenness(nodes: Iterable[Node]) -> Unevenness | None:
    """None where no node's load was measured; nodes that take no instances do not count."""
    shares = {
        node.name: node.cpu_load / node.total_cpus
        for node in nodes
        if not node.unavailable and node.cpu_load is not None and node.total_cpus > 0
    }
    if not shares:
        return None
    busiest = max(shares, key=lambda name: shares[name])
    return Unevenness(busiest, shares[busiest], sum(shares.values()) / len(shares))


def cooling(changed_at_s: Mapping[str, float], now_s: float, cool_down_s: float) -> frozenset[str]:
    """Names of instances that changed less than *cool_down_s* ago; a time in the future counts as now."""
    return frozenset(name for name, at_s in changed_at_s.items() if now_s - at_s < cool_down_s)

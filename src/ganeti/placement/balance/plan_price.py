# SPDX-License-Identifier: BSD-2-Clause
"""What a plan costs: data that go over the network, and the time that takes; which steps may run side by side.

A new secondary gets a copy of all disks of the instance. A move to another node sends the memory of a running instance
once; an instance that is down, or whose primary is offline, is only started elsewhere, which sends nothing. What is
written meanwhile, and so sent again, is not known and not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ganeti.placement.balance.steps import Step, job_sets
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.kernel.state import ClusterState

_BITS_OF_MIB = 8 * 2**20
_BITS_OF_MBIT = 10**6
_MIGRATIONS = {"f": 1, "fa": 1, "r": 0, "rf": 1, "frf": 2, "fr": 1}
_COPIES = {"f": 0, "fa": 0, "r": 1, "rf": 1, "frf": 1, "fr": 1}


@dataclass(frozen=True, slots=True)
class Price:
    """Data that steps send, in MiB."""

    disk_mib: int = 0
    memory_mib: int = 0

    @property
    def total_mib(self) -> int:
        return self.disk_mib + self.memory_mib

    def __add__(self, other: "Price") -> "Price":
        return Price(self.disk_mib + other.disk_mib, self.memory_mib + other.memory_mib)

    def seconds(self, link_mbit: float) -> float:
        """How long one link of *link_mbit* needs for it."""
        return self.total_mib * _BITS_OF_MIB / (link_mbit * _BITS_OF_MBIT)


def price_of_hop(instance: Instance, kind: str, *, from_dead_primary: bool = False) -> Price:
    """The price of one step of *kind*; *from_dead_primary*: where it runs now is offline."""
    sent = _MIGRATIONS[kind]
    if from_dead_primary and sent:
        sent -= 1
    if instance.forthcoming:
        return Price()
    memory_mib = instance.memory_mib * sent if instance.uses_memory else 0
    return Price(instance.disk_mib * _COPIES[kind], memory_mib)


def price_of(state: ClusterState, step: Step) -> Price:
    """The price of *step* of a plan for *state*."""
    dead = not state.online[step.before[0]]
    return price_of_hop(state.instances[step.instance], step.kind, from_dead_primary=dead)


def total_price(state: ClusterState, steps: Sequence[Step]) -> Price:
    """The price of all *steps* together."""
    return sum((price_of(state, step) for step in steps), Price())


@dataclass(frozen=True, slots=True)
class Duration:
    """Expected seconds of a plan: one step at a time, and with the steps of each of *sets* job sets side by side."""

    one_by_one_s: float
    side_by_side_s: float
    sets: int


def duration_of(state: ClusterState, steps: Sequence[Step], link_mbit: float) -> Duration:
    """How long *steps* take. Steps of a job set share no node, so each has links of its own."""
    sets = job_sets(steps)
    seconds = [[price_of(state, step).seconds(link_mbit) for step in own] for own in sets]
    return Duration(sum(map(sum, seconds)), sum(map(max, seconds)), len(sets))

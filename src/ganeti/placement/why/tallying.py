# SPDX-License-Identifier: BSD-2-Clause
"""A question put in numbers, so that all nodes and pairs can be tallied at once."""

import math
from typing import Protocol

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.lack import Lack
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.why.excluding import Excluding, Fixed
from ganeti.placement.why.policy import Window
from ganeti.placement.why.prices import Price, price_of
from ganeti.placement.why.tallies import STORAGES, Tallies, Terms


class TallyInput(Protocol):
    """What the numbers are made of: the instance, the cluster, and what excludes its nodes and groups."""

    state: ClusterState
    instance: Instance
    group_of: list[int]
    excluding: Excluding
    paired: bool
    forced: bool

    def known(self, number: int) -> bool: ...

    def redundant(self, group: int) -> bool: ...

    def present(self, group: int) -> list[tuple[int, Fixed]]: ...

    def policy_of(self, group: int, exclusive: bool) -> list[tuple[list[Lack], Window]]: ...


def tally(question: TallyInput, primary: int = NOWHERE) -> Tallies:
    """All nodes and pairs; where *primary* was chosen, nodes of its group are secondaries of that one only."""
    state, instance = question.state, question.instance
    mark = state.mark()
    try:
        number = state.add_instance(instance, NOWHERE)
        return Tallies(state, number, _terms(question, primary), len(instance.disks), instance.memory_mib)
    finally:
        state.rollback(mark)


def _terms(question: TallyInput, primary: int) -> Terms:
    numbers, groups = range(len(question.state.nodes)), range(len(question.state.groups))
    redundant = [question.redundant(group) for group in groups]
    present, present_of = [0.0] * len(groups), [0.0] * len(numbers)
    for group in groups:
        for node, fixed in question.present(group) if redundant[group] else ():
            present[group] += _shares_of([fixed])
            if node != NOWHERE and question.group_of[node] == group:
                present_of[node] += _shares_of([fixed])
    excluding = question.excluding
    return Terms(
        prices=[_prices(question, group, exclusive, any_) for group in groups for exclusive, any_ in STORAGES],
        fixed=[_shares_of(excluding.of_node(number)) for number in numbers],
        group_fixed=[_shares_of(excluding.of_group(group)) for group in groups],
        present=present,
        present_of=present_of,
        known=[question.known(number) for number in numbers],
        redundant=redundant,
        paired=question.paired,
        forced=question.forced,
        primary=primary,
    )


def _shares_of(fixed: list[Fixed]) -> float:
    return sum(change.share if change is not None else math.inf for _, change in fixed)


def _prices(question: TallyInput, group: int, exclusive: bool, any_exclusive: bool) -> list[Price]:
    """*exclusive*: the primary has exclusive storage; *any_exclusive*: it or its secondary."""
    instance = question.instance
    traits = traits_of(instance.template)
    unnamed = any_exclusive and traits is not None and traits.uses_node_disk and instance.total_spindles is None
    ranges = question.policy_of(group, exclusive)
    return [price_of(instance, lacks, window, exclusive, unnamed) for lacks, window in ranges]

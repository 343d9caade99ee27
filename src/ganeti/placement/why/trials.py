# SPDX-License-Identifier: BSD-2-Clause
"""Redundancy where arithmetic does not tell: the instance is put on its nodes and failures are tried.

That costs more than sums, so only the first nodes that are asked about are tried; callers ask about the nearest first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.lack import INSTANCE, MEMORY, REDUNDANCY, Change, Lack, Way, distance
from ganeti.placement.cluster.picture import Group, Instance
from ganeti.placement.cluster.policy import refusal_by_policy
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.why.excluding import Fixed
from ganeti.placement.why.policy import Window
from ganeti.placement.why.remedies import Judgement
from ganeti.placement.why.room import Room
from ganeti.placement.why.smaller import smaller_by

MOST_TRIED, FEWEST_TRIED, TRIALS_OF_NODES = 24, 1, 2500
"""How many nodes are tried: fewer of large clusters, where each trial looks at every node."""
FEW_TRIED = 5
"""With so few the cluster is so large that each trial takes a good part of a second."""
NARROWED_NODES = 6
"""For so many of them the memory is found with which failures could be absorbed."""


class TrialInput(Protocol):
    """What a trial needs to know: the instance, the cluster, and what arithmetic says of its nodes."""

    state: ClusterState
    instance: Instance
    group_of: list[int]

    def room(self, number: int) -> Room: ...

    def group_at(self, number: int) -> Group: ...

    def known(self, number: int) -> bool: ...

    def exact(self, group: int) -> bool: ...

    def elsewhere(self, numbers: tuple[int, ...]) -> list[Fixed]: ...

    def policy(self, number: int) -> list[tuple[list[Lack], Window]]: ...

    def failing_now(self, group: int) -> list[int]: ...

    def failing_with(
        self, instance: Instance, nodes: tuple[int, ...], checked: Sequence[int] | None = None
    ) -> list[int]: ...

    def unabsorbed(self, failing: list[int], *, primary: int) -> str: ...


class Trials:
    """What arithmetic says of nodes, held against failures tried; each is tried once."""

    def __init__(self, question: TrialInput) -> None:
        self._question = question
        self._known: dict[tuple[int, ...], Judgement] = {}
        self._narrowed = 0
        count = max(1, len(question.state.nodes))
        self.most = max(FEWEST_TRIED, min(MOST_TRIED, TRIALS_OF_NODES // count))
        """How many nodes, or pairs, are tried."""
        self._checks_left = 2 * self.most if self.most > FEW_TRIED else self.most
        self._suspects: list[int] = []
        self._present: frozenset[int] = frozenset()

    def may_try(self, nodes: tuple[int, ...]) -> bool:
        """Whether these were tried, or may be."""
        return nodes in self._known or (len(self._known) < self.most and self._checks_left > 0)

    def judgement(self, nodes: tuple[int, ...], known: Judgement) -> Judgement:
        """*known* with the failures that the instance on *nodes* would leave unabsorbed, and the ways that do not.

        Where room is freed first, just as much is left there as if the instance were squeezed in: next to nothing.
        """
        question = self._question
        if question.exact(question.group_of[nodes[0]]) or not all(question.known(node) for node in nodes):
            return known
        if known.lacks and not known.ways:
            return known  # there is nothing to hold against failures
        if nodes not in self._known:
            if not self.may_try(nodes):
                return known
            self._known[nodes] = self._judgement(nodes, known)
        return self._known[nodes]

    def _judgement(self, nodes: tuple[int, ...], known: Judgement) -> Judgement:
        question = self._question
        group = question.group_of[nodes[0]]
        self._present = frozenset(question.failing_now(group)) if question.elsewhere(nodes) else frozenset()
        failing = self._failing(question.instance, nodes)
        lacks = known.lacks
        if not failing and not lacks:
            return known
        ways = tuple(sorted(self._absorbing(nodes, known.ways if lacks else ((),), failing), key=distance))
        if failing and (not ways or all(lack.constraint != MEMORY for lack in lacks)):
            name = question.room(failing[0]).name
            words = question.unabsorbed(failing, primary=nodes[0])
            lacks = (*lacks, Lack(REDUNDANCY, words, FailMode.FailN1, "", name))
        return Judgement(lacks, ways)

    def _absorbing(self, nodes: tuple[int, ...], ways: tuple[Way, ...], failing: list[int]) -> Iterator[Way]:
        """Of *ways* those that leave every failure absorbed, asking for less memory where that helps."""
        narrowed = False
        for way in ways:
            less = any(change.subject == INSTANCE for change in way)
            smaller = smaller_by(self._question.instance, way) if less else self._question.instance
            remains = self._failing(smaller, nodes) if less else failing
            if not remains:
                if way:
                    yield way
            elif not narrowed and (less or not way):
                narrowed = True
                memory_mib = self._narrowed_memory(smaller, nodes)
                if memory_mib:
                    yield self._with_memory(way, memory_mib)

    def _with_memory(self, way: Way, memory_mib: int) -> Way:
        asked = self._question.instance
        less = asked.memory_mib - memory_mib
        part = Change(INSTANCE, MEMORY, asked.name, less, memory_mib, less / max(1, asked.memory_mib))
        return (part, *(c for c in way if (c.subject, c.constraint) != (INSTANCE, MEMORY)))

    def _narrowed_memory(self, instance: Instance, nodes: tuple[int, ...]) -> int:
        """The most memory below that of *instance* with which every failure is absorbed; 0 if none is found."""
        self._narrowed += 1
        question, at = self._question, instance.memory_mib
        windows = [window for _, window in question.policy(nodes[0])]
        lows = [w.low.memory_mib for w in windows if w.low.memory_mib <= at <= w.high.memory_mib]
        least = max(1, max(lows, default=at))
        if self._narrowed > NARROWED_NODES or least >= at:
            return 0
        if not self.absorbed(replace(instance, memory_mib=least), nodes):
            return 0
        good, bad = least, at
        while bad - good > 1:
            middle = (good + bad) // 2
            absorbed = self.absorbed(replace(instance, memory_mib=middle), nodes)
            good, bad = (middle, bad) if absorbed else (good, middle)
        found, exclusive = replace(instance, memory_mib=good), question.room(nodes[0]).exclusive
        return good if refusal_by_policy(question.group_at(nodes[0]).policy, found, exclusive) is None else 0

    def absorbed(self, instance: Instance, nodes: tuple[int, ...]) -> bool:
        """Whether it is sure that *instance* on *nodes* leaves every failure absorbed."""
        return not self._failing(instance, nodes)

    def _failing(self, instance: Instance, nodes: tuple[int, ...]) -> list[int]:
        """Nodes whose failure the instance makes unabsorbable; what is amiss without it has its own part in a way.

        Those that failed before are asked first. When all nodes were asked often enough, nothing is promised any more.
        """
        question = self._question
        suspects = [node for node in self._suspects if node not in self._present]
        if suspects and (found := question.failing_with(instance, nodes, suspects)):
            return found
        if self._checks_left <= 0:
            return [nodes[0]]
        self._checks_left -= 1
        found = [node for node in question.failing_with(instance, nodes) if node not in self._present]
        self._suspects = sorted({*self._suspects, *found[:1]})
        return found

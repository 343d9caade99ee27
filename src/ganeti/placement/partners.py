# SPDX-License-Identifier: BSD-2-Clause
"""The best other half of a pair: which secondary for a primary, which primary for a secondary, which pair of all.

A pair takes at least as much change as either of its nodes alone, so nodes are tried by what they take alone, and
the search ends where that is more than the best pair found.
"""

import math
from dataclasses import dataclass

from ganeti.placement.question import Question
from ganeti.placement.remedies import Judgement
from ganeti.placement.room import PRIMARY, SECONDARY

TRIED_FOR_ONE_NODE = 48
"""For a single node's reason it need not be the very best partner of a thousand."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Primary and secondary, or one node that has no partner; and what keeps an instance off them."""

    nodes: tuple[int, ...]
    judgement: Judgement

    @property
    def distance(self) -> float:
        return self.judgement.distance

    def partner(self, number: int) -> int | None:
        return next((node for node in self.nodes if node != number), None)


class Partners:
    """Pairs of nodes of one group for the instance of a question."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._members: dict[int, list[int]] = {}
        for number, group in enumerate(question.group_of):
            self._members.setdefault(group, []).append(number)
        self._alone: dict[str, dict[int, float]] = {PRIMARY: {}, SECONDARY: {}}
        self._ordered: dict[tuple[int, str], list[int]] = {}

    def alone(self, number: int, role: str) -> float:
        """How much change a node takes alone."""
        known = self._alone[role]
        if number not in known:
            known[number] = self._question.alone(number, role).distance
        return known[number]

    def _by_nearness(self, group: int, role: str) -> list[int]:
        if (group, role) not in self._ordered:
            members = self._members[group]
            self._ordered[group, role] = sorted(members, key=lambda number: self.alone(number, role))
        return self._ordered[group, role]

    def best(self, number: int, role: str, bound: float = math.inf, tried: int = TRIED_FOR_ONE_NODE) -> "Pair":
        """*number* in *role* with the partner that takes the least change; what it takes alone if there is none."""
        other_role = SECONDARY if role == PRIMARY else PRIMARY
        own = self.alone(number, role)
        best: Pair | None = None
        for partner in self._by_nearness(self._question.group_of[number], other_role):
            if partner == number:
                continue
            least = max(own, self.alone(partner, other_role))
            if best is not None and (least >= min(best.distance, bound) or tried <= 0):
                break
            tried -= 1
            pair = (number, partner) if role == PRIMARY else (partner, number)
            judgement = self._question.pair(*pair)
            if best is None or judgement.distance < best.distance:
                best = Pair(pair, judgement)
            if best.distance <= own:
                break
        return best or Pair((number,), self._question.alone(number, role))

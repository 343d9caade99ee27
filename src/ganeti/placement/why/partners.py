# SPDX-License-Identifier: BSD-2-Clause
"""The best other half of a pair, as `Tallies` finds it, with the judgement that has the words."""

from dataclasses import dataclass

from ganeti.placement.cluster.lack import NODE_COUNT, Lack
from ganeti.placement.kernel.state import NOWHERE
from ganeti.placement.why.question import Question
from ganeti.placement.why.remedies import Judgement
from ganeti.placement.why.room import PRIMARY
from ganeti.placement.why.tallies import Tally


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


def no_partner(question: Question, number: int) -> str:
    """Of a node that is alone in its group."""
    return f"its group {question.group_at(number).name} has no other node that could be the secondary"


def best_pair(question: Question, tally: Tally, number: int, role: str) -> Pair:
    """*number* in *role* with the partner that takes the least change; what it takes alone if there is none."""
    if tally.partner == NOWHERE:
        lack = Lack(NODE_COUNT, no_partner(question, number), None, 2, 1, "", question.state.nodes[number].name)
        return Pair((number,), Judgement((*question.alone(number, role).lacks, lack)))
    nodes = (number, tally.partner) if role == PRIMARY else (tally.partner, number)
    return Pair(nodes, question.pair(*nodes))

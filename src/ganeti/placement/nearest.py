# SPDX-License-Identifier: BSD-2-Clause
"""When nothing fits: the nodes that need the least change, and the largest instances that would fit now."""

import math

from ganeti.placement.lack import ways_words
from ganeti.placement.largest import largest_sizes
from ganeti.placement.partners import Pair, Partners
from ganeti.placement.question import Question
from ganeti.placement.request import NearestFit
from ganeti.placement.room import PRIMARY, UNLIMITED
from ganeti.placement.trials import Trials


def nearest_fit(question: Question) -> NearestFit:
    """The nodes that take the least change, and the sizes that fit as things are."""
    pair = _nearest_pair(question) if question.paired else _nearest_single(question)
    unabsorbed = tuple(lack for lack, _ in question.unabsorbed_now)
    absorbing = tuple(change for _, change in question.unabsorbed_now if change is not None)
    sizes = () if unabsorbed else largest_sizes(question)
    if pair is None or not pair.judgement.ways:
        return NearestFit(largest=sizes, unabsorbed=unabsorbed, absorbing=absorbing)
    names = tuple(question.state.nodes[number].name for number in pair.nodes)
    ways = pair.judgement.ways
    return NearestFit(names, ways_words(ways, names[0]), ways, pair.judgement.lacks, sizes, unabsorbed, absorbing)


def _nearest_single(question: Question) -> Pair | None:
    """The node with the smallest change; of equal ones the first."""
    best: Pair | None = None
    trials = Trials(question)
    judgements = [question.alone(number) for number in range(len(question.state.nodes))]
    for number in sorted(range(len(judgements)), key=lambda number: judgements[number].distance):
        if best is not None and judgements[number].distance >= best.distance:
            break
        judgement = trials.judgement((number,), judgements[number])
        if judgement.lacks and (best is None or judgement.distance < best.distance):
            best = Pair((number,), judgement)
    return best


def _nearest_pair(question: Question) -> Pair | None:
    partners = Partners(question)
    best: Pair | None = None
    numbers = range(len(question.state.nodes))
    for primary in sorted(numbers, key=lambda number: partners.alone(number, PRIMARY)):
        if best is not None and partners.alone(primary, PRIMARY) >= best.distance:
            break
        bound = best.distance if best is not None else math.inf
        found = partners.best(primary, PRIMARY, bound, UNLIMITED)
        if len(found.nodes) == 2 and (best is None or found.distance < best.distance):
            best = found
    if best is None:
        return None
    return Pair(best.nodes, Trials(question).judgement(best.nodes, best.judgement))

# SPDX-License-Identifier: BSD-2-Clause
"""When nothing fits: the nodes that need the least change, and the largest instances that would fit now."""

from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.lack import ways_words
from ganeti.placement.kernel.state import NOWHERE
from ganeti.placement.request.terms import NearestFit
from ganeti.placement.why.largest import largest_sizes
from ganeti.placement.why.partners import Pair, best_pair
from ganeti.placement.why.question import Question
from ganeti.placement.why.room import PRIMARY


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


def selected_alone(question: Question, nearest: NearestFit) -> tuple[str, ...] | None:
    """Of a pair, the first node that would do as primary, if any does.

    None for what is no pair, and where nothing but the failure of a node speaks against one.
    """
    if not question.paired or nearest.unabsorbed:
        return None
    if nearest.lacks and all(lack.mode == FailMode.FailN1 for lack in nearest.lacks):
        return None
    tallies = [question.tallies.of(number, PRIMARY) for number in range(len(question.state.nodes))]
    if any(tally.partner != NOWHERE and tally.distance == 0 for tally in tallies):
        return None
    alone = (node.name for node, tally in zip(question.state.nodes, tallies, strict=True) if tally.alone == 0)
    return tuple(name for name in [next(alone, "")] if name)


def _nearest_single(question: Question) -> Pair | None:
    """The node with the smallest change; of equal ones the first."""
    best: Pair | None = None
    alone = [question.tallies.of(number, PRIMARY).alone for number in range(len(question.state.nodes))]
    for number in sorted(range(len(alone)), key=alone.__getitem__):
        if best is not None and alone[number] >= best.distance:
            break
        if alone[number] == 0 and not question.trials.may_try((number,)):
            continue  # only a trial would say what is in the way
        judgement = question.trials.judgement((number,), question.alone(number))
        if judgement.lacks and (best is None or judgement.distance < best.distance):
            best = Pair((number,), judgement)
    return best


def _nearest_pair(question: Question) -> Pair | None:
    tallies = [question.tallies.of(number, PRIMARY) for number in range(len(question.state.nodes))]
    paired = [number for number, tally in enumerate(tallies) if tally.partner != NOWHERE]
    if not paired:
        return None
    nearest = min(paired, key=lambda number: (tallies[number].distance, tallies[number].alone))
    best = best_pair(question, tallies[nearest], nearest, PRIMARY)
    return Pair(best.nodes, question.trials.judgement(best.nodes, best.judgement))

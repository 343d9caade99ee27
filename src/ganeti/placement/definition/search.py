# SPDX-License-Identifier: BSD-2-Clause
"""What looking for nodes means, in plain Python: new instances, other nodes, global N+1 (spec: htools, 8 to 10).

Read it after ``moves``, whose pictures and moves it uses. Nothing is fast here: every candidate is made, and
scored from nothing. ``searches`` and the kernel under it are the fast form, and are tested against this module.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.failure import FailMode, Refusal
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.cluster.policy import Policy, refusal_by_policy
from ganeti.placement.definition.checks import refuse_primary, refuse_secondary
from ganeti.placement.definition.moves import NOWHERE, Move, PlainCluster, after_move
from ganeti.placement.definition.score import (
    COMPONENTS,
    DEVIATION,
    LOCATION_EXCLUSION,
    METRICS,
    SUM_OFFLINE,
    location_exclusion,
    metrics_of,
)

Policies = Mapping[str, Policy]
"""By the UUID of the group."""


def with_new(cluster: PlainCluster, instance: Instance) -> tuple[PlainCluster, int]:
    """The cluster with one more instance, at no node yet, and its number."""
    places = (*cluster.places, (NOWHERE, NOWHERE))
    return PlainCluster(cluster.views, (*cluster.instances, instance), places), len(cluster.instances)


def best_of(scores: Iterable[tuple[float, int]]) -> int | None:
    """Of (score, candidate) the candidate with the lowest score; of equals the later."""
    best: tuple[float, int] | None = None
    for score, candidate in scores:
        if best is None or not_worse(score, best[0]):
            best = (score, candidate)
    return best[1] if best else None


def not_worse(score: float, earlier: float) -> bool:
    """Whether a candidate with *score* is taken instead of an earlier one: also where scores are no numbers."""
    return not earlier < score


# One other node for an instance


def hops(
    cluster: PlainCluster, number: int, role: str, targets: Iterable[int], *, forced: bool = False
) -> dict[int, PlainCluster | Refusal]:
    """What becomes of the cluster if the instance gets each target as its new *role*; its own nodes are left out."""
    kind = "r" if role == "secondary" else "fa"
    own = cluster.places[number]
    return {t: after_move(cluster, number, Move(kind, t), forced=forced) for t in targets if t not in own}


def best_hop(results: Mapping[int, PlainCluster | Refusal], members: Sequence[int]) -> int | None:
    """The target after which the score of *members* is lowest."""
    return best_of((after.score(members), t) for t, after in results.items() if isinstance(after, PlainCluster))


@dataclass
class Exchange:
    """The best new *nodes*, if any, and which move of the last attempt that failed was refused, and how."""

    nodes: tuple[int, int] | None = None
    failed_step: int = 0
    failure: int = 0


def exchange(
    cluster: PlainCluster, number: int, targets: Sequence[int], members: Sequence[int], *, forced: bool = False
) -> Exchange:
    """``[f if the primary is offline,] r:t1, f, r:t2`` with the best ordered pair; of equals the later."""
    result, lowest = Exchange(), math.nan

    def refused(step: int, found: PlainCluster | Refusal) -> bool:
        if isinstance(found, Refusal):
            result.failed_step, result.failure = step, found.mode
        return isinstance(found, Refusal)

    start: PlainCluster | Refusal = cluster
    if cluster.offline(cluster.places[number][0]):
        start = after_move(cluster, number, Move("f"), forced=forced)
        if len(targets) < 2 or refused(1, start):
            return result
    assert isinstance(start, PlainCluster)
    for one, with_one in hops(start, number, "secondary", targets, forced=forced).items():
        if len(targets) < 2 or refused(2, with_one):
            continue
        assert isinstance(with_one, PlainCluster)
        turned = after_move(with_one, number, Move("f"), forced=forced)
        if refused(3, turned):
            continue
        assert isinstance(turned, PlainCluster)
        for two, after in hops(turned, number, "secondary", targets, forced=forced).items():
            if isinstance(after, PlainCluster):
                score = after.score(members)
                if result.nodes is None or not_worse(score, lowest):
                    result.nodes, lowest = (one, two), score
            last = after
        refused(4, last)
    return result


# Global N+1


def absorbs(cluster: PlainCluster, policies: Policies, node: int, members: Sequence[int]) -> bool:
    """Whether everything that is on *node* finds another place when it fails, soft limits ignored.

    A forthcoming instance is not there yet.
    """
    group = cluster.views[node].node.group
    mates = [number for number, view in enumerate(cluster.views) if view.node.group == group]
    others = [number for number in mates if number != node]
    own = [cluster.instances.index(instance) for instance in cluster.views[node].real_primaries]
    for number in (number for number in own if _has_mirror(cluster.instances[number])):
        after = after_move(cluster, number, Move("f"), forced=True)
        if isinstance(after, Refusal):
            return False
        cluster = after
    for number in (number for number in own if _starts_elsewhere(cluster.instances[number])):
        moved = hops(cluster, number, "primary", others, forced=True)
        best = best_hop(moved, mates)
        if best is None:
            return False
        found = moved[best]
        assert isinstance(found, PlainCluster)
        cluster = found
    lost = [i for i in (cluster.instances[n] for n in own) if not _has_mirror(i) and not _starts_elsewhere(i)]
    for instance in sorted(lost, key=lambda i: -i.memory_mib):
        copied, number = with_new(cluster, instance)
        made = {
            t: copied.moved(number, t)
            for t in others
            if not _policy_refusal(cluster, policies, instance, t)
            and not refuse_primary(cluster.views[t], instance, forced=True)
        }
        if not made:
            return False
        _, (best,) = min(((after.score(members), (t,)) for t, after in made.items()), key=_rank)
        cluster = made[best]
    return True


def _has_mirror(instance: Instance) -> bool:
    traits = traits_of(instance.template)
    return traits is not None and traits.has_secondary


def _starts_elsewhere(instance: Instance) -> bool:
    traits = traits_of(instance.template)
    return traits is not None and not traits.has_secondary and traits.evacuable


def _policy_refusal(cluster: PlainCluster, policies: Policies, instance: Instance, node: int) -> Refusal | None:
    described = cluster.views[node].node
    return refusal_by_policy(policies[described.group], instance, described.exclusive_storage)


# New instances


@dataclass
class Allocation:
    """The best *nodes* and their *score*; the count of candidates that would do, and of the others by their failure."""

    nodes: tuple[int, ...]
    score: float
    successes: int
    failures: Counter[FailMode]


def allocation(
    cluster: PlainCluster,
    policies: Policies,
    instance: Instance,
    required: int,
    candidates: Sequence[int],
    members: Sequence[int],
    *,
    checked: Sequence[int] = (),
    ignore_soft_errors: bool = False,
) -> Allocation:
    """Try every one of the *candidates*, or every ordered pair within a group.

    Candidates are taken by rising score, of equals the later first (for pairs those of each primary), until one leaves
    the failure of each of *checked* absorbed.
    """
    bare, number = with_new(cluster, instance)
    result = Allocation((), math.nan, 0, Counter())

    def choose(fitting: Sequence[tuple[float, tuple[int, ...]]]) -> None:
        result.successes += len(fitting)
        for score, nodes in sorted(fitting, key=_rank):
            after = bare.moved(number, *nodes)
            if all(absorbs(after, policies, node, members) for node in checked):
                if not result.nodes or not_worse(score, result.score):
                    result.nodes, result.score = nodes, score
                return
            result.failures[FailMode.FailN1] += 1
            result.successes -= 1

    singles = []
    for primary in candidates:
        partners = [n for n in candidates if n != primary and _same_group(cluster, n, primary)]
        refusal = _policy_refusal(cluster, policies, instance, primary)
        refusal = refusal or refuse_primary(bare.views[primary], instance, forced=ignore_soft_errors)
        if refusal:
            result.failures[refusal.mode] += len(partners) if required == 2 else 1
        elif required == 1:
            singles.append((bare.moved(number, primary).score(members), (primary,)))
        else:
            choose(list(_pairs(bare, number, primary, partners, members, result.failures)))
    if required == 1:
        choose(singles)
    return result


def _rank(found: tuple[float, tuple[int, ...]]) -> tuple[bool, float, list[int]]:
    """Order of candidates for a new instance: of equals the later first, but where scores are no numbers the first."""
    score, nodes = found
    if math.isnan(score):
        return True, 0.0, list(nodes)
    return False, score, [-node for node in nodes]


def _same_group(cluster: PlainCluster, one: int, other: int) -> bool:
    return cluster.views[one].node.group == cluster.views[other].node.group


def _pairs(
    bare: PlainCluster,
    number: int,
    primary: int,
    partners: Sequence[int],
    members: Sequence[int],
    failures: Counter[FailMode],
) -> Iterator[tuple[float, tuple[int, ...]]]:
    for secondary in partners:
        refusal = refuse_secondary(bare.views[secondary], bare.instances[number], primary)
        if refusal:
            failures[refusal.mode] += 1
        else:
            yield pair_score(bare, number, primary, secondary, members), (primary, secondary)


class _Statistics:
    """Count, sum and variance of a value over the nodes, corrected when one value is exchanged."""

    def __init__(self, values: Sequence[float]) -> None:
        self.count = len(values)
        self.total = 0.0
        for value in values:
            self.total += value
        mean = self.total / self.count if values else 0.0
        squares = 0.0
        for value in values:
            squares += (value - mean) * (value - mean)
        self.variance = squares / self.count if values else 0.0

    def exchange(self, old: float, new: float) -> None:
        difference, mean = new - old, self.total / self.count
        self.total += difference
        shift = difference / self.count
        self.variance += (new * new - old * old - 2 * difference * mean) / self.count - shift * shift

    @property
    def deviation(self) -> float:
        return math.sqrt(max(0.0, self.variance))


def pair_score(bare: PlainCluster, number: int, primary: int, secondary: int, members: Sequence[int]) -> float:
    """The score with the instance on a pair of nodes, with the roundings of 3.1: see ``kernel/pairs.c``."""
    after = bare.moved(number, primary, secondary)
    changes = [(metrics_of(bare.views[n]), metrics_of(after.views[n]), bare.offline(n)) for n in (primary, secondary)]
    known = [(metrics_of(bare.views[n]), bare.offline(n)) for n in members]
    total = 0.0
    for component in COMPONENTS:
        if component.kind == LOCATION_EXCLUSION:
            value = float(location_exclusion(after.views[n] for n in members if not after.offline(n)))
        else:
            row, of_offline = METRICS.index(component.metric), component.kind == SUM_OFFLINE
            values = [metrics[row] for metrics, offline in known if offline == of_offline]
            exchanged = [(old[row], new[row]) for old, new, offline in changes if offline == of_offline]
            value = (_corrected_deviation if component.kind == DEVIATION else _corrected_sum)(values, exchanged)
        total += component.weight * value
    return total


def _corrected_deviation(values: Sequence[float], exchanged: Sequence[tuple[float, float]]) -> float:
    statistics = _Statistics(values)
    for old, new in exchanged:
        statistics.exchange(old, new)
    return statistics.deviation


def _corrected_sum(values: Sequence[float], exchanged: Sequence[tuple[float, float]]) -> float:
    total = 0.0
    for value in values:
        total += value
    for old, new in exchanged:
        total += new - old
    return total

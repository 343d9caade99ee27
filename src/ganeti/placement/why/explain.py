# SPDX-License-Identifier: BSD-2-Clause
"""Why a node was not chosen: every constraint that excludes it, and the smallest change that would admit the instance.

A pair of nodes is asked about in both roles: as primary with the best partner, and as secondary of the chosen primary
(of the best one, where nothing fits).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import overload

from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.lack import (
    AVAILABILITY,
    INSTANCE,
    MIGRATION_TAG,
    NODE,
    REDUNDANCY,
    REDUNDANCY_NOW,
    RESOURCES,
    Change,
    Lack,
    ways_words,
)
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import Allocate, NodeRefusal, NoFit, Options, Placement
from ganeti.placement.why.alike import Alike, InGroups, Reason, kind_of, of_partner, ranges_of, reason_of
from ganeti.placement.why.nearest import nearest_fit, selected_alone
from ganeti.placement.why.partners import Pair, best_pair, no_partner
from ganeti.placement.why.policy import ANYTHING
from ganeti.placement.why.question import Question
from ganeti.placement.why.remedies import Judgement, judge
from ganeti.placement.why.room import PRIMARY, SECONDARY
from ganeti.placement.why.tallies import ROLES, Tally, constraints_of

_NOTHING = 1e-9
"""Distances that differ by less are equal: the same shares added up in another order."""
NOT_BETTER = "fits, but the cluster is better balanced without it"
NOT_ABSORBED = "fits, but then the failure of one node could not be absorbed by the others"


def with_reasons(
    state: ClusterState, request: Allocate, options: Options, group: int, found: Placement | NoFit
) -> Placement | NoFit:
    """*found* with a refusal for each node that was not chosen and, where nothing fits, with the nearest fit.

    *group* is the number of the group asked for or found, NOWHERE for none.
    """
    question = Question(state, request, options, group)
    if isinstance(found, Placement):
        chosen = tuple(state.node_number[name] for name in found.nodes)
        return replace(found, refusals=Refusals(question, group, chosen)) if options.why else found
    if not options.why_not:
        return found
    told = Refusals(question, group)
    nearest = nearest_fit(question)
    return replace(found, refusals=told, nearest=nearest, selected=selected_alone(question, nearest))


def refusals(question: Question, group: int = NOWHERE, chosen: tuple[int, ...] = ()) -> tuple[NodeRefusal, ...]:
    """All of `Refusals` in words."""
    return tuple(Refusals(question, group, chosen))


class Refusals(InGroups):
    """A refusal for each node of a question but the *chosen*, in the order of the nodes.

    What a thousand nodes lack is known in numbers, and told in words where somebody looks: as long as the state of the
    question is what it was. *group* is the group that was found.
    """

    def __init__(self, question: Question, group: int = NOWHERE, chosen: tuple[int, ...] = ()) -> None:
        self._question = question
        paired = question.paired
        self._explain = _Pairs(question, group, chosen) if paired else _Singles(question, group, chosen)
        self._numbers = [number for number in range(len(question.state.nodes)) if number not in chosen]
        self._known: dict[int, NodeRefusal] = {}
        self._alike: list[Alike] | None = None
        for number in self._explain.to_be_tried(self._numbers):
            self._of(number)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> NodeRefusal: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[NodeRefusal]: ...
    def __getitem__(self, at: int | slice) -> NodeRefusal | Sequence[NodeRefusal]:
        if isinstance(at, slice):
            return tuple(self._of(number) for number in self._numbers[at])
        return self._of(self._numbers[at])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def _of(self, number: int) -> NodeRefusal:
        if number not in self._known:
            self._known[number] = self._explain.refusal(number)
        return self._known[number]

    def alike(self) -> list[Alike]:
        if self._alike is None:
            self._alike = self._in_groups()
        return self._alike

    def _in_groups(self) -> list[Alike]:
        nodes = self._question.state.nodes
        found: dict[Reason, list[tuple[float, int, dict[str, int]]]] = {}
        for number in self._numbers:
            known = self._known.get(number)
            reason, missing = reason_of(known) if known is not None else self._explain.reason(number)
            distance = known.distance if known is not None else self._explain.nearness(number)
            found.setdefault(reason, []).append((distance, number, missing))
        groups = [sorted(members, key=lambda one: one[:2]) for members in found.values()]
        return [
            Alike(self._of(members[0][1]), [nodes[number].name for _, number, _ in members], ranges_of(members))
            for members in sorted(groups, key=lambda members: members[0][:2])
        ]


class _Singles:
    def __init__(self, question: Question, group: int, chosen: tuple[int, ...]) -> None:
        self.question = question
        self.chosen = chosen
        self._group = group

    def to_be_tried(self, numbers: Sequence[int]) -> list[int]:
        """The nodes for which arithmetic does not tell everything, as far as they will be tried."""
        question = self.question
        unsure = [n for n in numbers if not question.exact(question.group_of[n])]
        return sorted(unsure, key=self.nearness)[: question.trials.most]

    def nearness(self, number: int) -> float:
        """How much change the node takes, as far as arithmetic tells."""
        return self.question.tallies.of(number, PRIMARY).alone

    def refusal(self, number: int) -> NodeRefusal:
        name = self.question.state.nodes[number].name
        judgement = self.question.trials.judgement((number,), self.question.alone(number))
        if judgement.lacks and judgement.lacks[0].constraint != REDUNDANCY:
            return refusal_by(name, judgement, sentence_of(judgement.lacks, name))
        return self.fitting(number, judgement)

    def fitting(self, number: int, judgement: Judgement) -> NodeRefusal:
        """For a node that is all right by itself and was not taken all the same."""
        question = self.question
        name, own = question.state.nodes[number].name, question.group_at(number)
        if judgement.lacks:
            return refusal_by(name, judgement, f"fits, but then {judgement.lacks[0].sentence}")
        if not self.chosen:
            return NodeRefusal(name, FailMode.FailN1, NOT_ABSORBED)
        if question.group_of[number] != self._group != NOWHERE:
            better = question.state.groups[self._group].name
            return NodeRefusal(name, None, f"fits, but is in group {own.name}, and group {better} was the better one")
        return NodeRefusal(name, None, NOT_BETTER)

    def reason(self, number: int) -> tuple[Reason, dict[str, int]]:
        """What `reason_of` says of the refusal, without its words; and how much is missing."""
        tally = self._tally(number)
        if tally.distance == 0:
            return reason_of(self.fitting(number, Judgement()))
        return self._kinds(number, tally)

    def _tally(self, number: int) -> Tally:
        return self.question.tallies.of(number, PRIMARY)

    def _kinds(self, number: int, tally: Tally) -> tuple[Reason, dict[str, int]]:
        question = self.question
        known = question.known(number) and (tally.partner == NOWHERE or question.known(tally.partner))
        kinds = [kind_of(lack) for lack, _ in question.fixed(number)]
        if known:
            kinds += [kind_of(lack) for lack in question.policy(self._policy_node(number, tally))[0][0]]
            kinds += constraints_of(tally.exceeded)
        if not kinds and tally.partner != NOWHERE:
            kinds = [of_partner(kind_of(lack)) for lack, _ in question.fixed(tally.partner)]
            kinds += map(of_partner, constraints_of(tally.other_exceeded) if known else ())
        return frozenset(kinds), {name: amount for name, amount in tally.missing() if name in RESOURCES and known}

    def _policy_node(self, number: int, tally: Tally) -> int:
        return number


class _Pairs(_Singles):
    def __init__(self, question: Question, group: int, chosen: tuple[int, ...]) -> None:
        super().__init__(question, group, chosen)
        self._tallies = question.tallied(chosen[0]) if chosen else question.tallies

    def nearness(self, number: int) -> float:
        tallies = [self._tallies.of(number, role) for role in ROLES]
        return min(tally.distance if tally.partner != NOWHERE else math.inf for tally in tallies)

    def reason(self, number: int) -> tuple[Reason, dict[str, int]]:
        tally = self._tally(number)
        if tally.partner != NOWHERE:
            return super().reason(number)
        kinds, missing = self._kinds(number, tally)
        return kinds | {no_partner(self.question, number)}, missing

    def refusal(self, number: int) -> NodeRefusal:
        pairs = [best_pair(self.question, self._tallies.of(number, role), number, role) for role in ROLES]
        for pair in pairs:
            if not pair.judgement.lacks:
                return self.fitting(number, self._tried(pair).judgement)
        return self._of_roles(number, *(self._tried(pair) for pair in pairs))

    def _tally(self, number: int) -> Tally:
        as_primary, as_secondary = (self._tallies.of(number, role) for role in ROLES)
        return as_secondary if as_secondary.distance < as_primary.distance - _NOTHING else as_primary

    def _policy_node(self, number: int, tally: Tally) -> int:
        """The policy is asked about the primary."""
        return number if tally.role == PRIMARY or tally.partner == NOWHERE else tally.partner

    def _tried(self, pair: Pair) -> Pair:
        if len(pair.nodes) < 2:
            return pair
        return Pair(pair.nodes, self.question.trials.judgement(pair.nodes, pair.judgement))

    def _of_roles(self, number: int, as_primary: Pair, as_secondary: Pair) -> NodeRefusal:
        nodes = self.question.state.nodes
        name = nodes[number].name
        better, role = as_primary, PRIMARY
        if as_secondary.distance < as_primary.distance - _NOTHING:
            better, role = as_secondary, SECONDARY
        other = better.partner(number)
        partner = nodes[other].name if other is not None else ""
        prefix = f"as {role} " + (f"of {partner}, " if role == SECONDARY else f"with {partner}, ") if partner else ""
        sentence = _sentence_of_roles(name, as_primary.judgement.lacks, as_secondary.judgement.lacks)
        found = refusal_by(name, better.judgement, sentence, prefix)
        return replace(found, mode=as_primary.judgement.lacks[0].mode, role=role, partner=partner)


def _sentence_of_roles(name: str, as_primary: Sequence[Lack], as_secondary: Sequence[Lack]) -> str:
    """What holds in either role once, then what holds in one."""
    common = [lack for lack in as_primary if not lack.node or lack.constraint == AVAILABILITY]
    shown = [sentence_of(common, name)] if common else []
    told = {REDUNDANCY_NOW} if common else set()
    first, second = (
        sentence_of([lack for lack in lacks if lack not in common and lack.constraint not in told], name)
        for lacks in (as_primary, as_secondary)
    )
    if first == second:
        return "; ".join([*shown, *([first] if first else [])])
    roles = [f"as primary {first}" if first else "", f"as secondary {second}" if second else ""]
    return "; ".join([*shown, *(text for text in roles if text)])


def refusal_by(name: str, judgement: Judgement, sentence: str, prefix: str = "") -> NodeRefusal:
    """A refusal with its remedy; *prefix* is put before the words of the change."""
    ways = judgement.ways
    change = f"{prefix}{ways_words(ways, name)}" if ways else ""
    return NodeRefusal(name, judgement.lacks[0].mode, sentence, change, judgement.lacks, ways, judgement.distance)


def sentence_of(lacks: Sequence[Lack], name: str) -> str:
    """All lacks as one sentence about node *name*; those of a partner speak only where the node has none."""
    present = list(dict.fromkeys(lack.sentence for lack in lacks if lack.constraint == REDUNDANCY_NOW))
    others = [lack for lack in lacks if lack.constraint != REDUNDANCY_NOW]
    own = [lack for lack in others if lack.node in ("", name)]
    texts = [lack.sentence for lack in own]
    if not own:
        texts = [_of_partner(lack) for lack in others]
    if present and not texts:
        texts.append(present[0] + (f" (and {len(present) - 1} more failures)" if len(present) > 1 else ""))
    return "; ".join(dict.fromkeys(texts))


def _of_partner(lack: Lack) -> str:
    return lack.sentence if lack.constraint == REDUNDANCY else f"its partner {lack.node} {lack.sentence}"


# one new node for an instance that exists


def explain_targets(
    state: ClusterState, number: int, failures: Mapping[int, int], chosen: int | None, role: str
) -> tuple[NodeRefusal, ...]:
    """The same for instance *number*, which gets one new node, its *role* being primary or secondary.

    *failures* has the failure mode of each node that was tried, 0 for those that would do. Only what is free on the
    nodes may change: the instance is as it is.
    """
    targets = _Targets(state, number, failures, role)
    return tuple(targets.refusal(other) for other in range(len(state.nodes)) if other != chosen)


class _Targets:
    def __init__(self, state: ClusterState, number: int, failures: Mapping[int, int], role: str) -> None:
        self._state = state
        self._failures = failures
        self._role = role
        self._instance = state.instances[number]
        self._nodes = (state.primary_of[number], state.secondary_of[number])
        holder = self._nodes[0] if role == PRIMARY else self._nodes[1]
        dead = holder != NOWHERE and bool(state.nodes[holder].unavailable)
        options = Options(ignore_soft_errors=dead, capacity_checks=False)
        self._question = Question(state, Allocate(self._instance), options)
        self._question.forced_secondary = dead

    def refusal(self, other: int) -> NodeRefusal:
        question, name = self._question, self._state.nodes[other].name
        if other in self._nodes:
            return NodeRefusal(name, None, f"is already the {PRIMARY if other == self._nodes[0] else SECONDARY}")
        if question.group_of[other] != question.group_of[self._nodes[0]]:
            return NodeRefusal(name, None, f"is in another group than {self._instance.name}")
        if not question.known(other):
            return NodeRefusal(name, None, f"is {self._state.nodes[other].unavailable}")
        if self._failures.get(other) == 0:
            return NodeRefusal(name, None, NOT_BETTER)
        fixed = [pair for pair in question.fixed(other) if pair[0].constraint == AVAILABILITY]
        spot = question.spot(other, self._role, self._nodes[0])
        judgement = judge(self._instance, [spot], ANYTHING, [*fixed, *self._migration(other)])
        if not judgement.lacks:
            return NodeRefusal(name, None, NOT_BETTER)
        ways = tuple(way for way in judgement.ways if all(change.subject != INSTANCE for change in way))
        return refusal_by(name, Judgement(judgement.lacks, ways), sentence_of(judgement.lacks, name))

    def _migration(self, other: int) -> Iterator[tuple[Lack, Change | None]]:
        if self._failures.get(other) != FailMode.FailMig:
            return
        words = "the migration tags of the nodes forbid the move"
        source, target = self._state.nodes[self._nodes[0]], self._state.nodes[other]
        rules = self._question.room(other).rules
        missing = sorted(rules.migration_of(source.tags) - rules.receivable(rules.migration_of(target.tags)))
        change = Change(NODE, MIGRATION_TAG, target.name, 0, ", ".join(missing), 1.0)
        yield Lack(MIGRATION_TAG, words, FailMode.FailMig, ", ".join(missing), ", ".join(target.tags)), change

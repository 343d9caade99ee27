# SPDX-License-Identifier: BSD-2-Clause
"""Moving many instances away, one after the other, each on the result of the last (spec: htools, 10)."""

from collections.abc import Iterable
from dataclasses import dataclass

from ganeti.placement import jobs
from ganeti.placement.failure import FailMode
from ganeti.placement.jobs import Opcode
from ganeti.placement.moves import Hop, any_targets, failover, online_targets, secondary_targets
from ganeti.placement.numpy_state import NOWHERE, ClusterState, Ints
from ganeti.placement.request import EvacuationMode, Moves, MultiEvacuate, NodeEvacuate, NoFit, Options, RequestError
from ganeti.placement.templates import TemplateTraits, traits_of


class Stuck(Exception):
    """An instance cannot be moved; the message says why."""


@dataclass(frozen=True)
class Moved:
    state: ClusterState
    opcodes: tuple[Opcode, ...]


def find_instances(state: ClusterState, names: Iterable[str]) -> list[int]:
    """Numbers of the instances *names*; raises `RequestError` for an unknown one."""
    numbers = []
    known = {instance.name: number for number, instance in enumerate(state.instances)}
    for name in names:
        if name not in known:
            raise RequestError(f"Wrong number of elems found with name {name}")
        numbers.append(known[name])
    return numbers


def node_evacuate(state: ClusterState, request: NodeEvacuate, options: Options) -> Moves:
    """Move the named instances off their primary, their secondary, or both."""
    numbers = find_instances(state, request.instances)
    leaving = _leaving(state, numbers, request.mode)
    report = Report()
    for number in numbers:
        group = int(state.group_of[state.primary_of[number]])
        targets = [node for node in online_targets(state, group) if node not in leaving]
        try:
            moved = move_instance(state, number, targets, state.group_members(group), request.mode, options)
        except Stuck as reason:
            report.failed.append((state.instances[number].name, str(reason)))
            continue
        state = moved.state
        report.add(state, number, moved.opcodes)
    return report.moves()


def multi_evacuate(state: ClusterState, request: MultiEvacuate, options: Options) -> Moves | NoFit:
    """The mode of version 1: a new secondary for every instance that has its secondary on one of the nodes (S5.36)."""
    for name in request.nodes:
        if name not in state.node_number:
            raise RequestError(f"Wrong number of elems found with name {name}")
    leaving = {state.node_number[name] for name in request.nodes}
    names = [i.name for number, i in enumerate(state.instances) if state.secondary_of[number] in leaving]
    moves = node_evacuate(state, NodeEvacuate(tuple(names), EvacuationMode.SECONDARY_ONLY), options)
    if moves.failed:
        return NoFit(", ".join(f"{name}: {reason}" for name, reason in moves.failed))
    return moves


def _leaving(state: ClusterState, numbers: list[int], mode: EvacuationMode) -> set[int]:
    leaving: set[int] = set()
    if mode != EvacuationMode.SECONDARY_ONLY:
        leaving |= {state.primary_of[number] for number in numbers}
    if mode != EvacuationMode.PRIMARY_ONLY:
        leaving |= {state.secondary_of[number] for number in numbers}
    return leaving - {NOWHERE}


class Report:
    """Collects what happened to each instance."""

    def __init__(self) -> None:
        self.moved: list[tuple[str, str, tuple[str, ...]]] = []
        self.failed: list[tuple[str, str]] = []
        self.jobs: list[tuple[Opcode, ...]] = []

    def add(self, state: ClusterState, number: int, opcodes: tuple[Opcode, ...]) -> None:
        nodes = tuple(
            state.nodes[node].name for node in (state.primary_of[number], state.secondary_of[number]) if node != NOWHERE
        )
        self.moved.append((state.instances[number].name, state.group_of_instance(number).name, nodes))
        self.jobs.append(opcodes)

    def moves(self) -> Moves:
        info = f"{len(self.failed)} instances failed to move and {len(self.moved)} were moved successfully"
        return Moves(tuple(self.moved), tuple(self.failed), tuple(self.jobs), info)


def move_instance(
    state: ClusterState, number: int, targets: list[int], members: Ints, mode: EvacuationMode, options: Options
) -> Moved:
    """Move one instance to *targets*, judged by the score of *members*; raises `Stuck`."""
    template = state.instances[number].template
    traits = require_movable(state, number)
    forced = options.ignore_soft_errors
    if not traits.has_secondary:
        if mode == EvacuationMode.SECONDARY_ONLY:
            raise Stuck(f"Instances with disk template '{template}' can't execute change secondary")
        return _to_any(state, number, targets, members, forced)
    if mode == EvacuationMode.PRIMARY_ONLY:
        return _failed_over(state, number, forced)
    if mode == EvacuationMode.SECONDARY_ONLY:
        return _new_secondary(state, number, targets, members, forced)
    return _both_replaced(state, number, targets, members, forced)


def require_movable(state: ClusterState, number: int) -> TemplateTraits:
    """Traits of an instance's template; raises `Stuck` for one that only exists on its node."""
    template = state.instances[number].template
    traits = traits_of(template)
    if traits is None or not (traits.movable or traits.evacuable):
        raise Stuck(f"Instances of type {template} cannot be relocated")
    return traits


def _best(hop: Hop, members: Ints) -> int:
    best = hop.best(members)
    if best is None:
        raise Stuck(hop.describe_failures())
    return best[1]


def _to_any(state: ClusterState, number: int, targets: list[int], members: Ints, forced: bool) -> Moved:
    hop = any_targets(state, number, targets, forced=forced)
    target = _best(hop, members)
    return Moved(hop.state_on(target), (jobs.move(state.instances[number], state.nodes[target].name),))


def _failed_over(state: ClusterState, number: int, forced: bool) -> Moved:
    after = failover(state, number, forced=forced)
    if isinstance(after, ClusterState):
        return Moved(after, (jobs.move(state.instances[number]),))
    raise Stuck(after.name)


def _new_secondary(state: ClusterState, number: int, targets: list[int], members: Ints, forced: bool) -> Moved:
    hop = secondary_targets(state, number, targets, forced=forced)
    target = _best(hop, members)
    return Moved(hop.state_on(target), (jobs.replace_secondary(state.instances[number], state.nodes[target].name),))


def _both_replaced(state: ClusterState, number: int, targets: list[int], members: Ints, forced: bool) -> Moved:
    """``[f if the primary is offline,] r:t1, f, r:t2`` with the best ordered pair of targets."""
    return _BothReplaced(state, number, targets, members, forced).moved()


class _BothReplaced:
    """Tries every ordered pair of targets; of equal scores the later pair wins, of failures the last one speaks."""

    def __init__(self, state: ClusterState, number: int, targets: list[int], members: Ints, forced: bool) -> None:
        self._state = state
        self._number = number
        self._targets = targets
        self._members = members
        self._forced = forced
        self._failure = "no nodes available"
        self._best: tuple[float, int, int, Hop] | None = None

    def moved(self) -> Moved:
        state, number, instance = self._state, self._number, self._state.instances[self._number]
        steps: list[Opcode] = []
        start: ClusterState | FailMode = state
        if not state.online[state.primary_of[number]]:
            start = failover(state, number, forced=self._forced)
            steps.append(jobs.move(instance))
        if isinstance(start, ClusterState):
            self._search(start)
        elif len(self._targets) > 1:
            self._fail("Failing over to the secondary", start)
        if self._best is None:
            raise Stuck(f"Can't find any good nodes for relocation: {self._failure}")
        _, one, two, hop = self._best
        steps.append(jobs.replace_secondary(instance, state.nodes[one].name))
        steps.append(jobs.move(instance))
        steps.append(jobs.replace_secondary(instance, state.nodes[two].name))
        return Moved(hop.state_on(two), tuple(steps))

    def _search(self, start: ClusterState) -> None:
        to_first = secondary_targets(start, self._number, self._targets, forced=self._forced)
        for one, failure in to_first.failures.items():
            others = [target for target in self._targets if target != one]
            if others and failure:
                self._fail("Changing secondary to new primary", FailMode(failure))
            elif others:
                self._turn(to_first.state_on(one), one, others)

    def _turn(self, state: ClusterState, one: int, others: list[int]) -> None:
        turned = failover(state, self._number, forced=self._forced)
        if not isinstance(turned, ClusterState):
            self._fail("Failing over to new primary", turned)
            return
        hop = secondary_targets(turned, self._number, others, forced=self._forced)
        found = hop.best(self._members)
        last = list(hop.failures.values())[-1]
        if last:
            self._fail("Changing secondary to final secondary", FailMode(last))
        if found is not None and (self._best is None or found[0] <= self._best[0]):
            self._best = (found[0], one, found[1], hop)

    def _fail(self, step: str, mode: FailMode) -> None:
        self._failure = f"Allocation failed: {step}: {mode.name}"

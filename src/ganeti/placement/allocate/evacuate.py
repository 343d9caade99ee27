# SPDX-License-Identifier: BSD-2-Clause
"""Moving many instances away, one after the other, each on the result of the last (spec: htools, 10)."""

from collections.abc import Iterable, Sequence

from ganeti.model.templates import traits_of
from ganeti.model.traits import TemplateTraits
from ganeti.placement.allocate import moves
from ganeti.placement.allocate.moves import Opcode, describe_failures, online_targets
from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.kernel.searches import best_exchange, best_target, refuse_failover
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.known_names import unknown_element
from ganeti.placement.request.terms import EvacuationMode, Moves, MultiEvacuate, NodeEvacuate, NoFit, Options

_FAILED_STEPS = (
    "",
    "Failing over to the secondary",
    "Changing secondary to new primary",
    "Failing over to new primary",
    "Changing secondary to final secondary",
)


class Stuck(Exception):
    """An instance cannot be moved; the message says why."""


def find_instances(state: ClusterState, names: Iterable[str]) -> list[int]:
    """Numbers of the instances *names*; raises `RequestError` for an unknown one."""
    numbers = []
    known = {instance.name: number for number, instance in enumerate(state.instances)}
    for name in names:
        if name not in known:
            raise unknown_element(name)
        numbers.append(known[name])
    return numbers


def node_evacuate(
    state: ClusterState, request: NodeEvacuate, options: Options, also_leaving: Iterable[int] = ()
) -> Moves:
    """Move the named instances off their primary, their secondary, or both; none goes to nodes *also_leaving*."""
    numbers = find_instances(state, request.instances)
    leaving = _leaving(state, numbers, request.mode).union(also_leaving)
    report = Report()
    for number in numbers:
        group = state.group_of[state.primary_of[number]]
        targets = [node for node in online_targets(state, group) if node not in leaving]
        try:
            opcodes = move_instance(state, number, targets, state.group_members(group), request.mode, options)
        except Stuck as reason:
            report.failed.append((state.instances[number].name, str(reason)))
            continue
        report.add(state, number, opcodes)
    return report.moves()


def multi_evacuate(state: ClusterState, request: MultiEvacuate, options: Options) -> Moves | NoFit:
    """The mode of version 1: a new secondary for every instance that has its secondary on one of the nodes (S5.36)."""
    for name in request.nodes:
        if name not in state.node_number:
            raise unknown_element(name)
    leaving = {state.node_number[name] for name in request.nodes}
    staying = [number for number, node in enumerate(state.secondary_of) if node in leaving]
    names = [state.instances[number].name for number in state.in_order(staying)]
    moves = node_evacuate(state, NodeEvacuate(tuple(names), EvacuationMode.SECONDARY_ONLY), options, leaving)
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
    state: ClusterState,
    number: int,
    targets: Sequence[int],
    members: Sequence[int],
    mode: EvacuationMode,
    options: Options,
) -> tuple[Opcode, ...]:
    """Move one instance to *targets*, judged by the score of *members*; raises `Stuck`, and then nothing has moved."""
    instance = state.instances[number]
    traits = require_movable(state, number)
    forced = options.ignore_soft_errors
    if not traits.has_secondary:
        if mode == EvacuationMode.SECONDARY_ONLY:
            raise Stuck(f"Instances with disk template '{instance.template}' can't execute change secondary")
        target = _best(state, number, "primary", targets, members, forced)
        state.move(number, target)
        return (moves.move(instance, state.nodes[target].name),)
    if mode == EvacuationMode.PRIMARY_ONLY:
        return _failed_over(state, number, forced)
    if mode == EvacuationMode.SECONDARY_ONLY:
        target = _best(state, number, "secondary", targets, members, forced)
        state.move(number, state.primary_of[number], target)
        return (moves.replace_secondary(instance, state.nodes[target].name),)
    return _both_replaced(state, number, targets, members, forced)


def require_movable(state: ClusterState, number: int) -> TemplateTraits:
    """Traits of an instance's template; raises `Stuck` for one that only exists on its node."""
    template = state.instances[number].template
    traits = traits_of(template)
    if traits is None or not (traits.movable or traits.evacuable):
        raise Stuck(f"Instances of type {template} cannot be relocated")
    return traits


def _best(
    state: ClusterState, number: int, role: str, targets: Sequence[int], members: Sequence[int], forced: bool
) -> int:
    hop = best_target(state, number, role, targets, members, forced=forced)
    if hop.target == NOWHERE:
        raise Stuck(describe_failures(state, hop))
    return hop.target


def _failed_over(state: ClusterState, number: int, forced: bool) -> tuple[Opcode, ...]:
    failure = refuse_failover(state, number, forced=forced)
    if failure:
        raise Stuck(FailMode(failure).name)
    state.move(number, state.secondary_of[number], state.primary_of[number])
    return (moves.move(state.instances[number]),)


def _both_replaced(
    state: ClusterState, number: int, targets: Sequence[int], members: Sequence[int], forced: bool
) -> tuple[Opcode, ...]:
    """``[f if the primary is offline,] r:t1, f, r:t2`` with the best ordered pair of targets.

    Of equal scores the later pair wins, of failures the last one speaks.
    """
    instance = state.instances[number]
    found = best_exchange(state, number, targets, members, forced=forced)
    if found.primary == NOWHERE:
        reason = "no nodes available"
        if found.failure:
            reason = f"Allocation failed: {_FAILED_STEPS[found.failed_step]}: {FailMode(found.failure).name}"
        raise Stuck(f"Can't find any good nodes for relocation: {reason}")
    leave = () if state.online[state.primary_of[number]] else (moves.move(instance),)
    state.move(number, found.primary, found.secondary)
    return (
        *leave,
        moves.replace_secondary(instance, state.nodes[found.primary].name),
        moves.move(instance),
        moves.replace_secondary(instance, state.nodes[found.secondary].name),
    )

# SPDX-License-Identifier: BSD-2-Clause
"""Moving many instances away, one after the other, each on the result of the last (spec: htools, 10)."""

from collections.abc import Iterable
from dataclasses import dataclass

from ganeti.placement import jobs
from ganeti.placement.jobs import Opcode
from ganeti.placement.moves import Hop, any_targets, failover, online_targets, secondary_targets
from ganeti.placement.request import EvacuationMode, Moves, NodeEvacuate, Options, RequestError
from ganeti.placement.state import NOWHERE, ClusterState, Ints
from ganeti.placement.templates import traits_of


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
    traits = traits_of(template)
    forced = options.ignore_soft_errors
    if traits is None or not (traits.movable or traits.evacuable):
        raise Stuck(f"Instances of type {template} cannot be relocated")
    if not traits.has_secondary:
        if mode == EvacuationMode.SECONDARY_ONLY:
            raise Stuck(f"Instances with disk template '{template}' can't execute change secondary")
        return _to_any(state, number, targets, members, forced)
    if mode == EvacuationMode.PRIMARY_ONLY:
        return _failed_over(state, number, forced)
    if mode == EvacuationMode.SECONDARY_ONLY:
        return _new_secondary(state, number, targets, members, forced)
    return _both_replaced(state, number, targets, members, forced)


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
    instance = state.instances[number]
    steps: list[Opcode] = []
    if not state.online[state.primary_of[number]]:
        first = _failed_over(state, number, forced)
        state, steps = first.state, list(first.opcodes)
    best: tuple[float, int, int, Hop] | None = None
    to_first = secondary_targets(state, number, targets, forced=forced)
    for one in to_first.targets.tolist():
        turned = failover(to_first.state_on(one), number, forced=forced)
        if not isinstance(turned, ClusterState):
            continue
        to_second = secondary_targets(turned, number, [t for t in targets if t != one], forced=forced)
        found = to_second.best(members)
        if found is not None and (best is None or found[0] <= best[0]):
            best = (found[0], one, found[1], to_second)
    if best is None:
        raise Stuck("Can't find any good nodes for relocation: no nodes available")
    _, one, two, hop = best
    steps += [
        jobs.replace_secondary(instance, state.nodes[one].name),
        jobs.move(instance),
        jobs.replace_secondary(instance, state.nodes[two].name),
    ]
    return Moved(hop.state_on(two), tuple(steps))

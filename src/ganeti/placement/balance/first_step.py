# SPDX-License-Identifier: BSD-2-Clause
"""The first moves of a plan that makes a cluster more even, where the whole plan gains enough (S4.36, S4.40)."""

from dataclasses import replace

from ganeti.model.placement_requests import NodeRoom
from ganeti.placement.allocate import moves
from ganeti.placement.allocate.moves import Opcode
from ganeti.placement.balance.steadiness import unevenness
from ganeti.placement.balance.steps import BalanceOptions, Step, balance, job_sets
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import BalanceStep, NodeRooms, Options

_MOST_STEPS = 100
"""Only the first jobs are wanted: the rest of a plan is made anew in the next round."""


def balance_step(state: ClusterState, request: BalanceStep, options: Options) -> NodeRooms:
    """For each group with a plan that lowers its score by enough, the jobs of the plan's first set."""
    found = []
    for group in range(len(state.groups)):
        members = [node for node in state.group_members(group) if state.name_of(node) not in request.without]
        if request.load is not None and _is_even(state, members, request.load_threshold):
            continue
        steps, gain = _plan(state, members, request, options)
        if steps and gain >= request.least_gain:
            jobs = [(state.instances[step.instance].name, opcodes(state, step)) for step in job_sets(steps)[0]]
            found.append(NodeRoom(state.groups[group].name, jobs))
    return NodeRooms(found)


def _plan(state: ClusterState, members: list[int], request: BalanceStep, options: Options) -> tuple[list[Step], float]:
    inside = set(members)
    movable = [
        primary in inside and (secondary == NOWHERE or secondary in inside) and instance.name not in request.stay
        for primary, secondary, instance in zip(state.primary_of, state.secondary_of, state.instances, strict=True)
    ]
    chosen = replace(BalanceOptions(), disk_moves=request.disk_moves, max_length=_MOST_STEPS)
    chosen = replace(chosen, ignore_soft_errors=options.ignore_soft_errors)
    if len(members) < 2 or not any(movable):
        return [], 0.0
    before, mark = state.score(members), state.mark()
    try:
        steps = list(balance(state, members, movable, chosen))
        return steps, before - steps[-1].score if steps else 0.0
    finally:
        state.rollback(mark)


def _is_even(state: ClusterState, members: list[int], threshold: float) -> bool:
    """Whether what instances were measured to do is too even for a move."""
    loads = dict.fromkeys(members, 0.0)
    for primary, instance in zip(state.primary_of, state.instances, strict=True):
        if primary in loads:
            loads[primary] += instance.load[0]
    found = unevenness(replace(state.nodes[number], cpu_load=load) for number, load in loads.items())
    return found is None or found.above_mean < threshold


def opcodes(state: ClusterState, step: Step) -> list[Opcode]:
    """What carries out a step."""
    instance = state.instances[step.instance]
    target = state.name_of(step.target) if step.target != NOWHERE else ""
    found = []
    for letter in step.kind:
        match letter:
            case "f":
                move = moves.move(instance, target if step.kind == "fa" else "")
                found.append(moves.unasked(move, instance))
            case "r":
                found.append(moves.replace_secondary(instance, target))
    return found

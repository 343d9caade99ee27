# SPDX-License-Identifier: BSD-2-Clause
"""A new node for one instance: relocate, and the secondary of one that has none (spec: htools, 10; S5.35, X10)."""

from dataclasses import replace

from ganeti.model.templates import traits_of
from ganeti.placement.allocate.moves import describe_failures, online_targets
from ganeti.placement.allocate.new_instance import place_instance
from ganeti.placement.kernel.searches import Hop, best_target
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.known_names import unknown_element, unknown_instance
from ganeti.placement.request.terms import AllocateSecondary, NodeRefusal, NoFit, Options, Placement, Relocate


def instance_named(state: ClusterState, name: str) -> int:
    """Number of the instance *name*; raises `RequestError` with the words of 3.1."""
    number = state.instance_number(name)
    if number is None:
        raise unknown_instance(name)
    return number


def node_named(state: ClusterState, name: str) -> int:
    if name not in state.node_number:
        raise unknown_element(name)
    return state.node_number[name]


def relocate(state: ClusterState, request: Relocate, options: Options) -> Placement | NoFit:
    """Find the one node that replaces the secondary, or on shared storage the primary."""
    number = instance_named(state, request.name)
    leaving = [node_named(state, name) for name in request.relocate_from]
    if request.required_nodes != 1:
        return NoFit(f"Exchange {request.required_nodes} nodes mode is not implemented")
    traits = traits_of(state.instances[number].template)
    if traits is None or not (traits.movable or traits.evacuable):
        return NoFit("Can't relocate non-mirrored instances")
    role, holder = "secondary", state.secondary_of[number]
    if not traits.has_secondary:
        role, holder = "primary", state.primary_of[number]
    if leaving != [holder]:
        shown = ",".join(str(node) for node in leaving)
        return NoFit(f"Unsupported request: excluded nodes not equal to instance's {role}({holder} versus [{shown}])")
    group = state.group_of[state.primary_of[number]]
    targets = [node for node in online_targets(state, group) if node not in leaving]
    members = state.group_members(group)
    hop = best_target(state, number, role, targets, members, forced=options.ignore_soft_errors)
    if hop.target == NOWHERE:
        reasons = _reasons(state, number, hop, role) if options.why_not else ()
        return NoFit(describe_failures(state, hop), reasons)
    reasons = _reasons(state, number, hop, role) if options.why else ()
    return Placement((state.name_of(hop.target),), "success", state.groups[group].name, reasons)


def _reasons(state: ClusterState, number: int, hop: Hop, role: str) -> tuple[NodeRefusal, ...]:
    from ganeti.placement.why.explain import explain_targets  # many only want the node

    chosen = None if hop.target == NOWHERE else hop.target
    return explain_targets(state, number, hop.failures, chosen, role)


def allocate_secondary(state: ClusterState, request: AllocateSecondary, options: Options) -> Placement | NoFit:
    """Find the best secondary, in the group of the primary, for an instance that has none."""
    number = instance_named(state, request.name)
    if state.secondary_of[number] != NOWHERE:
        return NoFit("Instance already has a secondary")
    primary = state.primary_of[number]
    group = state.group_of[primary]
    mark = state.mark()
    try:
        state.move(number, NOWHERE)
        solution = place_instance(
            state,
            replace(state.instances[number], template=request.template),
            2,
            [node for node in state.group_members(group) if node != primary],
            state.everyone(),
            options,
            primary=primary,
        )
    finally:
        state.rollback(mark)
    if not solution.nodes:
        return NoFit(solution.describe(state))
    return Placement((state.nodes[solution.nodes[1]].name,), solution.describe(state), state.groups[group].name)

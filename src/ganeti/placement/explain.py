# SPDX-License-Identifier: BSD-2-Clause
"""Why a node was not chosen: the first constraint that excludes it, as a sentence with its numbers."""

from collections.abc import Iterator

from ganeti.placement import checks
from ganeti.placement.cluster import AllocPolicy, Instance
from ganeti.placement.failure import FailMode, Refusal
from ganeti.placement.numpy_state import NOWHERE, ClusterState
from ganeti.placement.policy import refusal_by_policy
from ganeti.placement.request import Allocate, NodeRefusal, Options

NOT_BETTER = "fits, but the cluster is better balanced without it"


def explain_allocation(
    state: ClusterState, request: Allocate, options: Options, group: int, chosen: tuple[int, ...]
) -> tuple[NodeRefusal, ...]:
    """A refusal for each node but the *chosen*; *group* is the group asked for or found, NOWHERE for none."""
    return tuple(_allocation_refusals(state, request, options, group, chosen))


def _allocation_refusals(
    state: ClusterState, request: Allocate, options: Options, group: int, chosen: tuple[int, ...]
) -> Iterator[NodeRefusal]:
    restrict = request.restrict_to if options.restrict_to is None else options.restrict_to
    for number, node in enumerate(state.nodes):
        if number in chosen:
            continue
        outside = _outside(state, request, number, group, bool(chosen))
        if node.unavailable:
            yield NodeRefusal(node.name, None, f"is {node.unavailable}")
        elif outside:
            yield NodeRefusal(node.name, None, outside)
        elif restrict is not None and node.name not in restrict:
            yield NodeRefusal(node.name, None, "is not among the nodes the request is restricted to")
        else:
            yield _by_checks(state, request, options, number, chosen)


def _outside(state: ClusterState, request: Allocate, number: int, group: int, found: bool) -> str:
    own = int(state.group_of[number])
    described = state.groups[own]
    missing = [network for network in request.instance.networks if network not in described.networks]
    if group not in (NOWHERE, own) and request.group:
        return f"is in group {described.name}, asked for was {state.groups[group].name}"
    if missing:
        return f"its group {described.name} is not connected to network {missing[0]}"
    if described.alloc_policy == AllocPolicy.UNALLOCABLE and not request.group:
        return f"its group {described.name} is unallocable"
    if found and own != group:
        return f"is in group {described.name}, group {state.groups[group].name} was the better one"
    return ""


def _by_checks(
    state: ClusterState, request: Allocate, options: Options, number: int, chosen: tuple[int, ...]
) -> NodeRefusal:
    name, instance = state.nodes[number].name, request.instance
    refusal = first_refusal(state, instance, number, forced=options.ignore_soft_errors)
    if request.required_nodes == 2:
        partner = _secondary_refusal(state, request, number, chosen)
        if refusal is None and partner is None and not chosen:
            return NodeRefusal(name, None, "fits, but no pair of nodes does")
        if refusal is not None and partner is not None:
            words = f"as primary {refusal.sentence}; as secondary {partner.sentence}"
            return NodeRefusal(name, refusal.mode, words)
        refusal = None
    if refusal is not None:
        return NodeRefusal(name, refusal.mode, refusal.sentence)
    if chosen:
        return NodeRefusal(name, None, NOT_BETTER)
    words = "fits, but then the failure of one node could not be absorbed by the others"
    return NodeRefusal(name, FailMode.FailN1, words)


def first_refusal(state: ClusterState, instance: Instance, number: int, *, forced: bool = False) -> Refusal | None:
    """What the policy or the checks of a primary have against *instance* on a node."""
    node = state.nodes[number]
    policy = state.groups[int(state.group_of[number])].policy
    by_policy = refusal_by_policy(policy, instance, node.exclusive_storage)
    return by_policy or checks.refuse_primary(state.view(number), instance, forced=forced)


def _secondary_refusal(state: ClusterState, request: Allocate, number: int, chosen: tuple[int, ...]) -> Refusal | None:
    """Against the chosen primary, or against none in particular."""
    primary = chosen[0] if chosen else NOWHERE
    return checks.refuse_secondary(state.view(number), request.instance, primary)


def explain_targets(
    state: ClusterState, number: int, failures: dict[int, int], chosen: int | None, role: str
) -> tuple[NodeRefusal, ...]:
    """The same for an instance that gets one new node, its *role* being primary or secondary."""
    return tuple(_target_refusals(state, number, failures, chosen, role))


def _target_refusals(
    state: ClusterState, number: int, failures: dict[int, int], chosen: int | None, role: str
) -> Iterator[NodeRefusal]:
    instance = state.instances[number]
    primary, secondary = state.primary_of[number], state.secondary_of[number]
    bare = state.moved(number, NOWHERE)
    for other, node in enumerate(state.nodes):
        if other == chosen:
            continue
        if other in (primary, secondary):
            yield NodeRefusal(node.name, None, f"is already the {'primary' if other == primary else 'secondary'}")
        elif node.unavailable:
            yield NodeRefusal(node.name, None, f"is {node.unavailable}")
        elif state.group_of[other] != state.group_of[primary]:
            yield NodeRefusal(node.name, None, f"is in another group than {instance.name}")
        elif not failures.get(other):
            yield NodeRefusal(node.name, None, NOT_BETTER)
        else:
            mode = FailMode(failures[other])
            view = bare.view(other)
            if role == "primary":
                refusal = checks.refuse_primary(view, instance)
            else:
                refusal = checks.refuse_secondary(view, instance, primary)
            words = refusal.sentence if refusal else "the migration tags of the nodes forbid the move"
            yield NodeRefusal(node.name, mode, words)

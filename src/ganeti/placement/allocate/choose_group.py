# SPDX-License-Identifier: BSD-2-Clause
"""Which group a new instance goes to, and the sentences about it (S1.19-S1.26; spec: htools, 8)."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ganeti.placement.allocate import dedicated
from ganeti.placement.allocate.new_instance import Solution, place_instance
from ganeti.placement.cluster.picture import AllocPolicy, Group, Instance
from ganeti.placement.kernel.searches import checked_nodes, shared_redundancy
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import Allocate, NoFit, Options, Placement

_RANK = {AllocPolicy.PREFERRED: 0, AllocPolicy.LAST_RESORT: 1}


class GroupResult(NamedTuple):
    """What one group offered: a solution, or the reason why it was not even tried."""

    group: int
    solution: Solution | None
    error: str = ""


class NotPossible(Exception):
    """A reason why no candidate could be formed."""


def allocate_somewhere(state: ClusterState, request: Allocate, options: Options) -> Placement | NoFit:
    """Answer an allocation, and say why of the nodes that were not chosen.

    One that exists is made again because its nodes are lost: it is counted nowhere else, and what is lost already
    needs not be absorbed.
    """
    if (former := state.instance_number(request.instance.name)) is not None:
        state.move(former, NOWHERE)
        options = replace(options, lost_nodes_fail=False)
    found, group = find_somewhere(state, request, options)
    asks_why = options.why if isinstance(found, Placement) else options.why_not
    if group is None or not asks_why:
        return found
    from ganeti.placement.why.explain import with_reasons  # many only want the nodes

    return with_reasons(state, request, options, group, found)


def find_somewhere(state: ClusterState, request: Allocate, options: Options) -> tuple[Placement | NoFit, int | None]:
    """Look in the named group, or take the best of all groups; with the number of the group asked for or found.

    That number is NOWHERE where any group would have done, and None if the one asked for does not exist.
    """
    if request.group:
        number = find_group(state, request.group)
        if number is None:
            return NoFit(f"Wrong number of elems found with name {request.group}"), None
        return _find_in(state, request, options, number), number
    allocable = [number for number, group in enumerate(state.groups) if group.alloc_policy in _RANK]
    members = array("q", state.everyone())  # as the kernel wants it, once for all groups
    search = Search(request, options, members, dedicated.applies(state, allocable))
    inhabited = [number for number in range(len(state.groups)) if state.group_members(number)]
    chosen, texts = choose_among(state, search, inhabited)
    if chosen is None:
        return NoFit(", ".join(texts)), NOWHERE
    name = state.groups[chosen.group].name
    return _placement(state, chosen, ", ".join([f"Selected group: {name}", *texts])), chosen.group


def choose_among(state: ClusterState, search: "Search", groups: Iterable[int]) -> tuple[GroupResult | None, list[str]]:
    """The best of *groups*, and a text about each of them; those without a network it needs come first.

    Where losses are compared instead of scores, 3.1 counts these groups among those that were tried.
    """
    checked = search.checked
    if checked is None and search.options.capacity_checks:
        checked = checked_nodes(state, search.members, search.options.lost_nodes_fail)
    if checked and not search.by_loss:
        with shared_redundancy(state, checked, search.members) as redundancy:
            shared = search._replace(redundancy=redundancy)
            results = [try_group(state, shared, number) for number in groups]
    else:
        results = [try_group(state, search, number) for number in groups]
    if not search.by_loss:
        results.sort(key=lambda result: _connected(state, search, result))
    return best_group(state, results), [_describe(state, search, result) for result in results]


def _connected(state: ClusterState, search: "Search", result: GroupResult) -> bool:
    return connected(state.groups[result.group], search.request.instance)


def _describe(state: ClusterState, search: "Search", result: GroupResult) -> str:
    text = describe(state, search.request.instance, result)
    if search.by_loss and not _connected(state, search, result):
        return f"Group {state.groups[result.group].name}: error The {text}"
    return text


def _find_in(state: ClusterState, request: Allocate, options: Options, number: int) -> Placement | NoFit:
    search = Search(request, options, state.group_members(number), dedicated.applies(state, [number]))
    result = try_group(state, search, number)
    if result.solution is None:
        text = result.error
        if not connected(state.groups[number], request.instance):
            text = f"The {describe(state, request.instance, result)}"
        return NoFit(text, hopeless=True)
    text = describe(state, request.instance, result)
    return _placement(state, result, text) if result.solution.nodes else NoFit(text)


def _placement(state: ClusterState, result: GroupResult, info: str) -> Placement:
    assert result.solution is not None
    names = tuple(state.name_of(node) for node in result.solution.nodes)
    return Placement(names, info, state.groups[result.group].name)


def find_group(state: ClusterState, name: str) -> int | None:
    """Number of the group with this name or UUID."""
    for number, group in enumerate(state.groups):
        if name in (group.name, group.uuid):
            return number
    return None


def connected(group: Group, instance: Instance) -> bool:
    return set(instance.networks) <= set(group.networks)


class Search(NamedTuple):
    """What is looked for, and how: *members* are the nodes whose score decides, *by_loss* means dedicated nodes."""

    request: Allocate
    options: Options
    members: Sequence[int]
    by_loss: bool = False
    checked: Sequence[int] | None = None
    """The nodes whose failure must be absorbed; None are all *members*, as far as the options go."""
    redundancy: int | None = None


def try_group(state: ClusterState, search: Search, group: int) -> GroupResult:
    """Look for nodes in one group."""
    if not connected(state.groups[group], search.request.instance):
        return GroupResult(group, None)
    usable = [node for node in _permitted(state, search, group) if state.online[node]]
    try:
        solution = _place(state, search, usable)
    except NotPossible as reason:
        return GroupResult(group, None, str(reason))
    return GroupResult(group, solution)


def _permitted(state: ClusterState, search: Search, group: int) -> list[int]:
    names = search.request.restrict_to if search.options.restrict_to is None else search.options.restrict_to
    members = state.group_members(group)
    if names is None:
        return members
    wanted = set(names)
    return [node for node in members if state.nodes[node].name in wanted]


def _place(state: ClusterState, search: Search, usable: list[int]) -> Solution:
    request, options, required = search.request, search.options, search.request.required_nodes
    if required not in (1, 2):
        raise NotPossible("Unsupported number of nodes, only one or two  supported")
    if len(usable) < required:
        raise NotPossible("No online nodes" if required == 1 else "Not enough online nodes")
    if search.by_loss:
        return dedicated.place_dedicated(state, request.instance, required, usable, options)
    return place_instance(
        state,
        request.instance,
        required,
        usable,
        search.members,
        options,
        checked=search.checked,
        redundancy=search.redundancy,
    )


def describe(state: ClusterState, instance: Instance, result: GroupResult) -> str:
    """The words of 3.1 about one group."""
    group = state.groups[result.group]
    if not connected(group, instance):
        return f"group {group.name} is not connected to a network required by instance {instance.name}"
    if result.solution is None:
        return f"Group {group.name}: error {result.error}"
    return f"Group {group.name} ({group.alloc_policy.value}): {result.solution.describe(state)}"


def best_group(state: ClusterState, results: list[GroupResult]) -> GroupResult | None:
    """Preferred groups before last resorts, then the lower score; of equals the later. Unallocable ones never."""
    best: tuple[tuple[int, tuple[float, ...]], GroupResult] | None = None
    for result in results:
        rank = _RANK.get(state.groups[result.group].alloc_policy)
        if rank is None or result.solution is None or not result.solution.nodes:
            continue
        key = (rank, result.solution.key)
        if best is None or key <= best[0]:
            best = (key, result)
    return best[1] if best else None

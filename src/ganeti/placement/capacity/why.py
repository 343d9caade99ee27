# SPDX-License-Identifier: BSD-2-Clause
"""Why a node group has room for nothing, in one sentence (beside S1.70, whose form has no place for it)."""

from collections.abc import Mapping, Sequence

from ganeti.placement.capacity.count import Allocation, Size
from ganeti.placement.capacity.sizes import least_size, least_sizes, words
from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.picture import AllocPolicy, Group
from ganeti.placement.kernel.searches import nodes_failing
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.request.capacity import CapacityParameters
from ganeti.placement.request.terms import Options

_SHOWN = 3
_SHORT = {
    FailMode.FailMem: "too little memory",
    FailMode.FailDisk: "too little disk",
    FailMode.FailCPU: "too few vcpus",
    FailMode.FailN1: "no room left for the failure of another node",
    FailMode.FailTags: "an instance with the same exclusion tag",
    FailMode.FailMig: "migration tags against it",
    FailMode.FailDiskCount: "the policy about disks against it",
    FailMode.FailSpindles: "too few spindles",
    FailMode.FailInternal: "the policy against it",
}


def why_no_room(
    allocation: Allocation, group: Group, parameters: CapacityParameters, sizes: Sequence[Size], options: Options
) -> str:
    """A sentence about a group into which *allocation*, which has placed nothing, could not place any of *sizes*."""
    state = allocation.state
    members = state.group_members(state.groups.index(group))
    found = _of_the_group(state, group, members) or _of_its_nodes(allocation, members, options)
    return f"Node group {group.name} has no room: {found or _of_the_size(allocation, group, parameters, sizes)}"


def _of_the_group(state: ClusterState, group: Group, members: Sequence[int]) -> str:
    if not members:
        return "it has no nodes"
    if group.alloc_policy == AllocPolicy.UNALLOCABLE:
        return "its allocation policy is unallocable"
    if not any(state.online[node] for node in members):
        return f"none of its nodes may be used: {_listed([_state(state, node) for node in members])}"
    return ""


def _of_its_nodes(allocation: Allocation, members: Sequence[int], options: Options) -> str:
    state, room = allocation.state, allocation.room
    failing = [node for node in members if state.online[node] and state.view(node).fails_n1]
    if failing:
        return f"the failure of another node could not be absorbed by {_named(state, failing)}: free memory there"
    lost = nodes_failing(state, members) if options.capacity_checks else []
    if lost:
        return (
            f"the failure of {_named(state, lost)} could not be absorbed even without another instance: free memory or"
            " disk in the group, or say no-capacity-checks"
        )
    if len(room.candidates) < room.nodes_each:
        each = "two nodes are needed for each instance" if room.nodes_each > 1 else "one node is needed"
        usable = [node for node in members if state.online[node]]
        if len(usable) >= room.nodes_each and options.restrict_to is not None:
            left = f"{_named(state, room.candidates)} alone" if room.candidates else "none of the group"
            return f"{each}, and restrict-allocation-to leaves {left}: name more of {_named(state, usable)} there"
        may = f"{_named(state, room.candidates)} alone" if room.candidates else "none"
        return f"{each}, and {may} may take any"
    return ""


def _of_the_size(allocation: Allocation, group: Group, parameters: CapacityParameters, sizes: Sequence[Size]) -> str:
    """What is against the least sizes that the policy allows, no larger than what is asked for."""
    template, policy = parameters.default_template or "", group.policy
    if not sizes:
        return "neither its policy nor the request has a size: give a max_inst_spec"
    if template not in policy.templates:
        return f"its policy does not allow disk template {template}: name one of {', '.join(policy.templates)}"
    exclusive_storage = any(allocation.state.nodes[node].exclusive_storage for node in allocation.room.members)

    def said(size: Size) -> str:
        return words(size, template, exclusive_storage=exclusive_storage)

    least = least_sizes(policy, sizes)
    if not least:
        return (
            f"{said(sizes[0])} is below every minimum of its policy: give at least"
            f" {said(least_size(policy.ranges[0][0]))}"
        )
    told = []
    for size in least:
        failures = allocation.against(size)
        if failures is None:
            return (
                f"shrinking by what is most often short led to no size that fits, but {said(size)} does: give that as"
                " the size"
            )
        told.append((said(size), _counted(failures, allocation.room.nodes_each)))
    if len(told) == 1:
        return "not even {} fits: {}".format(*told[0])
    each = [f"{size} ({reason})" for size, reason in told]
    return f"of the least sizes of its policy, neither {_listed(each, ' nor ')} fits"


def _counted(failures: Mapping[FailMode, int], nodes_each: int) -> str:
    """The most frequent first."""
    unit, units = ("pair of nodes has", "pairs of nodes have") if nodes_each > 1 else ("node has", "nodes have")
    found = sorted((-count, mode) for mode, count in failures.items() if count)
    told = [f"{-count} {unit if count == -1 else units} {_SHORT[mode]}" for count, mode in found]
    return ", ".join(told) or "no node is left to try"


def _state(state: ClusterState, node: int) -> str:
    return f"{state.name_of(node)} is {state.nodes[node].unavailable}"


def _named(state: ClusterState, nodes: Sequence[int]) -> str:
    return _listed([state.name_of(node) for node in nodes])


def _listed(names: Sequence[str], between: str = ", ") -> str:
    more = len(names) - _SHOWN
    return between.join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

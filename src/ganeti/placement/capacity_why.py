# SPDX-License-Identifier: BSD-2-Clause
"""Why a node group has room for nothing, in one sentence (beside S1.70, whose form has no place for it)."""

from collections.abc import Mapping, Sequence

from ganeti.placement.capacity import Allocation, Size
from ganeti.placement.capacity_terms import CapacityParameters
from ganeti.placement.cluster import AllocPolicy, Group
from ganeti.placement.failure import FailMode
from ganeti.placement.redundancy import nodes_failing
from ganeti.placement.request import Options
from ganeti.placement.state import ClusterState

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
        may = f"{_named(state, room.candidates)} alone" if room.candidates else "none"
        each = "two nodes are needed for each instance" if room.nodes_each > 1 else "one node is needed"
        return f"{each}, and {may} may take any"
    return ""


def _of_the_size(allocation: Allocation, group: Group, parameters: CapacityParameters, sizes: Sequence[Size]) -> str:
    """What is against the least size that the policy allows, no larger than what is asked for."""
    least = min((_least(group, size) for size in sizes), default=None)
    if least is None:
        return "neither its policy nor the request has a size: give a max_inst_spec"
    memory_mib, disk_mib, vcpus = least
    words = f"{memory_mib} MiB of memory, {disk_mib} MiB of disk and {vcpus} vcpus as {parameters.default_template}"
    failures = allocation.against(Size(memory_mib, disk_mib, vcpus, 1))
    if failures is None:
        return (
            f"shrinking by what is most often short led to no size that fits, but {words} does: give that as the size"
        )
    return f"not even {words} fits: {_counted(failures, allocation.room.nodes_each)}"


def _least(group: Group, size: Size) -> tuple[int, int, int]:
    asked = size.memory_mib, size.disk_mib, size.vcpus
    minima = [(low.memory_mib, low.disk_mib, low.cpus) for low, _ in group.policy.ranges]
    fitting = [low for low in minima if all(a <= b for a, b in zip(low, asked, strict=True))]
    memory_mib, disk_mib, vcpus = min(fitting, default=asked)
    return max(1, memory_mib), disk_mib, max(1, vcpus)


def _counted(failures: Mapping[FailMode, int], nodes_each: int) -> str:
    """The most frequent first."""
    unit = "pairs of nodes have" if nodes_each > 1 else "nodes have"
    found = sorted((-count, mode) for mode, count in failures.items() if count)
    return ", ".join(f"{-count} {unit} {_SHORT[mode]}" for count, mode in found) or "no node is left to try"


def _state(state: ClusterState, node: int) -> str:
    return f"{state.name_of(node)} is {state.nodes[node].unavailable}"


def _named(state: ClusterState, nodes: Sequence[int]) -> str:
    return _listed([state.name_of(node) for node in nodes])


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

# SPDX-License-Identifier: BSD-2-Clause
"""The request ``capacity`` of the allocator protocol: how many more instances each node group has room for (S1.65).

Counted is as ``hspace --independent-groups`` does for tiered sizes, each group for itself: the answer for a group does
not depend on which others are known. Of spindles instances have as few as the policy admits.
"""

from collections.abc import Callable
from typing import Any

from ganeti.model.templates import NO_DISKS, traits_of
from ganeti.placement.capacity.count import Allocation, Room
from ganeti.placement.capacity.room import survey
from ganeti.placement.capacity.sizes import asked_size, largest_sizes
from ganeti.placement.capacity.what_if import Supposed, suppose
from ganeti.placement.capacity.why import why_no_room
from ganeti.placement.cluster.picture import Cluster, Group
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.request.capacity import (
    PARAMETER_NAMES,
    Capacities,
    Capacity,
    CapacityParameters,
    GroupCapacity,
    Shape,
)
from ganeti.placement.request.terms import Options, RequestError

_WHOLE_DISK = 1.0
MOST_COUNTED = 100_000
"""How many instances of a group are counted at most: with a size of next to nothing it would go on for hours."""


def answer(
    cluster: Cluster, request: Capacity, options: Options, prepare: Callable[[ClusterState], None] = lambda state: None
) -> Capacities:
    """Count for each group asked about; raises `RequestError` for an unknown one.

    *prepare* may put into a state what is not in *cluster*: room that was promised.
    """
    supposed = Supposed(cluster) if request.what_if is None else suppose(cluster, request.what_if)

    def make(state: ClusterState) -> None:
        supposed.make_moves(state)
        prepare(state)

    chosen = _chosen(cluster, request.groups)
    counted = {group.uuid: _count(supposed.cluster, group, request, options, make) for group in chosen}
    return Capacities(counted, supposed.sentence)


def _chosen(cluster: Cluster, names: tuple[str, ...]) -> list[Group]:
    for name in names:
        if all(name not in (group.uuid, group.name) for group in cluster.groups):
            known = ", ".join(group.name for group in cluster.groups)
            raise RequestError(f"There is no node group {name}: known are {known}")
    return [group for group in cluster.groups if not names or group.uuid in names or group.name in names]


def _count(
    cluster: Cluster, group: Group, request: Capacity, options: Options, prepare: Callable[[ClusterState], None]
) -> GroupCapacity:
    parameters = _settled(group, request)
    state = ClusterState(
        cluster,
        max_cpu_ratio=parameters.max_cpu_ratio,
        min_disk_ratio=_WHOLE_DISK - (parameters.max_disk_usage or _WHOLE_DISK),
    )
    prepare(state)
    asked = parameters.max_inst_spec
    sizes = [asked_size(group.policy, asked)] if asked is not None else largest_sizes(group.policy)

    def check_number(counting: Allocation) -> None:
        if len(counting.placed) > MOST_COUNTED:
            raise RequestError(
                f"More than {MOST_COUNTED} instances fit into node group {group.name}: give a larger max_inst_spec, or"
                " let the group's policy ask for a larger minimum"
            )

    allocation = Allocation(state, _room(state, group, parameters.default_template or "", options), check_number)
    if len(allocation.room.candidates) >= allocation.room.nodes_each:
        for size in sizes:
            allocation.fill_tiered(size)
    counted: dict[Shape, int] = {}
    for size in allocation.placed:
        shape = Shape(size.memory_mib, size.disk_mib, size.vcpus)
        counted[shape] = counted.get(shape, 0) + 1
    largest = tuple(Shape(size.memory_mib, size.disk_mib, size.vcpus) for size in sizes)
    why = "" if counted else why_no_room(allocation, group, parameters, sizes, options)
    return GroupCapacity(tuple(sorted(counted.items(), reverse=True)), parameters, largest, why)


def _settled(group: Group, request: Capacity) -> CapacityParameters:
    """The parameters for a group, with the policy in place of what nobody gave."""
    both = (request.parameters, request.own.get(group.uuid, CapacityParameters()))
    given: dict[str, Any] = {
        name: next((value for one in both if (value := getattr(one, name)) is not None), None)
        for name in PARAMETER_NAMES
    }
    usual = {
        "default_template": next(iter(group.policy.templates), NO_DISKS),
        "max_cpu_ratio": group.policy.vcpu_ratio,
        "max_disk_usage": _WHOLE_DISK,
    }
    return CapacityParameters(**given | {name: value for name, value in usual.items() if given[name] is None})


def _room(state: ClusterState, group: Group, template: str, options: Options) -> Room:
    """Without capacity checks a group takes instances although it could not lose a node, as it takes single ones."""
    site = survey(state, accept_existing_errors=False, independent_groups=options.capacity_checks)
    members = state.group_members(state.groups.index(group))
    traits = traits_of(template)
    allowed = None if options.restrict_to is None else set(options.restrict_to)
    return Room(
        template=template,
        nodes_each=2 if traits is not None and traits.has_secondary else 1,
        spindle_use=group.policy.standard.spindle_use,
        candidates=tuple(
            node for node in members if node in site.candidates and (allowed is None or state.name_of(node) in allowed)
        ),
        members=tuple(members),
        checked=tuple(members) if options.capacity_checks else (),
    )

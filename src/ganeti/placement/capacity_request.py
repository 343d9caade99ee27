# SPDX-License-Identifier: BSD-2-Clause
"""The request ``capacity`` of the allocator protocol: how many more instances each node group has room for (S1.65).

Counted is as ``hspace --independent-groups`` does for tiered sizes, each group for itself: the answer for a group does
not depend on which others are known. Of spindles instances have as few as the policy admits.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Any

from ganeti.placement.capacity import Allocation, Room
from ganeti.placement.capacity_room import survey
from ganeti.placement.capacity_sizes import asked_size, largest_sizes
from ganeti.placement.capacity_terms import Capacities, Capacity, CapacityParameters, GroupCapacity, Shape
from ganeti.placement.capacity_why import why_no_room
from ganeti.placement.cluster import Cluster, Group
from ganeti.placement.request import Options, RequestError
from ganeti.placement.state import ClusterState
from ganeti.placement.templates import TEMPLATES, traits_of

if TYPE_CHECKING:
    from ganeti.placement.reading import Fields

_NAMES = tuple(field.name for field in fields_of(CapacityParameters))
_WHOLE_DISK = 1.0
_LEAST = Shape(memory_mib=1, disk_mib=0, vcpus=1)
_LARGEST = 2**53
"""Of any amount: up to there every program that reads JSON has whole numbers."""
MOST_COUNTED = 100_000
"""How many instances of a group are counted at most: with a size of next to nothing it would go on for hours."""


def read(fields: "Fields") -> Capacity:
    """Read the request; raises `RequestError` for what is no group, size, template or ratio."""
    own = fields.get("group_parameters", dict, {})
    return Capacity(
        groups=fields.strings("node_groups", []),
        parameters=_read_parameters(fields.data, "the request"),
        own={uuid: _read_parameters(data, f"node group {uuid}") for uuid, data in own.items()},
    )


def _read_parameters(data: Any, where: str) -> CapacityParameters:
    if not isinstance(data, Mapping):
        raise RequestError(f"The capacity parameters of {where} are not an object with {', '.join(_NAMES)}")
    template = data.get("default_template")
    if template is not None and template not in tuple(TEMPLATES):
        raise RequestError(f"The default_template of {where} is {template!r}: name one of {', '.join(TEMPLATES)}")
    return CapacityParameters(
        max_inst_spec=_read_shape(data.get("max_inst_spec"), where),
        default_template=template,
        max_cpu_ratio=_read_ratio(data, "max_cpu_ratio", math.inf, where),
        max_disk_usage=_read_ratio(data, "max_disk_usage", _WHOLE_DISK, where),
    )


def _read_shape(given: Any, where: str) -> Shape | None:
    if given is None:
        return None
    whole = isinstance(given, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in given)
    if not whole or len(given) != len(Shape._fields):
        raise RequestError(
            f"The max_inst_spec of {where} is {given!r}: give memory and disk in MiB and the number of vcpus, as in"
            " [4096, 20480, 2]"
        )
    if not all(least <= amount <= _LARGEST for least, amount in zip(_LEAST, given, strict=True)):
        raise RequestError(
            f"The max_inst_spec of {where} is {given!r}: give at least 1 MiB of memory and 1 vcpu, and of nothing"
            f" more than {_LARGEST}"
        )
    return Shape(*given)


def _read_ratio(data: Mapping[str, Any], name: str, most: float, where: str) -> float | None:
    given = data.get(name)
    if given is None:
        return None
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given <= most or given == math.inf:
        bound = "" if most == math.inf else f", at most {most:g}"
        raise RequestError(f"The {name} of {where} is {given!r}: give a number above 0{bound}")
    return float(given)


def answer(
    cluster: Cluster, request: Capacity, options: Options, prepare: Callable[[ClusterState], None] = lambda state: None
) -> Capacities:
    """Count for each group asked about; raises `RequestError` for an unknown one.

    *prepare* may put into a state what is not in *cluster*: room that was promised.
    """
    chosen = _chosen(cluster, request.groups)
    return Capacities({group.uuid: _count(cluster, group, request, options, prepare) for group in chosen})


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
        name: next((value for one in both if (value := getattr(one, name)) is not None), None) for name in _NAMES
    }
    usual = {
        "default_template": next(iter(group.policy.templates), "diskless"),
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

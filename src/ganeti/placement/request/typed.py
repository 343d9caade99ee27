# SPDX-License-Identifier: BSD-2-Clause
"""From a request as it travels inside the product to what placement is asked. Its sender has checked it."""

import msgspec

from ganeti.model import placement_requests as asked
from ganeti.placement.cluster.picture import Disk, Instance
from ganeti.placement.request.fields import Fields
from ganeti.placement.request.terms import (
    Allocate,
    AllocateSecondary,
    BalanceStep,
    ChangeGroup,
    EmptyNodes,
    EvacuationMode,
    MultiAllocate,
    NodeEvacuate,
    Question,
    Relocate,
)


def terms_of(request: asked.PlacementRequest) -> Question:
    """Raises `RequestError` for parameters of capacity that make no sense."""
    match request:
        case asked.Allocate():
            return _allocate(request, request.group_name or "")
        case asked.MultiAllocate():
            return MultiAllocate(tuple(_allocate(each) for each in request.instances), request.group_name or "")
        case asked.Relocate():
            return Relocate(request.name, tuple(request.relocate_from), request.required_nodes)
        case asked.AllocateSecondary():
            return AllocateSecondary(request.name, request.disk_template)
        case asked.NodeEvacuate():
            return NodeEvacuate(tuple(request.instances), EvacuationMode(request.evac_mode))
        case asked.ChangeGroup():
            return ChangeGroup(tuple(request.instances), tuple(request.target_groups), request.unsuitable)
        case asked.EmptyNodes():
            return EmptyNodes(tuple(request.begun), tuple(request.nodes), request.keep_redundancy)
        case asked.BalanceStep():
            return BalanceStep(
                tuple(request.without),
                request.least_gain,
                request.disk_moves,
                request.load,
                request.load_threshold,
                frozenset(request.stay),
            )
        case asked.CountCapacity():
            from ganeti.placement.request import capacity_reading  # few ask this

            return capacity_reading.read(Fields("", msgspec.to_builtins(request)))


def _allocate(request: asked.Allocate, group: str = "") -> Allocate:
    instance = Instance(
        name=request.name,
        memory_mib=request.memory,
        disk_mib=request.disk_space_total,
        vcpus=request.vcpus,
        template=request.disk_template,
        disks=tuple(Disk(disk.size, disk.spindles) for disk in request.disks),
        spindle_use=request.spindle_use,
        tags=tuple(request.tags),
        networks=tuple(nic["network"] for nic in request.nics if nic.get("network") is not None),
    )
    only = request.restrict_to_nodes
    return Allocate(instance, request.required_nodes, group, None if only is msgspec.UNSET else tuple(only))

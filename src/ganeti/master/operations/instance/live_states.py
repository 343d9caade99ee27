# SPDX-License-Identifier: BSD-2-Clause
"""What nodes say of many instances: their guests and disks, with a call or two to each node."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ganeti.base.errors import GanetiError
from ganeti.master.allocation import hv_filled
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operations.instance.disks.described_disks import DiskStates
from ganeti.model.node_calls.disks import BlockdevFindEach, FoundDisk
from ganeti.model.node_calls.instances import AllInstancesInfo, FoundInstance, InstanceInfo
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

DEADLINE_S = 30.0
_FEW = 3
"""So many guests of a node are asked for one by one: to list all of a node, it looks at each of them."""
_DISKS_A_CALL = 50
_FoundDisks = dict[tuple[str, str], FoundDisk]
"""By the node's and the disk's UUID; without those that no node was asked for."""


@dataclass(frozen=True)
class LiveState:
    guest: FoundInstance | None = None
    """Null where it does not run."""
    disks: tuple[DiskStates, ...] = ()
    """Empty where no node has said anything."""


async def ask_live(ctx: OperationContext, uuids: Sequence[str]) -> dict[str, LiveState]:
    """Ask the nodes of these instances; one of which the primary node cannot tell is left out, with a warning."""
    view = ctx.config.view()
    specs = []
    for instance in map(view.instance, uuids):
        node = view.node(instance.primary_node)
        if node.offline:
            ctx.log.warning(f"No live data of {instance.name}: its primary node {node.name} is offline")
        else:
            specs.append(instance_spec(view, ctx.catalogue, instance))
    secondaries = {
        spec.uuid: [uuid for uuid in view.secondary_nodes(view.instance(spec.uuid)) if not view.node(uuid).offline]
        for spec in specs
    }
    guests, disks_found = await asyncio.gather(_ask_guests(ctx, specs), _ask_disks(ctx, specs, secondaries))
    found: dict[str, LiveState] = {}
    for spec in specs:
        others = secondaries[spec.uuid][:1]
        guest = guests[spec.uuid]
        faults = [disks_found[spec.primary_node_uuid, disk.uuid].fault for disk in _parts(spec.disks)]
        if isinstance(guest, GanetiError):
            ctx.log.warning(f"No live data of {spec.name}: {guest}")
            continue
        if any(faults):
            ctx.log.warning(f"No live data of the disks of {spec.name}: {next(filter(None, faults))}")
            found[spec.uuid] = LiveState(guest)
            continue
        for uuid in others:
            _warn_of_secondary(ctx, spec, uuid, disks_found)
        found[spec.uuid] = LiveState(guest, tuple(_states(disks_found, disk, spec, others) for disk in spec.disks))
    return found


async def _ask_guests(
    ctx: OperationContext, specs: Iterable[InstanceSpec]
) -> Mapping[str, FoundInstance | GanetiError | None]:
    """By the UUID of the instance."""
    by_node: dict[str, list[InstanceSpec]] = defaultdict(list)
    for spec in specs:
        by_node[spec.primary_node_uuid].append(spec)
    found: dict[str, FoundInstance | GanetiError | None] = {}

    async def one(node: str, spec: InstanceSpec) -> None:
        try:
            running = await ask(ctx.nodes, node, InstanceInfo(instance=spec), deadline_s=DEADLINE_S)
        except GanetiError as err:
            found[spec.uuid] = err
        else:
            found[spec.uuid] = running

    async def all_of(node: str, wanted: list[InstanceSpec]) -> None:
        names = dict.fromkeys(spec.hypervisor for spec in wanted)
        request = AllInstancesInfo(
            hypervisors={name: hv_filled(ctx.config.view(), ctx.catalogue, name) for name in names}
        )
        try:
            running = {each.name: each for each in await ask(ctx.nodes, node, request, deadline_s=DEADLINE_S)}
        except GanetiError as err:
            found.update({spec.uuid: err for spec in wanted})
        else:
            found.update({spec.uuid: running.get(spec.name) for spec in wanted})

    await asyncio.gather(
        *(all_of(node, wanted) for node, wanted in by_node.items() if len(wanted) > _FEW),
        *(one(node, spec) for node, wanted in by_node.items() if len(wanted) <= _FEW for spec in wanted),
    )
    return found


async def _ask_disks(
    ctx: OperationContext, specs: Iterable[InstanceSpec], secondaries: Mapping[str, Sequence[str]]
) -> _FoundDisks:
    """Every disk with its parts, on the primary node and on one secondary."""
    wanted: dict[str, list[DiskSpec]] = defaultdict(list)
    for spec in specs:
        for node in (spec.primary_node_uuid, *secondaries[spec.uuid][:1]):
            wanted[node] += _parts(spec.disks)
    found: _FoundDisks = {}

    async def look(node: str, disks: Sequence[DiskSpec]) -> None:
        try:
            answers = await ask(ctx.nodes, node, BlockdevFindEach(disks=[*disks]), deadline_s=DEADLINE_S)
        except GanetiError as err:
            answers = [FoundDisk(fault=str(err))] * len(disks)
        found.update({(node, disk.uuid): answer for disk, answer in zip(disks, answers, strict=True)})

    await asyncio.gather(
        *(
            look(node, disks[begin : begin + _DISKS_A_CALL])
            for node, disks in wanted.items()
            for begin in range(0, len(disks), _DISKS_A_CALL)
        )
    )
    return found


def _parts(disks: Iterable[DiskSpec]) -> Iterator[DiskSpec]:
    for disk in disks:
        yield disk
        yield from _parts(disk.children)


def _states(disks_found: _FoundDisks, disk: DiskSpec, spec: InstanceSpec, others: Sequence[str]) -> DiskStates:
    secondary = next((disks_found[uuid, disk.uuid].status for uuid in others), None)
    children = tuple(_states(disks_found, child, spec, others) for child in disk.children)
    return DiskStates(disks_found[spec.primary_node_uuid, disk.uuid].status, secondary, children)


def _warn_of_secondary(ctx: OperationContext, spec: InstanceSpec, node: str, disks_found: _FoundDisks) -> None:
    for disk in spec.disks:
        if fault := disks_found[node, disk.uuid].fault:
            name = ctx.config.view().node(node).name
            ctx.log.warning(f"Disk {disk.index} of {spec.name} was not looked at on {name}: {fault}")

# SPDX-License-Identifier: BSD-2-Clause
"""Asking for a place, and the answer checked; what a node that was named can hold (S5.37 to S5.41, D13).

Room is reserved for the job before it acts: what an allocator chose, and what a node that was named is to take.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ganeti.base.errors import (
    INSUFFICIENT_RESOURCES,
    TEMPORARILY_INSUFFICIENT,
    WRONG_INPUT,
    NodeCallError,
    ParameterError,
    PrerequisiteError,
)
from ganeti.master.allocator_answers import check_moves, places_of
from ganeti.master.allocator_input import relocate_request, reservations_of, unused
from ganeti.master.allocators import BUILT_IN, ask_allocator
from ganeti.model import inheritance
from ganeti.model.node_calls.instances import AllInstancesInfo
from ganeti.model.node_calls.node import NodeInfo
from ganeti.model.node_calls.storage import StorageUnit
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance, Node
from ganeti.model.placement_requests import (
    Allocate,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Relocate,
)
from ganeti.model.reservations import Reservation
from ganeti.model.traits import Catalogue, TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.luxid import Placement
from ganeti.ports.nodes import ask
from ganeti.wire.iallocator import Response, selected_nodes

SHOWN_REASONS = 6
_TRIES = 20
"""How often another job may reserve room on a node between our look at it and our own reservation."""
Plain = dict[str, Any]
_Moves = tuple[list[Any], list[tuple[str, str | None]], list[list[Plain]]]
"""The result of an allocator that was asked to move instances: what moves, what cannot and why, and the jobs."""


def allocator_named(view: ConfigView, given: str | None) -> str:
    """The allocator a user means: the one named, or the cluster's default one; empty if there is none."""
    return given if given not in (None, "", ".") and given is not None else view.cluster.default_iallocator


async def place(
    ctx: OperationContext, allocator: str, request: Allocate | Relocate, *, reserve: bool = True
) -> list[str]:
    """Ask *allocator*; gives node names, checked against what was required (S5.37 to S5.41).

    With *reserve*, the room is this job's until the configuration shows what it is for.
    """
    names, _ = await place_and_explain(ctx, allocator, request, reserve=reserve)
    return names


async def place_and_explain(
    ctx: OperationContext, allocator: str, request: Allocate | Relocate, *, reserve: bool, why: bool = False
) -> tuple[list[str], list[str]]:
    """The same; with *why*, and a line for each node that was not chosen, where the allocator says so.

    Where nothing fits, the error has the first of them, with *why* all.
    """
    most = None if why else SHOWN_REASONS
    for _ in range(_TRIES):
        answer, serial = await ask_allocator(ctx, allocator, request, reserve=reserve, why=why)
        names = _chosen(ctx.config.view(), allocator, request, answer, most)
        if not reserve or serial is None:
            return names, answer.reasons
        wanted = reservations_of(ctx.config.view(), ctx.catalogue, request, names)
        if await ctx.reservations.reserve(wanted, serial) is None:
            return names, []
    raise _others_were_quicker(f"the nodes that iallocator '{allocator}' chose for {request.name}")


async def place_many(
    ctx: OperationContext, allocator: str, requests: Sequence[Allocate], group_name: str | None
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Ask for one placement of all *requests*; nothing is reserved.

    Gives the nodes of those that fit, and why the others do not, both by name.
    """
    whole = MultiAllocate(instances=list(requests), group_name=group_name or msgspec.UNSET)
    answer, _ = await ask_allocator(ctx, allocator, whole, reserve=False)
    refused = f"Can't compute nodes using iallocator '{allocator}': "
    if not answer.success:
        raise PrerequisiteError(f"{refused}{answer.info or 'it gave no reason'}", INSUFFICIENT_RESOURCES)
    asked = {request.name: request for request in requests}
    try:
        placed, why = places_of(answer.result, asked)
    except ParameterError as err:
        raise PrerequisiteError(f"{refused}its answer breaks the protocol: {err}", INSUFFICIENT_RESOURCES) from err
    view = ctx.config.view()
    nodes = {name: _chosen(view, allocator, asked[name], Placement(True, "", on), None) for name, on in placed.items()}
    return nodes, {name: why.get(name, "it gave no reason") for name in asked if name not in nodes}


def require_allocator(view: ConfigView, given: str | None) -> str:
    """*given*, or the cluster's default one; raises `PrerequisiteError` where there is none."""
    if name := allocator_named(view, given):
        return name
    raise PrerequisiteError("The cluster has no default allocator: add -I ALLOCATOR", WRONG_INPUT)


async def moving_jobs(
    ctx: OperationContext, given: str | None, request: NodeEvacuate | ChangeGroup
) -> list[list[Plain]]:
    """Ask how instances leave where they are; gives the opcodes of each job. All must be able to.

    *given* names the allocator, or means the cluster's default one. Nothing is reserved.
    """
    allocator = require_allocator(ctx.config.view(), given)
    answer, _ = await ask_allocator(ctx, allocator, request, reserve=False)
    refused = f"Can't compute where to move {', '.join(request.instances)} using iallocator '{allocator}': "
    if not answer.success:
        raise PrerequisiteError(f"{refused}{answer.info or 'it gave no reason'}", INSUFFICIENT_RESOURCES)
    try:
        moves: _Moves = msgspec.convert(answer.result, _Moves)
        _, failed, jobs = moves
        if allocator != BUILT_IN:
            check_moves(ctx.config.view(), request.instances, [name for name, _ in failed], jobs)
    except (msgspec.ValidationError, ParameterError) as err:
        raise PrerequisiteError(f"{refused}its answer breaks the protocol: {err}", INSUFFICIENT_RESOURCES) from err
    if failed:
        reasons = "; ".join(f"{name}: {reason or 'it gave no reason'}" for name, reason in failed)
        raise PrerequisiteError(f"{refused}{reasons}", INSUFFICIENT_RESOURCES)
    return jobs


def _chosen(
    view: ConfigView, allocator: str, request: Allocate | Relocate, answer: Placement, most: int | None
) -> list[str]:
    refused = f"Can't compute nodes using iallocator '{allocator}': "
    if not answer.success:
        raise PrerequisiteError("\n".join(_refusal(allocator, request, answer, most)), INSUFFICIENT_RESOURCES)
    response = Response(True, answer.info, None if isinstance(answer.result, str) else answer.result)
    try:
        names = selected_nodes(response, request.required_nodes, [node.name for node in view.nodes()])
    except ParameterError as err:
        raise PrerequisiteError(f"{refused}{err}", INSUFFICIENT_RESOURCES) from err
    for name in names:
        node = view.find_node(name)
        if not node.usable_for_instances:
            word = "offline" if node.offline else "drained" if node.drained else "not vm_capable"
            raise PrerequisiteError(f"{refused}it chose node {name}, which is {word}", INSUFFICIENT_RESOURCES)
        if isinstance(request, Allocate) and name not in request.allowed([name]):
            raise PrerequisiteError(f"{refused}it chose node {name}, which was not asked for", INSUFFICIENT_RESOURCES)
    if isinstance(request, Relocate):
        _check_group(view, refused, request, names)
    return names


def _refusal(allocator: str, request: Allocate | Relocate, answer: Placement, most: int | None) -> list[str]:
    """The lines of a refusal. Ours begin with the remedy, and end with what 3.1 would say."""
    refused = f"Can't compute nodes using iallocator '{allocator}': "
    info = answer.info or "it gave no reason"
    reasons = answer.reasons
    if allocator != BUILT_IN or not reasons:
        return [f"{refused}{info}", *(f"  - {line}" for line in shortened(reasons, most))]
    first = f"{refused}{request.name} fits nowhere as it is asked for. {reasons[0]}"
    return [first, *(f"  - {line}" for line in shortened(reasons[1:], most)), f"  ({info})"]


def _check_group(view: ConfigView, refused: str, request: Relocate, names: Iterable[str]) -> None:
    """A relocation stays in the group of the node that is kept, or else of that which is left (protocols, 7; X10)."""
    kept = view.instance_nodes(view.find_instance(request.name))
    kept = [uuid for uuid in kept if view.node(uuid).name not in request.relocate_from]
    groups = {view.node(uuid).group for uuid in kept or [view.find_node(name).uuid for name in request.relocate_from]}
    for name in names:
        group = view.find_node(name).group
        if group not in groups:
            raise PrerequisiteError(
                f"{refused}it chose node {name} of node group {view.group(group).name}, in which {request.name} is not",
                INSUFFICIENT_RESOURCES,
            )


def shortened(lines: Sequence[str], most: int | None = SHOWN_REASONS) -> list[str]:
    """The first *most* lines, or all, and how many there are besides."""
    if most is None or len(lines) <= most:
        return list(lines)
    left = len(lines) - most
    return [*lines[:most], f"and {left} more {'reason' if left == 1 else 'reasons'}: --why names all"]


async def place_and_tell(
    ctx: OperationContext, allocator: str, request: Allocate | Relocate, *, reserve: bool, why: bool
) -> list[str]:
    """As `place`; with *why*, the job's log says what was chosen, and of every other node why it was not."""
    names, reasons = await place_and_explain(ctx, allocator, request, reserve=reserve, why=why)
    if why:
        ctx.log.info(f"{request.name} would be placed on {', '.join(names)}")
        if not reasons and len(ctx.config.view().nodes()) > len(names):
            ctx.log.info(f"The iallocator '{allocator}' does not say why it chose no other node")
        for line in reasons:
            ctx.log.info(f"  - {line}")
    return names


async def relocation_target(
    ctx: OperationContext, instance_uuid: str, allocator: str | None, *, reserve: bool = True, why: bool = False
) -> str:
    """The uuid of a node to which an instance on shared storage can move."""
    view = ctx.config.view()
    instance = view.instance(instance_uuid)
    name = allocator_named(view, allocator)
    if not name:
        raise PrerequisiteError(
            f"No target node was named for {instance.name} and the cluster has no default allocator: "
            "add -n NODE or -I ALLOCATOR"
        )
    request = relocate_request(view, instance, [view.node(instance.primary_node).name])
    names = await place_and_tell(ctx, name, request, reserve=reserve, why=why)
    return ctx.config.view().find_node(names[0]).uuid


def hv_filled(view: ConfigView, catalogue: Catalogue, hypervisor: str) -> Plain:
    """Hypervisor parameters as an instance of no particular OS would have them."""
    return inheritance.cluster_hv(view.cluster, hypervisor, "", catalogue.hypervisor(hypervisor).parameters)


def capacity_query(view: ConfigView, catalogue: Catalogue, template: TemplateTraits | None) -> NodeInfo:
    """Asks for memory, processors and the space a template uses."""
    storage = []
    if template is not None and template.setting and (setting := getattr(view.cluster, template.setting)):
        storage.append(StorageUnit(template=template.name, setting=setting))
    enabled = view.cluster.enabled_hypervisors
    hypervisor = next((name for name in enabled if name in catalogue.hypervisors), enabled[0])
    return NodeInfo(storage=storage, hypervisors={hypervisor: hv_filled(view, catalogue, hypervisor)})


async def check_capacity(
    ctx: OperationContext,
    node_uuid: str,
    spec: InstanceSpec,
    template: TemplateTraits,
    *,
    ignore_memory: bool = False,
    makes_disks: bool = True,
    copies_on: Sequence[str] = (),
) -> int:
    """Refuse what the node cannot hold now, reserve what it can; raises `PrerequisiteError` with numbers.

    Disks need space unless they are there already (*makes_disks*): an instance that starts, or comes to its other copy.
    Gives the memory, in MiB, that is free there and not reserved for others. Nodes in *copies_on* need disk space only.
    Memory reserved for other jobs counts as taken, and so does the memory of instances that are being created.
    """
    memory_mib = 0 if ignore_memory else spec.beparams["maxmem"]
    needs_space = makes_disks and template.checks_free_space
    wanted = Reservation(
        instance=spec.name,
        nodes=[node_uuid, *copies_on],
        memory_mib=memory_mib,
        disk_mib=sum(disk.size_mib for disk in spec.disks) if needs_space else 0,
        vcpus=spec.beparams["vcpus"],
        disk_template=template.name,
    )
    for _ in range(_TRIES):
        reservations = await ctx.reservations.current()
        own = [each for job, each in reservations.held if job == ctx.job.job_id and each.instance == spec.name]
        others = [each for job, each in reservations.held if job != ctx.job.job_id]
        places = template if needs_space else None
        free_mib = await _check_now(ctx, node_uuid, spec, places, others, ignore_memory=ignore_memory)
        for uuid in copies_on:
            await _check_now(ctx, uuid, spec, places, others, ignore_memory=True)
        if any(reservation.nodes[0] == node_uuid for reservation in own):
            return free_mib
        if await ctx.reservations.reserve([wanted], reservations.serial) is None:
            return free_mib
    raise _others_were_quicker(f"node {ctx.config.view().node(node_uuid).name}, which {spec.name} is to use")


async def _check_now(
    ctx: OperationContext,
    node_uuid: str,
    spec: InstanceSpec,
    template: TemplateTraits | None,
    others: Sequence[Reservation],
    *,
    ignore_memory: bool,
) -> int:
    """*template* is that of disks which need space.

    *others* were read before the configuration is: what moves from the one to the other is counted once.
    """
    view = ctx.config.view()
    node = view.node(node_uuid)
    others = [each for each in others if node_uuid in each.nodes]
    try:
        memory = 0 if ignore_memory else await _reserved_memory(ctx, view, node, spec.name, others)
        query = capacity_query(view, ctx.catalogue, template)
        own = [unit.setting for unit in query.storage]
        needs = {} if template is None else _space_by_setting(ctx.catalogue, spec, own)
        if template is not None:
            named = [StorageUnit(template=template.name, setting=each) for each in needs if each not in own]
            query = replace(query, storage=[*query.storage, *named])
        answer = await ask(ctx.nodes, node_uuid, query)
    except NodeCallError as err:
        raise PrerequisiteError(f"Can't get data from node {node.name}: {err}", "environment_error") from err
    free = next(iter(answer.hypervisors.values())).memory_free - memory
    needed = spec.beparams["minmem"]
    if not ignore_memory and needed > free:
        raise PrerequisiteError(
            f"Not enough memory on node {node.name} for {spec.name}: needed {needed} MiB, available {free} MiB",
            INSUFFICIENT_RESOURCES,
        )
    if template is not None:
        taken = sum(each.disk_mib for each in others if view.uuid_by_name("instances", each.instance) is None)
        for unit, found in zip(query.storage, answer.storage, strict=True):
            if (wanted := needs.get(unit.setting, 0)) and found.storage_free is not None:
                space = found.storage_free - (taken if unit.setting in own else 0)
                _require_space(f"node {node.name}, {unit.setting}, for {spec.name}", wanted, space)
    return int(free)


def _space_by_setting(catalogue: Catalogue, spec: InstanceSpec, own: Sequence[str]) -> dict[str, int]:
    """What new disks need of each volume group, in MiB; *own* has the cluster's setting, for disks of no volumes."""
    needs: dict[str, int] = {}
    for disk in spec.disks:
        for part in disk.children or [disk]:
            named = catalogue.template(part.template).uses_node_disk and len(part.logical_id) == 2
            setting = str(part.logical_id[0]) if named else next(iter(own), "")
            needs[setting] = needs.get(setting, 0) + part.size_mib
    return needs


def _require_space(where: str, wanted_mib: int, space_mib: int) -> None:
    if wanted_mib > space_mib:
        raise PrerequisiteError(
            f"Not enough disk space on {where}: needed {wanted_mib} MiB, available {space_mib} MiB",
            INSUFFICIENT_RESOURCES,
        )


async def _reserved_memory(
    ctx: OperationContext, view: ConfigView, node: Node, but_for: str, others: Sequence[Reservation]
) -> int:
    """Memory, in MiB, that instances being created on *node* or moving there will use and do not use yet.

    Guests are asked for before the node's free memory: one that starts in between is counted twice, not left out.
    """
    coming = [other for other in view.primary_instances(node.uuid) if other.forthcoming and other.name != but_for]
    names = {other.name for other in coming}
    expected = [each for each in others if each.nodes[0] == node.uuid and each.instance not in names]
    if not coming and not expected:
        return 0
    used = await _used_memory(ctx, view, node, coming)
    reserved = sum(max(0, reservation.memory_mib - used.get(reservation.instance, 0)) for reservation in expected)
    return reserved + sum(unused(view, other, used) for other in coming)


async def _used_memory(
    ctx: OperationContext, view: ConfigView, node: Node, coming: Iterable[Instance]
) -> Mapping[str, int]:
    names = dict.fromkeys([*view.cluster.enabled_hypervisors, *(other.hypervisor for other in coming)])
    known = ctx.catalogue.hypervisors
    hypervisors = {name: hv_filled(view, ctx.catalogue, name) for name in names if name in known}
    guests = await ask(ctx.nodes, node.uuid, AllInstancesInfo(hypervisors=hypervisors))
    return {guest.name: guest.memory_mib for guest in guests}


def _others_were_quicker(what: str) -> PrerequisiteError:
    return PrerequisiteError(
        f"Others reserved room on {what}, again and again: try again later", TEMPORARILY_INSUFFICIENT
    )

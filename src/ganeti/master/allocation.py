# SPDX-License-Identifier: BSD-2-Clause
"""Asking for a place: the allocator's input from configuration and nodes, and its answer checked.

The input is iallocator version 2 (protocols, section 7); built-in and foreign allocators get the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti.base.errors import INSUFFICIENT_RESOURCES, NodeCallError, PrerequisiteError
from ganeti.model import inheritance
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Disk, Instance, Node
from ganeti.model.traits import Catalogue, TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

PROTOCOL_VERSION = 2
GATHER_TIMEOUT_S = 30.0
Plain = dict[str, Any]


def allocate_request(
    view: ConfigView, sketch: Instance, disks: Sequence[Disk], template: TemplateTraits, group_name: str | None
) -> Plain:
    """Request a place for an instance that does not exist yet."""
    backend = inheritance.instance_be(view.cluster, sketch)
    return {
        "type": "allocate",
        "name": sketch.name,
        "memory": backend["maxmem"],
        "vcpus": backend["vcpus"],
        "spindle_use": backend["spindle_use"],
        "disks": [{"size": disk.size, "mode": disk.mode, "spindles": disk.spindles} for disk in disks],
        "disk_template": template.name,
        "os": sketch.os,
        "tags": list(sketch.tags),
        "nics": [_nic(view, sketch, index) for index in range(len(sketch.nics))],
        "hypervisor": sketch.hypervisor,
        "required_nodes": template.node_count,
        "disk_space_total": sum(disk.size for disk in disks),
        "group_name": view.find_group(group_name).name if group_name else None,
    }


def relocate_request(view: ConfigView, instance: Instance, from_nodes: Sequence[str]) -> Plain:
    """Request another node of the same group; *from_nodes* are the names to leave."""
    return {
        "type": "relocate",
        "name": instance.name,
        "relocate_from": list(from_nodes),
        "required_nodes": 1,
        "disk_space_total": sum(disk.size for disk in view.instance_disks(instance)),
    }


async def place(ctx: OperationContext, allocator: str, request: Plain) -> list[str]:
    """Ask *allocator*; gives node names, checked against what was required (S5.37 to S5.41)."""
    template = request.get("disk_template")
    view = ctx.config.view()
    if template is None:
        template = view.disk_template(view.find_instance(request["name"]))
    data = await cluster_data(ctx, ctx.catalogue.template(template))
    data["request"] = request
    answer = await ctx.allocator.allocate(allocator, data)
    if not answer.get("success"):
        for line in shortened(answer.get("reasons", [])):
            ctx.log.info(f"  - {line}")
        raise PrerequisiteError(
            f"Can't compute nodes using iallocator '{allocator}': {answer.get('info') or 'it gave no reason'}",
            INSUFFICIENT_RESOURCES,
        )
    names = answer.get("result", answer.get("nodes"))
    required = request["required_nodes"]
    if not isinstance(names, list) or len(names) != required or not all(isinstance(name, str) for name in names):
        raise PrerequisiteError(
            f"Can't compute nodes using iallocator '{allocator}': "
            f"it gave {names!r} where {required} node name(s) were asked for",
            INSUFFICIENT_RESOURCES,
        )
    known = {node.name for node in view.nodes()}
    for name in names:
        if name not in known:
            raise PrerequisiteError(
                f"Can't compute nodes using iallocator '{allocator}': "
                f"it chose '{name}', which is no node of the cluster",
                INSUFFICIENT_RESOURCES,
            )
    return list(names)


def shortened(lines: Sequence[str], most: int = 10) -> list[str]:
    """The first *most* lines, and how many there are besides."""
    if len(lines) <= most:
        return list(lines)
    return [*lines[:most], f"and {len(lines) - most} more nodes"]


async def relocation_target(ctx: OperationContext, instance_uuid: str, allocator: str | None) -> str:
    """The uuid of a node to which an instance on shared storage can move."""
    view = ctx.config.view()
    instance = view.instance(instance_uuid)
    name = allocator if allocator not in (None, "", ".") else view.cluster.default_iallocator
    if not name:
        raise PrerequisiteError(
            f"No target node was named for {instance.name} and the cluster has no default allocator: "
            "add -n NODE or -I ALLOCATOR"
        )
    request = relocate_request(view, instance, [view.node(instance.primary_node).name])
    return ctx.config.view().find_node((await place(ctx, name, request))[0]).uuid


async def cluster_data(ctx: OperationContext, template: TemplateTraits) -> Plain:
    """Everything of the input but the request."""
    view = ctx.config.view()
    usable = [node.uuid for node in view.nodes() if node.usable_for_instances]
    # Guests first: one that starts between the two is then counted twice, and not left out of both.
    running = await ctx.nodes.call_many(
        usable,
        "all_instances_info",
        deadline_s=GATHER_TIMEOUT_S,
        hypervisors={name: hv_filled(view, ctx.catalogue, name) for name in view.cluster.enabled_hypervisors},
    )
    guests = {answer.node_uuid: answer.value for answer in running if answer.error is None}
    capacities = await ctx.nodes.call_many(
        list(guests), "node_info", deadline_s=GATHER_TIMEOUT_S, **capacity_query(view, ctx.catalogue, template)
    )
    info = {answer.node_uuid: answer.value for answer in capacities if answer.error is None}
    for answer in [*running, *capacities]:
        if answer.error is not None:
            ctx.log.warning(f"Node {view.node(answer.node_uuid).name} is left out of the placement: {answer.error}")
    view = ctx.config.view()
    cluster = view.cluster
    return {
        "version": PROTOCOL_VERSION,
        "cluster_name": cluster.cluster_name,
        "cluster_tags": list(cluster.tags),
        "enabled_hypervisors": list(cluster.enabled_hypervisors),
        "ipolicy": cluster.ipolicy,
        "nodegroups": {
            group.uuid: {
                "name": group.name,
                "alloc_policy": group.alloc_policy,
                "networks": list(group.networks),
                "ipolicy": inheritance.group_ipolicy(cluster, group),
                "tags": list(group.tags),
            }
            for group in view.groups()
        },
        "nodes": {
            node.name: _node(view, node, info.get(node.uuid), guests.get(node.uuid, [])) for node in view.nodes()
        },
        "instances": {instance.name: _instance(view, instance) for instance in view.instances()},
    }


def hv_filled(view: ConfigView, catalogue: Catalogue, hypervisor: str) -> Plain:
    """Hypervisor parameters as an instance of no particular OS would have them."""
    return inheritance.cluster_hv(view.cluster, hypervisor, "", catalogue.hypervisor(hypervisor).parameters)


def capacity_query(view: ConfigView, catalogue: Catalogue, template: TemplateTraits | None) -> Plain:
    """Arguments of the node call `node_info` for memory, processors and the space a template uses."""
    storage = []
    if template is not None and template.directory_setting:
        storage.append({"template": template.name, "setting": getattr(view.cluster, template.directory_setting)})
    hypervisor = view.cluster.enabled_hypervisors[0]
    return {"storage": storage, "hypervisors": {hypervisor: hv_filled(view, catalogue, hypervisor)}}


async def check_capacity(
    ctx: OperationContext, node_uuid: str, spec: InstanceSpec, template: TemplateTraits, *, ignore_memory: bool = False
) -> None:
    """Refuse what the node cannot hold now; raises `PrerequisiteError` with numbers.

    Memory promised to instances that are being created counts as taken. Who calls this holds the node's resources, so
    no such promise is added meanwhile.
    """
    view = ctx.config.view()
    node = view.node(node_uuid)
    name = node.name
    try:
        promised = 0 if ignore_memory else await _promised_memory(ctx, view, node, spec.name)
        answer = await ctx.nodes.call(node_uuid, "node_info", **capacity_query(view, ctx.catalogue, template))
    except NodeCallError as err:
        raise PrerequisiteError(f"Can't get data from node {name}: {err}", "environment_error") from err
    free = next(iter(answer["hypervisors"].values()))["memory_free"] - promised
    needed = spec.beparams["minmem"]
    if not ignore_memory and needed > free:
        raise PrerequisiteError(
            f"Not enough memory on node {name} for {spec.name}: needed {needed} MiB, available {free} MiB",
            INSUFFICIENT_RESOURCES,
        )
    if template.checks_free_space and answer["storage"]:
        space = answer["storage"][0]["storage_free"]
        wanted = sum(disk.size_mib for disk in spec.disks)
        if space is not None and wanted > space:
            raise PrerequisiteError(
                f"Not enough disk space on node {name} for {spec.name}: needed {wanted} MiB, available {space} MiB",
                INSUFFICIENT_RESOURCES,
            )


async def _promised_memory(ctx: OperationContext, view: ConfigView, node: Node, but_for: str) -> int:
    """Memory, in MiB, that instances being created on *node* will use and do not use yet.

    Guests are asked for before the node's free memory: one that starts in between is counted twice, not left out.
    """
    coming = [other for other in view.primary_instances(node.uuid) if other.forthcoming and other.name != but_for]
    if not coming:
        return 0
    hypervisors = {other.hypervisor: hv_filled(view, ctx.catalogue, other.hypervisor) for other in coming}
    guests = await ctx.nodes.call(node.uuid, "all_instances_info", hypervisors=hypervisors)
    used = {guest["name"]: guest["memory_mib"] for guest in guests}
    return sum(_unused(view, other, used) for other in coming)


def _unused(view: ConfigView, instance: Instance, used: Mapping[str, int]) -> int:
    return max(0, int(inheritance.instance_be(view.cluster, instance)["maxmem"]) - used.get(instance.name, 0))


def _nic(view: ConfigView, instance: Instance, index: int) -> Plain:
    nic = instance.nics[index]
    filled = inheritance.nic_params(view.cluster, nic)
    data = {"mac": nic.mac, "ip": nic.ip, "mode": filled["mode"], "link": filled["link"]}
    if filled["mode"] == "bridged":
        data["bridge"] = filled["link"]
    return data


def _instance(view: ConfigView, instance: Instance) -> Plain:
    backend = inheritance.instance_be(view.cluster, instance)
    disks = view.instance_disks(instance)
    return {
        "tags": list(instance.tags),
        "admin_state": instance.admin_state,
        "vcpus": backend["vcpus"],
        "memory": backend["maxmem"],
        "spindle_use": backend["spindle_use"],
        "os": instance.os,
        "nodes": [view.node(uuid).name for uuid in view.instance_nodes(instance)],
        "nics": [_nic(view, instance, index) for index in range(len(instance.nics))],
        "disks": [
            {"dev_type": disk.dev_type, "size": disk.size, "mode": disk.mode, "spindles": disk.spindles}
            for disk in disks
        ],
        "disk_template": view.disk_template(instance),
        "disks_active": instance.disks_active,
        "hypervisor": instance.hypervisor,
        "disk_space_total": sum(disk.size for disk in disks),
    }


def _node(view: ConfigView, node: Node, info: Mapping[str, Any] | None, guests: Sequence[Plain]) -> Plain:
    parameters = inheritance.node_nd(view, node)
    data: Plain = {
        "tags": list(node.tags),
        "primary_ip": node.primary_ip,
        "secondary_ip": node.secondary_ip,
        "offline": node.offline,
        "drained": node.drained,
        "master_candidate": node.master_candidate,
        "group": node.group,
        "master_capable": node.master_capable,
        "vm_capable": node.vm_capable,
        "ndparams": parameters,
    }
    if not node.usable_for_instances:
        return data
    if info is None:
        # A node that does not answer takes no new instance: the protocol has no better word for it than offline.
        return data | {"offline": True}
    memory = next(iter(info["hypervisors"].values()))
    owed, primary, primary_up = _memory_owed(view, node, guests)
    space = info["storage"][0] if info["storage"] else {"storage_size": 0, "storage_free": 0}
    return data | {
        "total_memory": memory["memory_total"],
        "reserved_memory": memory["memory_dom0"],
        "free_memory": memory["memory_free"] - owed,
        "total_disk": space["storage_size"] or 0,
        "free_disk": space["storage_free"] or 0,
        "total_spindles": parameters["spindle_count"],
        "free_spindles": parameters["spindle_count"],
        "total_cpus": memory["cpu_total"],
        "reserved_cpus": memory["cpu_dom0"],
        "i_pri_memory": primary,
        "i_pri_up_memory": primary_up,
    }


def _memory_owed(view: ConfigView, node: Node, guests: Sequence[Plain]) -> tuple[int, int, int]:
    """(promised but not yet used, all primaries', running primaries') memory of a node, in MiB.

    An instance that is being created is promised its memory like one that should run; so is a guest that is just
    arriving from another node.
    """
    used = {guest["name"]: guest["memory_mib"] for guest in guests}
    own = view.primary_instances(node.uuid)
    names = {instance.name for instance in own}
    owed = sum(guest["memory_mib"] for guest in guests if guest["state"] == "incoming" and guest["name"] not in names)
    primary = primary_up = 0
    for instance in own:
        maximum = inheritance.instance_be(view.cluster, instance)["maxmem"]
        primary += maximum
        if instance.admin_state == "up" or instance.forthcoming:
            primary_up += maximum
            owed += _unused(view, instance, used)
    return owed, primary, primary_up

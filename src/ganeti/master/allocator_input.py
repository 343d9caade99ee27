# SPDX-License-Identifier: BSD-2-Clause
"""What an allocator is told of the cluster: iallocator version 2 (protocols, section 7). Pure.

Nodes, groups and instances come in the order of their names, so that ties fall the same whatever the history of the
configuration. Room that is reserved and not used yet is taken off what nodes report as free: memory that instances
should have and do not use, and memory and disks of instances that are being created.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, structs

from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master.cache.node_reports import NodeReport
from ganeti.model import inheritance
from ganeti.model.objects import Disk, Instance, Nic, Node, NodeGroup
from ganeti.model.placement_requests import Allocate, MultiAllocate, PlacementRequest, Relocate, WantedDisk
from ganeti.model.reservations import Reservation
from ganeti.model.templates import disk_space_mib
from ganeti.model.traits import Catalogue, TemplateTraits
from ganeti.model.view import ConfigView

PROTOCOL_VERSION = 2
Plain = dict[str, Any]


def groups_for_new(view: ConfigView, names: str | None) -> list[NodeGroup]:
    """Give the groups that new instances are to be in, with commas between their names; their policy holds (S1.26).

    Of several, those that take no new instances are left out. Raises `PrerequisiteError` for a group that is not there,
    or if none is left.
    """
    words = [names] if names and view.uuid_by_name("nodegroups", names) else (names or "").split(",")
    groups = {group.uuid: group for group in (view.find_group(name) for name in words if name)}
    allocable = [group for group in groups.values() if group.alloc_policy != "unallocable"]
    if groups and not allocable:
        first, *others = (group.name for group in groups.values())
        which = f"None of the node groups {', '.join((first, *others))}" if others else f"Node group {first}"
        raise PrerequisiteError(
            f"{which} takes {'' if others else 'no '}new instances: name another one, or allow it with "
            f"gnt-group modify --alloc-policy=last_resort {first}",
            WRONG_STATE,
        )
    return allocable


def allocate_request(
    view: ConfigView, sketch: Instance, disks: Sequence[Disk], template: TemplateTraits, groups: Sequence[NodeGroup]
) -> Allocate:
    """Request a place for an instance that does not exist yet; of several groups the protocol knows the nodes."""
    group = groups[0] if len(groups) == 1 else None
    nodes = sorted(node.name for each in groups for node in view.group_nodes(each.uuid))
    backend = inheritance.instance_be(view.cluster, sketch)
    return Allocate(
        name=sketch.name,
        memory=backend["maxmem"],
        vcpus=backend["vcpus"],
        spindle_use=backend["spindle_use"],
        disks=[
            WantedDisk(
                size=disk.size,
                mode=disk.mode,
                spindles=disk.spindles,
                name=disk.name,
                vg=None,
                dev_type=template.name,
            )
            for disk in disks
        ],
        disk_template=template.name,
        os=sketch.os,
        tags=list(sketch.tags),
        nics=[_wanted_nic(view, nic, group) for nic in sketch.nics],
        hypervisor=sketch.hypervisor,
        required_nodes=template.node_count,
        disk_space_total=disk_space_mib(template.name, [disk.size for disk in disks]),
        group_name=group.name if group else None,
        restrict_to_nodes=nodes if len(groups) > 1 else UNSET,
    )


def relocate_request(view: ConfigView, instance: Instance, from_nodes: Sequence[str]) -> Relocate:
    """Request another node of the same group; *from_nodes* are the names to leave."""
    return Relocate(name=instance.name, relocate_from=list(from_nodes), disk_space_total=disk_space_of(view, instance))


def reservations_of(
    view: ConfigView, catalogue: Catalogue, request: PlacementRequest, result: Any
) -> list[Reservation]:
    """The room a request was given by an allocator's *result*, which has been checked."""
    if isinstance(request, Allocate):
        return [_allocated(view, request, result)]
    if isinstance(request, MultiAllocate):
        wanted = {each.name: each for each in request.instances}
        return [_allocated(view, wanted[name], names) for name, names in result[0]]
    if isinstance(request, Relocate):
        instance = view.find_instance(request.name)
        reservation = reservation_of(view, instance, None)
        mirrors = catalogue.template(reservation.disk_template).node_count > 1
        nodes = [view.find_node(name).uuid for name in result]
        return [structs.replace(reservation, nodes=nodes, memory_mib=0 if mirrors else reservation.memory_mib)]
    return []


def _allocated(view: ConfigView, request: Allocate, names: Sequence[str]) -> Reservation:
    return Reservation(
        instance=request.name,
        nodes=[view.find_node(name).uuid for name in names],
        memory_mib=request.memory,
        disk_mib=request.disk_space_total,
        vcpus=request.vcpus,
        spindle_use=request.spindle_use,
        spindles=_sum_of([disk.spindles for disk in request.disks]),
        disk_template=request.disk_template,
        tags=request.tags,
    )


def allocator_input(
    view: ConfigView, reports: Mapping[str, NodeReport], reservations: Iterable[Reservation], template: str
) -> Plain:
    """Everything of the input but the request; free space is that of disk template *template*.

    A reservation stands as an instance, so that its processors count.
    """
    cluster = view.cluster
    by_node = instances_by_node(view)
    reserved = [each for each in reservations if all(view.get("nodes", uuid) for uuid in each.nodes)]
    coming = [instance for instance in view.instances() if instance.forthcoming]
    nodes = {}
    for node in sorted(view.nodes(), key=_name):
        report = reports.get(node.uuid)
        entry = node_entry(view, node, report, by_node.get(node.uuid, []), template)
        nodes[node.name] = _less(entry, *_taken(view, node.uuid, coming, reserved, report))
    instances = {instance.name: instance_entry(view, instance) for instance in sorted(view.instances(), key=_name)}
    for reservation in reserved:
        instances.setdefault(reservation.instance, _reservation_entry(view, reservation))
    return {
        "version": PROTOCOL_VERSION,
        "cluster_name": cluster.cluster_name,
        "cluster_tags": list(cluster.tags),
        "enabled_hypervisors": list(cluster.enabled_hypervisors),
        "ipolicy": cluster.ipolicy,
        "nodegroups": {group.uuid: group_entry(view, group) for group in sorted(view.groups(), key=_name)},
        "nodes": nodes,
        "instances": instances,
    }


def instances_by_node(view: ConfigView) -> dict[str, list[Instance]]:
    """Instances by the uuid of their primary node."""
    found: dict[str, list[Instance]] = {}
    for instance in view.instances():
        found.setdefault(instance.primary_node, []).append(instance)
    return found


def group_entry(view: ConfigView, group: NodeGroup) -> Plain:
    return {
        "name": group.name,
        "alloc_policy": group.alloc_policy,
        "networks": list(group.networks),
        "ipolicy": inheritance.group_ipolicy(view.cluster, group),
        "tags": list(group.tags),
    }


def node_entry(
    view: ConfigView, node: Node, report: NodeReport | None, own: Sequence[Instance], template: str
) -> Plain:
    """One node; *own* are its primary instances. One that is silent takes no new instance: it is called offline."""
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
    if report is None or report.silence:
        return data | {"offline": True}
    owed, primary, primary_up = _memory_owed(view, report, own)
    space = report.space_for(template)
    spindles = free_spindles = 0
    if parameters["exclusive_storage"]:
        spindles, free_spindles = report.spindles or (parameters["spindle_count"],) * 2
    return data | {
        "total_memory": report.memory_total_mib,
        "reserved_memory": report.memory_node_mib,
        "free_memory": report.memory_free_mib - owed,
        "total_disk": space.size_mib,
        "free_disk": space.free_mib,
        "total_spindles": spindles,
        "free_spindles": free_spindles,
        "total_cpus": report.cpu_total,
        "reserved_cpus": report.cpu_node,
        "i_pri_memory": primary,
        "i_pri_up_memory": primary_up,
    }


def instance_entry(view: ConfigView, instance: Instance) -> Plain:
    backend = inheritance.instance_be(view.cluster, instance)
    disks = view.instance_disks(instance)
    group = view.group(view.node(instance.primary_node).group)
    return {
        "tags": list(instance.tags),
        "admin_state": instance.admin_state,
        "vcpus": backend["vcpus"],
        "memory": backend["maxmem"],
        "spindle_use": backend["spindle_use"],
        "os": instance.os,
        "nodes": [view.node(uuid).name for uuid in view.instance_nodes(instance)],
        "nics": [_nic(view, nic, group) for nic in instance.nics],
        "disks": [
            {"dev_type": disk.dev_type, "size": disk.size, "mode": disk.mode, "spindles": disk.spindles}
            for disk in disks
        ],
        "disk_template": view.disk_template(instance),
        "disks_active": instance.disks_active,
        "hypervisor": instance.hypervisor,
        "disk_space_total": disk_space_of(view, instance),
    }


def reservation_of(view: ConfigView, instance: Instance, report: NodeReport | None) -> Reservation:
    """The room an instance that is being created will take and does not use yet."""
    backend = inheritance.instance_be(view.cluster, instance)
    disks = view.instance_disks(instance)
    used = {name: memory for name, memory, _ in report.guests} if report is not None else {}
    return Reservation(
        instance=instance.name,
        nodes=view.instance_nodes(instance)[:2],
        memory_mib=max(0, int(backend["maxmem"]) - used.get(instance.name, 0)),
        disk_mib=disk_space_of(view, instance),
        vcpus=backend["vcpus"],
        spindle_use=backend["spindle_use"],
        spindles=_sum_of([disk.spindles for disk in disks]),
        disk_template=view.disk_template(instance),
        tags=list(instance.tags),
    )


def disk_space_of(view: ConfigView, instance: Instance) -> int:
    """MiB that the disks of an instance take on each of its nodes."""
    return sum(disk_space_mib(disk.dev_type, [disk.size]) for disk in view.instance_disks(instance))


def unused(view: ConfigView, instance: Instance, used: Mapping[str, int]) -> int:
    """Memory in MiB an instance may have and does not use; *used* is what guests use, by name."""
    return max(0, int(inheritance.instance_be(view.cluster, instance)["maxmem"]) - used.get(instance.name, 0))


def _sum_of(spindles: Sequence[int | None]) -> int | None:
    """None where a disk names none."""
    named = [number for number in spindles if number is not None]
    return sum(named) if len(named) == len(spindles) else None


def _reservation_entry(view: ConfigView, reservation: Reservation) -> Plain:
    return {
        "tags": list(reservation.tags),
        "admin_state": "up",
        "vcpus": reservation.vcpus,
        "memory": reservation.memory_mib,
        "spindle_use": reservation.spindle_use,
        "os": "",
        "nodes": [view.node(uuid).name for uuid in reservation.nodes],
        "nics": [],
        "disks": [],
        "disk_template": reservation.disk_template,
        "disks_active": False,
        "hypervisor": "",
        "disk_space_total": reservation.disk_mib,
    }


def _taken(
    view: ConfigView,
    node_uuid: str,
    coming: Iterable[Instance],
    reserved: Iterable[Reservation],
    report: NodeReport | None,
) -> tuple[int, int, int]:
    """Memory and disk space in MiB and spindles that are reserved on a node and not owed to its own instances."""
    guests = {name for name, _, _ in report.guests} if report is not None else set()
    memory = disk = spindles = 0
    for reservation in reserved:
        arrived = reservation.instance in guests
        memory += reservation.memory_mib if reservation.nodes[0] == node_uuid and not arrived else 0
        disk += reservation.disk_mib if node_uuid in reservation.nodes else 0
        spindles += (reservation.spindles or 0) if node_uuid in reservation.nodes else 0
    for instance in coming:
        if node_uuid in view.instance_nodes(instance):
            disk += sum(each.size for each in view.instance_disks(instance))
            spindles += sum(each.spindles or 0 for each in view.instance_disks(instance))
    return memory, disk, spindles


def _less(entry: Plain, memory_mib: int, disk_mib: int, spindles: int) -> Plain:
    if "free_memory" not in entry:
        return entry
    return entry | {
        "free_memory": entry["free_memory"] - memory_mib,
        "free_disk": max(0, entry["free_disk"] - disk_mib),
        "free_spindles": max(0, entry["free_spindles"] - spindles),
        "i_pri_memory": entry["i_pri_memory"] + memory_mib,
        "i_pri_up_memory": entry["i_pri_up_memory"] + memory_mib,
    }


def _nic(view: ConfigView, nic: Nic, group: NodeGroup | None) -> Plain:
    """A NIC; one in a network has what the network's connection to *group* says, where the group is known."""
    filled = inheritance.nic_params(view.cluster, nic, group)
    data = {"mac": nic.mac, "ip": nic.ip, "mode": filled["mode"], "link": filled["link"]}
    if filled["mode"] == "bridged":
        data["bridge"] = filled["link"]
    return data


def _wanted_nic(view: ConfigView, nic: Nic, group: NodeGroup | None) -> Plain:
    """A NIC of an instance to be placed: also what was asked of it, as 3.1 has it.

    What is not set is left out, but for the address, which programs may read unasked (S5.34). A group must be
    connected to the network of a NIC (protocols, 7; htools, 10).
    """
    asked = {"network": nic.network, "name": nic.name, "uuid": nic.uuid, "nicparams": dict(nic.nicparams)}
    return _nic(view, nic, group) | {key: value for key, value in asked.items() if value not in (None, "")}


def _memory_owed(view: ConfigView, report: NodeReport, own: Sequence[Instance]) -> tuple[int, int, int]:
    """(reserved but not yet used, all primaries', running primaries') memory of a node, in MiB.

    An instance that is being created has its memory reserved like one that should run; so is a guest that is just
    arriving from another node.
    """
    used = {name: memory for name, memory, _ in report.guests}
    names = {instance.name for instance in own}
    owed = sum(memory for name, memory, state in report.guests if state == "incoming" and name not in names)
    primary = primary_up = 0
    for instance in own:
        maximum = inheritance.instance_be(view.cluster, instance)["maxmem"]
        primary += maximum
        if instance.admin_state == "up" or instance.forthcoming:
            primary_up += maximum
            owed += unused(view, instance, used)
    return owed, primary, primary_up


def _name(obj: Node | NodeGroup | Instance) -> str:
    return obj.name

# SPDX-License-Identifier: BSD-2-Clause
"""From the iallocator's dictionaries (version 2) to a `Cluster` and a request (spec: protocols, 7; S5.8-S5.36).

Tolerant where old inputs are short (S5.43), strict where an answer would be a guess: a missing size, a wrong type or an
unknown name is a `RequestError` with the words of 3.1.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ganeti.model.hypervisors import HYPERVISORS, NODE_MEMORY_NOT_REPORTED
from ganeti.model.templates import TEMPLATES_BY_SPELLING
from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance, Node, Status
from ganeti.placement.cluster.policy import BUILT_IN_POLICY, Policy, Spec
from ganeti.placement.request.fields import MISSING, Fields
from ganeti.placement.request.terms import (
    Allocate,
    AllocateSecondary,
    ChangeGroup,
    EvacuationMode,
    MultiAllocate,
    MultiEvacuate,
    NodeEvacuate,
    Relocate,
    Request,
    RequestError,
)

DEFAULT_GROUP = "default"
STATIC_NODE_MEMORY_MIB = 4096
_STATUS = {"up": Status.RUNNING, "down": Status.ADMIN_DOWN, "offline": Status.ADMIN_OFFLINE}
_NIC_MODES = ("bridged", "routed", "openvswitch")


def _record(what: str, data: Any) -> Fields:
    """The fields of one of several records; 3.1 does not say which of them is none."""
    if not isinstance(data, Mapping):
        raise RequestError("not an object")
    return Fields(what, data, strict=True)


def _records(what: str, data: Mapping[str, Any], key: str) -> list[Fields]:
    """A list of records; without any where it is missing."""
    found = data.get(key, [])
    if not isinstance(found, list):
        raise RequestError(f"Invalid input, expected array but got {json.dumps(found, ensure_ascii=False)}")
    return [_record(what, item) for item in found]


def read_cluster(
    message: Mapping[str, Any],
    *,
    static_node_memory_mib: int = STATIC_NODE_MEMORY_MIB,
    hypervisors: Collection[str] = HYPERVISORS,
) -> Cluster:
    """Read everything but the request. *static_node_memory_mib* above 0 stands in where what nodes report is no use.

    *hypervisors* are the known ones, by default those of 3.1; a cluster of our own may have more.
    """
    top = Fields("invalid iallocator message", message, strict=True)
    groups = [_read_group(uuid, data) for uuid, data in top.get("nodegroups", dict, {}).items()]
    node_data = top.get("nodes", dict)
    if not groups:
        groups = [Group(uuid=DEFAULT_GROUP, name=DEFAULT_GROUP)]
    enabled = top.words("enabled_hypervisors", hypervisors, "Hypervisor", [])
    fixed = static_node_memory_mib if enabled[:1] and enabled[0] in NODE_MEMORY_NOT_REPORTED else 0
    nodes = [_read_node(name, data, groups, max(0, fixed)) for name, data in node_data.items()]
    names = {node.name for node in nodes}
    instances = [_read_placed(name, data, names) for name, data in top.get("instances", dict, {}).items()]
    return Cluster(nodes=nodes, instances=instances, groups=groups, tags=top.strings("cluster_tags", []))


def _read_group(uuid: str, data: Any) -> Group:
    fields = _record(f"invalid data for group '{uuid}'", data)
    text = fields.word("alloc_policy", list(AllocPolicy), "AllocPolicy", AllocPolicy.PREFERRED.value)
    policy = read_policy(fields.sub("ipolicy")) if "ipolicy" in fields.data else BUILT_IN_POLICY
    return Group(
        uuid=uuid,
        name=fields.get("name", str),
        alloc_policy=AllocPolicy(text),
        policy=policy,
        networks=fields.strings("networks", []),
        tags=fields.strings("tags", []),
    )


def read_policy(fields: Fields) -> Policy:
    standard = fields.get("std", dict, None)
    ranges = []
    given = fields.get("minmax", list, None)
    for pair in given or ():
        both = Fields(f"{fields.what}: Can't parse value for 'minmax'", pair, inner=True, strict=fields.strict)
        ranges.append((_read_spec(both.sub("min")), _read_spec(both.sub("max"))))
    return Policy(
        standard=_read_spec(fields.sub("std")) if standard is not None else BUILT_IN_POLICY.standard,
        ranges=BUILT_IN_POLICY.ranges if given is None else tuple(ranges),
        templates=fields.words(
            "disk-templates", TEMPLATES_BY_SPELLING, "DiskTemplate", list(BUILT_IN_POLICY.templates)
        ),
        vcpu_ratio=fields.get("vcpu-ratio", float, BUILT_IN_POLICY.vcpu_ratio),
        spindle_ratio=fields.get("spindle-ratio", float, BUILT_IN_POLICY.spindle_ratio),
    )


def _read_spec(fields: Fields) -> Spec:
    return Spec(
        memory_mib=fields.get("memory-size", int),
        cpus=fields.get("cpu-count", int),
        disk_mib=fields.get("disk-size", int),
        disks=fields.get("disk-count", int),
        nics=fields.get("nic-count", int),
        spindle_use=fields.get("spindle-use", int),
    )


def _read_node(name: str, data: Any, groups: list[Group], fixed_memory_mib: int) -> Node:
    fields = _record(f"invalid data for node '{name}'", data)
    group = fields.get("group", str, groups[0].uuid if len(groups) == 1 else MISSING)
    if group not in {known.uuid for known in groups}:
        raise RequestError(f"Unknown group '{group}' for node {name}")
    offline = fields.get("offline", bool, False)
    drained = fields.get("drained", bool, False)
    capable = _bears_instances(fields)
    unavailable = "offline" if offline else "drained" if drained else "" if capable else "not vm_capable"
    node = Node(name=name, group=group, unavailable=unavailable, tags=fields.perhaps("tags", tuple, ()))
    return _with_resources(node, fields, fixed_memory_mib)


def _bears_instances(fields: Fields) -> bool:
    return fields.data.get("vm_capable") is None or bool(fields.get("vm_capable", bool))


def _with_resources(node: Node, fields: Fields, fixed_memory_mib: int) -> Node:
    """Add the runtime keys; S5.30 lets them be absent for a node that takes nothing."""
    absent = 0 if node.unavailable else MISSING
    params = _record(fields.what, fields.data.get("ndparams", {}))
    exclusive = params.get("exclusive_storage", bool, False)
    dead = node.unavailable == "offline" or not _bears_instances(fields)

    def number(key: str, kind: type = int, default: Any = absent) -> Any:
        return kind(0) if dead else fields.get(key, kind, default)

    reserved_mib = number("reserved_memory", int, 0)
    return replace(
        node,
        total_memory_mib=number("total_memory", float),
        node_memory_mib=fixed_memory_mib or reserved_mib,
        free_memory_mib=number("free_memory"),
        total_disk_mib=number("total_disk", float),
        free_disk_mib=number("free_disk"),
        total_cpus=number("total_cpus", float),
        node_cpus=number("reserved_cpus", int, 1),
        spindles=number("total_spindles", int, 0) if exclusive else params.get("spindle_count", int, 1),
        free_spindles=number("free_spindles", int, 0),
        exclusive_storage=exclusive,
    )


def _read_placed(name: str, data: Any, nodes: set[str]) -> Instance:
    fields = _record(f"invalid data for instance '{name}'", data)
    places = _places(fields)
    if not places:
        raise RequestError(f"empty node list for instance {name}")
    for place in places[:2]:
        if place not in nodes:
            raise RequestError(f"Unknown node '{place}' for instance {name}")
    instance = _read_instance(name, fields)
    secondary = places[1] if len(places) > 1 else ""
    return replace(instance, primary=places[0], secondary=secondary, status=_read_status(fields))


def _places(fields: Fields) -> list[str]:
    found = fields.get("nodes", object)
    if not isinstance(found, list):
        raise RequestError("key 'nodes': Unable to read list")
    if not all(isinstance(place, str) for place in found):
        raise RequestError("Wrong JSON type")
    return found


def _read_status(fields: Fields) -> Status:
    state = fields.data.get("admin_state")
    if isinstance(state, str):
        return _STATUS.get(state, Status.RUNNING)
    for key in ("admin_up", "should_run"):
        if key in fields.data:
            return Status.RUNNING if fields.data[key] else Status.ADMIN_DOWN
    return Status.RUNNING


def _read_instance(name: str, fields: Fields) -> Instance:
    template = TEMPLATES_BY_SPELLING[fields.word("disk_template", TEMPLATES_BY_SPELLING, "DiskTemplate")].name
    disks = tuple(_read_disk(disk) for disk in _records(fields.what, fields.data, "disks"))
    return Instance(
        name=name,
        memory_mib=fields.get("memory", int),
        disk_mib=fields.get("disk_space_total", int, sum(disk.size_mib for disk in disks)),
        vcpus=fields.get("vcpus", int),
        template=template,
        disks=disks,
        spindle_use=fields.get("spindle_use", int, 1),
        tags=fields.strings("tags", []),
        networks=tuple(_networks(name, fields)),
    )


def _read_disk(fields: Fields) -> Disk:
    spindles = None if fields.data.get("spindles") is None else fields.get("spindles", int)
    return Disk(size_mib=fields.get("size", int), spindles=spindles)


def _networks(name: str, fields: Fields) -> Iterable[str]:
    for nic in _records(fields.what, fields.data, "nics"):
        for key in ("mac", "ip", "link", "bridge"):
            nic.perhaps(key, str, None)
        if nic.perhaps("mode", str, _NIC_MODES[0]) not in _NIC_MODES:
            raise RequestError(f"invalid NIC mode in instance {name}")
        network = nic.perhaps("network", str, None)
        if network is not None:
            yield network


def read_request(data: Any) -> Request:
    """Read the ``request`` dictionary of protocol version 2."""
    fields = Fields("invalid request dict", data, strict=True)
    kind = fields.get("type", str)
    reader = _READERS.get(kind)
    if reader is None:
        raise RequestError(f"Invalid request type '{kind}'")
    return reader(fields)


def _read_allocate(fields: Fields) -> Allocate:
    name = fields.get("name", str)
    instance = _read_instance(name, _record(f"invalid data for instance '{name}'", fields.data))
    required = fields.get("required_nodes", int)
    restrict = fields.perhaps("restrict-to-nodes", tuple, None)
    return Allocate(instance=instance, required_nodes=required, restrict_to=restrict)


def _read_one(fields: Fields) -> Allocate:
    return replace(_read_allocate(fields), group=fields.perhaps("group_name", str, ""))


def _read_relocate(fields: Fields) -> Relocate:
    return Relocate(
        name=fields.get("name", str),
        relocate_from=fields.strings("relocate_from"),
        required_nodes=fields.get("required_nodes", int, 1),
    )


def _read_evacuate(fields: Fields) -> NodeEvacuate:
    mode = fields.word("evac_mode", list(EvacuationMode), "EvacMode")
    return NodeEvacuate(instances=fields.strings("instances"), mode=EvacuationMode(mode))


def _read_multi(fields: Fields) -> MultiAllocate:
    items = fields.get("instances", list)
    if not all(isinstance(item, Mapping) for item in items):
        raise RequestError(f"{fields.what}: key 'instances': Unable to read JSObject")
    requests = tuple(_read_allocate(Fields(fields.what, item, strict=True)) for item in items)
    return MultiAllocate(requests=requests, group=fields.perhaps("group_name", str, ""))


def _read_capacity(fields: Fields) -> Request:
    from ganeti.placement.request import capacity_reading  # few ask this

    return capacity_reading.read(fields)


_READERS: Mapping[str, Callable[[Fields], Request]] = {
    "allocate": _read_one,
    "allocate-secondary": lambda fields: AllocateSecondary(name=fields.get("name", str)),
    "relocate": _read_relocate,
    "multi-allocate": _read_multi,
    "node-evacuate": _read_evacuate,
    "multi-evacuate": lambda fields: MultiEvacuate(nodes=fields.strings("evac_nodes")),
    "capacity": _read_capacity,
    "change-group": lambda fields: ChangeGroup(
        instances=fields.strings("instances"), target_groups=fields.strings("target_groups", [])
    ),
}

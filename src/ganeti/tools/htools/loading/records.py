# SPDX-License-Identifier: BSD-2-Clause
"""What a running cluster says of itself, as RAPI names it, turned into a `Cluster` (spec: htools, 1; rapi, 4).

Strict, with the words of 3.1: a live node that does not tell its size is an error, not a small node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ganeti.model.hypervisors import NODE_MEMORY_NOT_REPORTED
from ganeti.model.templates import TEMPLATES_BY_SPELLING
from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance, Node, Status
from ganeti.placement.request.fields import Fields
from ganeti.placement.request.reading import read_policy
from ganeti.placement.request.terms import RequestError

_NO_GROUP = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Records:
    """The four lists of a cluster; *nodes* and *instances* have the keys of RAPI's bulk lists.

    *cpu_speeds*: the nodes' parameter ``cpu_speed`` counts. Of those that RAPI tells it does not.
    """

    groups: Sequence[Any]
    nodes: Sequence[Any]
    instances: Sequence[Any]
    info: Mapping[str, Any]
    cpu_speeds: bool = False


def read(records: Records, *, static_node_memory_mib: int) -> tuple[Cluster, str]:
    """Build the cluster and name its master; raises `RequestError`."""
    groups = [_read_group(data) for data in records.groups]
    uuids = {group.uuid for group in groups}
    info = Fields("Parsing cluster data", records.info)
    fixed = static_node_memory_mib if records.info.get("default_hypervisor") in NODE_MEMORY_NOT_REPORTED else 0
    nodes = [_read_node(data, uuids, max(0, fixed)) for data in records.nodes]
    if not records.cpu_speeds:
        nodes = [replace(node, cpu_speed=1.0) for node in nodes]
    names = {node.name for node in nodes}
    instances = [_read_instance(data, names) for data in records.instances]
    master = info.get("master", str)
    tags = info.strings("tags")
    policy = read_policy(info.sub("ipolicy"))
    info.get("default_hypervisor", str)
    if master not in names:
        raise RequestError(f"Master node {master} unknown")
    return Cluster(nodes, instances, groups, tags, policy), master


def _read_group(data: Any) -> Group:
    name = Fields("Parsing new group", data).get("name", str)
    fields = Fields(f"Group '{name}'", data)
    return Group(
        uuid=fields.get("uuid", str),
        name=name,
        alloc_policy=AllocPolicy(fields.word("alloc_policy", list(AllocPolicy), "AllocPolicy")),
        policy=read_policy(fields.sub("ipolicy")),
        tags=fields.strings("tags"),
    )


def _read_node(data: Any, groups: set[str], fixed_memory_mib: int) -> Node:
    name = Fields("Parsing new node", data).get("name", str)
    fields = Fields(f"Node '{name}', error while parsing data", data)
    offline, drained = fields.get("offline", bool), fields.get("drained", bool)
    capable = fields.get("vm_capable", bool, True)
    params = Fields(fields.what, fields.get("ndparams", dict))
    exclusive = params.get("exclusive_storage", bool)
    group = fields.get("group.uuid", str, _NO_GROUP)
    if group not in groups:
        raise RequestError(f"Unknown group '{group}' for node {name}")
    live = capable and not offline

    def number(key: str, kind: type, *default: Any) -> Any:
        return fields.get(key, kind, *default) if live else kind(0)

    reported_memory_mib = number("mnode", int)
    unavailable = "offline" if offline else "drained" if drained else "" if capable else "not vm_capable"
    return Node(
        name=name,
        group=group,
        total_memory_mib=number("mtotal", float),
        node_memory_mib=fixed_memory_mib or reported_memory_mib,
        free_memory_mib=number("mfree", int),
        total_disk_mib=number("dtotal", float, 0.0),
        free_disk_mib=number("dfree", int, 0),
        total_cpus=number("ctotal", float),
        node_cpus=number("cnos", int),
        unavailable=unavailable,
        spindles=number("sptotal", int) if exclusive else params.get("spindle_count", int, 0),
        free_spindles=number("spfree", int, *(() if exclusive else (0,))),
        exclusive_storage=exclusive,
        cpu_speed=params.get("cpu_speed", float, 1.0),
        tags=fields.strings("tags"),
    )


def _read_instance(data: Any, nodes: set[str]) -> Instance:
    name = Fields("Parsing new instance", data).get("name", str)
    fields = Fields(f"Instance '{name}', error while parsing data", data)
    size = fields.get("disk_usage", int)
    disks = _read_disks(fields)
    params = Fields(fields.what, fields.get("beparams", dict))
    memory = _memory(fields, params)
    vcpus = params.get("vcpus", int)
    primary = fields.get("pnode", str)
    secondary = "".join(fields.strings("snodes")[:1])
    for node in (primary, secondary) if secondary else (primary,):
        if node not in nodes:
            raise RequestError(f"Unknown node '{node}' for instance {name}")
    status = fields.word("status", [status.value for status in Status], "InstanceStatus")
    return Instance(
        name=name,
        memory_mib=memory,
        disk_mib=size,
        vcpus=vcpus,
        template=TEMPLATES_BY_SPELLING[fields.word("disk_template", TEMPLATES_BY_SPELLING, "DiskTemplate")].name,
        primary=primary,
        secondary=secondary,
        disks=disks,
        status=Status(status),
        auto_balance=params.get("auto_balance", bool),
        spindle_use=params.get("spindle_use", int),
        forthcoming=fields.get("forthcoming", bool, False),
        tags=fields.strings("tags"),
    )


def _memory(fields: Fields, params: Fields) -> int:
    """What it uses now, if that is known, or else may use."""
    used = fields.get("oper_ram", object)
    if isinstance(used, int | float) and not isinstance(used, bool):
        return int(fields.get("oper_ram", int))
    return int(params.get("memory" if "memory" in params.data else "maxmem", int))


def _read_disks(fields: Fields) -> tuple[Disk, ...]:
    sizes = Fields(fields.what, {str(n): size for n, size in enumerate(fields.get("disk.sizes", list))})
    spindles = Fields(fields.what, {str(n): count for n, count in enumerate(fields.get("disk.spindles", list))})
    return tuple(Disk(sizes.get(key, int), spindles.get(key, int, None)) for key in sizes.data if key in spindles.data)

# SPDX-License-Identifier: BSD-2-Clause
"""An allocator's input decoded straight into typed records, and only what placement looks at (spec: protocols, 7).

The records are strict: whatever does not fit them is left to the slow reader, which knows what to say about it. Apart
from that one because their import costs more than reading a small message slowly.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ganeti.model.templates import TEMPLATES_BY_SPELLING
from ganeti.placement.cluster.picture import Cluster, Disk, Instance, Status
from ganeti.placement.request import reading
from ganeti.placement.request.terms import RequestError
from ganeti.wire.iallocator import modern

_STATUS = {"up": Status.RUNNING, "down": Status.ADMIN_DOWN, "offline": Status.ADMIN_OFFLINE}
_Whole = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Disk(msgspec.Struct, gc=False):
    size: _Whole
    spindles: _Whole | None = None


class _Nic(msgspec.Struct, gc=False):
    network: str | None = None
    mode: Literal["bridged", "routed", "openvswitch", None] = None
    mac: str | None = None
    ip: str | None = None
    link: str | None = None
    bridge: str | None = None


class _Instance(msgspec.Struct, gc=False):
    nodes: list[str]
    memory: _Whole
    vcpus: _Whole
    disk_template: str
    disks: list[_Disk] = []
    disk_space_total: _Whole | UnsetType = UNSET
    spindle_use: _Whole = 1
    tags: list[str] = []
    nics: list[_Nic] = []
    admin_state: str | UnsetType = UNSET
    admin_up: Any = UNSET
    should_run: Any = UNSET


class _Message(msgspec.Struct, gc=False):
    nodes: Any
    request: Any
    instances: dict[str, _Instance] = {}
    version: Any = UNSET
    nodegroups: Any = UNSET
    cluster_tags: Any = UNSET
    enabled_hypervisors: Any = UNSET


class _Unusual(Exception):
    """The message has something the records have no place for."""


_REST = ("nodes", "version", "nodegroups", "cluster_tags", "enabled_hypervisors", "request")


def read(data: bytes, static_node_memory_mib: int) -> tuple[Cluster, Any] | None:
    """Read the cluster of a message and its request; None if it must be read slowly."""
    try:
        return _read(data, static_node_memory_mib)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, RequestError, _Unusual):
        return None


def _read(data: bytes, static_node_memory_mib: int) -> tuple[Cluster, Any]:
    message = _DECODER.decode(data)
    rest = {name: value for name in _REST if (value := getattr(message, name)) is not UNSET}
    plain = modern(rest)
    if not isinstance(plain["request"], dict):
        raise _Unusual
    cluster = reading.read_cluster(plain, static_node_memory_mib=static_node_memory_mib)
    names = {node.name for node in cluster.nodes}
    instances = _read_instances(message.instances, names)
    return Cluster(cluster.nodes, instances, cluster.groups, cluster.tags, cluster.policy), plain.get("request")


_DECODER = msgspec.json.Decoder(_Message)


def _read_instances(found: Mapping[str, _Instance], nodes: set[str]) -> list[Instance]:
    instances = []
    for name, data in found.items():
        places = data.nodes
        if not places or not nodes.issuperset(places[:2]) or data.admin_up is not UNSET or data.should_run is not UNSET:
            raise _Unusual
        traits = TEMPLATES_BY_SPELLING.get(data.disk_template)
        if traits is None:
            raise _Unusual
        disks = tuple([Disk(disk.size, disk.spindles) for disk in data.disks])
        space = data.disk_space_total
        status = Status.RUNNING
        if isinstance(data.admin_state, str):
            status = _STATUS.get(data.admin_state, status)
        instances.append(
            Instance(
                name,
                data.memory,
                sum([disk.size_mib for disk in disks]) if isinstance(space, UnsetType) else space,
                data.vcpus,
                traits.name,
                places[0],
                places[1] if len(places) > 1 else "",
                disks,
                status,
                True,
                data.spindle_use,
                False,
                tuple(data.tags) if data.tags else (),
                tuple([nic.network for nic in data.nics if nic.network is not None]) if data.nics else (),
            )
        )
    return instances

# SPDX-License-Identifier: BSD-2-Clause
"""Fields of nodes (rapi, section 4); live ones come from the node's own answer, those about copies from WConfD's."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ganeti.base.natural import natural_key
from ganeti.master.query.fields import (
    BOOL,
    FLOAT,
    NODATA,
    NUMBER,
    OFFLINE,
    OTHER,
    TEXT,
    UNAVAILABLE,
    UNIT,
    Field,
    Missing,
    QueryWorld,
    Resource,
    or_unavailable,
    stored_fields,
    table,
)
from ganeti.model import inheritance
from ganeti.model.copies import Copies, Copy, position_text
from ganeti.model.objects import Node
from ganeti.model.parameters import NODE_PARAMETERS, Parameter

SYNC_FIELDS = frozenset({"sync_state", "sync_position"})
"""Answered by WConfD, not by the nodes."""
MASTER, CANDIDATE, REGULAR, DRAINED, OFFLINE_ROLE = "M", "C", "R", "D", "O"


@dataclass
class NodeRow:
    node: Node
    world: QueryWorld
    live: dict[str, Any] | None = None
    """The node's answer to `node_info`; None where there is none."""
    copies: Copies | None = None
    """Who has copies of the configuration; None where WConfD did not say."""

    @property
    def is_master(self) -> bool:
        return self.node.uuid == self.world.view.cluster.master_node

    @property
    def role(self) -> str:
        if self.is_master:
            return MASTER
        if self.node.master_candidate:
            return CANDIDATE
        if self.node.drained:
            return DRAINED
        return OFFLINE_ROLE if self.node.offline else REGULAR

    @cached_property
    def parameters(self) -> dict[str, Any]:
        return inheritance.node_nd(self.world.view, self.node)

    @cached_property
    def primaries(self) -> list[str]:
        return _instances_by_node(self.world)[0].get(self.node.uuid, [])

    @cached_property
    def secondaries(self) -> list[str]:
        return _instances_by_node(self.world)[1].get(self.node.uuid, [])


def _instances_by_node(world: QueryWorld) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Names of instances by primary and by secondary node; gone through once per query."""
    found = world.extra.get("instances by node")
    if found is None:
        primary: dict[str, list[str]] = {}
        secondary: dict[str, list[str]] = {}
        for instance in sorted(world.view.instances(), key=lambda item: natural_key(item.name)):
            primary.setdefault(instance.primary_node, []).append(instance.name)
            for uuid in world.view.secondary_nodes(instance):
                secondary.setdefault(uuid, []).append(instance.name)
        found = world.extra["instances by node"] = (primary, secondary)
    by_primary, by_secondary = found
    return by_primary, by_secondary


def _live(get: Callable[[dict[str, Any]], Any]) -> Callable[[NodeRow], Any]:
    def value(row: NodeRow) -> Any:
        if row.node.offline:
            return OFFLINE
        if not row.node.vm_capable:
            return UNAVAILABLE
        if row.live is None:
            return NODATA
        found = get(row.live)
        return NODATA if found is None else found

    return value


def _hypervisor(key: str) -> Callable[[NodeRow], Any]:
    """A number of the default hypervisor: the first one that answered."""

    def number(live: dict[str, Any]) -> Any:
        for capacity in live["hypervisors"].values():
            return capacity.get(key)
        return None

    return _live(number)


def _storage(key: str) -> Callable[[NodeRow], Any]:
    return _live(lambda live: live["storage"][0][key] if live["storage"] else None)


def _boot_id(row: NodeRow) -> Any:
    if row.node.offline:
        return OFFLINE
    return NODATA if row.live is None else row.live["boot_id"]


def _copy(get: Callable[[Copy], Any]) -> Callable[[NodeRow], Any]:
    """Of a candidate's copy; other nodes have none, and those that WConfD says nothing of have no data."""

    def value(row: NodeRow) -> Any:
        if not row.node.master_candidate and not row.is_master:
            return UNAVAILABLE
        if row.node.offline:
            return OFFLINE
        copy = row.copies.nodes.get(row.node.uuid) if row.copies is not None else None
        found = get(copy) if copy is not None else None
        return NODATA if found is None else found

    return value


def _powered(row: NodeRow) -> Any:
    return row.node.powered if row.parameters.get("oob_program") else UNAVAILABLE


def _without_spindles(row: NodeRow) -> Missing:
    """Only storage of physical disks counts spindles."""
    return OFFLINE if row.node.offline else UNAVAILABLE


_TITLES = {
    "exclusive_storage": "ExclusiveStorage",
    "oob_program": "OutOfBandProgram",
    "ovs": "OpenvSwitch",
    "ovs_link": "OpenvSwitchLink",
    "ovs_name": "OpenvSwitchName",
    "spindle_count": "SpindleCount",
}
KINDS_OF_PARAMETERS = {"bool": BOOL, "int": NUMBER, "float": FLOAT, "size": UNIT}


def _parameter(parameter: Parameter) -> Field:
    name = parameter.name
    kind = KINDS_OF_PARAMETERS.get(parameter.kind, TEXT)
    title = _TITLES.get(name, f"ndp/{name}")
    return Field(f"ndp/{name}", title, kind, f'The "{name}" node parameter', lambda r: r.parameters[name])


NODES = Resource(
    "node",
    "name",
    table(
        [
            Field("drained", "Drained", BOOL, "Whether node is drained", lambda r: r.node.drained),
            Field(
                "master_candidate",
                "MasterC",
                BOOL,
                "Whether node is a master candidate",
                lambda r: r.node.master_candidate,
            ),
            Field(
                "master_capable",
                "MasterCapable",
                BOOL,
                "Whether node can become a master candidate",
                lambda r: r.node.master_capable,
            ),
            Field("name", "Node", TEXT, "Node name", lambda r: r.node.name, host_name=True),
            Field("offline", "Offline", BOOL, "Whether node is marked offline", lambda r: r.node.offline),
            Field("vm_capable", "VMCapable", BOOL, "Whether node can host instances", lambda r: r.node.vm_capable),
            Field("pip", "PrimaryIP", TEXT, "Primary IP address", lambda r: r.node.primary_ip),
            Field("sip", "SecondaryIP", TEXT, "Secondary IP address", lambda r: r.node.secondary_ip),
            Field("master", "IsMaster", BOOL, "Whether node is master", lambda r: r.is_master),
            Field("group", "Group", TEXT, "Node group", lambda r: r.world.view.group(r.node.group).name),
            Field("group.uuid", "GroupUUID", TEXT, "UUID of node group", lambda r: r.node.group),
            Field("ndparams", "NodeParameters", OTHER, "Merged node parameters", lambda r: r.parameters),
            Field(
                "custom_ndparams", "CustomNodeParameters", OTHER, "Custom node parameters", lambda r: r.node.ndparams
            ),
            Field(
                "pinst_cnt",
                "Pinst",
                NUMBER,
                "Number of instances with this node as primary",
                lambda r: len(r.primaries),
            ),
            Field(
                "sinst_cnt",
                "Sinst",
                NUMBER,
                "Number of instances with this node as secondary",
                lambda r: len(r.secondaries),
            ),
            Field(
                "pinst_list",
                "PriInstances",
                OTHER,
                "List of instances with this node as primary",
                lambda r: r.primaries,
            ),
            Field(
                "sinst_list",
                "SecInstances",
                OTHER,
                "List of instances with this node as secondary",
                lambda r: r.secondaries,
            ),
            Field(
                "role",
                "Role",
                TEXT,
                "Node role; M for master, C for master candidate, R for regular, D for drained, O for offline",
                lambda r: r.role,
            ),
            Field("powered", "Powered", BOOL, "Whether node is thought to be powered on", _powered),
            Field(
                "hv_state",
                "HypervisorState",
                OTHER,
                "Static hypervisor state",
                lambda r: or_unavailable(r.node.hv_state_static),
            ),
            Field(
                "disk_state",
                "DiskState",
                OTHER,
                "Static disk state",
                lambda r: or_unavailable(r.node.disk_state_static),
            ),
            Field(
                "bootid",
                "BootID",
                TEXT,
                "Changes with every boot of the node",
                _boot_id,
                live=True,
            ),
            Field("cnodes", "CNodes", NUMBER, "Number of NUMA domains on node", _hypervisor("cpu_nodes"), live=True),
            Field(
                "cnos",
                "CNOs",
                NUMBER,
                "Number of logical processors used by the node OS",
                _hypervisor("cpu_dom0"),
                live=True,
            ),
            Field(
                "csockets", "CSockets", NUMBER, "Number of physical CPU sockets", _hypervisor("cpu_sockets"), live=True
            ),
            Field("ctotal", "CTotal", NUMBER, "Number of logical processors", _hypervisor("cpu_total"), live=True),
            Field(
                "dfree", "DFree", UNIT, "Available storage space in storage unit", _storage("storage_free"), live=True
            ),
            Field("dtotal", "DTotal", UNIT, "Total storage space in storage unit", _storage("storage_size"), live=True),
            Field("spfree", "SpFree", NUMBER, "Available spindles in volume group", _without_spindles, live=True),
            Field("sptotal", "SpTotal", NUMBER, "Total spindles in volume group", _without_spindles, live=True),
            Field(
                "mfree",
                "MFree",
                UNIT,
                "Memory available for instance allocations",
                _hypervisor("memory_free"),
                live=True,
            ),
            Field(
                "mnode",
                "MNode",
                UNIT,
                "Amount of memory used by node (dom0 for Xen)",
                _hypervisor("memory_dom0"),
                live=True,
            ),
            Field(
                "mtotal",
                "MTotal",
                UNIT,
                "Total amount of memory of physical machine",
                _hypervisor("memory_total"),
                live=True,
            ),
            Field(
                "sync_state",
                "SyncState",
                TEXT,
                "Copy of configuration and queue on a master candidate:"
                ' "master", "in-sync", "catching-up", "behind: REASON" or "away"',
                _copy(lambda copy: copy.words),
                live=True,
            ),
            Field(
                "sync_position",
                "SyncPosition",
                TEXT,
                "Last record known to be in a master candidate's copy, as EPOCH.SERIAL",
                _copy(lambda copy: position_text(copy.position)),
                live=True,
            ),
            *[_parameter(parameter) for parameter in NODE_PARAMETERS],
            *stored_fields(lambda r: r.node, "Node"),
        ]
    ),
    "Node",
)

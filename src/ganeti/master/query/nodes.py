# SPDX-License-Identifier: BSD-2-Clause
"""Fields of nodes (rapi, section 4); live ones come from the node's own answer, those about copies from WConfD's."""

from collections.abc import Callable
from typing import Any

from ganeti.master.query.collecting import ask_copies, ask_nodes
from ganeti.master.query.fields import (
    BOOL,
    FLOAT,
    JOINED,
    NODATA,
    NUMBER,
    OFFLINE,
    OTHER,
    TEXT,
    UNAVAILABLE,
    UNIT,
    Field,
    Missing,
    Resource,
    or_unavailable,
    stored_fields,
    stored_rows,
    table,
)
from ganeti.master.query.node_rows import NodeRow
from ganeti.model.copies import Copy, position_text
from ganeti.model.parameters import NODE_PARAMETERS, Parameter


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
                shown=JOINED,
            ),
            Field(
                "sinst_list",
                "SecInstances",
                OTHER,
                "List of instances with this node as secondary",
                lambda r: r.secondaries,
                shown=JOINED,
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
                live=(ask_nodes,),
            ),
            Field(
                "cnodes",
                "CNodes",
                NUMBER,
                "Number of NUMA domains on node",
                _hypervisor("cpu_nodes"),
                live=(ask_nodes,),
            ),
            Field(
                "cnos",
                "CNOs",
                NUMBER,
                "Number of logical processors used by the node OS",
                _hypervisor("cpu_dom0"),
                live=(ask_nodes,),
            ),
            Field(
                "csockets",
                "CSockets",
                NUMBER,
                "Number of physical CPU sockets",
                _hypervisor("cpu_sockets"),
                live=(ask_nodes,),
            ),
            Field(
                "ctotal", "CTotal", NUMBER, "Number of logical processors", _hypervisor("cpu_total"), live=(ask_nodes,)
            ),
            Field(
                "dfree",
                "DFree",
                UNIT,
                "Available storage space in storage unit",
                _storage("storage_free"),
                live=(ask_nodes,),
            ),
            Field(
                "dtotal",
                "DTotal",
                UNIT,
                "Total storage space in storage unit",
                _storage("storage_size"),
                live=(ask_nodes,),
            ),
            Field(
                "spfree", "SpFree", NUMBER, "Available spindles in volume group", _without_spindles, live=(ask_nodes,)
            ),
            Field("sptotal", "SpTotal", NUMBER, "Total spindles in volume group", _without_spindles, live=(ask_nodes,)),
            Field(
                "mfree",
                "MFree",
                UNIT,
                "Memory available for instance allocations",
                _hypervisor("memory_free"),
                live=(ask_nodes,),
            ),
            Field(
                "mnode",
                "MNode",
                UNIT,
                "Amount of memory used by node (dom0 for Xen)",
                _hypervisor("memory_dom0"),
                live=(ask_nodes,),
            ),
            Field(
                "mtotal",
                "MTotal",
                UNIT,
                "Total amount of memory of physical machine",
                _hypervisor("memory_total"),
                live=(ask_nodes,),
            ),
            Field(
                "sync_state",
                "SyncState",
                TEXT,
                "Copy of configuration and queue on a master candidate:"
                ' "master", "in-sync", "catching-up", "behind: REASON" or "away"',
                _copy(lambda copy: copy.words),
                live=(ask_copies,),
            ),
            Field(
                "sync_position",
                "SyncPosition",
                TEXT,
                "Last record known to be in a master candidate's copy, as EPOCH.SERIAL",
                _copy(lambda copy: position_text(copy.position)),
                live=(ask_copies,),
            ),
            *[_parameter(parameter) for parameter in NODE_PARAMETERS],
            *stored_fields(lambda r: r.node, "Node"),
        ]
    ),
    "Node",
    rows=stored_rows(lambda view: view.nodes(), NodeRow),
    plain_call="QueryNodes",
    columns="name dtotal dfree mtotal mnode mfree pinst_cnt sinst_cnt",
    program="gnt-node",
)

# SPDX-License-Identifier: BSD-2-Clause
"""Fields of nodes (rapi, section 4); live ones come from the node's own answer, those about copies from WConfD's."""

from collections.abc import Callable
from typing import Any

from ganeti.master.query.collecting import ask_copies, ask_nodes
from ganeti.master.query.fields import (
    BOOL,
    JOINED,
    NODATA,
    NUMBER,
    OFFLINE,
    OTHER,
    TEXT,
    UNAVAILABLE,
    UNIT,
    Field,
    Resource,
    StoredRows,
    or_unavailable,
    stored_fields,
    table,
)
from ganeti.master.query.node_rows import NodeRow
from ganeti.master.query.parameter_fields import node_parameters
from ganeti.model.copies import Copy, position_text
from ganeti.model.node_calls.node import NodeFacts


def _live(get: Callable[[NodeFacts], Any]) -> Callable[[NodeRow], Any]:
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

    def number(live: NodeFacts) -> Any:
        for capacity in live.hypervisors.values():
            return getattr(capacity, key)
        return None

    return _live(number)


def _storage(key: str) -> Callable[[NodeRow], Any]:
    return _live(lambda live: getattr(live.storage[0], key) if live.storage else None)


def _boot_id(row: NodeRow) -> Any:
    if row.node.offline:
        return OFFLINE
    return NODATA if row.live is None else row.live.boot_id


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


def _spindles(key: str) -> Callable[[NodeRow], Any]:
    """Only exclusive storage counts spindles."""

    def number(live: NodeFacts) -> Any:
        return next((value for each in live.storage if (value := getattr(each, key)) is not None), None)

    counted = _live(number)

    def value(row: NodeRow) -> Any:
        if not row.node.offline and not row.parameters["exclusive_storage"]:
            return UNAVAILABLE
        return counted(row)

    return value


NODES = Resource(
    "node",
    "name",
    table(
        [
            Field(
                "drained",
                "Drained",
                BOOL,
                "Takes no new instances; those it has should move away",
                lambda r: r.node.drained,
            ),
            Field(
                "master_candidate",
                "MasterC",
                BOOL,
                "Keeps a copy of the configuration and may become master",
                lambda r: r.node.master_candidate,
            ),
            Field(
                "master_capable",
                "MasterCapable",
                BOOL,
                "May be made a master candidate",
                lambda r: r.node.master_capable,
            ),
            Field("name", "Node", TEXT, "Full host name", lambda r: r.node.name, host_name=True),
            Field(
                "offline", "Offline", BOOL, "Taken out of service: nobody asks it anything", lambda r: r.node.offline
            ),
            Field("vm_capable", "VMCapable", BOOL, "May run instances", lambda r: r.node.vm_capable),
            Field("pip", "PrimaryIP", TEXT, "Address for cluster traffic", lambda r: r.node.primary_ip),
            Field(
                "sip",
                "SecondaryIP",
                TEXT,
                "Address for disk replication; the same as pip without a second network",
                lambda r: r.node.secondary_ip,
            ),
            Field("master", "IsMaster", BOOL, "Is the master now", lambda r: r.is_master),
            Field("group", "Group", TEXT, "Name of its node group", lambda r: r.world.view.group(r.node.group).name),
            Field("group.uuid", "GroupUUID", TEXT, "UUID of its node group", lambda r: r.node.group),
            Field(
                "ndparams",
                "NodeParameters",
                OTHER,
                "Parameters in effect: its own, then those of the group, the cluster and the defaults",
                lambda r: r.parameters,
            ),
            Field(
                "custom_ndparams",
                "CustomNodeParameters",
                OTHER,
                "Parameters set on the node itself",
                lambda r: r.node.ndparams,
            ),
            Field(
                "pinst_cnt",
                "Pinst",
                NUMBER,
                "How many instances have it as primary",
                lambda r: len(r.primaries),
            ),
            Field(
                "sinst_cnt",
                "Sinst",
                NUMBER,
                "How many instances have it as secondary",
                lambda r: len(r.secondaries),
            ),
            Field(
                "pinst_list",
                "PriInstances",
                OTHER,
                "Names of the instances that have it as primary",
                lambda r: r.primaries,
                shown=JOINED,
            ),
            Field(
                "sinst_list",
                "SecInstances",
                OTHER,
                "Names of the instances that have it as secondary",
                lambda r: r.secondaries,
                shown=JOINED,
            ),
            Field(
                "role",
                "Role",
                TEXT,
                "M master, C master candidate, R regular, D drained, O offline",
                lambda r: r.role,
            ),
            Field("powered", "Powered", BOOL, "Recorded power state; known only with an out-of-band program", _powered),
            Field(
                "hv_state",
                "HypervisorState",
                OTHER,
                "Hypervisor resources that an administrator recorded",
                lambda r: or_unavailable(r.node.hv_state_static),
            ),
            Field(
                "disk_state",
                "DiskState",
                OTHER,
                "Storage resources that an administrator recorded",
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
                "NUMA nodes",
                _hypervisor("cpu_nodes"),
                live=(ask_nodes,),
            ),
            Field(
                "cnos",
                "CNOs",
                NUMBER,
                "Logical processors used by the node's own system (dom0 for Xen)",
                _hypervisor("cpu_dom0"),
                live=(ask_nodes,),
            ),
            Field(
                "csockets",
                "CSockets",
                NUMBER,
                "Processor sockets",
                _hypervisor("cpu_sockets"),
                live=(ask_nodes,),
            ),
            Field("ctotal", "CTotal", NUMBER, "Logical processors", _hypervisor("cpu_total"), live=(ask_nodes,)),
            Field(
                "dfree",
                "DFree",
                UNIT,
                "Free disk space for instances",
                _storage("storage_free"),
                live=(ask_nodes,),
            ),
            Field(
                "dtotal",
                "DTotal",
                UNIT,
                "Disk space for instances, used and free",
                _storage("storage_size"),
                live=(ask_nodes,),
            ),
            Field(
                "spfree",
                "SpFree",
                NUMBER,
                "Free spindles; only with exclusive storage",
                _spindles("free_spindles"),
                live=(ask_nodes,),
            ),
            Field(
                "sptotal",
                "SpTotal",
                NUMBER,
                "All spindles; only with exclusive storage",
                _spindles("spindles"),
                live=(ask_nodes,),
            ),
            Field(
                "mfree",
                "MFree",
                UNIT,
                "Free memory for instances",
                _hypervisor("memory_free"),
                live=(ask_nodes,),
            ),
            Field(
                "mnode",
                "MNode",
                UNIT,
                "Memory that the node's own system uses",
                _hypervisor("memory_dom0"),
                live=(ask_nodes,),
            ),
            Field(
                "mtotal",
                "MTotal",
                UNIT,
                "Physical memory",
                _hypervisor("memory_total"),
                live=(ask_nodes,),
            ),
            Field(
                "sync_state",
                "SyncState",
                TEXT,
                "How fresh the copy of a master candidate is:"
                ' "master", "in-sync", "catching-up", "behind: REASON" or "away"',
                _copy(lambda copy: copy.words),
                live=(ask_copies,),
            ),
            Field(
                "sync_position",
                "SyncPosition",
                TEXT,
                "Last record known to be in the copy of a master candidate, as EPOCH.SERIAL",
                _copy(lambda copy: position_text(copy.position)),
                live=(ask_copies,),
            ),
            *node_parameters(lambda r: r.parameters),
            *stored_fields(lambda r: r.node, "node"),
        ]
    ),
    "Node",
    rows=StoredRows("nodes", NodeRow, host_names=True),
    plain_call="QueryNodes",
    columns="name dtotal dfree mtotal mnode mfree pinst_cnt sinst_cnt",
    program="gnt-node",
)

# SPDX-License-Identifier: BSD-2-Clause
"""The cluster itself as clients ask for it: QueryClusterInfo, and the fields of OP_CLUSTER_QUERY."""

import platform
import struct
from dataclasses import dataclass
from typing import Any

from ganeti.master.query.fields import (
    BOOL,
    NUMBER,
    OTHER,
    TEXT,
    TIMESTAMP,
    UNAVAILABLE,
    Field,
    QueryWorld,
    Resource,
    or_unavailable,
    table,
)
from ganeti.model import inheritance
from ganeti.model.ipolicy import full_policy
from ganeti.model.objects import CONFIG_VERSION, Cluster
from ganeti.model.parameters import BACKEND_PARAMETERS, NIC_PARAMETERS, NODE_PARAMETERS, defaults
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

SOFTWARE_VERSION = "3.1.0"
PROTOCOL_VERSION = CONFIG_VERSION
OS_API_VERSION = 20
EXPORT_VERSION = 0
VCS_VERSION = f"v{SOFTWARE_VERSION}"

_IP_VERSIONS = {2: 4, 10: 6}

_AS_STORED = (
    "uid_pool",
    "default_iallocator",
    "default_iallocator_params",
    "reserved_lvs",
    "prealloc_wipe_disks",
    "hidden_os",
    "blacklisted_os",
    "enabled_disk_templates",
    "enabled_hypervisors",
    "install_image",
    "instance_communication_network",
    "zeroing_image",
    "compression_tools",
    "enabled_user_shutdown",
    "modify_ssh_setup",
    "ssh_key_type",
    "ssh_key_bits",
    "candidate_pool_size",
    "max_running_jobs",
    "max_tracked_jobs",
    "mac_prefix",
    "master_netdev",
    "master_netmask",
    "use_external_mip_script",
    "volume_group_name",
    "drbd_usermode_helper",
    "file_storage_dir",
    "shared_file_storage_dir",
    "gluster_storage_dir",
    "maintain_node_health",
    "osparams",
    "os_hvp",
    "ctime",
    "mtime",
    "uuid",
)


def architecture() -> list[str]:
    return [f"{struct.calcsize('P') * 8}bits", platform.machine()]


def cluster_info(view: ConfigView, catalogue: Catalogue) -> dict[str, Any]:
    """Answer of QueryClusterInfo; parameters are filled. What 3.1 does not have is there only where it is set."""
    cluster = view.cluster
    info: dict[str, Any] = {name: getattr(cluster, name) for name in _AS_STORED}
    info |= {
        "software_version": SOFTWARE_VERSION,
        "protocol_version": PROTOCOL_VERSION,
        "config_version": CONFIG_VERSION,
        "os_api_version": OS_API_VERSION,
        "export_version": EXPORT_VERSION,
        "vcs_version": VCS_VERSION,
        "architecture": architecture(),
        "name": cluster.cluster_name,
        "master": view.node(cluster.master_node).name,
        "default_hypervisor": cluster.enabled_hypervisors[0] if cluster.enabled_hypervisors else None,
        "hvparams": {name: _hv(cluster, catalogue, name) for name in cluster.enabled_hypervisors},
        "beparams": {"default": defaults(BACKEND_PARAMETERS) | cluster.beparams.get("default", {})},
        "nicparams": {"default": defaults(NIC_PARAMETERS) | cluster.nicparams.get("default", {})},
        "ndparams": defaults(NODE_PARAMETERS) | cluster.ndparams,
        "ipolicy": full_policy(cluster.enabled_disk_templates) | cluster.ipolicy,
        "diskparams": {
            name: defaults(traits.parameters) | cluster.diskparams.get(name, {})
            for name, traits in catalogue.templates.items()
        },
        "tags": sorted(cluster.tags),
        "primary_ip_version": _IP_VERSIONS.get(cluster.primary_ip_family, 4),
        "enabled_data_collectors": {
            name: bool(settings.get("active", True)) for name, settings in cluster.data_collectors.items()
        },
        "data_collector_interval": {
            name: settings.get("interval") for name, settings in cluster.data_collectors.items()
        },
    }
    if cluster.diagnose_data_collector_filename:
        info["diagnose_data_collector_filename"] = cluster.diagnose_data_collector_filename
    if cluster.capacity_params:
        info["capacity_params"] = cluster.capacity_params
    return info


def _hv(cluster: Cluster, catalogue: Catalogue, name: str) -> dict[str, Any]:
    traits = catalogue.hypervisors.get(name)
    return inheritance.cluster_hv(cluster, name, "", traits.parameters if traits is not None else ())


@dataclass(frozen=True)
class ClusterRow:
    """The one row of the cluster resource; the caller gives the queue's switches."""

    world: QueryWorld
    drained: bool
    watcher_pause: float | None

    @property
    def cluster(self) -> Cluster:
        return self.world.view.cluster


CONFIG_VALUES = (
    "cluster_name",
    "watcher_pause",
    "master_node",
    "drain_flag",
    "modify_ssh_setup",
    "ssh_key_type",
    "ssh_key_bits",
)


def config_values(row: ClusterRow, names: list[str]) -> list[Any]:
    """Answer of QueryConfigValues: null for names it does not know."""
    values = {
        "cluster_name": row.cluster.cluster_name,
        "watcher_pause": row.watcher_pause,
        "master_node": row.world.view.node(row.cluster.master_node).name,
        "drain_flag": row.drained,
        "modify_ssh_setup": row.cluster.modify_ssh_setup,
        "ssh_key_type": row.cluster.ssh_key_type,
        "ssh_key_bits": row.cluster.ssh_key_bits,
    }
    return [values.get(name) for name in names]


def _cluster_field(name: str, title: str, kind: str, doc: str) -> Field:
    return Field(name, title, kind, doc, lambda row: or_unavailable(getattr(row.cluster, name)))


def _cluster_resource() -> Resource:
    name = Field("cluster_name", "Name", TEXT, "Name of the cluster", lambda row: row.cluster.cluster_name)
    fields = [
        name,
        Field("name", "Name", TEXT, name.doc, name.get),
        _cluster_field("volume_group_name", "VgName", TEXT, "LVM volume group that instances use"),
        Field("tags", "Tags", OTHER, "Tags of the cluster", lambda row: sorted(row.cluster.tags)),
        Field(
            "architecture", "ArchInfo", OTHER, "Word size and machine type of the master", lambda row: architecture()
        ),
        Field("drain_flag", "QueueDrained", BOOL, "The job queue takes no new jobs", lambda row: row.drained),
        Field(
            "watcher_pause",
            "WatcherPause",
            TIMESTAMP,
            "Until when the watcher is paused",
            lambda row: UNAVAILABLE if row.watcher_pause is None else row.watcher_pause,
        ),
        Field(
            "master_node",
            "Master",
            TEXT,
            "Name of the master node",
            lambda row: row.world.view.node(row.cluster.master_node).name,
        ),
        Field("software_version", "SoftwareVersion", TEXT, "Version of the software", lambda row: SOFTWARE_VERSION),
        Field(
            "protocol_version",
            "ProtocolVersion",
            NUMBER,
            "Version of the calls between the daemons",
            lambda row: PROTOCOL_VERSION,
        ),
        Field(
            "config_version", "ConfigVersion", NUMBER, "Version of the configuration format", lambda row: CONFIG_VERSION
        ),
        Field(
            "os_api_version",
            "OsApiVersion",
            NUMBER,
            "Version of the interface to installation scripts",
            lambda row: OS_API_VERSION,
        ),
        Field(
            "export_version", "ExportVersion", NUMBER, "Version of the format of exports", lambda row: EXPORT_VERSION
        ),
        Field("vcs_version", "VCSVersion", TEXT, "Version in the source repository", lambda row: VCS_VERSION),
        _cluster_field("uuid", "UUID", TEXT, "UUID of the cluster"),
        _cluster_field("ctime", "CTime", TIMESTAMP, "When the cluster was created"),
        _cluster_field("mtime", "MTime", TIMESTAMP, "When the cluster was last changed"),
    ]
    return Resource("cluster", "cluster_name", table(fields), "Cluster", rows_by_job=row_by_job)


async def row_by_job(ctx: OperationContext) -> list[ClusterRow]:
    """The row as a job sees it."""
    switches = ctx.master.switches()
    return [ClusterRow(QueryWorld(ctx.config.view(), ctx.catalogue), switches.drained, switches.watcher_pause)]


CLUSTER = _cluster_resource()

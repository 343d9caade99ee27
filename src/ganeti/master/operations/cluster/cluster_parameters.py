# SPDX-License-Identifier: BSD-2-Clause
"""The parameters of OP_CLUSTER_SET_PARAMS; `gnt-cluster init` takes most of them as well."""

from typing import Annotated, Literal

import msgspec

from ganeti.master.operation import Operation
from ganeti.master.operations.parameters import (
    CapacityOptions,
    ClusterPolicy,
    DiskParameters,
    DiskState,
    HypervisorState,
    NodeParameters,
    Text,
    Values,
)
from ganeti.master.parameter import Parameter

AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
NameChange = tuple[Literal["add", "remove"], Text]

UserIds = list[tuple[int, int]]
"""Ranges, both ends counted."""
"""Nodes or instances must be asked about these."""


class ClusterParameters(Operation[None], frozen=True, kw_only=True):
    """What can be changed of a cluster; null leaves it as it is."""

    force: Annotated[bool, Parameter("do not ask, and go on where that is possible", "-f", "--force")] = False
    max_running_jobs: Annotated[
        AtLeastOne | None, Parameter("how many jobs may run at a time", "--max-running-jobs")
    ] = None
    max_tracked_jobs: Annotated[
        AtLeastOne | None,
        Parameter("kept for Ganeti 3.1; here the changes of all jobs are seen at once", "--max-tracked-jobs"),
    ] = None
    maintain_node_health: Annotated[
        bool | None,
        Parameter("a node that is offline and alive ends the guests it still has", "--maintain-node-health"),
    ] = None
    prealloc_wipe_disks: Annotated[bool | None, Parameter("wipe disks before use", "--prealloc-wipe-disks")] = None
    default_iallocator: Annotated[
        str | None, Parameter("allocator to use", "-I", "--default-iallocator", subject="object", metavar="NAME")
    ] = None
    default_iallocator_params: Annotated[Values | None, Parameter("its parameters", "--default-iallocator-params")] = (
        None
    )
    mac_prefix: Annotated[
        Text | None, Parameter("how MAC addresses begin", "-m", "--mac-prefix", metavar="XX:XX:XX")
    ] = None
    reserved_lvs: Annotated[
        list[Text] | None,
        Parameter("names VG/LV, as regular expressions, that verification passes over", "--reserved-lvs"),
    ] = None
    use_external_mip_script: Annotated[
        bool | None, Parameter("the site's own script sets up the master address", "--use-external-mip-script")
    ] = None
    modify_etc_hosts: Annotated[bool | None, Parameter("keep nodes in /etc/hosts", "--modify-etc-hosts")] = None
    install_image: Annotated[
        str | None,
        Parameter(
            "image of a helper guest that installs an OS whose script is create_untrusted: a path, or a URL",
            "--install-image",
            metavar="IMAGE",
        ),
    ] = None
    zeroing_image: Annotated[
        str | None,
        Parameter(
            "image of a helper guest that zeroes free space: a path, or a URL", "--zeroing-image", metavar="IMAGE"
        ),
    ] = None
    compression_tools: Annotated[
        list[Text] | None,
        Parameter("programs that may compress disks on their way", "--compression-tools", remote=False),
    ] = None
    enabled_user_shutdown: Annotated[bool | None, Parameter("guests may shut themselves down", "--user-shutdown")] = (
        None
    )
    hidden_os: Annotated[list[NameChange] | None, Parameter("OSes to hide from lists, or to show again")] = None
    blacklisted_os: Annotated[
        list[NameChange] | None, Parameter("OSes that new instances cannot have, or can have again")
    ] = None
    capacity_params: CapacityOptions | None = None

    hv_state: HypervisorState | None = None
    disk_state: DiskState | None = None
    vg_name: Annotated[
        str | None, Parameter('LVM volume group; "" for none', "--vg-name", subject="file name", metavar="NAME")
    ] = None
    enabled_hypervisors: Annotated[
        list[Text] | None,
        Parameter("the first is the default", "--enabled-hypervisors", subject="hypervisor"),
    ] = None
    hvparams: Annotated[
        dict[str, Values] | None, Parameter("hypervisor parameters", "-H", "--hypervisor-parameters")
    ] = None
    beparams: Annotated[Values | None, Parameter("backend parameters", "-B", "--backend-parameters")] = None
    os_hvp: Annotated[
        dict[str, dict[str, Values]] | None, Parameter("hypervisor parameters of instances with an OS")
    ] = None
    osparams: Annotated[dict[str, Values] | None, Parameter("parameters of an OS", subject="text")] = None
    osparams_private_cluster: Annotated[
        dict[str, Values] | None,
        Parameter("parameters of an OS that are not shown", subject="text"),
    ] = None
    diskparams: DiskParameters | None = None
    candidate_pool_size: Annotated[
        AtLeastOne | None,
        Parameter("how many master candidates", "-C", "--candidate-pool-size"),
    ] = None
    uid_pool: Annotated[UserIds | None, Parameter("user ids for guests", "--uid-pool", kind="ranges")] = None
    add_uids: Annotated[UserIds | None, Parameter("add to the user ids for guests", "--add-uids", kind="ranges")] = None
    remove_uids: Annotated[
        UserIds | None, Parameter("remove from the user ids for guests", "--remove-uids", kind="ranges")
    ] = None
    nicparams: Annotated[Values | None, Parameter("NIC parameters", "-N", "--nic-parameters")] = None
    ndparams: NodeParameters | None = None
    ipolicy: ClusterPolicy | None = None
    drbd_helper: Annotated[
        str | None,
        Parameter('helper of the mirror\'s kernel part; "" for none', "--drbd-usermode-helper", metavar="PATH"),
    ] = None
    master_netdev: Annotated[
        str | None,
        Parameter("device of the master address", "--master-netdev", metavar="DEVICE"),
    ] = None
    master_netmask: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None,
        Parameter("prefix length of the master address", "--master-netmask"),
    ] = None
    enabled_disk_templates: Annotated[
        list[Text] | None,
        Parameter("the first is the default", "--enabled-disk-templates", subject="disk template"),
    ] = None
    file_storage_dir: Annotated[
        str | None,
        Parameter("where disks in files lie", "--file-storage-dir", subject="path", metavar="DIR"),
    ] = None
    shared_file_storage_dir: Annotated[
        str | None,
        Parameter("the same on all nodes", "--shared-file-storage-dir", subject="path", metavar="DIR"),
    ] = None
    gluster_storage_dir: Annotated[
        str | None,
        Parameter("where gluster is mounted", subject="path", metavar="DIR"),
    ] = None
    instance_communication_network: Annotated[
        str | None,
        Parameter(
            "network over which guests reach their metadata; made if there is none, empty for none",
            "--instance-communication-network",
            metavar="NETWORK",
        ),
    ] = None
    enabled_data_collectors: Annotated[
        dict[str, bool] | None, Parameter("which ones measure", "--enabled-data-collectors", kind="name-yesno")
    ] = None
    data_collector_interval: Annotated[
        dict[str, int] | None,
        Parameter(
            "how often they do (microseconds; seconds on the command line)",
            *("--data-collector-interval",),
            kind="name-seconds",
            metavar="NAME=SECONDS",
        ),
    ] = None
    diagnose_data_collector_filename: Annotated[
        str | None,
        Parameter(
            "command in /etc/ganeti/node-diagnose-commands that finds out whether a node is well; empty for none",
            "--diagnose-data-collector-filename",
            metavar="NAME",
        ),
    ] = None

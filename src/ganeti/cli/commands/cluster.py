# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-cluster."""

from ganeti.base.command import Argument, Command, Option
from ganeti.cli.commands.options import (
    BACKEND,
    CAPACITY_PARAMETERS,
    DISK_STATE,
    DRY_RUN,
    FORCE,
    HV_STATE,
    NODE_PARAMETERS,
    PRIORITY,
    YES_DO_IT,
    flag,
    option,
)


def _specs(what: str) -> Option:
    return option(
        f"--specs-{what}",
        field=f"specs_{what.replace('-', '_')}",
        kind="keyvalues",
        metavar="min=N,max=N,std=N",
        help=f"limits of the instance policy for {what.replace('-', ' ')}",
    )


_BOTH = (
    BACKEND,
    option("-C", "--candidate-pool-size", field="candidate_pool_size", kind="int", help="how many master candidates"),
    option("--enabled-hypervisors", field="enabled_hypervisors", kind="list", help="the first is the default"),
    option("--file-storage-dir", field="file_storage_dir", metavar="DIR", help="where disks in files lie"),
    option(
        "-H",
        "--hypervisor-parameters",
        field="hvparams",
        kind="ident-keyvalues",
        repeatable=True,
        help="hypervisor parameters",
    ),
    option("-m", "--mac-prefix", field="mac_prefix", metavar="XX:XX:XX", help="how MAC addresses begin"),
    option("--master-netdev", field="master_netdev", metavar="DEVICE", help="device of the master address"),
    option("--master-netmask", field="master_netmask", kind="int", help="prefix length of the master address"),
    option("-N", "--nic-parameters", field="nicparams", kind="keyvalues", help="NIC parameters"),
    option("--vg-name", field="vg_name", metavar="NAME", help='LVM volume group; "" for none'),
    option("--maintain-node-health", field="maintain_node_health", kind="yesno", help="stop what should not run"),
    option("--uid-pool", field="uid_pool", kind="ranges", help="user ids for guests"),
    option("--drbd-usermode-helper", field="drbd_helper", metavar="PATH", help="helper of the mirror's kernel part"),
    option("-I", "--default-iallocator", field="default_iallocator", metavar="NAME", help="allocator to use"),
    option("--default-iallocator-params", field="default_iallocator_params", kind="keyvalues", help="its parameters"),
    option("--prealloc-wipe-disks", field="prealloc_wipe_disks", kind="yesno", help="wipe disks before use"),
    NODE_PARAMETERS,
    option("--shared-file-storage-dir", field="shared_file_storage_dir", metavar="DIR", help="the same on all nodes"),
    option(
        "--use-external-mip-script",
        field="use_external_mip_script",
        kind="yesno",
        help="the site's own script sets up the master address",
    ),
    option(
        "-D",
        "--disk-parameters",
        field="diskparams",
        kind="ident-keyvalues",
        repeatable=True,
        help="parameters of disk templates",
    ),
    HV_STATE,
    DISK_STATE,
    option("--enabled-disk-templates", field="enabled_disk_templates", kind="list", help="the first is the default"),
    option("--ipolicy-std-specs", field="ipolicy_std", kind="keyvalues", help="standard instance of the policy"),
    option("--install-image", field="install_image", metavar="IMAGE", help="image for installing guests"),
    option("--zeroing-image", field="zeroing_image", metavar="IMAGE", help="image for zeroing free space"),
    option("--compression-tools", field="compression_tools", kind="list", help="tools instances may be sent with"),
    option("--user-shutdown", field="enabled_user_shutdown", kind="yesno", help="guests may shut themselves down"),
    option(
        "--ipolicy-bounds-specs",
        field="ipolicy_bounds",
        kind="bounds",
        metavar="min:K=V,…/max:K=V,…",
        help="least and largest instance; several pairs are joined by //",
    ),
    option("--ipolicy-disk-templates", field="ipolicy_disk_templates", kind="list", help="templates that are allowed"),
    option("--ipolicy-vcpu-ratio", field="ipolicy_vcpu_ratio", kind="float", help="virtual per real processor"),
    option("--ipolicy-spindle-ratio", field="ipolicy_spindle_ratio", kind="float", help="instances per spindle"),
)
"""What a cluster is made with, and can be given later."""

CLUSTER_INIT = Command(
    "gnt-cluster init",
    "create the cluster on this node",
    arguments=(Argument("cluster_name", "cluster-name"),),
    handler="cluster_setup:init",
    is_job=False,
    needs_root=True,
    needs_master=False,
    options=(
        *_BOTH,
        flag("--no-etc-hosts", field="modify_etc_hosts", value=False, help="leave /etc/hosts alone"),
        flag("--no-ssh-init", field="modify_ssh_setup", value=False, help="leave the ssh keys alone"),
        option("-s", "--secondary-ip", field="secondary_ip", metavar="ADDRESS", help="address for replication"),
        option("--primary-ip-version", field="primary_ip_version", kind="int", metavar="4|6", help="kind of addresses"),
        option("--gluster-storage-dir", field="gluster_storage_dir", metavar="DIR", help="where gluster is mounted"),
        option("--ssh-key-bits", field="ssh_key_bits", kind="int", help="length of the node's ssh key"),
        option("--ssh-key-type", field="ssh_key_type", choices=("rsa", "dsa", "ecdsa", "ed25519"), help="its kind"),
        _specs("cpu-count"),
        _specs("disk-count"),
        _specs("disk-size"),
        _specs("mem-size"),
        _specs("nic-count"),
    ),
)

CLUSTER_MODIFY = Command(
    "gnt-cluster modify",
    "change parameters of the cluster",
    handler="cluster_modify:modify",
    op_id="OP_CLUSTER_SET_PARAMS",
    options=(
        FORCE,
        *_BOTH,
        option("--max-running-jobs", field="max_running_jobs", kind="int", help="how many jobs may run at a time"),
        option(
            "--max-tracked-jobs",
            field="max_tracked_jobs",
            kind="int",
            help="kept for Ganeti 3.1; here the changes of all jobs are seen at once",
        ),
        option("--reserved-lvs", field="reserved_lvs", kind="list", help="volumes that are none of ours"),
        option("--add-uids", field="add_uids", kind="ranges", help="add to the user ids for guests"),
        option("--remove-uids", field="remove_uids", kind="ranges", help="remove from the user ids for guests"),
        option(
            "--instance-communication-network",
            field="instance_communication_network",
            metavar="NETWORK",
            help="network over which guests reach their node",
        ),
        CAPACITY_PARAMETERS,
        option("--modify-etc-hosts", field="modify_etc_hosts", kind="yesno", help="keep nodes in /etc/hosts"),
        option(
            "--enabled-data-collectors", field="enabled_data_collectors", kind="keyvalues", help="which ones measure"
        ),
        option(
            "--data-collector-interval",
            field="data_collector_interval",
            kind="keyvalues",
            metavar="NAME=MICROSECONDS",
            help="how often they do",
        ),
    ),
)

QUEUE = Command(
    "gnt-cluster queue",
    "drain, undrain, or show the job queue",
    arguments=(Argument("action", "drain|undrain|info"),),
    handler="cluster_switches:queue",
    is_job=False,
)

WATCHER = Command(
    "gnt-cluster watcher",
    "pause, continue, or show the watcher",
    arguments=(Argument("action", "pause|continue|info"), Argument("duration", "timespec", 0, 1)),
    handler="cluster_switches:watcher",
    is_job=False,
)

CLUSTER_INFO = Command(
    "gnt-cluster info",
    "show the cluster's parameters",
    aliases=("show",),
    handler="cluster_info:info",
    is_job=False,
    options=(flag("--roman", field="roman", help="roman numerals"),),
)

CLUSTER_VERIFY = Command(
    "gnt-cluster verify",
    "verify the configuration and all groups",
    handler="cluster_info:verify",
    op_id="OP_CLUSTER_VERIFY",
    is_job=False,
    options=(
        flag("-v", "--verbose", field="verbose", help="say more"),
        flag("--debug-simulate-errors", field="debug_simulate_errors", help="report every check as failed"),
        flag("--error-codes", field="error_codes", help="lines that programs can read"),
        flag("--no-nplus1-mem", field="no_nplus1_mem", help="do not check the memory for failures of nodes"),
        flag("--no-hv-param-assessment", field="no_hvparam_assessment", help="do not assess hypervisor parameters"),
        DRY_RUN,
        PRIORITY,
        option("-g", "--node-group", field="group_name", metavar="GROUP", help="this group only"),
        option("-I", "--ignore-errors", field="ignore_errors", repeatable=True, metavar="CODE", help="only warn of it"),
        flag("--verify-ssh-clutter", field="verify_clutter", help="look for keys of unknown nodes"),
    ),
)

CLUSTER_DESTROY = Command(
    "gnt-cluster destroy",
    "tear the cluster down",
    handler="cluster_setup:destroy",
    is_job=False,
    needs_root=True,
    options=(YES_DO_IT,),
)

CLUSTER_GETMASTER = Command(
    "gnt-cluster getmaster",
    "print the name of the master",
    handler="cluster_setup:getmaster",
    is_job=False,
    needs_master=False,
)

CLUSTER_VERSION = Command(
    "gnt-cluster version",
    "show the versions of the cluster",
    handler="cluster_setup:version",
    is_job=False,
    needs_master=False,
)

CLUSTER_MASTER_FAILOVER = Command(
    "gnt-cluster master-failover",
    "make this node the master",
    aliases=("masterfailover",),
    handler="cluster_master:failover",
    is_job=False,
    needs_root=True,
    needs_master=False,
    options=(
        flag(
            "--no-voting", field="no_voting", help="do not wait for the promises of a majority: this may lose changes"
        ),
        flag("--yes-do-it", field="yes_do_it", help="confirm --no-voting"),
        flag(
            "--ignore-offline-nodes",
            field="ignore_offline_nodes",
            help="kept for Ganeti 3.1; nodes marked offline are never counted",
        ),
    ),
)

CLUSTER_MASTER_PING = Command(
    "gnt-cluster master-ping",
    "exit with 0 if the master answers",
    handler="cluster_master:ping",
    is_job=False,
)

CLUSTER_ACTIVATE_MASTER_IP = Command(
    "gnt-cluster activate-master-ip",
    "bring the master IP up",
    handler="cluster_master:activate_master_ip",
    op_id="OP_CLUSTER_ACTIVATE_MASTER_IP",
    is_job=False,
)

CLUSTER_DEACTIVATE_MASTER_IP = Command(
    "gnt-cluster deactivate-master-ip",
    "take the master IP down",
    handler="cluster_master:deactivate_master_ip",
    op_id="OP_CLUSTER_DEACTIVATE_MASTER_IP",
    is_job=False,
    options=(flag("--yes", field="confirm", help="do not ask"),),
)

# SPDX-License-Identifier: BSD-2-Clause
"""The command gnt-cluster init. What a cluster is made with is mostly what `OP_CLUSTER_SET_PARAMS` changes later."""

from ganeti.base.command import Argument, Command, Option
from ganeti.master.operations.cluster.set_params import ModifyCluster
from ganeti.master.parameter import options_of

SPECS = ("cpu-count", "disk-count", "disk-size", "mem-size", "nic-count")


def _specs(what: str) -> Option:
    return Option(
        (f"--specs-{what}",),
        f"specs_{what.replace('-', '_')}",
        "keyvalues",
        f"limits of the instance policy for {what.replace('-', ' ')}",
        metavar="min=N,max=N,std=N",
    )


CLUSTER_INIT = Command(
    "gnt-cluster init",
    "create the cluster on this node",
    arguments=(Argument("cluster_name", "cluster-name"),),
    handler="cluster.setup:init",
    is_job=False,
    needs_root=True,
    needs_master=False,
    options=(
        *options_of(
            ModifyCluster,
            "beparams",
            "candidate_pool_size",
            "enabled_hypervisors",
            "file_storage_dir",
            "hvparams",
            "mac_prefix",
            "master_netdev",
            "master_netmask",
            "nicparams",
            "vg_name",
            "maintain_node_health",
            "uid_pool",
            "drbd_helper",
            "default_iallocator",
            "default_iallocator_params",
            "prealloc_wipe_disks",
            "ndparams",
            "shared_file_storage_dir",
            "use_external_mip_script",
            "diskparams",
            "hv_state",
            "disk_state",
            "enabled_disk_templates",
            "install_image",
            "zeroing_image",
            "compression_tools",
            "enabled_user_shutdown",
            "instance_communication_network",
            "ipolicy",
        ),
        Option(("--no-etc-hosts",), "modify_etc_hosts", "flag", "leave /etc/hosts alone", value=False),
        Option(("--no-ssh-init",), "modify_ssh_setup", "flag", "leave the ssh keys alone", value=False),
        Option(("-s", "--secondary-ip"), "secondary_ip", help="address for replication", metavar="ADDRESS"),
        Option(("--primary-ip-version",), "primary_ip_version", "int", "kind of addresses", metavar="4|6"),
        Option(("--gluster-storage-dir",), "gluster_storage_dir", help="where gluster is mounted", metavar="DIR"),
        Option(("--ssh-key-bits",), "ssh_key_bits", "int", "length of the node's ssh key"),
        Option(("--ssh-key-type",), "ssh_key_type", help="its kind", choices=("rsa", "dsa", "ecdsa", "ed25519")),
        *map(_specs, SPECS),
    ),
)

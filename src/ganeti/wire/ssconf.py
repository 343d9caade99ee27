# SPDX-License-Identifier: BSD-2-Clause
"""The ssconf files: small texts every node has, one `ssconf_KEY` each (protocols, section 15).

Standard library only: commands read them to find the master.
"""

from collections.abc import Iterable

FILE_PREFIX = "ssconf_"
SIZE_LIMIT_BYTES = 128 * 1024
"""What readers of 3.1 take; a longer file is cut by them."""

HVPARAMS_HYPERVISORS = ("chroot", "lxc", "fake", "xen-hvm", "kvm", "xen-pvm")

KEYS = (
    "cluster_name",
    "cluster_tags",
    "file_storage_dir",
    "shared_file_storage_dir",
    "gluster_storage_dir",
    "master_candidates",
    "master_candidates_ips",
    "master_candidates_certs",
    "master_ip",
    "master_netdev",
    "master_netmask",
    "master_node",
    "node_list",
    "node_primary_ips",
    "node_secondary_ips",
    "node_vm_capable",
    "offline_nodes",
    "online_nodes",
    "primary_ip_family",
    "instance_list",
    "release_version",
    "hypervisor_list",
    "maintain_node_health",
    "uid_pool",
    "nodegroups",
    "networks",
    "enabled_user_shutdown",
    "ssh_ports",
    *(f"hvparams_{hypervisor}" for hypervisor in HVPARAMS_HYPERVISORS),
)


def write_lines(entries: Iterable[object]) -> str:
    """One entry a line."""
    return "".join(f"{entry}\n" for entry in entries)


def read_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def read_pairs(text: str, separator: str = "=") -> dict[str, str]:
    """Read ``key=value`` or, with a blank as *separator*, ``key value`` lines."""
    pairs = {}
    for line in read_lines(text):
        key, found, value = line.partition(separator)
        if found:
            pairs[key] = value
    return pairs

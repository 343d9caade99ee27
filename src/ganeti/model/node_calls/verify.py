# SPDX-License-Identifier: BSD-2-Clause
"""What `gnt-cluster verify` asks each node, in one call: only the checks named are made.

Keys are 3.1's (protocols, section 6); an answer has the keys of its request. Empty lists and dicts mean all is well
wherever problems are listed.
"""

from typing import Any

import msgspec

from ganeti.base.paths import NODED_PORT
from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_calls.storage import StorageUnit
from ganeti.model.node_requests import DiskSpec


class HypervisorCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters to check, and where they come from, for the answer."""

    source: str
    hypervisor: str
    hvparams: dict[str, Any]


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    primary_ip: str
    secondary_ip: str = ""
    port: int = NODED_PORT


class NodeChecks(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab", omit_defaults=True
):
    """What to check; unset keys are not."""

    bridges: list[str] | None = None
    """Answer: those that are missing."""
    client_cert: bool | None = None
    """Answer: SHA-256 digest of this node's client certificate, or null."""
    certificates: list[str] | None = None
    """Answer: path to the time (seconds since the epoch) at which the first certificate of the file, the node's own,
    expires; null for a missing file, ``{"error": sentence}`` for one without a certificate."""
    config_copy: bool | None = None
    """Answer: ``{"serial_no", "fingerprint"}`` of this node's `config.data`, null where there is none. The fingerprint
    is empty for a file that is no configuration."""
    filelist: list[str] | None = None
    """Answer: path to SHA-256 of its content, null for a missing file."""
    allowed_file_storage_paths: bool | None = None
    """Answer: sentences about lines of `file-storage-paths` that must not be there."""
    storage: list[StorageUnit] | None = None
    """Answer: sentences by ``template setting``."""
    disks: list[StorageUnit] | None = None
    """Answer: by ``template setting``, all disks found there, for finding those that nobody knows."""
    disk_status: list[DiskSpec] | None = None
    """Answer: by UUID of the disk, what is wrong with it; null for one that is missing."""
    hypervisor: dict[str, dict[str, Any]] | None = None
    """Answer: sentences by hypervisor (given: name to filled parameters)."""
    hvparms: list[HypervisorCheck] | None = None
    """Answer: [source, hypervisor, sentence] of the sets that are wrong."""
    file_modes: bool | None = None
    """Answer: files of this node that more people can read or change than should."""
    instancelist: list[str] | None = None
    """Hypervisors; answer: names of their guests."""
    instances: list[str] | None = None
    """Hypervisors; answer: their guests as `all_instances_info` gives them."""
    hvinfo: list[str] | None = None
    """Hypervisors; answer: capacity by hypervisor."""
    master_ip: NodeAddress | None = None
    """Answer: whether this node reaches it."""
    nodelist: list[NodeAddress] | None = None
    """Answer: sentence by node whose daemon does not answer at its primary address."""
    node_net_test: list[NodeAddress] | None = None
    """Answer: sentence by node that one of both addresses does not reach."""
    oob_paths: list[str] | None = None
    """Answer: sentences."""
    oslist: bool | None = None
    """Answer: that of `os_diagnose`."""
    replication: list[str] | None = None
    """Disk templates; answer: by template, the version of what replicates their disks, its helper and minors in use."""
    ssh_keys: bool | None = None
    """Answer: ``{"let-in": [digest], "marked": {node uuid: [digest]}, "known": {node uuid: [digest]}}``: the public
    keys that `authorized_keys` of root lets in, those of them that are marked as a node's, and those in
    `ganeti_pub_keys`, each by SHA-256 of kind and key."""
    time: bool | None = None
    """Answer: [seconds, microseconds]."""
    used_addresses: list[str] | None = None
    """Answer: those at which something takes, or refuses, a connection."""
    user_scripts: list[str] | None = None
    """Answer: those missing or not executable."""
    version: bool | None = None
    """Answer: [protocol, release]."""


class NodeVerify(NodeRequest[dict[str, Any]], frozen=True, kw_only=True):
    """Make the checks; one that fails in itself is answered by ``{"error": sentence}``."""

    checks: NodeChecks

# SPDX-License-Identifier: BSD-2-Clause
"""What `gnt-cluster verify` asks each node, in one call: only the checks named are made.

Keys are 3.1's (protocols, section 6); an answer has the keys of its request. Empty lists and dicts mean all is well
wherever problems are listed.
"""

from typing import Any

import msgspec

from ganeti.base.paths import NODED_PORT
from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_calls.disks import Replication
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.node_calls.mastership import MasterAddress
from ganeti.model.node_calls.node import NodeCapacity
from ganeti.model.node_calls.operating_systems import OsStatus
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
    """What to check; unset keys are not. The answer to each is the field of `NodeFindings` with its name."""

    bridges: list[str] | None = None
    client_cert: bool | None = None
    certificates: list[str] | None = None
    """Paths."""
    config_copy: bool | None = None
    filelist: list[str] | None = None
    """Paths."""
    allowed_file_storage_paths: bool | None = None
    storage: list[StorageUnit] | None = None
    disks: list[StorageUnit] | None = None
    disk_status: list[DiskSpec] | None = None
    hypervisor: dict[str, dict[str, Any]] | None = None
    """Name to filled parameters."""
    hypervisor_cautions: list[str] | None = None
    """Hypervisors."""
    hvparms: list[HypervisorCheck] | None = None
    file_modes: bool | None = None
    instancelist: list[str] | None = None
    """Hypervisors."""
    instances: list[str] | None = None
    """Hypervisors."""
    hvinfo: list[str] | None = None
    """Hypervisors."""
    master_address: MasterAddress | None = None
    master_ip: NodeAddress | None = None
    held_addresses: list[str] | None = None
    nodelist: list[NodeAddress] | None = None
    node_net_test: list[NodeAddress] | None = None
    oob_paths: list[str] | None = None
    oslist: bool | None = None
    replication: list[str] | None = None
    """Disk templates."""
    ssh_keys: bool | None = None
    time: bool | None = None
    used_addresses: list[str] | None = None
    user_scripts: list[str] | None = None
    version: bool | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why one thing could not be looked at."""

    error: str


class ConfigCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A node's `config.data`."""

    serial_no: int | None = None
    fingerprint: str | None = None
    """Null where there is no file, empty for a file that is no configuration."""


class SshKeys(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Public keys, each by SHA-256 of kind and key."""

    let_in: list[str] = []
    """Those that `authorized_keys` of root lets in."""
    marked: dict[str, list[str]] = {}
    """Those of them that are marked as a node's, by its UUID."""
    known: dict[str, list[str]] = {}
    """Those in `ganeti_pub_keys`, by UUID of their node."""


class ReplicationFound(msgspec.Struct, frozen=True, kw_only=True):
    """What replicates the disks of one template, or why that is not known."""

    found: Replication | None = None
    error: str = ""


class NodeFindings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """What the checks have found; null where a check was not asked for, or failed in itself (`failures`)."""

    failures: dict[str, str] = {}
    """Why checks failed in themselves, by key."""
    bridges: list[str] | None = None
    """Those that are missing."""
    client_cert: str | None = None
    """SHA-256 digest of this node's client certificate; empty where there is none."""
    certificates: dict[str, float | Failure | None] | None = None
    """Path to the time (seconds since the epoch) at which the first certificate of the file, the node's own, expires;
    null for a missing file, a failure for one without a certificate."""
    config_copy: ConfigCopy | None = None
    filelist: dict[str, str | None] | None = None
    """Path to SHA-256 of its content, null for a missing file."""
    allowed_file_storage_paths: list[str] | None = None
    """Sentences about lines of `file-storage-paths` that must not be there."""
    storage: dict[str, list[str]] | None = None
    """Sentences by ``template setting``."""
    disks: dict[str, list[str]] | None = None
    """By ``template setting``, all disks found there, for finding those that nobody knows."""
    disk_status: dict[str, str | None] | None = None
    """By UUID of the disk, what is wrong with it; null for one that is missing."""
    hypervisor: dict[str, list[str]] | None = None
    """Sentences by hypervisor."""
    hypervisor_cautions: dict[str, list[str]] | None = None
    """Sentences by hypervisor that runs guests, with less than it could."""
    hvparms: list[tuple[str, str, str]] | None = None
    """[source, hypervisor, sentence] of the sets that are wrong."""
    file_modes: list[str] | None = None
    """Files of this node that more people can read or change than should."""
    instancelist: list[str] | None = None
    """Names of guests."""
    instances: list[FoundInstance] | None = None
    hvinfo: dict[str, NodeCapacity] | None = None
    """By hypervisor."""
    master_address: str | None = None
    """Why this node could not carry the cluster's address so; empty where it could."""
    master_ip: bool | None = None
    """Whether this node reaches it."""
    held_addresses: list[str] | None = None
    """Those that this node has itself."""
    nodelist: dict[str, str] | None = None
    """Sentence by node whose daemon does not answer at its primary address."""
    node_net_test: dict[str, str] | None = None
    """Sentence by node that one of both addresses does not reach."""
    oob_paths: list[str] | None = None
    """Sentences."""
    oslist: list[OsStatus] | None = None
    replication: dict[str, ReplicationFound] | None = None
    """By template."""
    ssh_keys: SshKeys | None = None
    time: tuple[int, int] | None = None
    """Seconds, microseconds."""
    used_addresses: list[str] | None = None
    """Those at which something takes, or refuses, a connection."""
    user_scripts: list[str] | None = None
    """Those missing or not executable."""
    version: tuple[int, str] | None = None
    """Protocol, release."""


class NodeVerify(NodeRequest[NodeFindings], frozen=True, kw_only=True):
    """Make the checks."""

    changes_node = False
    checks: NodeChecks

# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about single disks."""

import msgspec

from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_requests import DiskSpec, InstanceSpec

GOOD, SYNCING, UNCERTAIN, FAULTY = 1, 2, 3, 4
"""`DiskStatus.ldisk_status` of this node's data (opcodes, "BlockDevStatus")."""


class DiskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Protocols, "BlockDevStatus"."""

    dev_path: str
    major: int | None = None
    minor: int | None = None
    sync_percent: float | None = None
    estimated_time_s: int | None = None
    is_degraded: bool = False
    ldisk_status: int = GOOD
    size_mib: int | None = None
    spindles: int | None = None
    sync_speed_kib: int | None = None
    """KiB copied in a second, while a copy is made equal."""
    generation: int | None = None
    """Of this node's copy, where the template counts them."""


class Replication(msgspec.Struct, frozen=True, kw_only=True):
    """What replicates disks on a node: the version of its kernel module, the helper this runs, minors in use."""

    version: str
    helper: str | None
    minors: list[int]


class DiskUse(msgspec.Struct, frozen=True, kw_only=True):
    """A disk that a guest somewhere has open for writing."""

    path: str
    ends_within_s: int
    """The node that runs the guest ends it in this time, once the disk was taken from it; 0: it does not."""


class InstanceDisksInUse(NodeRequest[list[DiskUse]], frozen=True, kw_only=True):
    """The shared disks of an instance that a guest has open, on whatever node, as far as their file system knows."""

    instance: InstanceSpec


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A state of a disk that is kept under a name."""

    name: str
    created_s: float
    """Since 1970."""


class InstanceSnapshots(NodeRequest[list[list[Snapshot]]], frozen=True, kw_only=True):
    """The snapshots of each disk of an instance; raises `BlockDeviceError` where its template has none."""

    instance: InstanceSpec


class BlockdevFind(NodeRequest[DiskStatus | None], frozen=True, kw_only=True):
    """What is there; null when nothing is."""

    disk: DiskSpec


class FoundDisk(msgspec.Struct, frozen=True, kw_only=True):
    """One of many disks: what is there, or why nobody can look."""

    status: DiskStatus | None = None
    fault: str = ""


class BlockdevFindEach(NodeRequest[list[FoundDisk]], frozen=True, kw_only=True):
    """What is there of each disk; one that cannot be looked at is no error of the call."""

    disks: list[DiskSpec]


class BlockdevCheckNew(NodeRequest[None], frozen=True, kw_only=True):
    """Raise `BlockDeviceError` where one of these disks cannot be made on this node; nothing is made."""

    disks: list[DiskSpec]


class BlockdevGetdimensions(NodeRequest[list[tuple[int, int | None] | None]], frozen=True, kw_only=True):
    """Size in MiB and spindles of each disk; null for one that is not there."""

    disks: list[DiskSpec]

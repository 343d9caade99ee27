# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about single disks."""

from typing import Any

import msgspec

from ganeti.model.node_calls import FAST_S, SLOW_S, URGENT_S, NodeRequest
from ganeti.model.node_requests import AttachedDisk, DiskSpec, InstanceSpec

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
    fault: str = ""
    """Why it is degraded, where this node itself is the reason: what follows the name of the disk in a sentence."""


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

    answer_within_s = URGENT_S
    changes_node = False
    instance: InstanceSpec


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A state of a disk that is kept under a name."""

    name: str
    created_s: float
    """Since 1970."""
    in_image: bool = False
    """Whether a copy of the image has it, too."""


class InstanceSnapshots(NodeRequest[list[list[Snapshot]]], frozen=True, kw_only=True):
    """The snapshots of each disk of an instance; raises `BlockDeviceError` where its template has none."""

    changes_node = False
    instance: InstanceSpec


class BlockdevFind(NodeRequest[DiskStatus | None], frozen=True, kw_only=True):
    """What is there; null when nothing is."""

    changes_node = False
    disk: DiskSpec


class FoundDisk(msgspec.Struct, frozen=True, kw_only=True):
    """One of many disks: what is there, or why nobody can look."""

    status: DiskStatus | None = None
    fault: str = ""


class BlockdevFindEach(NodeRequest[list[FoundDisk]], frozen=True, kw_only=True):
    """What is there of each disk; one that cannot be looked at is no error of the call."""

    changes_node = False
    asked_by_plans = True
    disks: list[DiskSpec]


class BlockdevCheckNew(NodeRequest[None], frozen=True, kw_only=True):
    """Raise `BlockDeviceError` where one of these disks cannot be made on this node; nothing is made."""

    changes_node = False
    asked_by_plans = True
    disks: list[DiskSpec]


class BlockdevGetdimensions(NodeRequest[list[tuple[int, int | None] | None]], frozen=True, kw_only=True):
    """Size in MiB and spindles of each disk; null for one that is not there."""

    changes_node = False
    disks: list[DiskSpec]


class BlockdevCreate(NodeRequest[None], frozen=True, kw_only=True):
    """Make a disk, whole or not at all."""

    answer_within_s = SLOW_S
    disk: DiskSpec


class BlockdevWipe(NodeRequest[None], frozen=True, kw_only=True):
    """Write zeros over a part of a disk that nobody uses."""

    answer_within_s = SLOW_S
    disk: DiskSpec
    offset_mib: int
    size_mib: int


class BlockdevConvert(NodeRequest[None], frozen=True, kw_only=True):
    """Copy a disk of *owner*, which does not run, to a new one of the same size, and compare them; both are open."""

    answer_within_s = SLOW_S
    source: DiskSpec
    target: DiskSpec
    owner: str


class BlockdevRemove(NodeRequest[None], frozen=True, kw_only=True):
    """Remove a disk; one that is gone is no error."""

    disk: DiskSpec


class BlockdevRenew(NodeRequest[None], frozen=True, kw_only=True):
    """Make this node's copy anew, empty; another node gives it the content when both are open.

    A complete copy is kept aside until `BlockdevForgetReplaced`.
    """

    answer_within_s = SLOW_S
    disk: DiskSpec
    only_unusable: bool = False
    """Keep a copy that is neither missing nor unusable: it may be the only one that is complete by now."""


class BlockdevForgetReplaced(NodeRequest[None], frozen=True, kw_only=True):
    """Remove the copy of a disk that was kept aside when it was made anew; none is no error."""

    answer_within_s = SLOW_S
    disk: DiskSpec


class BlockdevRename(NodeRequest[None], frozen=True, kw_only=True):
    """Give a closed disk another logical id; where that names it already, nothing is done."""

    disk: DiskSpec
    logical_id: list[Any]


class BlockdevAdopt(NodeRequest[None], frozen=True, kw_only=True):
    """Let a volume that nobody uses become a disk."""

    disk: DiskSpec
    source: list[Any]


class BlockdevAssemble(NodeRequest[AttachedDisk], frozen=True, kw_only=True):
    """Make a disk usable here by the instance *owner*."""

    disk: DiskSpec
    owner: str
    for_migration: bool = False


class BlockdevShutdown(NodeRequest[None], frozen=True, kw_only=True):
    """Close a disk."""

    disk: DiskSpec


class BlockdevGrow(NodeRequest[None], frozen=True, kw_only=True):
    """Grow a disk to the size in *disk* plus *amount_mib*; *in_use* says that a guest has it open."""

    answer_within_s = SLOW_S
    disk: DiskSpec
    amount_mib: int
    in_use: bool = False


class BlockdevUngrow(NodeRequest[None], frozen=True, kw_only=True):
    """Cut a secondary's copy to the size in *disk*: the primary's has not grown, so nothing is behind that."""

    disk: DiskSpec


class BlockdevSteal(NodeRequest[None], frozen=True, kw_only=True):
    """Take a disk from a dead node; the caller answers for nothing writing there any more."""

    disk: DiskSpec
    owner: str
    reason: str


class FileStorageDirCreate(NodeRequest[None], frozen=True, kw_only=True):
    """Make a directory of disks below an allowed one."""

    answer_within_s = FAST_S
    file_storage_dir: str


class FileStorageDirRemove(NodeRequest[None], frozen=True, kw_only=True):
    """Remove an empty directory of disks; one that is gone, or allowed by the administrator by name, is left alone."""

    answer_within_s = FAST_S
    file_storage_dir: str

# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about snapshots of an instance's disks; all disks have one, or none has."""

from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_requests import InstanceSpec


class InstanceSnapshotTake(NodeRequest[bool], frozen=True, kw_only=True):
    """Keep the disks as they are now; says whether the guest's agent made sure that its file systems are whole."""

    instance: InstanceSpec
    name: str


class InstanceSnapshotRevert(NodeRequest[None], frozen=True, kw_only=True):
    """Give the disks of a stopped instance the content that they had; raises `BlockDeviceError`."""

    instance: InstanceSpec
    name: str


class InstanceSnapshotRemove(NodeRequest[None], frozen=True, kw_only=True):
    """Forget a snapshot on all disks; one that is gone is no error."""

    instance: InstanceSpec
    name: str

# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about snapshots of an instance's disks; all disks have one, or none has."""

from ganeti.model.node_calls import SLOW_S, NodeRequest
from ganeti.model.node_requests import InstanceSpec


class InstanceFreeze(NodeRequest[bool], frozen=True, kw_only=True):
    """Have the agent of a guest, if it runs and has one, hold its writes; says whether it does.

    `InstanceThaw` ends that; so does `InstanceSnapshotRemove`.
    """

    instance: InstanceSpec


class InstanceThaw(NodeRequest[None], frozen=True, kw_only=True):
    """Let a guest write again; one that is stopped, or was not frozen, is no error."""

    instance: InstanceSpec


class InstanceSnapshotTake(NodeRequest[bool], frozen=True, kw_only=True):
    """Keep the disks as they are now; says whether the guest's agent made sure that its file systems are whole."""

    answer_within_s = SLOW_S
    instance: InstanceSpec
    name: str
    frozen: bool | None = None
    """Whether the caller has frozen the guest, which it thaws too; None: the call does both."""


class InstanceSnapshotRevertCheck(NodeRequest[None], frozen=True, kw_only=True):
    """Raises `BlockDeviceError` where `InstanceSnapshotRevert` would refuse; nothing is changed."""

    changes_node = False
    instance: InstanceSpec
    name: str


class InstanceSnapshotRevert(NodeRequest[None], frozen=True, kw_only=True):
    """Give the disks of a stopped instance the content that they had; raises `BlockDeviceError`.

    A second copy that has not that snapshot is given up: it is made equal to the first one when both are opened.
    """

    answer_within_s = SLOW_S
    instance: InstanceSpec
    name: str


class InstanceSnapshotRemove(NodeRequest[None], frozen=True, kw_only=True):
    """Forget a snapshot on all disks; one that is gone is no error."""

    answer_within_s = SLOW_S
    instance: InstanceSpec
    name: str

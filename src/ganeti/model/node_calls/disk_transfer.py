# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that copy the disks of a running guest to the node that it is about to migrate to.

The target's incoming guest listens for the content of its disks (`InstanceReceiveDisks`); the guest on the source
sends it and goes on writing (`InstanceSendDisks`). At the switchover of the migration, with the guest stopped, the
copies are made equal (`InstanceHandOverDisks`), and the target closes its door (`InstanceDisksReceived`).
"""

import msgspec

from ganeti.model.node_calls import SLOW_S, NodeRequest
from ganeti.model.node_calls.hotplug import MirrorProgress
from ganeti.model.node_requests import DiskSpec, InstanceSpec


class DiskDoor(msgspec.Struct, frozen=True, kw_only=True):
    """Where an incoming guest takes the content of its disks; the key travels over mutual TLS only."""

    address: str
    port: int
    key: str
    """One-time pre-shared key, hexadecimal; never logged."""


class InstanceReceiveDisks(NodeRequest[DiskDoor], frozen=True, kw_only=True):
    """Have an incoming guest listen on *address* for the content of its disks.

    Raises `HypervisorError` on the node.
    """

    instance: InstanceSpec
    address: str


class InstanceSendDisks(NodeRequest[list[MirrorProgress]], frozen=True, kw_only=True):
    """Send the disks of a running guest; repeated, tell how far that is.

    Raises `HypervisorError` on the node where it has failed; the guest runs on.
    """

    instance: InstanceSpec
    door: DiskDoor


class InstanceHandOverDisks(NodeRequest[None], frozen=True, kw_only=True):
    """Send the rest; the guest has stopped for its switchover. Raises `HypervisorError` on the node."""

    instance: InstanceSpec


class InstanceDisksReceived(NodeRequest[None], frozen=True, kw_only=True):
    """On the target: let nobody write the disks any more but the guest that arrives."""

    instance: InstanceSpec


class InstanceStopSending(NodeRequest[None], frozen=True, kw_only=True):
    """End the sending of disks at once; without any there is nothing to do."""

    answer_within_s = SLOW_S
    instance: InstanceSpec


class InstanceCopyRemove(NodeRequest[None], frozen=True, kw_only=True):
    """Remove a copy of a disk from the node it was made on for a move; refused where the guest runs on it."""

    answer_within_s = SLOW_S
    instance: InstanceSpec
    disk: DiskSpec

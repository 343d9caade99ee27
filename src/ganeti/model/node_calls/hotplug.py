# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about devices of a running guest.

The master says what the guest should have, not what to do: the node compares that with the guest's runtime record, and
unplugs and plugs until they agree.

- The same call completes what was interrupted, and the call with the former devices takes a change back: it is the undo
  of itself.
- A device that the guest does not release, or that the emulator refuses, is an error. The guest keeps running with what
  the record then says.
- A guest that does not run has nothing to change: its next start makes it from the configuration.
"""

import msgspec

from ganeti.model.node_calls import URGENT_S, NodeRequest
from ganeti.model.node_requests import DiskSpec, InstanceSpec


class HotplugObstacles(msgspec.Struct, frozen=True, kw_only=True):
    """Why parts of a guest cannot come or go while it runs, as the end of a sentence; empty where they can."""

    nics: str = ""
    disks: str = ""
    parameters: dict[str, str] = {}
    """By parameter (``hv/NAME``): why the guest cannot be given a value of it while it runs."""


class InstanceHotplugObstacles(NodeRequest[HotplugObstacles], frozen=True, kw_only=True):
    """Ask what of a running guest cannot change; raises `HypervisorError` when it does not run."""

    answer_within_s = URGENT_S
    changes_node = False
    instance: InstanceSpec


class InstanceChangeNics(NodeRequest[None], frozen=True, kw_only=True):
    """Give a guest the NICs of its specification, in their order.

    A NIC whose address, mode, link, VLAN or IP differs is unplugged and plugged again at its place; a change of its
    index or name alone does not reach the guest. Other parts of the specification are not looked at: they hold from
    the next start on.

    Raises `HypervisorError` on the node.
    """

    instance: InstanceSpec


class InstanceChangeDisks(NodeRequest[None], frozen=True, kw_only=True):
    """Give a guest the disks of its specification, in their order; they are opened on the node before.

    A disk that the guest has stays as it is; its name and access mode hold from the next start on. A disk that is taken
    away is free in the guest, but still open on the node.

    Raises `HypervisorError`, `BlockDeviceError` on the node.
    """

    instance: InstanceSpec


class MirrorProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the copy of a running guest's disk is."""

    index: int
    is_equal: bool
    """Both disks hold the same, and get what the guest writes."""
    done_bytes: int = 0
    total_bytes: int = 0


class InstanceMirrorDisks(NodeRequest[list[MirrorProgress]], frozen=True, kw_only=True):
    """Copy the disks of a running guest to *disks*, which are new, open and as large; repeated, tell how far that is.

    Raises `HypervisorError` on the node where a copy has failed; the guest runs on with the disks that it has.
    """

    instance: InstanceSpec
    disks: list[DiskSpec]


class DisksExchanged(msgspec.Struct, frozen=True, kw_only=True):
    """The guest uses the new disks alone: a successor completes the conversion."""

    settled: bool


class InstanceExchangeDisks(NodeRequest[DisksExchanged], frozen=True, kw_only=True):
    """Have a running guest use the copies of its disks alone, or with *give_up* end the copying.

    The node notes durably that all copies are valid before the guest uses the first of them. With *finish* an exchange
    that has come so far is completed, and any other is not begun: the answer says which.

    Raises `HypervisorError` on the node where the guest keeps its disks.
    """

    instance: InstanceSpec
    disks: list[DiskSpec]
    give_up: bool = False
    finish: bool = False


class InstanceChangeParameters(NodeRequest[list[str]], frozen=True, kw_only=True):
    """Give a running guest those of the parameters *names* (``hv/NAME``, ``be/NAME``) that it can take over.

    The answer has the names of those that the guest has now; the others hold from its next start on. The file of a
    password is read again, even where its path is the same.

    Raises `HypervisorError` on the node for a value that is refused.
    """

    instance: InstanceSpec
    names: list[str]

# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that bring the bytes of a disk to another node, piece by piece through the job.

*compression* is ``none`` or one of the cluster's compression tools.
"""

import msgspec

from ganeti.model.node_calls import FAST_S, SLOW_S, NodeRequest
from ganeti.model.node_requests import DiskSpec, InstanceSpec


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Some bytes of a disk or dump; without any, all before *offset* has been looked at."""

    offset: int
    data: bytes = b""
    size: int
    """Of the whole, in bytes."""


class CompressionFault(NodeRequest[str], frozen=True, kw_only=True):
    """Why a compression tool cannot be used on this node; empty when it can."""

    answer_within_s = FAST_S
    changes_node = False
    asked_by_plans = True
    tool: str


class BlockdevRead(NodeRequest[Piece], frozen=True, kw_only=True):
    """The first piece at or after *offset* that is not empty."""

    changes_node = False
    disk: DiskSpec
    offset: int
    compression: str = "none"


class BlockdevCopyBegin(NodeRequest[str], frozen=True, kw_only=True):
    """Make room for the copy of a disk of *size* bytes; gives a mark of this power-on for the calls that follow."""

    answer_within_s = SLOW_S
    disk: DiskSpec
    size: int


class BlockdevCopyWrite(NodeRequest[int], frozen=True, kw_only=True):
    """Write a piece into a copy that has begun; gives the offset after it."""

    disk: DiskSpec
    offset: int
    data: bytes
    compression: str
    boot: str


class BlockdevCopyEnd(NodeRequest[None], frozen=True, kw_only=True):
    """All has been written: the copy is a disk from now on."""

    answer_within_s = SLOW_S
    disk: DiskSpec
    boot: str


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """Whether all disks of an instance are here: a successor of a dead job then completes the move."""

    settled: bool


class InstanceDisksArrived(NodeRequest[Arrived], frozen=True, kw_only=True):
    """Whether all disks of *instance* are here."""

    changes_node = False
    instance: InstanceSpec

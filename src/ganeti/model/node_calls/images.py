# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about disk images: one is written onto a disk, or a helper guest runs from one.

An *image* is an absolute path on the node, or a URL of http, https or ftp; what it holds is a raw disk.
"""

from ganeti.model.node_calls import DAY_S, SLOW_S, NodeRequest
from ganeti.model.node_requests import InstanceSpec


class DiskImage(NodeRequest[int], frozen=True, kw_only=True):
    """Write an image onto one of the disks of an instance, which are open; gives its size in bytes."""

    answer_within_s = DAY_S
    instance: InstanceSpec
    index: int
    image: str


class HelperStart(NodeRequest[None], frozen=True, kw_only=True):
    """Run a copy of an image in the place of an instance, with its disks after that copy.

    The guest has the name of the instance, so whatever looks at that or stops it means the helper. It powers itself off
    when its work is done.
    """

    answer_within_s = DAY_S
    instance: InstanceSpec
    image: str
    communicates: bool = False
    """Whether it has the instance's NIC for communication, and may read its metadata; it has no other NIC."""


class HelperEnd(NodeRequest[None], frozen=True, kw_only=True):
    """End the helper guest of an instance and remove its copy of the image; the disks stay open.

    Where that copy is gone the helper has ended, and what runs under the name is the instance: it is left alone.
    """

    answer_within_s = SLOW_S
    instance: InstanceSpec

# SPDX-License-Identifier: BSD-2-Clause
"""Paths of volumes for programs that only know files: the block device, or a file that a storage daemon shows."""

import contextlib
from collections.abc import AsyncIterator

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage import shown
from ganeti.node.storage.ext.scripts import Places, volume_of
from ganeti.node.storage.uris import block_options
from ganeti.ports.node_world import NodeWorld

QEMU = "kvm"
"""The hypervisor that takes URIs."""


@contextlib.asynccontextmanager
async def as_path(world: NodeWorld, disk: DiskSpec, places: Places) -> AsyncIterator[str]:
    """The path of an attached volume, for as long as it is needed; raises `BlockDeviceError`."""
    if places.path:
        yield places.path
        return
    uri = places.uris.get(QEMU)
    if uri is None:
        raise BlockDeviceError(
            f"Volume {volume_of(disk)} has neither a block device on this node nor a URI for {QEMU}: let the "
            "provider's attach print one"
        )
    try:
        yield await shown.show(world, volume_of(disk), block_options(uri))
    finally:
        await shown.hide(world, volume_of(disk))

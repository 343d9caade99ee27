# SPDX-License-Identifier: BSD-2-Clause
"""Whose device has a minor: it is a disk's own where it lies on that disk's volume.

The configuration gives a minor to the next disk when it forgets the one that had it. The old device may be up still:
its node was offline when the instance was removed, or did not answer when the copy moved away. A device without a disk
holds nothing that could be mistaken, and counts as the disk's own.
"""

import os

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.drbd.places import Link, volumes
from ganeti.node.storage.drbd.states import Device
from ganeti.node.storage.drbd.tools import Tools
from ganeti.node.storage.image_io import in_thread


async def own_device(tools: Tools, disk: DiskSpec, link: Link) -> Device | None:
    """The device of *disk*; None where it has none, or where that of another disk has its minor."""
    device, foreign = await _found(tools, disk, link)
    return None if foreign else device


async def make_way(tools: Tools, disk: DiskSpec, link: Link) -> Device | None:
    """As `own_device`, and another disk's device that nobody writes is taken down.

    Raises `BlockDeviceError` where that one is written.
    """
    device, foreign = await _found(tools, disk, link)
    if device is None or not foreign:
        return device
    node = tools.world.node_name
    if device.is_primary:
        raise BlockDeviceError(
            f"Disk {disk.index} cannot be used on {node}: its device /dev/drbd{link.minor} is in use on the volume "
            f"{foreign}, which is another disk's: see what writes it, and end that (drbdsetup down {link.resource})"
        )
    await tools.setup("down", link.resource)
    tools.world.log(f"device /dev/drbd{link.minor} on the volume {foreign} taken down: disk {disk.label} has its minor")
    return None


async def _found(tools: Tools, disk: DiskSpec, link: Link) -> tuple[Device | None, str]:
    """The device with the disk's minor, and the volume it lies on where that is another disk's."""
    device = await tools.device(link)
    if device is None or not device.has_disk:
        return device, ""
    try:
        volume = await tools.backing(link)
    except BlockDeviceError:
        if await tools.device(link) is None:  # closed meanwhile
            return None, ""
        raise
    group, name = volumes(disk)[0].logical_id
    own = tools.world.paths.under(f"/dev/{group}/{name}")
    return device, volume if await in_thread(_differ, volume, own) else ""


def _differ(volume: str, own: str) -> bool:
    """A volume that is gone under its device is nobody else's."""
    return bool(volume) and os.path.exists(volume) and os.path.realpath(volume) != os.path.realpath(own)

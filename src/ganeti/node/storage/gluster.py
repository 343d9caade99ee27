# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `gluster`: image files on a Gluster volume, which this node mounts below the cluster's directory.

With the disk parameter ``access=userspace`` QEMU reaches an image by libgfapi, past the mount; what makes, grows and
removes images always goes through the mount, and so does the image lock.
"""

import os
import re
from dataclasses import replace
from typing import Any

from msgspec import structs

from ganeti.base.addresses import bracketed, host_and_port
from ganeti.base.errors import BlockDeviceError, CommandError, FileStoragePathError
from ganeti.base.names import file_name_fault, shown
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.model.parameters import Parameter
from ganeti.model.traits import KERNELSPACE, USERSPACE
from ganeti.node.storage.image_files import ImageFileTemplate, of_image_files
from ganeti.node.storage.image_io import in_thread

_MOUNT_S = 60.0
_HOST = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]*")
_IMAGES = of_image_files("gluster")

PARAMETERS = (
    Parameter(
        "access",
        "string",
        KERNELSPACE,
        "whether the hypervisor opens the file on the mount or reaches the volume by itself",
        choices=(KERNELSPACE, USERSPACE),
    ),
    Parameter("host", "string", "127.0.0.1", "a server of the volume", required=True),
    Parameter("port", "int", 24007, "its TCP port", minimum=1, maximum=65535),
    Parameter("volume", "string", "gv0", "name of the volume", required=True),
)


class GlusterDisks(ImageFileTemplate):
    traits = replace(_IMAGES, parameters=(*_IMAGES.parameters, *PARAMETERS), accesses=(KERNELSPACE, USERSPACE))

    async def create(self, disk: DiskSpec) -> None:
        await self._mount(disk)
        await super().create(disk)

    async def activate(self, disk: DiskSpec, owner: str, *, for_migration: bool = False) -> AttachedDisk:
        await self._mount(disk)
        attached = await super().activate(disk, owner, for_migration=for_migration)
        if disk.params.get("access") != USERSPACE:
            return attached
        host, port, volume = _volume(disk)
        name = os.path.relpath(attached.path, self.world.paths.under(_directory(disk)))
        server = {"type": "inet", "host": host, "port": str(port)}
        options: dict[str, Any] = {"driver": "gluster", "volume": volume, "path": name, "server": [server]}
        uri = f"gluster://{host_and_port(host, port)}/{volume}/{name}"
        return structs.replace(attached, uri=uri, blockdev=options)

    async def as_file(self, attached: AttachedDisk) -> AttachedDisk:
        return structs.replace(attached, blockdev=None)

    async def find(self, disk: DiskSpec) -> Any:
        await self._mount(disk)
        return await super().find(disk)

    async def remove(self, disk: DiskSpec) -> None:
        await self._mount(disk)
        await super().remove(disk)

    async def _mount(self, disk: DiskSpec) -> None:
        """A directory that is not mounted would take the images, and hide them when it is."""
        try:
            place = self.allowed.check(_directory(disk), directory=True)
        except FileStoragePathError:
            return  # what follows says so, or has nothing to undo
        host, port, volume = _volume(disk)
        if await self._is_mounted(place):
            return
        await in_thread(os.makedirs, place, mode=0o750, exist_ok=True)
        words = ["mount", "-t", "glusterfs", "-o", f"server-port={port}", f"{bracketed(host)}:/{volume}", place]
        try:
            await self.world.run(words, timeout_s=_MOUNT_S)
        except CommandError as err:
            raise BlockDeviceError(
                f"Gluster volume {volume} of {host} cannot be mounted on {place}: {err}; see that glusterfs-client is "
                "installed and the volume started"
            ) from err

    async def _is_mounted(self, place: str) -> bool:
        try:
            return (await self.world.run(["mountpoint", "-q", place], timeout_s=_MOUNT_S, check=False)).status == 0
        except CommandError as err:
            raise BlockDeviceError(f"{place} does not answer: {err}") from err


def _directory(disk: DiskSpec) -> str:
    """The mounted directory: above that of the instance."""
    path = str(disk.logical_id[-1]) if disk.logical_id else ""
    return os.path.dirname(os.path.dirname(path))


def _volume(disk: DiskSpec) -> tuple[str, int, str]:
    host, volume = str(disk.params.get("host", "127.0.0.1")), str(disk.params.get("volume", "gv0"))
    if (fault := file_name_fault(volume)) is not None:
        raise BlockDeviceError(f"Gluster volume '{shown(volume)}' cannot be: {fault}")
    if not _HOST.fullmatch(host):
        raise BlockDeviceError(f"Gluster server '{shown(host)}' cannot be: give a host name or an address")
    return host, int(disk.params.get("port", 24007)), volume

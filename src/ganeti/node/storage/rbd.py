# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `rbd`: each disk is an image of a Ceph cluster, by the programs ``rbd`` and ``ceph``.

The logical id is ``[POOL, IMAGE]``. With the disk parameter ``access=userspace`` QEMU reaches the image by itself, with
``kernelspace`` the kernel maps it to a device. The image's metadata say which node uses it (``ganeti.node``), and which
one it is migrating to (``ganeti.incoming``). A node that takes an image from a dead one puts the old clients on the
blocklist of the Ceph cluster before it breaks the lock (`rbd_clients`): what a guest that was thought dead still writes
is refused, and the old node ends that guest when it reads the metadata (`lost`).
"""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.model.new_disk import NewDisk
from ganeti.model.node_calls.disks import DiskStatus
from ganeti.model.node_calls.node import StorageSpace
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.model.parameters import Parameter
from ganeti.model.templates import TEMPLATES
from ganeti.model.traits import KERNELSPACE, USERSPACE
from ganeti.node.storage import devices, rbd_clients, shown
from ganeti.node.storage.ceph_questions import INCOMING, NODE, CephQuestions, name_of, place_of, user_of
from ganeti.node.storage.held_images import LOST_LOCK, HeldImage, HeldImages, LostImage, LostImages, limit_of
from ganeti.node.storage.image_io import MIB, in_thread
from ganeti.node.storage.interface import DiskTemplate, Snapshots, Supersedes, Tracked
from ganeti.node.storage.rbd_snapshots import ImageSnapshots
from ganeti.ports.node_world import NodeWorld

_NO_IMAGE = "error opening image"
_GONE = ("No such file or directory",)
_SOON_S = 4.0
"""The limit that is told while the cluster does not answer: then the next look is a second later."""

PARAMETERS = (
    Parameter("pool", "string", "rbd", "pool of the images", required=True),
    Parameter(
        "access",
        "string",
        USERSPACE,
        "whether the hypervisor reaches the image by itself or opens a device of the kernel",
        choices=(KERNELSPACE, USERSPACE),
    ),
    Parameter("user-id", "string", "", "name of the Ceph client; empty for the usual one"),
    Parameter("features", "string", "layering,exclusive-lock", "features of new images, with commas between"),
    LOST_LOCK,
)


class ImageInUseError(BlockDeviceError):
    """Another node uses the image."""


class _Image(msgspec.Struct, frozen=True):
    size: int


class _Mapped(msgspec.Struct, frozen=True):
    pool: str
    name: str
    device: str


def _logical_id(new: NewDisk) -> list[Any]:
    return [str(new.params["pool"]), new.name]


class CephImages(DiskTemplate, Supersedes, Tracked):
    asks_a_cluster = True
    traits = replace(
        TEMPLATES["rbd"],
        parameters=PARAMETERS,
        accesses=(USERSPACE, KERNELSPACE),
        naming=_logical_id,
        locked=False,
    )

    def __init__(self, world: NodeWorld) -> None:
        super().__init__(world)
        self.ask = CephQuestions(world)
        self._held = HeldImages(world.paths, "ceph-images")

    async def create(self, disk: DiskSpec) -> None:
        there = await self.find(disk)
        if there is not None:
            if there.size_mib != disk.size_mib:
                raise BlockDeviceError(
                    f"Disk {name_of(disk)} of {disk.size_mib} MiB cannot be made: there is one of {there.size_mib} MiB "
                    "already; remove it first"
                )
            return
        features = [
            word
            for name in str(disk.params.get("features", "")).split(",")
            if name
            for word in ("--image-feature", name.strip())
        ]
        await self.ask.rbd(disk, "create", "--size", f"{disk.size_mib}M", *features, name_of(disk))

    async def remove(self, disk: DiskSpec) -> None:
        """Snapshots go with the image."""
        await self.deactivate(disk)
        if await self.find(disk) is None:
            return
        if user := (await self.ask.metadata(disk)).get(NODE):
            raise BlockDeviceError(
                f"Disk {name_of(disk)} cannot be removed: node {user} uses it; stop the instance there, or take the "
                "disk from a dead node by failing the instance over"
            )
        await self.ask.rbd_long(disk, "snap", "purge", "--no-progress", name_of(disk))
        await self.ask.rbd_long(disk, "rm", "--no-progress", name_of(disk))

    async def activate(self, disk: DiskSpec, owner: str, *, for_migration: bool = False) -> AttachedDisk:
        await self._require(disk)
        await shown.hide(self.world, disk.uuid)
        await self._hold(disk, owner, for_migration=for_migration)
        if disk.params.get("access") == KERNELSPACE:
            return AttachedDisk(spec=disk, path=await self._map(disk))
        return AttachedDisk(spec=disk, path="", uri=_uri(disk), blockdev=_options(disk))

    async def opened(self, disk: DiskSpec) -> None:
        await rbd_clients.note(self.ask, disk)

    async def deactivate(self, disk: DiskSpec) -> None:
        await shown.hide(self.world, disk.uuid)
        try:
            await self._leave(disk)
        except BlockDeviceError as err:
            if not self.ask.silence.is_silent(place_of(disk)[0]) or await in_thread(self._held.holds, name_of(disk)):
                raise
            self.world.log(f"disk {name_of(disk)} counts as closed, as this node has not opened it: {err}")

    async def settle_migration(self, disk: DiskSpec, owner: str, *, arrived: bool) -> None:
        if not arrived:
            await self.deactivate(disk)
            return
        await self.ask.rbd(disk, "image-meta", "set", name_of(disk), NODE, self.world.node_name)
        await self.ask.forget(disk, INCOMING, await self.ask.metadata(disk))
        await self.opened(disk)

    async def steal(self, disk: DiskSpec, owner: str, reason: str) -> None:
        """Shut the clients of the dead node out, then break their locks."""
        noted = await self.ask.metadata(disk)
        clients = await rbd_clients.shut_out(self.ask, disk, noted.get(rbd_clients.CLIENTS, ""))
        await self.ask.rbd(disk, "image-meta", "set", name_of(disk), NODE, self.world.node_name)
        await self.ask.forget(disk, INCOMING, noted)
        told = ", ".join(clients) or "no client"
        self.world.log(f"disk {name_of(disk)} taken for {owner}: {reason}; shut out: {told}")

    async def lost(self) -> LostImages:
        """By the metadata of each image; one question at a time, since each starts a program."""
        held_images = [held for held in await in_thread(self._held.all) if held.limit_s]
        limit_s = min((float(held.limit_s) for held in held_images), default=math.inf)
        found: list[LostImage] = []
        for held in held_images:
            try:
                noted = await self.ask.metadata(_disk_of(held), patient=True)
            except BlockDeviceError as err:
                self.world.log(f"whether another node has taken image {held.image} cannot be seen: {err}")
                return LostImages(found, min(limit_s, _SOON_S))
            user, own = noted.get(NODE), self.world.node_name
            if user not in (None, own) and noted.get(INCOMING) != own:
                found.append(LostImage(held.owner, f"node {user} has taken image {held.image}"))
        return LostImages(found, limit_s)

    async def as_file(self, attached: AttachedDisk) -> AttachedDisk:
        if attached.blockdev is None:
            return attached
        path = await shown.show(self.world, attached.spec.uuid, attached.blockdev)
        return AttachedDisk(spec=attached.spec, path=path, uri=attached.uri)

    async def find(self, disk: DiskSpec) -> DiskStatus | None:
        try:
            text = await self.ask.rbd(disk, "info", "--format", "json", name_of(disk))
        except BlockDeviceError as err:
            if _NO_IMAGE in str(err) and any(words in str(err) for words in _GONE):
                return None
            raise
        size = msgspec.json.decode(text, type=_Image).size
        return DiskStatus(dev_path=_uri(disk), size_mib=size // MIB)

    async def grow(self, disk: DiskSpec, amount_mib: int, *, in_use: bool = False) -> None:
        if amount_mib < 0:
            raise BlockDeviceError(f"Disk {disk.logical_id} cannot grow by {amount_mib} MiB: give a positive size")
        found, wanted_mib = await self._require(disk), disk.size_mib + amount_mib
        if (found.size_mib or 0) < wanted_mib:
            await self.ask.rbd(disk, "resize", "--no-progress", "--size", f"{wanted_mib}M", name_of(disk))

    async def wipe(self, disk: DiskSpec, offset_mib: int, size_mib: int) -> None:
        """By the file or device that the disk is while it lasts."""
        found = await self._require(disk)
        if offset_mib < 0 or size_mib < 0 or offset_mib + size_mib > (found.size_mib or 0):
            raise BlockDeviceError(
                f"Disk {name_of(disk)} cannot be wiped from {offset_mib} to {offset_mib + size_mib} MiB: it has not so "
                "many"
            )
        if disk.params.get("access") == KERNELSPACE:
            path = await self._map(disk)
        else:
            path = await shown.show(self.world, disk.uuid, _options(disk))
        await in_thread(devices.write_zeros, path, offset_mib * MIB, size_mib * MIB)

    def snapshots(self) -> Snapshots:
        return ImageSnapshots(self.ask)

    async def space(self, setting: str) -> StorageSpace:
        return StorageSpace(type=self.traits.storage_type, name=setting, storage_size=None, storage_free=None)

    async def verify(self, setting: str) -> list[str]:
        return []

    async def list_owned(self, setting: str) -> Sequence[str]:
        return []

    async def _hold(self, disk: DiskSpec, owner: str, *, for_migration: bool) -> None:
        """Enter, and note here what is in the metadata from then on, or may be."""
        image, note = name_of(disk), partial(self._held.note, client=user_of(disk))
        known = await in_thread(self._held.holds, image)
        try:
            await in_thread(note, image, owner, limit_of(disk))
        except OSError as err:
            raise BlockDeviceError(f"{err.filename or self._held.directory} cannot be written: {err.strerror}") from err
        try:
            await self._enter(disk, for_migration=for_migration)
        except ImageInUseError:
            if not known:
                await in_thread(self._held.forget, image)
            raise

    async def _leave(self, disk: DiskSpec) -> None:
        if (device := await self._mapped(disk)) is not None:
            await self.ask.rbd(disk, "unmap", device)
        if await self.find(disk) is not None:
            noted, own = await self.ask.metadata(disk), self.world.node_name
            for key in (NODE, INCOMING):
                if noted.get(key) == own:
                    await self.ask.forget(disk, key, noted)
            if noted.get(NODE, own) == own:
                await self.ask.forget(disk, rbd_clients.CLIENTS, noted)
        await in_thread(self._held.forget, name_of(disk))

    async def _enter(self, disk: DiskSpec, *, for_migration: bool) -> None:
        """Note that this node uses the image; raises `BlockDeviceError` where another one does."""
        noted, own = await self.ask.metadata(disk), self.world.node_name
        user, incoming = noted.get(NODE, own), noted.get(INCOMING)
        if user == own:
            if NODE not in noted:
                await self.ask.rbd(disk, "image-meta", "set", name_of(disk), NODE, own)
        elif not for_migration or incoming not in (None, own):
            raise ImageInUseError(
                f"Disk {name_of(disk)} is in use on node {user}: stop the instance there, or take the disk from a dead "
                "node by failing the instance over"
            )
        elif incoming is None:
            await self.ask.rbd(disk, "image-meta", "set", name_of(disk), INCOMING, own)

    async def _require(self, disk: DiskSpec) -> DiskStatus:
        found = await self.find(disk)
        if found is None:
            raise BlockDeviceError(f"Disk {name_of(disk)} is missing in the Ceph cluster")
        return found

    async def _map(self, disk: DiskSpec) -> str:
        device = await self._mapped(disk)
        if device is None:
            if not os.path.isdir("/sys/bus/rbd") and not os.path.isdir("/sys/module/rbd"):
                await self._load_module()
            device = (await self.ask.rbd(disk, "map", name_of(disk))).strip()
        if await in_thread(devices.size_of, device) is None:
            raise BlockDeviceError(f"Disk {name_of(disk)} was mapped to {device}, which is not there")
        return device

    async def _load_module(self) -> None:
        try:
            await self.world.run(["modprobe", "rbd"])
        except CommandError as err:
            raise BlockDeviceError(str(err)) from err

    async def _mapped(self, disk: DiskSpec) -> str | None:
        if disk.params.get("access") != KERNELSPACE:
            return None
        text = await self.ask.rbd(disk, "device", "list", "--format", "json")
        pool, image = place_of(disk)
        found = msgspec.json.decode(text or "[]", type=list[_Mapped])
        return next((each.device for each in found if (each.pool, each.name) == (pool, image)), None)


def _options(disk: DiskSpec) -> dict[str, Any]:
    pool, image = place_of(disk)
    user = user_of(disk)
    options = {"driver": "rbd", "pool": pool, "image": image}
    return options | ({"user": user} if user else {})


def _uri(disk: DiskSpec) -> str:
    user = user_of(disk)
    return f"rbd:{name_of(disk)}" + (f":id={user}" if user else "")


def _disk_of(held: HeldImage) -> DiskSpec:
    """As much of it as a question needs."""
    params, place = {"user-id": held.client}, held.image.split("/")
    return DiskSpec(uuid="", template="rbd", logical_id=list(place), size_mib=0, index=0, params=params)

# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `ext`: each disk is a volume of a provider, whose scripts make it, attach it and remove it.

The logical id is ``[PROVIDER, VOLUME]``. What is attached on this node stands in ``run/ganeti/extstorage/VOLUME``
until it is detached: a look at a volume that nobody uses here leaves it as it was.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace
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
from ganeti.node.storage import devices, shown
from ganeti.node.storage.ext.absences import Absences
from ganeti.node.storage.ext.paths import QEMU, as_path
from ganeti.node.storage.ext.scripts import (
    Places,
    Provider,
    ScriptFailedError,
    find_provider,
    volume_of,
)
from ganeti.node.storage.ext.snapshots import VolumeSnapshots
from ganeti.node.storage.ext.users import VolumeUsers
from ganeti.node.storage.image_io import MIB, in_thread
from ganeti.node.storage.interface import DiskTemplate, Snapshots
from ganeti.node.storage.uris import block_options
from ganeti.ports.node_world import NodeWorld
from ganeti.system.files import read_if_there, write_atomically

ACCESS = Parameter(
    "access",
    "string",
    KERNELSPACE,
    "whether the hypervisor opens a device of the kernel or reaches the storage by itself",
    choices=(KERNELSPACE, USERSPACE),
)


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """A volume that is in use here."""

    places: Places
    owner: str
    shared: bool
    """Whether another node may write too."""


class _NotThereError(BlockDeviceError):
    """A volume that is missing, or cannot be reached."""


def _logical_id(new: NewDisk) -> list[Any]:
    return [new.word("provider", f"write --disk {new.index}:size=SIZE,provider=NAME"), new.name]


class ExternalDisks(DiskTemplate):
    traits = replace(
        TEMPLATES["ext"],
        parameters=(ACCESS,),
        accesses=(KERNELSPACE, USERSPACE),
        keys=("provider",),
        free_keys=True,
        naming=_logical_id,
        opened_by_role=True,
        locked=False,
        snapshots_in_configuration=True,
    )

    def __init__(self, world: NodeWorld) -> None:
        super().__init__(world)
        self._absences = Absences(f"{world.paths.run_dir}/extstorage")
        self.users = VolumeUsers(self.attach, self.is_open)

    async def check_new(self, disk: DiskSpec) -> None:
        await find_provider(self.world, disk).run("verify", disk)

    async def create(self, disk: DiskSpec) -> None:
        provider = find_provider(self.world, disk)
        there = await self.find(disk)
        if there is None:
            await self._run_create(provider, disk)
            if fault := await _fault_of_made(self, disk):
                with contextlib.suppress(BlockDeviceError):
                    await self.remove(disk)
                raise BlockDeviceError(
                    f"Provider {provider.name} says that it made volume {volume_of(disk)} of {disk.size_mib} MiB, but "
                    f"it {fault}"
                )
        elif there.size_mib != disk.size_mib:
            raise BlockDeviceError(
                f"Disk {volume_of(disk)} of {disk.size_mib} MiB cannot be made: there is one of {there.size_mib} MiB "
                "already; remove it first"
            )

    async def remove(self, disk: DiskSpec) -> None:
        """Raises `BlockDeviceError` where the script fails, unless this node knows that there is no volume.

        That it cannot be attached says nothing: a provider that is out of order attaches none.
        """
        await self.deactivate(disk)
        for name in disk.snapshots:
            await self.snapshots().remove(disk, name)
        provider = find_provider(self.world, disk)
        try:
            await provider.run("remove", disk)
        except ScriptFailedError as err:
            if not await in_thread(self._absences.has, volume_of(disk)):
                raise BlockDeviceError(f"Volume {volume_of(disk)} may be there still: {err}") from err
            self.world.log(f"volume {volume_of(disk)} of provider {provider.name} was gone already")
        await in_thread(self._absences.note, volume_of(disk))

    async def _run_create(self, provider: Provider, disk: DiskSpec) -> None:
        try:
            await provider.run("verify", disk)
            await provider.run("create", disk, VOL_SIZE=str(disk.size_mib))
        except ScriptFailedError:
            with contextlib.suppress(BlockDeviceError):
                if await self.find(disk) is None:  # two scripts say so: the undo has nothing to remove
                    await in_thread(self._absences.note, volume_of(disk))
            raise
        await in_thread(self._absences.forget, volume_of(disk))

    async def activate(self, disk: DiskSpec, owner: str, *, for_migration: bool = False) -> AttachedDisk:
        provider = find_provider(self.world, disk)
        await shown.hide(self.world, disk.uuid)
        async with self.users.turn(disk):
            try:
                places = await self.attach(provider, disk)
            except ScriptFailedError as err:
                raise BlockDeviceError(f"Disk {volume_of(disk)} is missing, or cannot be reached: {err}") from err
            before = await in_thread(self._read, disk)
            await in_thread(self._write, disk, Attached(places=places, owner=owner, shared=for_migration))
        if provider.has("open"):
            await provider.run("open", disk, VOL_OPEN_EXCLUSIVE=str(not for_migration))
        if before is None or before.owner != owner:
            await _tell_owner(provider, disk, owner)
        size = await self._size(places)
        await in_thread(self._absences.forget, volume_of(disk))
        if size is not None and size < disk.size_mib * MIB:
            raise BlockDeviceError(
                f"Disk {volume_of(disk)} should have {disk.size_mib} MiB and provider {provider.name} attaches one of "
                f"{size // MIB} MiB"
            )
        return self._attached(disk, places)

    async def deactivate(self, disk: DiskSpec) -> None:
        await shown.hide(self.world, disk.uuid)
        if await in_thread(self._read, disk) is None:
            return
        provider = find_provider(self.world, disk)
        if provider.has("close"):
            await provider.run("close", disk)
        async with self.users.turn(disk):
            await provider.run("detach", disk)
            await in_thread(self._forget, disk)

    async def settle_migration(self, disk: DiskSpec, owner: str, *, arrived: bool) -> None:
        if arrived:
            await self.activate(disk, owner)
        else:
            await self.deactivate(disk)

    async def find(self, disk: DiskSpec) -> DiskStatus | None:
        """A volume that cannot be attached or reached is not there, as far as this interface can say.

        Some providers name the place where it would be without looking.
        """
        try:
            return await self.look(disk)
        except _NotThereError:
            return None

    async def look(self, disk: DiskSpec) -> DiskStatus:
        """As `find`, but raises `_NotThereError` with the reason."""
        async with contextlib.AsyncExitStack() as until_then:
            try:
                places = await until_then.enter_async_context(
                    self.users.attached(find_provider(self.world, disk), disk)
                )
                size = await self._size(places)
            except ScriptFailedError as err:
                raise _NotThereError(str(err)) from err
        await in_thread(self._absences.forget, volume_of(disk))  # another node has made it meanwhile
        return DiskStatus(dev_path=places.path, size_mib=None if size is None else size // MIB)

    async def grow(self, disk: DiskSpec, amount_mib: int, *, in_use: bool = False) -> None:
        if amount_mib < 0:
            raise BlockDeviceError(f"Disk {disk.logical_id} cannot grow by {amount_mib} MiB: give a positive size")
        provider, wanted_mib = find_provider(self.world, disk), disk.size_mib + amount_mib
        found = await self.find(disk)
        if found is None:
            raise BlockDeviceError(f"Disk {volume_of(disk)} is missing: provider {provider.name} cannot attach it")
        if found.size_mib is not None and found.size_mib >= wanted_mib:
            return
        await provider.run("grow", disk, VOL_SIZE=str(disk.size_mib), VOL_NEW_SIZE=str(wanted_mib))
        grown = await self.find(disk)
        if grown is None or (grown.size_mib is not None and grown.size_mib < wanted_mib):
            raise BlockDeviceError(
                f"Provider {provider.name} says that volume {volume_of(disk)} has grown to {wanted_mib} MiB, but it "
                f"has {grown.size_mib if grown else 'gone'} MiB"
            )

    async def wipe(self, disk: DiskSpec, offset_mib: int, size_mib: int) -> None:
        """The volume is attached for as long as it takes."""
        provider = find_provider(self.world, disk)
        async with self.users.attached(provider, disk) as places:
            size = await self._size(places)
            if offset_mib < 0 or size_mib < 0 or size is None or (offset_mib + size_mib) * MIB > size:
                raise BlockDeviceError(
                    f"Disk {volume_of(disk)} cannot be wiped from {offset_mib} to {offset_mib + size_mib} MiB: it has "
                    "not so many"
                )
            async with as_path(self.world, disk, places) as path:
                await in_thread(devices.write_zeros, path, offset_mib * MIB, size_mib * MIB)

    async def as_file(self, attached: AttachedDisk) -> AttachedDisk:
        """One without a block device is shown as a file until it is opened for a guest, or closed."""
        if attached.path or attached.blockdev is None:
            return attached
        path = await shown.show(self.world, attached.spec.uuid, attached.blockdev)
        return AttachedDisk(spec=attached.spec, path=path, uri=attached.uri)

    def snapshots(self) -> Snapshots:
        return VolumeSnapshots(self)

    def is_open(self, disk: DiskSpec) -> bool:
        return self._read(disk) is not None

    def note_absence(self, disk: DiskSpec) -> None:
        self._absences.note(volume_of(disk))

    async def space(self, setting: str) -> StorageSpace:
        return StorageSpace(type=self.traits.storage_type, name=setting, storage_size=None, storage_free=None)

    async def verify(self, setting: str) -> list[str]:
        return []

    async def list_owned(self, setting: str) -> Sequence[str]:
        """Providers have no script that lists volumes."""
        return []

    async def attach(self, provider: Provider, disk: DiskSpec) -> Places:
        places = await provider.attach(disk)
        if places.path and await in_thread(devices.size_of, places.path) is None:
            raise ScriptFailedError(f"Provider {provider.name}: attach names {places.path}, which is not there")
        return places

    async def _size(self, places: Places) -> int | None:
        """In bytes; raises `ScriptFailedError` where nothing is at the URI, or it cannot be reached."""
        if places.path:
            return await in_thread(devices.size_of, places.path)
        if QEMU not in places.uris:
            return None
        options = block_options(places.uris[QEMU])
        image = "json:" + msgspec.json.encode({"driver": "raw", "file": options}).decode()
        try:
            done = await self.world.run(["qemu-img", "info", "--output=json", "-U", image])
        except CommandError as err:
            raise ScriptFailedError(f"Disk {places.uris[QEMU]} cannot be reached: {err}") from err
        return int(msgspec.json.decode(done.stdout)["virtual-size"])

    def _attached(self, disk: DiskSpec, places: Places) -> AttachedDisk:
        if disk.params.get("access") != USERSPACE:
            if not places.path:
                raise BlockDeviceError(
                    f"Disk {volume_of(disk)} has no block device on this node: use access=userspace, which provider "
                    f"{disk.logical_id[0]} offers for {', '.join(sorted(places.uris))}"
                )
            return AttachedDisk(spec=disk, path=places.path, uri=places.uris.get(QEMU, ""))
        uri = places.uris.get(QEMU)
        if uri is None:
            raise BlockDeviceError(
                f"Disk {volume_of(disk)}: provider {disk.logical_id[0]} offers no URI for {QEMU}: use "
                "access=kernelspace"
            )
        return AttachedDisk(spec=disk, path=places.path, uri=uri, blockdev=block_options(uri))

    def _file(self, disk: DiskSpec) -> str:
        return f"{self.world.paths.run_dir}/extstorage/{volume_of(disk)}"

    def _read(self, disk: DiskSpec) -> Attached | None:
        data = read_if_there(self._file(disk))
        return msgspec.json.decode(data, type=Attached) if data else None

    def _write(self, disk: DiskSpec, attached: Attached) -> None:
        os.makedirs(os.path.dirname(self._file(disk)), mode=0o700, exist_ok=True)
        write_atomically(self._file(disk), msgspec.json.encode(attached), mode=0o600)

    def _forget(self, disk: DiskSpec) -> None:
        try:
            os.unlink(self._file(disk))
        except FileNotFoundError:
            return


async def _fault_of_made(volumes: ExternalDisks, disk: DiskSpec) -> str:
    """What is wrong with a volume whose provider says that it made it; empty for nothing."""
    try:
        made = await volumes.look(disk)
    except _NotThereError as err:
        return f"is not there, or cannot be reached: {err}"
    return f"has {made.size_mib} MiB" if made.size_mib is not None and made.size_mib < disk.size_mib else ""


async def _tell_owner(provider: Provider, disk: DiskSpec, owner: str) -> None:
    """A provider that cannot keep a note does no harm."""
    try:
        await provider.run("setinfo", disk, VOL_METADATA=f"originstname+{owner}")
    except BlockDeviceError as err:
        provider.world.log(str(err))

# SPDX-License-Identifier: BSD-2-Clause
"""Disks that are files, raw or qcow2: shared by the templates `file` and `sharedfile`.

The logical id is ``[driver, path]``; the path is ``DIRECTORY/INSTANCE/UUID.file.diskN``. What must hold: a name ending
in ``.diskN`` is a whole disk, because it is made as ``….new`` and renamed; the directory of an instance is there
exactly as long as one of its disks is.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from msgspec import structs

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.model.node_calls.disks import GOOD, DiskStatus, DiskUse
from ganeti.model.node_calls.node import StorageSpace
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.model.parameters import Parameter
from ganeti.model.templates import TEMPLATES
from ganeti.model.traits import TemplateTraits
from ganeti.node.storage import guest_locks, image_io, raw_snapshots, replaced_images
from ganeti.node.storage.allowed_paths import AllowedPaths
from ganeti.node.storage.held_images import LOST_LOCK, HeldImages, limit_of
from ganeti.node.storage.image_io import MIB, QCOW2, RAW, in_thread
from ganeti.node.storage.image_lock import ImageLock
from ganeti.node.storage.interface import DiskTemplate, KnowsOwners, Snapshots
from ganeti.node.storage.qcow2_snapshots import Qcow2Snapshots
from ganeti.node.storage.raw_snapshots import ImageSnapshots, RawSnapshots
from ganeti.ports.node_world import NodeWorld
from ganeti.system.boot import boot_identity

P = ParamSpec("P")
T = TypeVar("T")

SPARSE_RESERVE_MIB = 16
"""A sparse disk takes no space when it is made, but on a full file system its first write would fail."""

FORMATS = (RAW, QCOW2)
MIRROR = "mirror"
DRIVERS = ("loop", "blktap", "blktap2", MIRROR)
"""All mean the same here: the hypervisor opens the file. 3.1 knows them all but the last one: see `mirror`."""

PARAMETERS = (
    Parameter("format", "string", RAW, "format of the image files", choices=FORMATS),
    Parameter(
        "allocation",
        "string",
        "sparse",
        "whether a disk takes its space when it is made or as it is written",
        choices=("sparse", "full"),
    ),
)
_TOOL_TIMEOUT_S = 3600.0


def of_image_files(template: str) -> TemplateTraits:
    """The traits of a template whose disks are image files."""
    traits = TEMPLATES[template]
    parameters = (*PARAMETERS, LOST_LOCK) if traits.shared else PARAMETERS
    return replace(traits, formats=FORMATS, parameters=parameters, logical_id_driver=DRIVERS[0])


class ImageFileTemplate(DiskTemplate, KnowsOwners):
    """A template whose disks are image files; `traits` says the rest."""

    def __init__(self, world: NodeWorld) -> None:
        super().__init__(world)
        self.allowed = AllowedPaths(world.paths)
        self._held = HeldImages(world.paths)

    async def create(self, disk: DiskSpec) -> None:
        path = await self._place(disk)
        image_format = self._format(disk)
        if await in_thread(self._exists, path, disk):
            return
        await in_thread(self._prepare, path, disk)
        fresh = f"{path}.new"
        try:
            if image_format == RAW:
                await in_thread(image_io.write_raw, fresh, disk.size_mib * MIB, full=_is_full(disk))
            else:
                await self._write_qcow2(fresh, disk)
            await in_thread(image_io.publish, fresh, path)
        except BaseException as err:
            await in_thread(self._withdraw, path)
            if isinstance(err, OSError):
                raise image_io.failed("made", path, err) from err
            raise

    async def remove(self, disk: DiskSpec) -> None:
        path = await place_if_there(self.allowed, disk)
        if path is None:
            return
        holder = await in_thread(self._lock(path).foreign) if self.traits.shared else None
        if holder is not None:
            raise BlockDeviceError(
                f"Disk {path} cannot be removed: node {holder.node} holds its image lock; stop the instance there, or "
                "take the lock from a dead node by failing the instance over"
            )
        try:
            await in_thread(self._remove, path, disk)
        except OSError as err:
            raise image_io.failed("removed", path, err) from err

    async def activate(self, disk: DiskSpec, owner: str, *, for_migration: bool = False) -> AttachedDisk:
        path = await self._place(disk)
        if await self._size(path, disk) is None:
            raise BlockDeviceError(f"Disk {path} is missing: {image_io.why_missing(path)}")
        if self.traits.shared:
            lock = self._lock(path)
            await self._on_lock(lock.take_incoming if for_migration else lock.take, owner)
            await self._hold(path, disk, owner)
        return AttachedDisk(spec=disk, path=path, image_format=self._format(disk))

    async def deactivate(self, disk: DiskSpec) -> None:
        await self._release(disk, None)

    async def give_back(self, disk: DiskSpec, owner: str) -> None:
        """Of two instances of this node that want one image at a time, the later one must not give back the other's."""
        if self.traits.shared:
            await self._release(disk, owner)
        else:
            await self.deactivate(disk)

    async def _release(self, disk: DiskSpec, owner: str | None) -> None:
        path = await place_if_there(self.allowed, disk) if self.traits.shared else None
        if path is not None and not await self._on_lock(self._lock(path).release, owner):
            await in_thread(self._held.forget, path)

    async def settle_migration(self, disk: DiskSpec, owner: str, *, arrived: bool) -> None:
        if self.traits.shared:
            path = await (self._place(disk) if arrived else place_if_there(self.allowed, disk))
            if path is None:
                return
            lock = self._lock(path)
            await self._on_lock(lambda: lock.settle(owner, arrived=arrived))
            if arrived:
                await self._hold(path, disk, owner)
            else:
                await in_thread(self._held.forget, path)

    async def steal(self, disk: DiskSpec, owner: str, reason: str) -> None:
        if self.traits.shared:
            path = await self._place(disk)
            await self._on_lock(self._lock(path).steal, owner, reason)
            await self._hold(path, disk, owner)

    async def use_of(self, disk: DiskSpec) -> DiskUse | None:
        path = await self._place(disk)
        if not self.traits.shared or not await image_io.read(image_io.storage_of(path), guest_locks.is_written, path):
            return None
        return DiskUse(path=path, ends_within_s=limit_of(disk))

    async def rename(self, disk: DiskSpec, logical_id: list[Any]) -> None:
        wanted = structs.replace(disk, logical_id=logical_id)
        old_path, path = await self._place(disk), await self._place(wanted)
        if await self._size(path, wanted) is not None:  # an earlier call was interrupted, or its way there was
            try:
                await in_thread(raw_snapshots.rename_with, old_path, path)
                await in_thread(self._remove_directory, old_path)
            except OSError as err:
                raise image_io.failed("renamed", old_path, err) from err
            return
        if await self._size(old_path, disk) is None:
            raise BlockDeviceError(f"Disk {old_path} is missing: {image_io.why_missing(old_path)}")
        holder = await in_thread(self._lock(old_path).foreign) if self.traits.shared else None
        if holder is not None:
            raise BlockDeviceError(f"Disk {old_path} cannot be renamed: node {holder.node} holds its image lock")
        await self.deactivate(disk)
        try:
            await in_thread(self._rename, old_path, path)
        except OSError as err:
            raise image_io.failed("renamed", old_path, err) from err

    async def renew(self, disk: DiskSpec) -> None:
        path, found = await self._place(disk), await self.find(disk)
        complete = found is not None and found.ldisk_status == GOOD
        await self.deactivate(disk)
        try:
            await in_thread(replaced_images.set_aside if complete else replaced_images.remove_incomplete, path)
        except OSError as err:
            raise image_io.failed("replaced", path, err) from err
        try:
            await self.create(disk)
        except BlockDeviceError:
            if complete:  # what was set aside by an earlier call may be behind by now
                await in_thread(replaced_images.put_back, path)
            raise

    async def forget_replaced(self, disk: DiskSpec) -> None:
        path = await place_if_there(self.allowed, disk)
        if path is not None:
            await in_thread(replaced_images.forget, path)

    async def stored_path(self, disk: DiskSpec) -> str:
        path = await self._place(disk)
        if await self._size(path, disk) is None:
            raise BlockDeviceError(f"Disk {path} is missing: {image_io.why_missing(path)}")
        return path

    async def begin_copy(self, disk: DiskSpec, size: int) -> None:
        path = await self._place(disk)
        if await self._size(path, disk) is not None:
            raise BlockDeviceError(f"Disk {path} is here already: remove it first")
        try:
            await in_thread(self._prepare, path, disk)
            await in_thread(image_io.write_raw, self.unfinished_path(disk), size, full=_is_full(disk))
        except OSError as err:
            raise image_io.failed("copied", path, err) from err

    def unfinished_path(self, disk: DiskSpec) -> str:
        return f"{self.allowed.check(str(_path_of(disk)))}.new"

    async def end_copy(self, disk: DiskSpec) -> None:
        path = await self._place(disk)
        if await self._size(path, disk) is not None:
            return
        try:
            await in_thread(image_io.publish, self.unfinished_path(disk), path)
        except OSError as err:
            raise image_io.failed("copied", path, err) from err

    def snapshots(self) -> Snapshots:
        return ImageSnapshots(RawSnapshots(self._place), Qcow2Snapshots(self._place, self._qemu_img))

    async def find(self, disk: DiskSpec) -> DiskStatus | None:
        path = await self._place(disk)
        size = await self._size(path, disk)
        return None if size is None else DiskStatus(dev_path=path, size_mib=size // MIB)

    async def grow(self, disk: DiskSpec, amount_mib: int, *, in_use: bool = False) -> None:
        if amount_mib < 0:
            raise BlockDeviceError(f"Disk {disk.logical_id} cannot grow by {amount_mib} MiB: give a positive size")
        path = await self._place(disk)
        wanted_mib = disk.size_mib + amount_mib
        size = await self._size(path, disk)
        if size is None:
            raise BlockDeviceError(f"Disk {path} is missing: {image_io.why_missing(path)}")
        if size >= wanted_mib * MIB:
            return
        try:
            await in_thread(self._check_space, path, wanted_mib, wanted_mib - size // MIB, disk)
            if self._format(disk) == QCOW2:
                if in_use:  # QEMU holds its lock on it
                    return
                await self._qemu_img(["resize", "-q", "-f", QCOW2, path, f"{wanted_mib}M"], f"Disk {path} cannot grow")
            else:
                await in_thread(image_io.extend, path, wanted_mib * MIB, full=_is_full(disk))
        except OSError as err:
            raise image_io.failed("grown", path, err) from err

    async def wipe(self, disk: DiskSpec, offset_mib: int, size_mib: int) -> None:
        path = await self._place(disk)
        size = await self._size(path, disk)
        if size is None or offset_mib < 0 or size_mib < 0 or (offset_mib + size_mib) * MIB > size:
            raise BlockDeviceError(
                f"Disk {path} cannot be wiped from {offset_mib} to {offset_mib + size_mib} MiB: it has not so many"
            )
        try:
            if self._format(disk) == RAW:
                await in_thread(image_io.write_zeros, path, offset_mib, size_mib)
            elif size_mib:
                command = f"write -q -P 0 {offset_mib}M {size_mib}M"
                await self._qemu_img(["-f", QCOW2, "-c", command, path], f"Disk {path} cannot be wiped", "qemu-io")
        except OSError as err:
            raise image_io.failed("wiped", path, err) from err

    async def space(self, setting: str) -> StorageSpace:
        try:
            size, free = await image_io.read(setting, image_io.space_mib, self.world.paths.under(setting))
        except (OSError, BlockDeviceError):
            return StorageSpace(type=self.traits.storage_type, name=setting, storage_size=None, storage_free=None)
        return StorageSpace(type=self.traits.storage_type, name=setting, storage_size=size, storage_free=free)

    async def verify(self, setting: str) -> list[str]:
        try:
            return await image_io.read(setting, self._problems, setting)
        except BlockDeviceError as err:
            return [str(err)]

    async def list_owned(self, setting: str) -> Sequence[str]:
        found = await image_io.read(setting, _images_below, setting, self.world.paths.under(setting))
        return [path for path in found if self.owns(os.path.basename(path))]

    def owns(self, name: str) -> bool:
        """Whether a file of this name below the template's directory is one of its disks."""
        return f".{MIRROR}.disk" not in name

    async def _size(self, path: str, disk: DiskSpec) -> int | None:
        try:
            return await image_io.read(image_io.storage_of(path), image_io.inspect, path, self._format(disk))
        except OSError as err:
            raise image_io.failed("opened", path, err) from err

    async def _place(self, disk: DiskSpec) -> str:
        path = _path_of(disk)
        if path is None:
            raise BlockDeviceError(f"Logical id {disk.logical_id} names no file: it must be [driver, path]")
        return await image_io.read(image_io.storage_of(path), self.allowed.check, path)

    def _format(self, disk: DiskSpec) -> str:
        image_format = disk.params.get("format", RAW)
        if image_format not in FORMATS:
            raise BlockDeviceError(f"Disk format '{image_format}' is not known: it must be raw or qcow2")
        return str(image_format)

    async def _hold(self, path: str, disk: DiskSpec, owner: str) -> None:
        try:
            await in_thread(self._held.note, path, owner, limit_of(disk))
        except OSError as err:
            raise BlockDeviceError(f"{err.filename or self._held.directory} cannot be written: {err.strerror}") from err

    def _lock(self, path: str) -> ImageLock:
        return ImageLock(path, node=self.world.node_name, boot=boot_identity(), log=self.world.log)

    async def _on_lock(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return await in_thread(act, *args, **kwargs)
        except FileNotFoundError:
            # The directory is gone, and with it image and lock.
            return None
        except OSError as err:
            raise BlockDeviceError(f"The image lock in {err.filename} cannot be changed: {err.strerror}") from err

    def _exists(self, path: str, disk: DiskSpec) -> bool:
        size = image_io.inspect(path, self._format(disk))
        if size is not None and size != disk.size_mib * MIB:
            raise BlockDeviceError(
                f"Disk {path} of {disk.size_mib} MiB cannot be made: there is one of {size // MIB} MiB already; "
                "remove it first"
            )
        return size is not None

    def _rename(self, old_path: str, path: str) -> None:
        self._make_directory(path)
        raw_snapshots.rename_with(old_path, path)
        image_io.publish(old_path, path)
        image_io.sync(os.path.dirname(old_path))
        self._remove_directory(old_path)

    def _prepare(self, path: str, disk: DiskSpec) -> None:
        self._make_directory(path)
        try:
            self._check_space(path, disk.size_mib, disk.size_mib, disk)
        except BlockDeviceError:
            self._remove_directory(path)
            raise

    def _make_directory(self, path: str) -> None:
        for patience in (2, 1, 0):
            try:
                os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)
                break
            except FileNotFoundError as err:  # a neighbour's last disk took a directory above away meanwhile
                if not patience:
                    raise image_io.failed("made", path, err) from err
            except OSError as err:
                raise image_io.failed("made", path, err) from err

    def _check_space(self, path: str, size_mib: int, more_mib: int, disk: DiskSpec) -> None:
        _, free = image_io.space_mib(os.path.dirname(path))
        needed = more_mib if _is_full(disk) else min(more_mib, SPARSE_RESERVE_MIB)
        if free < needed:
            raise BlockDeviceError(
                f"Disk {path} of {size_mib} MiB cannot be made: {needed} MiB are needed and {free} MiB are free there"
            )

    async def _write_qcow2(self, fresh: str, disk: DiskSpec) -> None:
        await in_thread(image_io.unlink, fresh)
        preallocation = "falloc" if _is_full(disk) else "off"
        options = ["-o", f"preallocation={preallocation},lazy_refcounts=off"]
        await self._qemu_img(
            ["create", "-q", "-f", QCOW2, *options, fresh, f"{disk.size_mib}M"],
            f"Disk {fresh.removesuffix('.new')} of {disk.size_mib} MiB cannot be made",
        )
        await in_thread(os.chmod, fresh, 0o640)

    async def _qemu_img(self, arguments: list[str], sentence: str, program: str = "qemu-img") -> str:
        try:
            done = await self.world.run([program, *arguments], timeout_s=_TOOL_TIMEOUT_S)
        except CommandError as err:
            raise BlockDeviceError(f"{sentence}: {err}") from err
        return done.stdout

    def _remove(self, path: str, disk: DiskSpec) -> None:
        for name in (path, f"{path}.new"):
            image_io.unlink(name)
        replaced_images.forget(path)
        raw_snapshots.remove_all(path)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            image_io.sync(os.path.dirname(path))  # or a loss of power would bring back what nobody names any more
        if self.traits.shared:
            self._lock(path).discard()
            self._held.forget(path)
        self._remove_directory(path)

    def _withdraw(self, path: str) -> None:
        with contextlib.suppress(OSError):
            image_io.unlink(f"{path}.new")
            self._remove_directory(path)

    def _remove_directory(self, path: str) -> None:
        """Take away the directories above *path* that are empty now, up to the storage directory."""
        directory = os.path.dirname(path)
        while not self.allowed.is_listed(directory):
            try:
                os.rmdir(directory)
            except OSError as err:
                if err.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):  # busy: something is mounted there
                    return
                if not image_io.is_absence(err):
                    raise
            directory = os.path.dirname(directory)

    def _problems(self, setting: str) -> list[str]:
        directory = self.allowed.check(setting, directory=True)
        return image_io.directory_problems(directory, self.world.node_name, links=self.traits.shared)


async def place_if_there(allowed: AllowedPaths, disk: DiskSpec) -> str | None:
    """For what closes and removes: None where no disk was ever allowed to be made, if nothing is there.

    The undo of a disk that was refused has the same path: there is nothing to undo.
    """
    path = _path_of(disk)
    return None if path is None else await image_io.read(image_io.storage_of(path), allowed.check_if_there, path)


def _path_of(disk: DiskSpec) -> str | None:
    """Where a disk is said to be; None for a logical id that names no file."""
    if len(disk.logical_id) != 2 or disk.logical_id[0] not in DRIVERS or not isinstance(disk.logical_id[1], str):
        return None
    return disk.logical_id[1]


def _images_below(setting: str, top: str) -> list[str]:
    found: list[str] = []
    for directory, there in image_io.files_below(top):
        # The lock of an image belongs to it; one without its image is left over.
        found += [
            f"{setting}/{directory}/{name}" for name in there if _image_of(name) not in there or name == _image_of(name)
        ]
    return sorted(found)


def _image_of(name: str) -> str:
    return name.partition(raw_snapshots.MARK)[0].partition(".lock")[0].removesuffix(f".{MIRROR}")


def _is_full(disk: DiskSpec) -> bool:
    return bool(disk.params.get("allocation") == "full")

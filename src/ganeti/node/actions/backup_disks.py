# SPDX-License-Identifier: BSD-2-Clause
"""Node calls of the node that has the disks: reading them for a backup, and filling them from one."""

import contextlib
from collections.abc import AsyncIterator

from ganeti.base.errors import BlockDeviceError, HypervisorError
from ganeti.model.node_calls.backups import (
    BackupClose,
    BackupFill,
    BackupOpen,
    BackupScan,
    ChunkPiece,
    DiskBytes,
    ForgetSigns,
    OpenedView,
    SignOfLife,
)
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.node.actions.registry import answers
from ganeti.node.backups import filling, sources
from ganeti.node.backups.sources import ByteSource, FileSource
from ganeti.node.hypervisors.interface import FrozenViews
from ganeti.node.state import NodeState
from ganeti.node.storage import image_io, shown
from ganeti.node.storage.image_io import in_thread
from ganeti.system.boot import boot_identity
from ganeti.wire.sealing import Sealing


@answers(BackupOpen)
async def backup_open(node: NodeState, asked: BackupOpen) -> OpenedView:
    """Hold the disks of a running guest as they are, frozen by its agent for that moment where it has one."""
    name, snapshots = asked.instance.name, node.hypervisor_of(asked.instance).snapshots()
    frozen_views = _frozen_views(node, asked.instance.hypervisor)
    frozen = snapshots is not None and await snapshots.freeze(name)
    try:
        counted = await frozen_views.open(asked.instance, mark=asked.mark, since=asked.since)
    finally:
        if snapshots is not None and frozen:
            await snapshots.thaw(name)
    dirty = [await frozen_views.changed(name, disk) if known else None for disk, known in enumerate(counted)]
    node.world.log(f"disks of instance {name} held for backup {asked.mark}{', its guest frozen' if frozen else ''}")
    return OpenedView(frozen=frozen, dirty=dirty)


@answers(BackupClose)
async def backup_close(node: NodeState, asked: BackupClose) -> None:
    hypervisor = node.hypervisor(asked.hypervisor)
    snapshots = hypervisor.snapshots()
    if snapshots is not None and await hypervisor.info(asked.name) is not None:
        await snapshots.thaw(asked.name)  # a daemon that was killed may have left it frozen
    await _frozen_views(node, asked.hypervisor).close(asked.name, kept=asked.kept)


@answers(DiskBytes)
async def disk_bytes(node: NodeState, asked: DiskBytes) -> int:
    async with _source(node, asked.instance, asked.disk, running=asked.running) as source:
        return await source.size()


@answers(BackupScan)
async def backup_scan(node: NodeState, asked: BackupScan) -> ChunkPiece:
    sealing = Sealing(asked.key, asked.instance.uuid)
    async with _source(node, asked.instance, asked.disk, running=asked.running) as source:
        try:
            return await sources.changed(source, asked.disk, asked.first, asked.known, sealing)
        except OSError as err:
            raise BlockDeviceError(f"Disk {asked.disk} of {asked.instance.name} cannot be read: {err}") from err


@answers(BackupFill)
async def backup_fill(node: NodeState, asked: BackupFill) -> str:
    sealing = Sealing(asked.key, asked.source_uuid)
    span = (asked.first, asked.end)
    try:
        async with _file(node, asked.instance, asked.disk) as path:
            how = {"zeroes": asked.zeroes, "syncs": asked.syncs, "writes": asked.writes}
            await in_thread(filling.fill, path, asked.chunks, sealing, asked.source_disk, span, **how)
    except OSError as err:
        raise BlockDeviceError(f"Disk {asked.disk.index} of {asked.instance.name} cannot be written: {err}") from err
    return boot_identity()


@answers(SignOfLife)
async def sign_of_life(node: NodeState, asked: SignOfLife) -> str:
    return await node.hypervisor(asked.hypervisor).devices.sign_of_life(asked.name, asked.words)


@answers(ForgetSigns)
async def forget_signs(node: NodeState, asked: ForgetSigns) -> None:
    await node.hypervisor(asked.hypervisor).devices.forget_signs(asked.name)


@contextlib.asynccontextmanager
async def _source(node: NodeState, instance: InstanceSpec, disk: int, *, running: bool) -> AsyncIterator[ByteSource]:
    """A disk as a moment holds it, or as it is while its instance is stopped."""
    if running:
        async with _frozen_views(node, instance.hypervisor).reading(instance.name, disk) as source:
            yield source
        return
    async with _file(node, instance, instance.disks[disk]) as path:
        yield FileSource(path)


@contextlib.asynccontextmanager
async def _file(node: NodeState, instance: InstanceSpec, disk: DiskSpec) -> AsyncIterator[str]:
    """The path of a file with the bytes of a disk that no guest uses."""
    template = node.template_of(disk)
    attached = await template.as_file(await template.activate(disk, instance.name))
    if attached.image_format == image_io.RAW:
        yield attached.path
        return
    image = {"driver": attached.image_format, "file": {"driver": "file", "filename": attached.path}}
    try:
        yield await shown.show(node.world, disk.uuid, image)
    finally:
        await shown.hide(node.world, disk.uuid)


def _frozen_views(node: NodeState, hypervisor: str) -> FrozenViews:
    found = node.hypervisor(hypervisor).devices.frozen_views()
    if found is None:
        raise HypervisorError(f"The hypervisor {hypervisor} cannot hold the disks of a running guest: stop it first")
    return found

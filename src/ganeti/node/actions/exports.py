# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that make, keep, read and remove exports of instances."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from ganeti.base.errors import BlockDeviceError, GanetiError
from ganeti.model.node_calls import DAY_S
from ganeti.model.node_calls.exports import (
    EXPORTED,
    Dumped,
    ExportCopyDisks,
    ExportDamagedDumps,
    ExportDiscard,
    ExportDump,
    ExportDumpSizes,
    ExportEndCopies,
    ExportFinish,
    ExportInfo,
    ExportList,
    ExportProgress,
    ExportRemove,
    ExportRemoveSnapshots,
    ExportSnapshotDisks,
    ImportDump,
)
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.node import dump_file, runs
from ganeti.node.actions.instances import attach_files
from ganeti.node.actions.registry import answers
from ganeti.node.actions.snapshots import snapshots_of
from ganeti.node.export_room import FULL, is_full, no_room
from ganeti.node.exports import Exports
from ganeti.node.os import runner
from ganeti.node.state import NodeState
from ganeti.node.storage import image_io
from ganeti.node.storage.image_io import in_thread
from ganeti.system.boot import boot_identity

P = ParamSpec("P")
T = TypeVar("T")


async def _at_work(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return await in_thread(function, *args, **kwargs)
    except OSError as err:
        raise BlockDeviceError(f"The export cannot be changed: {err.filename or 'a file'}: {err.strerror}") from err


@contextlib.contextmanager
def _telling_of_room(path: str) -> Iterator[None]:
    """Where nothing more can be written beside *path*, that is what is told of a failure."""
    try:
        yield
    except (GanetiError, OSError) as err:
        if is_full(path) or getattr(err, "errno", None) in FULL:
            raise BlockDeviceError(no_room(path)) from err
        raise


@answers(ExportDump)
async def export_dump(node: NodeState, asked: ExportDump) -> Dumped:
    """Run the export script of the instance's OS on one of its disks (which are assembled if they were not)."""
    return await runs.endable(asked.token, _dump(node, asked))


async def _dump(node: NodeState, asked: ExportDump) -> Dumped:
    exports = Exports(node.paths)
    await _at_work(exports.begin, asked.directory)
    path = exports.dump(asked.directory, asked.dump)
    if asked.copied:
        copies = [exports.source(asked.directory, disk.index) for disk in asked.instance.disks]
        disks = [AttachedDisk(spec=spec, path=at) for spec, at in zip(asked.instance.disks, copies, strict=True)]
    else:
        disks = await attach_files(node, asked.instance)
    with _telling_of_room(path):
        sha256 = await runner.export_disk(
            node.world,
            asked.instance,
            disks,
            asked.index,
            dump_path=path,
            debug=asked.debug,
            timeout_s=DAY_S,
            token=asked.token,
        )
    node.world.log(f"disk {asked.index} of instance {asked.instance.name} exported by OS {asked.instance.os}")
    return Dumped(boot=boot_identity(), sha256=sha256)


@answers(ExportCopyDisks)
async def export_copy_disks(node: NodeState, asked: ExportCopyDisks) -> None:
    await runs.endable(asked.token, _copy_disks(node, asked))


async def _copy_disks(node: NodeState, asked: ExportCopyDisks) -> None:
    exports = Exports(node.paths)
    await _at_work(exports.begin, asked.directory)
    sizes = {disk.index: disk.size_mib * image_io.MIB for disk in asked.instance.disks}
    for index, size in sizes.items():
        await _at_work(exports.make_room, asked.directory, os.path.basename(exports.copy(asked.directory, index)), size)
    paths = [exports.copy(asked.directory, disk.index) for disk in asked.instance.disks]
    with _telling_of_room(paths[0] if paths else node.paths.export_dir):
        await node.hypervisor_of(asked.instance).devices.copy_disks(asked.instance.name, paths)
    node.world.log(f"{len(paths)} disks of instance {asked.instance.name} copied while it runs")


@answers(ExportSnapshotDisks)
async def export_snapshot_disks(node: NodeState, asked: ExportSnapshotDisks) -> None:
    instance, exports = asked.instance, Exports(node.paths)
    await _at_work(exports.begin, asked.directory)
    await _remove_snapshots(node, instance)
    try:
        for disk in instance.disks:
            kept = snapshots_of(node, disk)
            await kept.take(disk, EXPORTED)
            await _at_work(exports.link, asked.directory, disk.index, kept.device(disk, EXPORTED))
    except GanetiError:
        try:
            await _remove_snapshots(node, instance)
        except GanetiError as err:
            node.world.log(f"snapshot {EXPORTED} of instance {instance.name} is still there in part: {err}")
        raise
    node.world.log(f"{len(instance.disks)} disks of instance {instance.name} kept as they are for an export")


@answers(ExportRemoveSnapshots)
async def export_remove_snapshots(node: NodeState, asked: ExportRemoveSnapshots) -> None:
    await _remove_snapshots(node, asked.instance)


async def _remove_snapshots(node: NodeState, instance: InstanceSpec) -> None:
    for disk in instance.disks:
        await snapshots_of(node, disk).remove(disk, EXPORTED)


@answers(ExportEndCopies)
async def export_end_copies(node: NodeState, asked: ExportEndCopies) -> None:
    if asked.token:
        await runs.end(asked.token)
    await node.hypervisor(asked.hypervisor).devices.end_copies(asked.name)


@answers(ExportDumpSizes)
async def export_dump_sizes(node: NodeState, asked: ExportDumpSizes) -> list[int]:
    return await _at_work(Exports(node.paths).dump_sizes, asked.directory, asked.dumps)


@answers(ExportDamagedDumps)
async def export_damaged_dumps(node: NodeState, asked: ExportDamagedDumps) -> list[str]:
    return await runs.endable(asked.token, _damaged(node, asked))


async def _damaged(node: NodeState, asked: ExportDamagedDumps) -> list[str]:
    exports, progress = Exports(node.paths), runs.progress(asked.token)
    for dump, sha256 in asked.dumps.items():
        if await dump_file.sha256(exports.dump(asked.directory, dump), progress) != sha256:
            return [dump]
    return []


@answers(ExportProgress)
async def export_progress(node: NodeState, asked: ExportProgress) -> int:
    del node
    return runs.progress(asked.token).bytes


@answers(ExportFinish)
async def export_finish(node: NodeState, asked: ExportFinish) -> None:
    """All dumps are here: they are an export from now on."""
    if asked.boot and asked.boot != boot_identity():
        raise BlockDeviceError(
            f"This node has restarted while {asked.name} was exported, so a part may be missing: begin again"
        )
    await _at_work(Exports(node.paths).publish, asked.name, asked.config, asked.dumps)
    node.world.log(f"export of instance {asked.name} kept here")


@answers(ExportDiscard)
async def export_discard(node: NodeState, asked: ExportDiscard) -> None:
    await _at_work(Exports(node.paths).discard, asked.name)


@answers(ExportList)
async def export_list(node: NodeState, asked: ExportList) -> list[str]:
    del asked
    return await _at_work(Exports(node.paths).listed)


@answers(ExportInfo)
async def export_info(node: NodeState, asked: ExportInfo) -> str:
    return await _at_work(Exports(node.paths).config, asked.directory)


@answers(ExportRemove)
async def export_remove(node: NodeState, asked: ExportRemove) -> bool:
    removed = await _at_work(Exports(node.paths).remove, asked.name)
    if removed:
        node.world.log(f"export of instance {asked.name} removed")
    return removed


@answers(ImportDump)
async def import_dump(node: NodeState, asked: ImportDump) -> None:
    """Run the import script of the instance's OS on one of its disks (which are assembled if they were not)."""
    await runs.endable(asked.token, _fill(node, asked))


async def _fill(node: NodeState, asked: ImportDump) -> None:
    path = Exports(node.paths).dump(asked.directory, asked.dump)
    disks = await attach_files(node, asked.instance)
    await runner.import_disk(
        node.world,
        asked.instance,
        disks,
        asked.index,
        dump_path=path,
        debug=asked.debug,
        timeout_s=DAY_S,
        token=asked.token,
    )
    node.world.log(f"disk {asked.index} of instance {asked.instance.name} imported by OS {asked.instance.os}")

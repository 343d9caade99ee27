# SPDX-License-Identifier: BSD-2-Clause
"""Node calls of the node that keeps incremental backups."""

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.backups import (
    BackupAppend,
    BackupBegin,
    BackupCheck,
    BackupChunks,
    BackupDigests,
    BackupDiscard,
    BackupFinish,
    BackupList,
    BackupMerge,
    BackupNote,
    BackupPublish,
    BackupRemove,
    BackupStored,
    ChunkPiece,
    Kept,
    StoredDisk,
)
from ganeti.node.actions.registry import answers
from ganeti.node.backups.interface import BackupStore
from ganeti.node.backups.places import store_of
from ganeti.node.state import NodeState
from ganeti.node.storage import image_io
from ganeti.node.storage.image_io import in_thread
from ganeti.system.boot import boot_identity
from ganeti.wire.sealing import Sealing

_CHECK_S = 5.0
"""How long chunks are checked before the job hears how far it is."""
P = ParamSpec("P")
T = TypeVar("T")


def _store(node: NodeState) -> BackupStore:
    return store_of(node.paths)


async def _at_work(node: NodeState, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return await in_thread(function, *args, **kwargs)
    except OSError as err:
        raise _failed(node, err) from err


def _failed(node: NodeState, err: OSError) -> BlockDeviceError:
    where = err.filename or node.paths.backup_dir
    sentence = f"The backup cannot be kept or read on node {node.world.node_name}: {where}: {err.strerror}"
    return BlockDeviceError(str(image_io.failed("kept", node.paths.backup_dir, err)) if err.errno == 28 else sentence)


def _require_same_boot(asked: BackupAppend | BackupFinish | BackupPublish) -> None:
    if asked.boot and asked.boot != boot_identity():
        raise BlockDeviceError(f"This node has restarted while backup {asked.id} was made: begin it again")


@answers(BackupList)
async def backup_list(node: NodeState, asked: BackupList) -> Kept:
    del asked
    return await _at_work(node, _store(node).listed)


@answers(BackupBegin)
async def backup_begin(node: NodeState, asked: BackupBegin) -> str:
    await _at_work(node, _store(node).begin, asked.instance_uuid, asked.id, asked.disks)
    return boot_identity()


@answers(BackupAppend)
async def backup_append(node: NodeState, asked: BackupAppend) -> int:
    _require_same_boot(asked)
    return await _at_work(
        node, _store(node).append, asked.instance_uuid, asked.id, asked.disk, asked.chunks, asked.offset
    )


@answers(BackupFinish)
async def backup_finish(node: NodeState, asked: BackupFinish) -> list[StoredDisk]:
    _require_same_boot(asked)
    return await _at_work(node, _store(node).finish, asked.instance_uuid, asked.id)


@answers(BackupPublish)
async def backup_publish(node: NodeState, asked: BackupPublish) -> None:
    _require_same_boot(asked)
    await _at_work(node, _store(node).publish, asked.instance_uuid, asked.id, asked.generation, asked.manifest)
    node.world.log(f"backup {asked.id} of instance {asked.instance_uuid} kept here")


@answers(BackupDiscard)
async def backup_discard(node: NodeState, asked: BackupDiscard) -> None:
    await _at_work(node, _store(node).discard, asked.instance_uuid, asked.id)


@answers(BackupMerge)
async def backup_merge(node: NodeState, asked: BackupMerge) -> list[StoredDisk]:
    return await _at_work(
        node,
        _store(node).merge,
        asked.instance_uuid,
        asked.older,
        asked.newer,
        asked.generation,
        keeps_zeros=asked.keeps_zeros,
    )


@answers(BackupRemove)
async def backup_remove(node: NodeState, asked: BackupRemove) -> bool:
    removed = await _at_work(node, _store(node).remove, asked.instance_uuid, asked.id)
    if removed:
        node.world.log(f"backup {asked.id} of instance {asked.instance_uuid} removed")
    return removed


@answers(BackupNote)
async def backup_note(node: NodeState, asked: BackupNote) -> None:
    await _at_work(node, _store(node).note, asked.instance_uuid, asked.id, asked.proof)


@answers(BackupStored)
async def backup_stored(node: NodeState, asked: BackupStored) -> list[StoredDisk]:
    return await _at_work(node, _store(node).stored, asked.instance_uuid, asked.link)


@answers(BackupDigests)
async def backup_digests(node: NodeState, asked: BackupDigests) -> bytes:
    store = _store(node)
    return await _at_work(node, store.digests, asked.instance_uuid, asked.chain, asked.disk, asked.first, asked.count)


@answers(BackupChunks)
async def backup_chunks(node: NodeState, asked: BackupChunks) -> ChunkPiece:
    store = _store(node)
    return await _at_work(node, store.chunks, asked.instance_uuid, asked.chain, asked.disk, asked.first, asked.end)


@answers(BackupCheck)
async def backup_check(node: NodeState, asked: BackupCheck) -> int:
    return await _at_work(node, _check, _store(node), asked)


def _check(store: BackupStore, asked: BackupCheck) -> int:
    """Raises `BlockDeviceError` for the first chunk that is not what was written."""
    sealing, first = Sealing(asked.key, asked.instance_uuid), asked.first
    until_s = time.monotonic() + _CHECK_S
    while first < asked.end and time.monotonic() < until_s:
        piece = store.chunks(asked.instance_uuid, asked.chain, asked.disk, first, asked.end)
        for chunk in piece.chunks:
            sealing.open(asked.disk, chunk.number, chunk.data, chunk.digest)
        first = piece.next
    return first

# SPDX-License-Identifier: BSD-2-Clause
"""Backups in a directory: ``DIRECTORY/INSTANCE-UUID/BACKUP-ID/``, whatever file system is mounted there.

    manifest.json            what it is; written last, so a directory without one is no backup
    proof.json               what came of booting it
    disk0.0.chunks           sealed chunks of disk 0, generation 0
    disk0.0.index            where they are

A backup that is being made has ``.new`` after its id. `merge` writes files of another generation beside those there
are; the next manifest names it, and takes the others away. ``DIRECTORY/.store-id`` tells whether two nodes have the
same file system mounted there.
"""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError
from ganeti.base.names import file_name_fault, shown
from ganeti.model.node_calls.backups import ChainLink, Chunk, ChunkPiece, Kept, KeptFiles, StoredDisk
from ganeti.node.backups import chunk_index
from ganeti.node.backups.chunk_index import DiskFiles
from ganeti.node.backups.interface import BackupStore
from ganeti.node.storage import image_io
from ganeti.system.files import read_if_there, write_atomically

UNFINISHED = ".new"
MANIFEST, PROOF, IDENTITY = "manifest.json", "proof.json", ".store-id"
_IDENTITY = re.compile(rb"[0-9a-f]{32}")
_ANSWER_BYTES = 4 * 1024 * 1024
_WINDOW_CHUNKS = 1024
_DISK_FILE = re.compile(r"disk([0-9]{1,3})\.([0-9]{1,9})\.(?:chunks|index)")
UUID_FORM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LARGEST_MANIFEST_BYTES = 16 * 1024 * 1024


class _Merged(msgspec.Struct):
    generation: int = 0


class _Manifest(msgspec.Struct):
    backup: _Merged


class BackupDirectory(BackupStore):
    def __init__(self, top: str) -> None:
        self.top = top

    def listed(self) -> Kept:
        backups: list[KeptFiles] = []
        unfinished: list[tuple[str, str]] = []
        for uuid in _names(self.top):
            if not UUID_FORM.fullmatch(uuid):
                continue
            for name in _names(f"{self.top}/{uuid}"):
                path = f"{self.top}/{uuid}/{name}"
                if name.endswith(UNFINISHED):
                    unfinished.append((uuid, name.removesuffix(UNFINISHED)))
                else:
                    backups += _kept(path, uuid, name)
        return Kept(backups=backups, unfinished=unfinished, identity=_identity(self.top))

    def begin(self, instance_uuid: str, backup: str, disks: int) -> None:
        fresh = self._path(instance_uuid, backup, fresh=True)
        if os.path.exists(self._path(instance_uuid, backup)):
            raise BlockDeviceError(f"There is a backup {backup} already")
        os.makedirs(self.top, mode=0o700, exist_ok=True)
        os.makedirs(fresh, mode=0o700, exist_ok=True)
        for disk in range(disks):
            chunk_index.make(disk_of(fresh, disk, 0))

    def append(self, instance_uuid: str, backup: str, disk: int, chunks: Sequence[Chunk], offset: int) -> int:
        return chunk_index.append(disk_of(self._path(instance_uuid, backup, fresh=True), disk, 0), chunks, offset)

    def finish(self, instance_uuid: str, backup: str) -> list[StoredDisk]:
        fresh = self._path(instance_uuid, backup, fresh=True)
        return _settled(fresh, _disks(fresh, 0), 0)

    def publish(self, instance_uuid: str, backup: str, generation: int, manifest: str) -> None:
        path, fresh = self._path(instance_uuid, backup), self._path(instance_uuid, backup, fresh=True)
        if os.path.isdir(fresh):
            write_atomically(f"{fresh}/{MANIFEST}", manifest.encode(), mode=0o600)
            image_io.sync(fresh)
            os.rename(fresh, path)
            image_io.sync(os.path.dirname(path))
            image_io.sync(self.top)
            return
        write_atomically(f"{path}/{MANIFEST}", manifest.encode(), mode=0o600)
        for name in _names(path):
            if (found := disk_files(name)) and found[1] != generation:
                image_io.unlink(f"{path}/{name}")

    def discard(self, instance_uuid: str, backup: str) -> None:
        _remove(self._path(instance_uuid, backup, fresh=True))
        with contextlib.suppress(OSError):
            os.rmdir(f"{self.top}/{instance_uuid}")

    def merge(
        self, instance_uuid: str, older: ChainLink, newer: ChainLink, generation: int, *, keeps_zeros: bool
    ) -> list[StoredDisk]:
        path = self._path(instance_uuid, newer.id)
        if _generation(path) == generation:
            raise BlockDeviceError(f"Backup {newer.id} has been merged with another one meanwhile: try again")
        try:
            for disk in range(newer.disks):
                with contextlib.ExitStack() as stack:
                    chain = self._opened(stack, instance_uuid, [newer, older], disk)
                    chunk_index.merge(chain, disk_of(path, disk, generation), keeps_zeros=keeps_zeros)
            return _settled(path, range(newer.disks), generation)
        except (OSError, BlockDeviceError):
            for disk in range(newer.disks) if _generation(path) != generation else ():
                chunk_index.unlink(disk_of(path, disk, generation))
            raise

    def remove(self, instance_uuid: str, backup: str) -> bool:
        path = self._path(instance_uuid, backup)
        found = os.path.isdir(path)
        _remove(path)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(path))
        return found

    def note(self, instance_uuid: str, backup: str, proof: str) -> None:
        write_atomically(f"{self._path(instance_uuid, backup)}/{PROOF}", proof.encode(), mode=0o600)

    def stored(self, instance_uuid: str, link: ChainLink) -> list[StoredDisk]:
        path = self._path(instance_uuid, link.id)
        return [chunk_index.stored(disk_of(path, disk, link.generation)) for disk in range(link.disks)]

    def digests(self, instance_uuid: str, chain: Sequence[ChainLink], disk: int, first: int, count: int) -> bytes:
        with contextlib.ExitStack() as stack:
            return chunk_index.digests(self._opened(stack, instance_uuid, chain, disk), first, count)

    def chunks(self, instance_uuid: str, chain: Sequence[ChainLink], disk: int, first: int, end: int) -> ChunkPiece:
        found, size = list[Chunk](), 0
        with contextlib.ExitStack() as stack:
            opened = self._opened(stack, instance_uuid, chain, disk)
            last = min(end, max((files.last for files in opened), default=-1) + 1)
            for begin in range(first, last, _WINDOW_CHUNKS):
                for files, record in chunk_index.merged(opened, begin, min(last, begin + _WINDOW_CHUNKS)):
                    if not record.length:
                        continue
                    if size >= _ANSWER_BYTES:
                        return ChunkPiece(chunks=found, next=record.number)
                    data = files.sealed(record)
                    size += len(data)
                    found.append(Chunk(number=record.number, digest=record.digest, data=data))
        return ChunkPiece(chunks=found, next=end)

    def _opened(
        self, stack: contextlib.ExitStack, instance_uuid: str, chain: Sequence[ChainLink], disk: int
    ) -> list[DiskFiles]:
        """The files of a disk in all backups that have it: an older one may not have it yet. Raises `OSError`."""
        found = []
        for link in chain:
            path = disk_of(self._path(instance_uuid, link.id), disk, link.generation)
            if disk < link.disks:
                found.append(stack.enter_context(DiskFiles(path)))
                require_count(found[-1], link, disk)
        return found

    def _path(self, instance_uuid: str, backup: str, *, fresh: bool = False) -> str:
        if not UUID_FORM.fullmatch(instance_uuid) or file_name_fault(backup) or backup.endswith(UNFINISHED):
            raise BlockDeviceError(f"'{shown(instance_uuid)}/{shown(backup)}' cannot be the place of a backup")
        return f"{self.top}/{instance_uuid}/{backup}{UNFINISHED if fresh else ''}"


def require_count(files: DiskFiles, link: ChainLink, disk: int) -> None:
    """Refuse an index that is shorter than the manifest says: chunks it does not name would count as zeros."""
    if disk < len(link.chunks) and files.count != link.chunks[disk]:
        raise BlockDeviceError(
            f"The backup is damaged: the index of disk {disk} of {link.id} names {files.count} chunks, and its "
            f"manifest {link.chunks[disk]}"
        )


def disk_of(path: str, disk: int, generation: int) -> str:
    return f"{path}/disk{disk}.{generation}"


def disk_files(name: str) -> tuple[int, int] | None:
    """Disk and generation that a file is of; None for any other."""
    found = _DISK_FILE.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def _disks(path: str, generation: int) -> list[int]:
    found = (_DISK_FILE.fullmatch(name) for name in _names(path))
    return sorted({int(each[1]) for each in found if each is not None and int(each[2]) == generation})


def _settled(path: str, disks: Sequence[int], generation: int) -> list[StoredDisk]:
    for disk in disks:
        chunk_index.sync(disk_of(path, disk, generation))
    image_io.sync(path)
    return [chunk_index.stored(disk_of(path, disk, generation)) for disk in disks]


def _names(directory: str) -> Iterator[str]:
    try:
        yield from sorted(os.listdir(directory))
    except OSError as err:
        if not image_io.is_absence(err):
            raise


def _kept(path: str, uuid: str, name: str) -> Iterator[KeptFiles]:
    """The backup in a directory, if it is one. What cannot be read is told: an older backup may be needed by it."""
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            return
        manifest = _text(f"{path}/{MANIFEST}")
    except FileNotFoundError:
        if os.path.isdir(path):
            yield KeptFiles(instance_uuid=uuid, id=name, fault="it has no manifest")
    except OSError as err:
        yield KeptFiles(instance_uuid=uuid, id=name, fault=f"its manifest cannot be read: {err.strerror}")
    else:
        proof = ""
        with contextlib.suppress(OSError):
            proof = _text(f"{path}/{PROOF}")
        yield KeptFiles(instance_uuid=uuid, id=name, manifest=manifest, proof=proof)


def _generation(path: str) -> int | None:
    """The generation that the manifest of a backup names, of whatever key; None where it cannot be read."""
    try:
        return msgspec.json.decode(_text(f"{path}/{MANIFEST}"), type=_Manifest).backup.generation
    except (OSError, *UNREADABLE_JSON):
        return None


def _identity(top: str) -> str:
    """What only nodes give that have the same file system at *top*; empty where that cannot be told.

    A copy of the directory has the same file with another inode number.
    """
    path = f"{top}/{IDENTITY}"
    try:
        if not os.path.exists(path):
            _identify(top)
        with open(path, "rb") as file:
            words, inode = file.read(), os.fstat(file.fileno()).st_ino
    except OSError:
        return ""
    return f"{words.decode()}.{inode}" if _IDENTITY.fullmatch(words) else ""


def _identify(top: str) -> None:
    """Write the file, whole at once; of several nodes that do so one is first."""
    fresh = f"{top}/{IDENTITY}.{secrets.token_hex(4)}"
    try:
        write_atomically(fresh, secrets.token_hex(16).encode(), mode=0o600)
        with contextlib.suppress(FileExistsError):
            os.link(fresh, f"{top}/{IDENTITY}")
    finally:
        image_io.unlink(fresh)
    image_io.sync(top)


def _text(path: str) -> str:
    """Empty for a file that is too large, or no text; raises `OSError`."""
    if os.stat(path).st_size > LARGEST_MANIFEST_BYTES:
        return ""
    try:
        return (read_if_there(path) or b"").decode()
    except UnicodeDecodeError:
        return ""


def _remove(path: str) -> None:
    """Remove a flat directory; its manifest goes first, so that one that is gone in part is no backup."""
    image_io.unlink(f"{path}/{MANIFEST}")
    for name in _names(path):
        image_io.unlink(f"{path}/{name}")
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(path)
        image_io.sync(os.path.dirname(path))

# SPDX-License-Identifier: BSD-2-Clause
"""Backups in a bucket of an S3-like store: ``PREFIX/INSTANCE-UUID/BACKUP-ID/`` with the files of `BackupDirectory`.

A backup is made in a directory of this node first, and uploaded when it is complete; its manifest comes last, so that
one without is no backup. Chunks are read by ranges; indexes are kept in that directory, too, and fetched anew whenever
a chain is checked.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.backups import ChainLink, Kept, KeptFiles, StoredDisk
from ganeti.node.backups import chunk_index
from ganeti.node.backups.bucket import Bucket
from ganeti.node.backups.chunk_index import DiskFiles
from ganeti.node.backups.directory import (
    LARGEST_MANIFEST_BYTES,
    MANIFEST,
    PROOF,
    UNFINISHED,
    UUID_FORM,
    BackupDirectory,
    disk_files,
    disk_of,
    require_count,
)
from ganeti.node.storage import image_io
from ganeti.system.files import replaced, write_all

_AHEAD_BYTES = 1024 * 1024
_AT_ONCE = 16
_BEGUN = "begun"


class BackupObjects(BackupDirectory):
    """See `BackupStore`; raises `BlockDeviceError` where the store does not answer or refuses."""

    def __init__(self, bucket: Bucket, directory: str) -> None:
        """*directory* of this node is for backups that are being made, and for indexes."""
        super().__init__(directory)
        self._bucket = bucket

    def listed(self) -> Kept:
        places = [
            place for uuid in self._bucket.below("") if UUID_FORM.fullmatch(uuid) for place in self._backups_of(uuid)
        ]
        self._forget_others(places)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            found = list(threads.map(lambda place: self._kept(*place), places))
        return Kept(
            backups=[kept for kept in found if kept.manifest or kept.fault],
            unfinished=[(kept.instance_uuid, kept.id) for kept in found if not kept.manifest and not kept.fault],
            shared=self._bucket.name,
            identity=self._bucket.name,
        )

    def _forget_others(self, places: list[tuple[str, str]]) -> None:
        """Remove the indexes of backups that are gone from this node."""
        for kept in super().listed().backups:
            if (kept.instance_uuid, kept.id) not in places:
                super().remove(kept.instance_uuid, kept.id)

    def begin(self, instance_uuid: str, backup: str, disks: int) -> None:
        if self._bucket.text(f"{self._key(instance_uuid, backup)}/{MANIFEST}", LARGEST_MANIFEST_BYTES) is not None:
            raise BlockDeviceError(f"There is a backup {backup} already")
        super().begin(instance_uuid, backup, disks)
        self._bucket.write(f"{self._key(instance_uuid, backup)}/{_BEGUN}", b"")

    def finish(self, instance_uuid: str, backup: str) -> list[StoredDisk]:
        stored = super().finish(instance_uuid, backup)
        fresh, key = self._path(instance_uuid, backup, fresh=True), self._key(instance_uuid, backup)
        for disk in range(len(stored)):
            self._upload(disk_of(fresh, disk, 0), f"{key}/disk{disk}.0")
        return stored

    def publish(self, instance_uuid: str, backup: str, generation: int, manifest: str) -> None:
        key = self._key(instance_uuid, backup)
        self._bucket.write(f"{key}/{MANIFEST}", manifest.encode())
        for name in self._bucket.names(key):
            if name == _BEGUN or ((found := disk_files(name)) and found[1] != generation):
                self._bucket.delete(f"{key}/{name}")
        super().discard(instance_uuid, backup)

    def discard(self, instance_uuid: str, backup: str) -> None:
        key = self._key(instance_uuid, backup)
        if self._bucket.text(f"{key}/{MANIFEST}", LARGEST_MANIFEST_BYTES) is None:
            self._bucket.delete_below(key)
        super().discard(instance_uuid, backup)

    def merge(
        self, instance_uuid: str, older: ChainLink, newer: ChainLink, generation: int, *, keeps_zeros: bool
    ) -> list[StoredDisk]:
        os.makedirs(self._path(instance_uuid, newer.id), mode=0o700, exist_ok=True)
        stored = super().merge(instance_uuid, older, newer, generation, keeps_zeros=keeps_zeros)
        path, key = self._path(instance_uuid, newer.id), self._key(instance_uuid, newer.id)
        for disk in range(newer.disks):
            self._upload(disk_of(path, disk, generation), f"{key}/disk{disk}.{generation}")
            image_io.unlink(f"{disk_of(path, disk, generation)}.chunks")
        return stored

    def remove(self, instance_uuid: str, backup: str) -> bool:
        key = self._key(instance_uuid, backup)
        found = self._bucket.text(f"{key}/{MANIFEST}", LARGEST_MANIFEST_BYTES) is not None
        self._bucket.delete(f"{key}/{MANIFEST}")
        self._bucket.delete_below(key)
        super().remove(instance_uuid, backup)
        return found

    def note(self, instance_uuid: str, backup: str, proof: str) -> None:
        self._bucket.write(f"{self._key(instance_uuid, backup)}/{PROOF}", proof.encode())

    def stored(self, instance_uuid: str, link: ChainLink) -> list[StoredDisk]:
        """Indexes are fetched anew: what other nodes have written since is seen."""
        found = []
        for disk in range(link.disks):
            path, key = self._files(instance_uuid, link, disk)
            self._fetch_index(path, key)
            found.append(chunk_index.stored_index(path, self._bucket.size(f"{key}.chunks")))
        return found

    def _opened(
        self, stack: contextlib.ExitStack, instance_uuid: str, chain: Sequence[ChainLink], disk: int
    ) -> list[DiskFiles]:
        found = []
        for link in chain:
            if disk < link.disks:
                path, key = self._files(instance_uuid, link, disk)
                if not os.path.exists(f"{path}.index"):
                    self._fetch_index(path, key)
                found.append(stack.enter_context(DiskFiles(path, self._reading(f"{key}.chunks"))))
                require_count(found[-1], link, disk)
        return found

    def _reading(self, key: str) -> Callable[[int, int], bytes]:
        """What reads a range of an object, and a little more than asked for."""
        begin, ahead = 0, b""

        def read(offset: int, length: int) -> bytes:
            nonlocal begin, ahead
            if not begin <= offset <= offset + length <= begin + len(ahead):
                wanted = max(length, _AHEAD_BYTES)
                ahead, begin = self._bucket.read_range(key, offset, wanted), offset
            return ahead[offset - begin : offset - begin + length]

        return read

    def _fetch_index(self, path: str, key: str) -> None:
        """Others may read, or fetch, the same one meanwhile: what they have open stays whole."""
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with replaced(f"{path}.index", mode=0o600, durable=False) as descriptor:
            for piece in self._bucket.pieces(f"{key}.index"):
                write_all(descriptor, piece)

    def _files(self, instance_uuid: str, link: ChainLink, disk: int) -> tuple[str, str]:
        """What the files of a disk begin with: here and in the store."""
        name = f"disk{disk}.{link.generation}"
        return f"{self._path(instance_uuid, link.id)}/{name}", f"{self._key(instance_uuid, link.id)}/{name}"

    def _key(self, instance_uuid: str, backup: str) -> str:
        path = self._path(instance_uuid, backup)
        return os.path.relpath(path, self.top)

    def _kept(self, instance_uuid: str, backup: str) -> KeptFiles:
        key = self._key(instance_uuid, backup)
        manifest = self._bucket.text(f"{key}/{MANIFEST}", LARGEST_MANIFEST_BYTES)
        if manifest == "":
            return KeptFiles(instance_uuid=instance_uuid, id=backup, fault="its manifest is empty or too large")
        manifest = manifest or ""
        proof = self._bucket.text(f"{key}/{PROOF}", LARGEST_MANIFEST_BYTES) or "" if manifest else ""
        return KeptFiles(instance_uuid=instance_uuid, id=backup, manifest=manifest, proof=proof)

    def _backups_of(self, uuid: str) -> Iterator[tuple[str, str]]:
        for backup in self._bucket.below(uuid):
            if not backup.endswith(UNFINISHED):
                with contextlib.suppress(BlockDeviceError):  # not the name of a backup
                    self._path(uuid, backup)
                    yield uuid, backup

    def _upload(self, path: str, key: str) -> None:
        for ending in ("chunks", "index"):
            with open(f"{path}.{ending}", "rb") as file:
                self._bucket.write(f"{key}.{ending}", file)

# SPDX-License-Identifier: BSD-2-Clause
"""The queue's files on a master candidate: what the master sends is written here, and told by digests.

They are state and no log: each is replaced whole by what it is on the master now, so doing it twice does no harm.
All calls block and come from one thread at a time.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ganeti.base.paths import Paths
from ganeti.stores.job_files import JobFiles, job_id_of
from ganeti.system.accounts import QUEUE_DIR_MODE, QUEUE_FILE_MODE
from ganeti.system.files import read_if_there, sync_directory, write_over
from ganeti.system.pause_points import reach

_Stamp = tuple[int, int, int]
"""Inode, time of the last write in nanoseconds, size in bytes."""
_DIGEST_LETTERS = 16
_NAME = re.compile(r"job-[1-9][0-9]{0,17}(\.undo)?|drain")
_UNFINISHED = re.compile(r"\.(job-[1-9][0-9]{0,17}(\.undo)?|drain)\.new")


def is_replicated(name: str) -> bool:
    """Whether the queue's file of this name is kept on all members."""
    return _NAME.fullmatch(name) is not None


def content_digest(content: bytes) -> str:
    """By what two copies of one file are compared."""
    return hashlib.sha256(content).hexdigest()[:_DIGEST_LETTERS]


class ReplicaQueue:
    """The queue directory of a candidate. What is read is remembered until the file is another one."""

    def __init__(self, paths: Paths) -> None:
        self._files = JobFiles(paths)
        self._directory = paths.queue_dir
        self._known: dict[str, tuple[_Stamp, str]] = {}
        self._synced: dict[str, tuple[_Stamp, str]] = {}
        """What was written here and synced: with each record of its undo log, a job's file comes as it was."""
        self._prepared = False
        self._serial = 0
        """The file has this at least."""

    def write(self, files: Mapping[str, str | None], archived: Iterable[int], serial: int) -> None:
        """Make the files what they are given as (None: gone), durably; then archive ended jobs.

        Raises `OSError` or `JobQueueError`; a file is then the old one or the new one.
        """
        self._prepare()
        self._replace(files)
        moved = self._archive(archived)
        reach("replica-files-renamed")
        if files or moved:
            sync_directory(self._directory)
        if serial:
            self._write_serial(serial)

    def digests(self) -> dict[str, str]:
        """Every replicated file by name, with the digest of its content. Raises `OSError`."""
        found: dict[str, tuple[_Stamp, str]] = {}
        try:
            entries = list(os.scandir(self._directory))
        except FileNotFoundError:
            return {}
        for entry in entries:
            if not is_replicated(entry.name):
                continue
            stamp = _stamp_of(os.stat(entry.path))
            known = self._known.get(entry.name)
            if known is None or known[0] != stamp:
                content = read_if_there(entry.path)
                if content is None:
                    continue
                known = (stamp, content_digest(content))
            found[entry.name] = known
        self._known = found
        return {name: digest for name, (_, digest) in sorted(found.items())}

    def _prepare(self) -> None:
        if self._prepared:
            return
        self._files.prepare()
        for name in os.listdir(self._directory):
            if _UNFINISHED.fullmatch(name):
                with suppress(FileNotFoundError):
                    os.unlink(f"{self._directory}/{name}")
        self._prepared = True

    def _replace(self, files: Mapping[str, str | None]) -> None:
        """All are written before the first is renamed: a disk that is full leaves everything as it was."""
        written: list[tuple[str, str]] = []
        synced: dict[str, tuple[_Stamp, str]] = {}
        try:
            for name, content in files.items():
                if content is not None:
                    data = content.encode()
                    digest = content_digest(data)
                    if self._is_synced(name, digest):
                        continue
                    fresh = f"{self._directory}/.{name}.new"
                    written.append((fresh, f"{self._directory}/{name}"))
                    stamp = _write_synced(fresh, data)
                    synced[name] = stamp, digest
            reach("replica-files-written")
            for fresh, final in written:
                os.rename(fresh, final)
            for job_id in filter(None, map(job_id_of, files)):  # this node may have been the master
                with suppress(FileNotFoundError):
                    os.unlink(self._files.durable_path(job_id))
        except OSError:
            for fresh, _ in written:
                with suppress(OSError):
                    os.unlink(fresh)
            raise
        self._synced |= synced
        for name, content in files.items():
            if content is None:
                self._synced.pop(name, None)
                with suppress(FileNotFoundError):
                    os.unlink(f"{self._directory}/{name}")

    def _is_synced(self, name: str, digest: str) -> bool:
        """Whether the file has this content already, and is the very one that was written and synced here."""
        known = self._synced.get(name)
        if known is None or known[1] != digest:
            return False
        try:
            return _stamp_of(os.stat(f"{self._directory}/{name}")) == known[0]
        except FileNotFoundError:
            return False

    def _archive(self, archived: Iterable[int]) -> bool:
        """The new place is synced before the old one: a loss of power leaves the file in one of them at least."""
        targets: dict[str, None] = {}
        for job_id in archived:
            self._synced.pop(f"job-{job_id}", None)
            target = self._files.archive_path(job_id)
            directory = os.path.dirname(target)
            if not os.path.isdir(directory):
                os.makedirs(directory, mode=QUEUE_DIR_MODE)
                sync_directory(self._files.archive_directory)
            with suppress(FileNotFoundError):
                os.rename(self._files.path(job_id), target)
                targets[directory] = None
        for directory in targets:
            sync_directory(directory)
        return bool(targets)

    def _write_serial(self, serial: int) -> None:
        if serial <= self._serial:
            return
        path = f"{self._directory}/serial"
        digits = (read_if_there(path) or b"").strip()
        if not digits.isdigit() or int(digits) < serial:
            write_over(path, b"%d\n" % serial, mode=QUEUE_FILE_MODE)
        self._serial = serial


def _stamp_of(status: os.stat_result) -> _Stamp:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _write_synced(path: str, data: bytes) -> _Stamp:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, QUEUE_FILE_MODE)
    except FileExistsError:  # somebody was killed before he could rename it
        os.unlink(path)
        descriptor = os.open(path, flags, QUEUE_FILE_MODE)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
        return _stamp_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)

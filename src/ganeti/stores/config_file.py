# SPDX-License-Identifier: BSD-2-Clause
"""`config.data` on disk: two files of one layout take turns, and only what changed is written (D6).

The name `config.data` always belongs to one file that nobody writes to; the other one, the spare, is brought up to
date and then gets the name. Who has opened `config.data` therefore reads one state, however long it takes. A spare is
used only if nobody else has it open (a write lease says so), nobody linked it and nobody wrote to it; otherwise, and
where the file system knows no leases, a new file is written whole. Nothing is synced: the database is what is durable,
and a start knows a file that a loss of power has damaged (`importing`). `sync` keeps it from falling far behind.
"""

import fcntl
import glob
import os
import signal
import threading
from collections.abc import Iterable
from contextlib import suppress

from ganeti.master.config.file_layout import Entries, FileLayout
from ganeti.master.config.records import ObjectKey
from ganeti.system.accounts import CONFD, give_group
from ganeti.system.files import plain_file, sync_directory
from ganeti.system.pause_points import reach

CONFIG_MODE = 0o640
Changed = Iterable[tuple[ObjectKey, bytes | None]]
"""New fragments by key; None for what was removed."""

_JOINED_BYTES = 1 << 20


class _Image:
    """One of the two files, open for as long as it is used; `owed` is what it lacks."""

    def __init__(self, path: str, layout: FileLayout) -> None:
        """Write the whole *layout* to a new file. Raises `OSError`; no file is left then."""
        self.path = path
        self.generation = layout.generation
        self.owed: dict[int, bytes] = {}
        with suppress(FileNotFoundError):
            os.unlink(path)
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _write_pieces(self.descriptor, layout.whole())
            os.fchmod(self.descriptor, CONFIG_MODE)
            give_group(path, CONFD)
        except BaseException:
            self.discard()
            raise
        self._seen = self._written()

    def discard(self) -> None:
        """Its readers keep it; nobody else will find it."""
        os.close(self.descriptor)
        with suppress(OSError):
            os.unlink(self.path)

    def patch(self) -> bool:
        """Write what is owed; False if this file may not be written to. Raises `OSError`; all is owed still then."""
        if self._written() != self._seen or os.fstat(self.descriptor).st_nlink != 1:
            return False
        try:
            fcntl.fcntl(self.descriptor, fcntl.F_SETSIG, signal.SIGURG)  # ignored: who opens it waits until we are done
            fcntl.fcntl(self.descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            return False
        try:
            for offset in sorted(self.owed):
                _write_at(self.descriptor, self.owed[offset], offset)
                reach("publish-patching")
        finally:
            self._seen = self._written()  # before somebody who waits for us can open it
            fcntl.fcntl(self.descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        self.owed.clear()
        return True

    def _written(self) -> tuple[int, int]:
        """Differs when somebody else wrote to the file."""
        status = os.fstat(self.descriptor)
        return status.st_mtime_ns, status.st_size


class ConfigFile:
    """The one writer of `config.data`. All calls block; any thread may make them."""

    def __init__(self, path: str) -> None:
        """*path* itself is left as it is until the first `write`; what a killed writer left beside it goes."""
        self._path = path
        directory, name = os.path.split(path)
        self._names = [os.path.join(directory, f".{name}.{number}") for number in (0, 1)]
        self._current: _Image | None = None
        self._spare: _Image | None = None
        self._layout: FileLayout | None = None
        self._working = threading.Lock()
        self._following = f"{self._names[0]}.next"
        unfinished = glob.glob(
            os.path.join(glob.escape(directory), f".{glob.escape(name)}.*.new")
        )  # `write_atomically`
        for left in (*self._names, self._following, *unfinished):
            with suppress(FileNotFoundError):
                os.unlink(left)

    @property
    def is_begun(self) -> bool:
        """Whether changes are enough; else `begin` must be given everything."""
        return self._layout is not None

    def begin(self, header: bytes, entries: Entries, digest: str) -> None:
        """Lay out everything; *digest* is its fingerprint."""
        with self._working:
            self._drop()
            self._layout = FileLayout(header, entries, digest)

    def update(self, header: bytes, changed: Changed, digest: str) -> None:
        """Take over changes; nothing is written yet."""
        with self._working:
            self._update(header, changed, digest)

    def _update(self, header: bytes, changed: Changed, digest: str) -> None:
        layout = self._layout
        assert layout is not None
        for (kind, uuid), data in changed:
            if data is None:
                layout.remove(kind, uuid)
            else:
                layout.put(kind, uuid, data)
        layout.set_header(header, digest)
        if not layout.fits:
            layout.start_anew()
        writes = layout.take_writes()
        for image in (self._current, self._spare):
            if image is not None and image.generation is layout.generation:
                image.owed.update(writes)

    def write(self) -> None:
        """Bring `config.data` up to date. Raises `OSError`: the file is as it was then, and this can be repeated."""
        with self._working:
            self._write()

    def _write(self) -> None:
        layout = self._layout
        assert layout is not None
        image = self._spare
        if image is not None and (image.generation is not layout.generation or not image.patch()):
            self._spare = None
            image.discard()
            image = None
        if image is None:
            image = self._spare = self._write_new(layout)
        reach("publish-patched")
        with suppress(FileNotFoundError):
            os.unlink(self._following)
        os.link(image.path, self._following)
        os.rename(self._following, self._path)
        reach("publish-replaced")
        self._current, self._spare = image, self._current

    def sync(self) -> None:
        """Make `config.data` durable as it is. Raises `OSError`."""
        descriptor = plain_file(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(os.path.dirname(self._path))

    def close(self) -> None:
        """Leave `config.data`, and nothing beside it; waits for what is being written."""
        with self._working:
            self._drop()

    def _drop(self) -> None:
        for image in (self._current, self._spare):
            if image is not None:
                image.discard()
        self._current = self._spare = self._layout = None

    def _write_new(self, layout: FileLayout) -> _Image:
        taken = self._current.path if self._current is not None else None
        (name, *_) = [name for name in self._names if name != taken]
        return _Image(name, layout)


def _write_pieces(descriptor: int, pieces: Iterable[bytes]) -> None:
    joined = bytearray()
    offset = 0
    for piece in pieces:
        reach("publish-writing")
        joined += piece
        if len(joined) >= _JOINED_BYTES:
            _write_at(descriptor, joined, offset)
            offset += len(joined)
            joined.clear()
    _write_at(descriptor, joined, offset)


def _write_at(descriptor: int, data: bytes | bytearray, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written

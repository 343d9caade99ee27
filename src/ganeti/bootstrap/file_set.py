# SPDX-License-Identifier: BSD-2-Clause
"""Files and directories that set-up work writes, and what was there before, so that all can be put back."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase

import msgspec

from ganeti.system.files import plain_file, sync_directory, sync_file, write_atomically

_UNFINISHED = "[0-9a-f]" * 8
"""In the name of a file that `write_atomically` has not renamed yet."""

_SYNCS = 4


class Former(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was at *path* before: nothing, unless there is a *mode*."""

    path: str
    mode: int | None = None
    content: bytes = b""
    is_directory: bool = False

    @classmethod
    def of(cls, path: str) -> "Former":
        """Read what is at *path*. Raises `OSError`."""
        try:
            with open(path, "rb", opener=plain_file) as file:
                return cls(path=path, mode=os.fstat(file.fileno()).st_mode & 0o7777, content=file.read())
        except FileNotFoundError:
            return cls(path=path)

    def put_back(self) -> None:
        """Have *path* as it was, whatever is there now; a directory that others use stays. Raises `OSError`."""
        if self.is_directory:
            with suppress(OSError):
                os.rmdir(self.path)
        elif self.mode is None:
            with suppress(FileNotFoundError):
                os.unlink(self.path)
        elif Former.of(self.path) != self:
            write_atomically(self.path, self.content, mode=self.mode)

    def remove_unfinished(self) -> None:
        """Remove what a process that was killed has written beside *path*. Raises `OSError`."""
        directory, name = os.path.split(self.path)
        with suppress(FileNotFoundError):
            for other in os.listdir(directory):
                if other.startswith(f".{name}.") and fnmatchcase(other[len(name) + 2 :], f"{_UNFINISHED}.new"):
                    os.unlink(f"{directory}/{other}")


class FileSet:
    """Files and directories made so far, which `take_back` removes or puts back as they were.

    *record* is called with what is at some paths before the first of them is changed.
    """

    def __init__(
        self, former: Iterable[Former] = (), record: Callable[[Sequence[Former]], None] = lambda former: None
    ) -> None:
        self._former = list(former)
        self._record = record
        self._known = {each.path for each in self._former}
        self._unsynced: list[str] = []

    def expect(self, paths: Iterable[str]) -> None:
        """Say which files are going to be written, to have them recorded together."""
        fresh: list[Former] = []
        for path in paths:
            self._find_missing_directories(os.path.dirname(path), fresh)
            if path not in self._known:
                self._known.add(path)
                fresh.append(Former.of(path))
        self._note(fresh)

    def put(self, path: str, data: str | bytes, mode: int, *, durable: bool = True) -> None:
        """Write *path* as a whole: beside it, synced, renamed. Without *durable*, `syncing` syncs it."""
        self.expect([path])
        self.directory(os.path.dirname(path), 0o755)
        write_atomically(path, data.encode() if isinstance(data, str) else data, mode=mode, durable=durable)
        if not durable:
            self._unsynced.append(path)

    @contextmanager
    def syncing(self) -> Iterator[None]:
        """Sync what is not durable yet while the block runs; all of it is on disk afterwards. Raises `OSError`.

        Each sync waits for the disk's journal: several at a time wait for the same write.
        """
        from concurrent.futures import ThreadPoolExecutor

        paths, self._unsynced = self._unsynced, []
        with ThreadPoolExecutor(_SYNCS) as pool:
            synced = pool.map(_sync_if_there, paths)
            yield
            list(synced)
        for directory in {os.path.dirname(path) for path in paths}:
            sync_directory(directory)

    def will_remove(self, path: str) -> None:
        """Say that *path*, made by somebody else on our behalf, is to go when all is taken back."""
        self._note([Former(path=path)])

    def directory(self, path: str, mode: int) -> None:
        """Make a directory unless it is there; its mode is set either way where this set made it."""
        fresh: list[Former] = []
        missing = self._find_missing_directories(path, fresh)
        self._note(fresh)
        for place in missing:
            os.mkdir(place)
            os.chmod(place, mode if place == missing[-1] else 0o755)

    def take_back(self) -> None:
        while self._former:
            self._former.pop().put_back()
        self._known.clear()

    def remove_unfinished(self) -> None:
        for each in self._former:
            each.remove_unfinished()

    def _find_missing_directories(self, path: str, fresh: list[Former]) -> list[str]:
        """Give those that are missing, the outermost first; those that nobody has noted go into *fresh*."""
        missing = missing_directories(path)
        for place in missing:
            if place not in self._known:
                self._known.add(place)
                fresh.append(Former(path=place, is_directory=True))
        return missing

    def _note(self, fresh: list[Former]) -> None:
        if fresh:
            self._record(fresh)
            self._former += fresh


def _sync_if_there(path: str) -> None:
    with suppress(FileNotFoundError):  # a daemon that has just been started has replaced or removed it
        sync_file(path)


def missing_directories(path: str) -> list[str]:
    """Give what is to be made for *path* to be a directory, the outermost first."""
    missing: list[str] = []
    while path and not os.path.isdir(path):
        missing.insert(0, path)
        path = os.path.dirname(path)
    return missing

# SPDX-License-Identifier: BSD-2-Clause
"""`locks.data`: the saved lock table (`master/locks/snapshot`) and what has changed since, one JSON line each.

A change costs what it changes: its line is appended, and now and then the whole table is written anew. Nothing is
synced: the file outlives this process, not the machine, and neither does any owner of a lock.

What always holds: the first line was renamed into place whole; a line counts once its end mark is there. So a death
at any byte leaves a file that can be read, without the last line if that was not finished; nobody was told of it yet.
Any other damage refuses the start, unless the file is older than the machine's power-on: then nobody lives who held
a lock, and what can be read is enough.
"""

import errno
import io
import logging
import os
import time

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, LockError
from ganeti.master.locks.effects import Effect
from ganeti.master.locks.snapshot import Saved, effects_to_plain, from_plain, redo, to_plain
from ganeti.master.locks.table import LockTable
from ganeti.master.locks.times import Times
from ganeti.system.files import read_if_there, write_atomically

_log = logging.getLogger(__name__)
_REMEDY = "remove the file once no job runs"
_GROWTH_BYTES = 256 * 1024
"""How much more than the whole table the changes since may take: a thousand changes or so."""


def load_locks(path: str) -> Saved:
    """Read `locks.data`; raises `LockError` with the reason and the remedy if it cannot be understood.

    The file of another product, which has no version, is ignored: its owners are not of this cluster's jobs.
    """
    data = read_if_there(path)
    if data is None:
        return _nothing()
    try:
        saved = _read(data)
    except LockError as err:
        if not _from_before_power_on(path):
            raise LockError(f"{path} {err}: {_REMEDY}") from err
        _log.warning("%s %s; it is from before the machine was powered on, so it is passed over", path, err)
        return _nothing()
    if saved is None:
        _log.warning("%s was not written by this daemon, so it is passed over", path)
    return saved or _nothing()


class LockJournal:
    """The file of one saved table; `write` appends."""

    def __init__(self, path: str, saved: Saved) -> None:
        self._path = path
        self._saved = saved
        self._file: io.FileIO | None = None
        self._size_bytes = 0
        self._largest_bytes = 0

    def write(self, time_s: float, effects: list[Effect]) -> None:
        """Write down what has happened. Raises `OSError`; the next call then writes the whole table."""
        line = msgspec.json.encode([time_s, effects_to_plain(effects)]) + b"\n"
        file = self._file
        if file is None or not self._has_room_for(line, file):
            self.write_whole()
            return
        try:
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self.close()
            raise
        self._size_bytes += len(line)

    def write_whole(self) -> None:
        """Write the table anew, without its history. Raises `OSError`."""
        self.close()
        line = msgspec.json.encode(to_plain(*self._saved)) + b"\n"
        write_atomically(self._path, line, mode=0o640, durable=False)
        self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 - open as long as lines are added
        self._size_bytes = len(line)
        self._largest_bytes = 2 * len(line) + _GROWTH_BYTES

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _has_room_for(self, line: bytes, file: io.FileIO) -> bool:
        """False also if somebody has taken the file away or put another one in its place."""
        if self._size_bytes + len(line) > self._largest_bytes:
            return False
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(file.fileno()))
        except FileNotFoundError:
            return False


def _read(data: bytes) -> Saved | None:
    """None if it is the file of another product; raises `LockError` saying what is wrong with it."""
    first, *changes = data.split(b"\n")
    try:
        plain = msgspec.json.decode(first)
    except UNREADABLE_JSON as err:
        raise LockError("is cut off within its first line" if data and not changes else f"is not JSON ({err})") from err
    if isinstance(plain, list) or (isinstance(plain, dict) and "version" not in plain):
        return None
    try:
        saved = from_plain(plain)
        for number, line in enumerate(changes[:-1], start=2):
            _redo(saved, number, line)
        saved.table.check()
    except LockError as err:
        raise LockError(f"is damaged ({err})") from err
    except AssertionError as err:
        raise LockError(f"is damaged (what it tells cannot have happened: {err})") from err
    return saved


def _redo(saved: Saved, number: int, line: bytes) -> None:
    try:
        time_s, effects = msgspec.json.decode(line)
    except (*UNREADABLE_JSON, TypeError) as err:
        raise LockError(f"line {number}: {err}") from err
    redo(saved, time_s, effects)


def _nothing() -> Saved:
    return Saved(LockTable(), Times())


def _from_before_power_on(path: str) -> bool:
    power_on_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return os.stat(path).st_mtime < power_on_s

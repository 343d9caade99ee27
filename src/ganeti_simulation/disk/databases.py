# SPDX-License-Identifier: BSD-2-Clause
"""SQLite on simulated disks: what stands in for `sqlite3.connect`.

SQLite itself does the work, on a file in the memory of this machine (/dev/shm) that belongs to the inode of the
simulated disk for as long as somebody is connected: so snapshots, locks and errors are SQLite's own. The bytes of the
simulated file are read from there when somebody wants them, and at a loss of power. What COMMIT has returned from is
durable (WAL, synchronous=FULL); a COMMIT that is cut short, in a hook around it, happened entirely or not at all.
"""

import functools
import os
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, unquote

from ganeti_simulation.disk.disk import Disk
from ganeti_simulation.disk.inodes import Directory, File

_MEMORY = "/dev/shm"  # noqa: S108 - a directory of this object's own is made there
_PREFIX = "ganeti-simulation-"
_PAGE_BYTES = 4096
_TIMEOUT_S = 5.0
_FIRST_DELAY_S = 0.001
_LAST_DELAY_S = 0.1
_CODES = {
    "unable to open database file": sqlite3.SQLITE_CANTOPEN,
    "disk I/O error": sqlite3.SQLITE_IOERR,
    "database or disk is full": sqlite3.SQLITE_FULL,
    "database disk image is malformed": sqlite3.SQLITE_CORRUPT,
}
_DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What tells of a damaged database: SQLite's sentence quotes its text, which may be none any more."""
_COMMITS = {"COMMIT", "END"}
_BEGINNING = {"INSERT", "UPDATE", "DELETE", "REPLAC"}
"""Before these a connection with an isolation level begins a transaction."""
_READING = {"SELECT", "BEGIN", "EXPLAI", "ROLLBA"}
_HARMLESS = {"SELECT", "BEGIN", "PRAGMA", "ROLLBA", "EXPLAI", "WITH", "SAVEPO", "RELEAS", "ATTACH", "DETACH"}
Hook = Callable[[Disk, str], None]


class Databases:
    """All databases of one simulation. Close it: it has files in /dev/shm.

    *before_commit* and *after_commit* are called with disk and path around every COMMIT and may let time pass, end the
    process or take the power away: before, nothing of the transaction is there; after, all of it. *sleep* lets so many
    seconds pass while a connection waits for another's lock, as long as its `timeout` (5 s) says; without it the answer
    is "database is locked" at once.
    """

    def __init__(
        self,
        before_commit: Hook | None = None,
        after_commit: Hook | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self.before_commit = before_commit
        self.after_commit = after_commit
        self.sleep = sleep
        self._place: str | None = None
        self._made = 0
        self._open: list[Database] = []

    def connect(self, disk: Disk, path: str, **arguments: Any) -> "SimulatedConnection":
        """As `sqlite3.connect` on the machine with this root *disk*; *path* is absolute, or a URI with `uri=True`.
        Raises `sqlite3.OperationalError`."""
        path, mode = _target(path, arguments.pop("uri", False))
        directory, file = _file(disk, path, mode)
        source = file.source
        if not isinstance(source, Database) or source.owner is not self:
            source = self._attach(file, directory)
        arguments.pop("factory", None)
        timeout_s = arguments.pop("timeout", _TIMEOUT_S)
        real_mode = "ro" if mode == "ro" else "rw"
        try:
            opened = sqlite3.connect(
                f"file:{source.path}?mode={real_mode}", 0, uri=True, factory=SimulatedConnection, **arguments
            )
        except sqlite3.Error as err:
            raise _error("unable to open database file") from err
        connection: SimulatedConnection = opened
        connection.belong(source, disk, path, timeout_s)
        return connection

    def _attach(self, file: File, directory: Directory) -> "Database":
        if self._place is None:
            self._place = _new_place()
            self._leave = weakref.finalize(self, shutil.rmtree, self._place, ignore_errors=True)
        self._made += 1
        file.take_over()
        database = Database(self, f"{self._place}/{self._made}", file, directory)
        file.source = database
        self._open.append(database)
        return database

    def forget(self, database: "Database") -> None:
        self._open.remove(database)

    @property
    def place(self) -> str | None:
        """Where the files are; nowhere, as long as nobody has connected."""
        return self._place

    def close(self, *, keep: bool = True) -> None:
        """Put what is committed into the files of the disks (unless nobody will *keep* these) and remove what is in
        /dev/shm."""
        for database in list(self._open):
            if keep:
                database.file.take_over()
            else:
                database.file.source = None
                database.dismiss()
        if self._place is not None:
            self._place = None
            self._leave()


class Database:
    """The database behind one inode (a `Source` of its content)."""

    def __init__(self, owner: Databases, path: str, file: File, directory: Directory) -> None:
        self.owner = owner
        self.path = path
        self.file = file
        self.dismissed = False
        self._directory: Directory | None = directory
        self._observer: sqlite3.Connection | None = None
        self._content = bytes(file.content) if isinstance(file.content, bytes | bytearray) else b""
        if not isinstance(file.content, bytes | bytearray):
            self._content = file.content.read(0, file.content.size)
        file.content = b""
        with open(path, "wb") as target:
            target.write(self._content)
        self.is_stale = False
        """The bytes have to be asked for when they are wanted."""

    def content(self) -> bytes:
        if self.is_stale:
            self.is_stale = False
            with suppress(*_DAMAGE):  # no database: nobody can have changed it
                pages = self._observe().execute("PRAGMA page_count").fetchone()[0]
                self._content = self._observe().serialize() if pages else b""
        return self._content

    def size(self) -> int:
        if not self.is_stale:
            return len(self._content)
        with suppress(*_DAMAGE):  # nobody can have made it longer
            pages: int = self._observe().execute("PRAGMA page_count").fetchone()[0]
            return pages * _PAGE_BYTES
        return len(self._content)

    def _observe(self) -> sqlite3.Connection:
        if self._observer is None:
            self._observer = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        return self._observer

    def dismiss(self) -> None:
        self.dismissed = True
        self.owner.forget(self)
        if self._observer is not None:
            self._observer.close()
        for suffix in ("", "-wal", "-shm", "-journal"):
            if os.path.exists(self.path + suffix):
                os.unlink(self.path + suffix)

    def has_committed(self) -> None:
        self.is_stale = True
        self.file.sync()
        self.file.touch()
        directory = self._directory
        if directory is not None:  # SQLite syncs the directory when it makes its log
            self._directory = None
            directory.disk.sync(directory)


class SimulatedCursor(sqlite3.Cursor):
    connection: "SimulatedConnection"

    def execute(self, sql: str, parameters: Any = (), /) -> "SimulatedCursor":
        self.connection.run(sql, lambda: super(SimulatedCursor, self).execute(sql, parameters))
        return self

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> "SimulatedCursor":
        self.connection.run(sql, lambda: super(SimulatedCursor, self).executemany(sql, parameters))
        return self

    def executescript(self, script: str, /) -> "SimulatedCursor":
        self.connection.run("COMMIT", lambda: super(SimulatedCursor, self).executescript(script))
        return self


class SimulatedConnection(sqlite3.Connection):
    """A connection that knows whose it is. The kernel closes those of a process that is killed: `close` rolls back."""

    _database: Database
    _disk: Disk
    _path: str
    _timeout_s: float
    _boot = 0

    def belong(self, database: Database, disk: Disk, path: str, timeout_s: float) -> None:
        self._database = database
        self._disk = disk
        self._path = path
        self._timeout_s = timeout_s
        self._boot = disk.boot

    def cursor(self, factory: Any = SimulatedCursor) -> Any:
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> SimulatedCursor:
        return SimulatedCursor(self).execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> SimulatedCursor:
        return SimulatedCursor(self).executemany(sql, parameters)

    def executescript(self, script: str, /) -> SimulatedCursor:
        return SimulatedCursor(self).executescript(script)

    def commit(self) -> None:
        if self.in_transaction:
            self.run("COMMIT", super().commit)

    def rollback(self) -> None:
        if not self._database.dismissed:
            super().rollback()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        if kind is None:
            self.commit()
        else:
            self.rollback()
        return False

    def run(self, sql: str, act: Callable[[], Any]) -> None:
        """One statement, with what the disk has to say about it."""
        if self._boot != self._disk.boot:
            raise _error("disk I/O error")
        if self._database.dismissed:
            raise _error("database disk image is malformed")
        word = _first_word(sql)
        if self._disk.faults:
            self._meet_fault("read")
        if word in _COMMITS or (not self.in_transaction and self._commits_itself(word)):
            self._commit(act)
        else:
            self._try(act)
            if word not in _READING:
                self._database.is_stale = True

    def _commits_itself(self, word: str) -> bool:
        return word not in _HARMLESS and (self.isolation_level is None or word not in _BEGINNING)

    def _commit(self, act: Callable[[], Any]) -> None:
        owner, disk, path = self._database.owner, self._disk, self._path
        if owner.before_commit is not None:
            owner.before_commit(disk, path)
            if self._boot != disk.boot:
                raise _error("disk I/O error")
        if disk.faults:
            self._meet_fault("write")
            self._meet_fault("fsync")
        if self._database.file.disk.is_limited:
            self._check_room()
        self._try(act)
        self._database.has_committed()
        if owner.after_commit is not None:
            owner.after_commit(disk, path)

    def _try(self, act: Callable[[], Any]) -> None:
        sleep = self._database.owner.sleep
        waited_s, delay_s = 0.0, _FIRST_DELAY_S
        while True:
            try:
                act()
                return
            except sqlite3.OperationalError as err:
                if err.sqlite_errorcode != sqlite3.SQLITE_BUSY or sleep is None or waited_s >= self._timeout_s:
                    raise
            sleep(delay_s)
            waited_s += delay_s
            delay_s = min(delay_s * 2, _LAST_DELAY_S)

    def _meet_fault(self, kind: str) -> None:
        try:
            self._disk.faults.meet(kind, self._path)
        except OSError as err:
            raise _error("disk I/O error") from err

    def _check_room(self) -> None:
        """The log takes a page at least, and the database what it grows by."""
        file = self._database.file
        (pages,) = sqlite3.Connection.cursor(self).execute("PRAGMA page_count").fetchone()
        if file.disk.free_blocks() < max(pages - file.blocks(), 0) + 1:
            raise _error("database or disk is full")


@functools.cache
def _memory() -> str:
    """Where files cost no disk; what processes left there that were killed is removed first."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else tempfile.gettempdir()
    ours = _prefix()
    for name in os.listdir(place):
        pid = name.removeprefix(ours).partition("-")[0]
        if name.startswith(ours) and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(f"{place}/{name}", ignore_errors=True)
    return place


@functools.cache
def _first_word(sql: str) -> str:
    """Its first six letters, which tell what it does."""
    return sql.lstrip()[:6].rstrip(" ;\n\t").upper()


def _prefix() -> str:
    """A process id says nothing in another namespace, whose /dev/shm may be the same."""
    namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    return f"{_PREFIX}{namespace}-"


def _new_place() -> str:
    return tempfile.mkdtemp(prefix=f"{_prefix()}{os.getpid()}-", dir=_memory())


def facade(connect: Callable[..., Any]) -> ModuleType:
    """A module that is `sqlite3` but for *connect*."""
    module = ModuleType("sqlite3", sqlite3.__doc__)
    module.__dict__.update({name: value for name, value in vars(sqlite3).items() if not name.startswith("__")})
    module.__dict__["connect"] = connect
    return module


def _error(text: str) -> sqlite3.DatabaseError:
    """What `sqlite3` raises with this *text*, and with the code by which programs tell damage from lack of space."""
    code = _CODES[text]
    err = (sqlite3.DatabaseError if code == sqlite3.SQLITE_CORRUPT else sqlite3.OperationalError)(text)
    err.sqlite_errorcode = code
    return err


def _target(path: str, uri: bool) -> tuple[str, str]:
    """Path and mode (ro, rw, rwc)."""
    path = os.fspath(path)
    if not uri or not path.startswith("file:"):
        return path, "rwc"
    path, _, query = path[5:].partition("?")
    if path.startswith("//"):
        path = path[path.index("/", 2) :]
    return unquote(path.partition("#")[0]), parse_qs(query).get("mode", ["rwc"])[0]


def _file(disk: Disk, path: str, mode: str) -> tuple[Directory, File]:
    try:
        access = {"ro": os.O_RDONLY, "rw": os.O_RDWR, "rwc": os.O_RDWR | os.O_CREAT}[mode]
        disk.open(path, access, 0o644).close()
        directory, _, found = disk.find(path)
    except OSError as err:
        raise _error("unable to open database file") from err
    if type(found) is not File:
        raise _error("unable to open database file")
    return directory, found

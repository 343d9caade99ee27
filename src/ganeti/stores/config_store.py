# SPDX-License-Identifier: BSD-2-Clause
"""The configuration in SQLite: one row per object, one transaction and one fsync per batch of commits (D6).

Tables: `objects` (kind, uuid, name, JSON fragment as in `config.data`), `commits` (the change stream), `steps` (answers
to job steps), `meta`. Row order of `objects` is the order of first insertion, in every reader. Only WConfD writes;
`config_view` reads beside it (WAL).
"""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, ConfigurationError
from ganeti.master.config.records import Commit, Position, PublishedMark, StepAnswer
from ganeti.master.config.store import Loaded, StoredCommit
from ganeti.master.config.stream import COMMITS_KEPT, event_of
from ganeti.model.configuration import Configuration
from ganeti.model.membership import Kept, Membership
from ganeti.model.objects import KINDS, ConfigObject
from ganeti.system.files import check_plain, plain_file

_log = logging.getLogger(__name__)
SCHEMA_VERSION = 3
_SCHEMA = """
CREATE TABLE objects (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, uuid TEXT NOT NULL, name TEXT,
                      primary_node TEXT, data BLOB NOT NULL);
CREATE UNIQUE INDEX object_key ON objects (kind, uuid);
CREATE INDEX object_name ON objects (kind, name) WHERE name IS NOT NULL;
CREATE INDEX object_primary_node ON objects (primary_node) WHERE primary_node IS NOT NULL;
CREATE TABLE commits (epoch INTEGER NOT NULL, serial INTEGER NOT NULL, digest TEXT NOT NULL, event BLOB NOT NULL,
                      time REAL NOT NULL DEFAULT 0,
                      PRIMARY KEY (epoch, serial)) WITHOUT ROWID;
CREATE TABLE steps (job INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL, settles INTEGER NOT NULL,
                    lock_file TEXT NOT NULL, answer BLOB NOT NULL, PRIMARY KEY (job, attempt, step)) WITHOUT ROWID;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_FROM_LAYOUT_2 = "ALTER TABLE commits ADD COLUMN time REAL NOT NULL DEFAULT 0"
_PUT = (
    "INSERT INTO objects (kind, uuid, name, primary_node, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT (kind, uuid)"
    " DO UPDATE SET name = excluded.name, primary_node = excluded.primary_node, data = excluded.data"
)
_SET_META = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_LAYOUTS_EVER = 100
"""A number beyond is rot, and no later program's."""
_CHECKPOINT_AFTER_COMMITS = 64
_CHECKPOINT_PAGES_AT_MOST = 4000
LOG_LIMIT_BYTES = 4 * 1024 * 1024
"""How long the write-ahead log may stay. The next commits overwrite what is there: quicker than to extend it."""
_READER_PATIENCE_MS = 5000


_CORRUPT = (11, 26)
_UNUSABLE = (3, 5, 6, 7, 8, 10, 13, 14)
"""SQLite's codes for a lack of rights, locks, memory and room, a read-only file, and a failing disk."""
_UNREADABLE = (266, 522)
"""What a failing disk gives no more, or not whole, is damaged."""


def is_corrupt(err: BaseException | None) -> bool:
    """Whether SQLite has found the file to be damaged, or no database at all."""
    return getattr(err, "sqlite_errorcode", 0) & 0xFF in _CORRUPT


def is_of_file_system(err: BaseException | None) -> bool:
    """Whether there was no room for the database, or no leave to use it: what it holds may be whole."""
    code = getattr(err, "sqlite_errorcode", 0)
    return isinstance(err, OSError) or (code & 0xFF in _UNUSABLE and code not in _UNREADABLE)


@contextmanager
def _explained(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as err:
        raise ConfigurationError(f"The configuration database {path} cannot be {what}: {err}") from err


class SqliteStore:
    """The one writer. All calls come from one thread at a time."""

    def __init__(self, path: str) -> None:
        """Open or create; raises `ConfigurationError`."""
        self._path = path
        self._uncheckpointed = 0
        try:
            os.close(plain_file(path, os.O_RDWR | os.O_CREAT, mode=0o640))
            for ending in ("-wal", "-shm"):
                check_plain(f"{path}{ending}")
        except OSError as err:
            raise ConfigurationError(
                f"The configuration database {err.filename or path} cannot be opened: {err.strerror}"
            ) from err
        with _explained("opened", path):
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES_AT_MOST}")
            self._db.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT_BYTES}")
            self._create_or_check()

    def on_statement(self, hear: Callable[[str], Any] | None) -> None:
        """Have every statement told, for tests that count transactions."""
        self._db.set_trace_callback(hear)

    def close(self) -> None:
        self._db.close()

    def load(self) -> Loaded | None:
        with _explained("read", self._path):
            meta = dict(self._db.execute("SELECT key, value FROM meta"))
            if "serial" not in meta:
                return None
            rows = self._db.execute("SELECT kind, uuid, data FROM objects ORDER BY id").fetchall()
            steps = self._db.execute("SELECT job, attempt, step, settles, lock_file, answer FROM steps").fetchall()
            commits = [
                StoredCommit((epoch, serial), *rest)
                for epoch, serial, *rest in self._db.execute(
                    "SELECT epoch, serial, time, digest, event FROM commits ORDER BY epoch, serial"
                )
            ]
        published_at, published = msgspec.json.decode(meta["published"], type=tuple[Position, list[str]])
        base = msgspec.json.decode(meta.get("base", "[]"), type=list[str])
        config = Configuration()
        config.header = msgspec.json.decode(meta["header"])
        config.position = (int(meta["epoch"]), int(meta["serial"]))
        fragments = {}
        for kind, uuid, data in rows:
            config.put(kind, uuid, read_object(kind, uuid, data))
            fragments[kind, uuid] = data
        return Loaded(
            config,
            fragments,
            mtime_s=float(meta["mtime"]),
            steps=[
                StepAnswer(job, attempt, step, bool(settles), *rest) for job, attempt, step, settles, *rest in steps
            ],
            stream_start=tuple(msgspec.json.decode(meta["stream_start"])),
            start_digest=base[-1] if base else "",
            events=[(commit.position, commit.event) for commit in commits],
            published=(*published, *(commit.digest for commit in commits if commit.position > published_at)),
            earlier=(
                *base,
                *(commit.digest for commit in commits if commit.position <= published_at),
            ),
            commits=commits if all(commit.time_s for commit in commits) else [],
            kept=_kept_in(meta),
            boot=meta.get("boot", ""),
        )

    def commit(self, commits: Sequence[Commit]) -> None:
        with _explained("written", self._path), self._transaction():
            for commit in commits:
                self._write(commit)
            newest = commits[-1].published
            if newest is not None:
                self._set_published(newest.position, newest.digest)
        self._uncheckpointed += weight(commits)

    def begin_use(self, boot: str) -> None:
        with _explained("written", self._path), self._transaction():
            self._db.execute(_SET_META, ("boot", boot))

    def end_use(self, published: PublishedMark) -> None:
        with _explained("written", self._path), self._transaction():
            self._db.execute(_SET_META, ("boot", ""))
            self._set_published(published.position, published.digest)

    def set_membership(self, kept: Kept) -> None:
        with _explained("written", self._path), self._transaction():
            self._keep_membership(kept)

    def begin_epoch(self, commit: Commit, kept: Kept) -> None:
        with _explained("written", self._path), self._transaction():
            self._write(commit)
            self._keep_membership(kept)

    def _keep_membership(self, kept: Kept) -> None:
        rows = [("membership", kept.membership), ("membership_kept", kept)]
        self._db.executemany(_SET_META, [(key, msgspec.json.encode(value).decode()) for key, value in rows])

    def _set_published(self, position: Position, *digests: str) -> None:
        self._db.execute(_SET_META, ("published", msgspec.json.encode([position, digests]).decode()))

    def forget_steps(self, answers: Sequence[StepAnswer]) -> None:
        with _explained("written", self._path), self._transaction():
            keys = [(answer.job, answer.attempt, answer.step) for answer in answers]
            self._db.executemany("DELETE FROM steps WHERE job = ? AND attempt = ? AND step = ?", keys)

    def _create_or_check(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        elif version == SCHEMA_VERSION - 1:
            self._db.executescript(
                f"BEGIN IMMEDIATE; {_FROM_LAYOUT_2}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
        elif not 0 < version < _LAYOUTS_EVER:
            raise ConfigurationError(
                f"The configuration database {self._path} is damaged: no program writes layout {version}"
            )
        elif version != SCHEMA_VERSION:
            raise ConfigurationError(
                f"The configuration database {self._path} has layout {version}, this program knows {SCHEMA_VERSION}: "
                "move it away to start from config.data"
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _write(self, commit: Commit) -> None:
        db = self._db
        if commit.whole:
            db.execute("DELETE FROM objects")
            db.execute("DELETE FROM commits")
            db.execute(_SET_META, ("stream_start", msgspec.json.encode(commit.position).decode()))
            db.execute(_SET_META, ("header", msgspec.json.encode(commit.header).decode()))
            digests = list(filter(None, (commit.imported_digest, commit.digest)))
            self._set_published(commit.position, *digests)
            self._set_base(digests)
        db.executemany(_PUT, [(put.kind, put.uuid, put.name, put.primary_node, put.data) for put in commit.puts])
        db.executemany("DELETE FROM objects WHERE kind = ? AND uuid = ?", commit.removes)
        if commit.step is not None:
            step = commit.step
            row = (step.job, step.attempt, step.step, step.settles, step.lock_file, step.answer)
            db.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?)", row)
        if commit.changes_objects:
            self._advance(commit)

    def _advance(self, commit: Commit) -> None:
        epoch, serial = commit.position
        self._db.executemany(
            _SET_META, [("epoch", str(epoch)), ("serial", str(serial)), ("mtime", repr(commit.time_s))]
        )
        if commit.whole:
            return
        row = (epoch, serial, commit.digest, event_of(commit), commit.time_s)
        self._db.execute("INSERT INTO commits (epoch, serial, digest, event, time) VALUES (?, ?, ?, ?, ?)", row)
        oldest = min(serial - COMMITS_KEPT, self._oldest_state_there(commit) - 1)
        if oldest > 0:
            self._forget_commits(epoch, oldest)

    def _forget_commits(self, epoch: int, serial: int) -> None:
        """Drop the stream up to here; the state it begins with then may still be what lies on the disk."""
        forgotten = self._db.execute(
            "DELETE FROM commits WHERE (epoch, serial) <= (?, ?) RETURNING epoch, serial, digest", (epoch, serial)
        ).fetchall()
        if forgotten:
            self._db.execute(_SET_META, ("stream_start", msgspec.json.encode((epoch, serial)).decode()))
            self._set_base([max(forgotten)[2]])

    def _set_base(self, digests: list[str]) -> None:
        """Keep the fingerprints of the state before the stream: a loss of power may leave just that."""
        self._db.execute(_SET_META, ("base", msgspec.json.encode(digests).decode()))

    @staticmethod
    def _oldest_state_there(commit: Commit) -> int:
        """Serial number of the oldest state that `config.data` may have: from there on each must be known."""
        mark = commit.published
        return mark.synced[1] if mark is not None and mark.synced[0] == commit.position[0] else 0

    @property
    def wants_maintenance(self) -> bool:
        return self._uncheckpointed >= _CHECKPOINT_AFTER_COMMITS

    def maintain(self) -> None:
        """Move the log into the database, and cut it if it is long; a reader in the way only delays that, and so does a
        full disk."""
        self._uncheckpointed = 0
        try:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            if self._log_bytes() > LOG_LIMIT_BYTES and not self._cut_log():
                self._uncheckpointed = _CHECKPOINT_AFTER_COMMITS
        except sqlite3.Error as err:
            _log.warning("The log of the configuration database %s stays as long as it is: %s", self._path, err)

    def _log_bytes(self) -> int:
        try:
            return os.stat(f"{self._path}-wal").st_size
        except FileNotFoundError:
            return 0

    def _cut_log(self) -> bool:
        """False if somebody reads in it just now: that is not waited for."""
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            return not self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {_READER_PATIENCE_MS}")


def weight(commits: Sequence[Commit]) -> int:
    """How much nearer they bring the next maintenance."""
    return sum(_CHECKPOINT_AFTER_COMMITS if commit.whole else 1 for commit in commits)


def _kept_in(meta: dict[str, str]) -> Kept | None:
    """What a master has kept beside the membership counts only as long as it is that membership."""
    if "membership" not in meta:
        return None
    membership = msgspec.json.decode(meta["membership"], type=Membership)
    kept = msgspec.json.decode(meta.get("membership_kept", "null"), type=Kept | None)
    return kept if kept is not None and kept.membership == membership else Kept(membership)


def read_object(kind: str, uuid: str, data: bytes) -> ConfigObject:
    try:
        return KINDS[kind].from_plain(msgspec.json.decode(data))
    except (KeyError, AttributeError, *UNREADABLE_JSON, ConfigurationError) as err:
        raise ConfigurationError(f"The stored object {kind}/{uuid} cannot be read: {err}") from err

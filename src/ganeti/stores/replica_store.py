# SPDX-License-Identifier: BSD-2-Clause
"""The configuration database of a master candidate: records are applied to it, a snapshot replaces it, rot is found.

It is the same database that WConfD opens when this node becomes the master. What the fingerprint cannot speak for
(SQLite's own pages) is checked by SQLite. A damaged database is kept beside as `config.sqlite.damaged`; until a
snapshot has taken its place, this node says that it is damaged, for what it knew of the members is gone with it.
"""

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import msgspec

from ganeti.base.errors import ConfigurationError
from ganeti.base.paths import database_uri
from ganeti.master.config.fingerprint import Fingerprint
from ganeti.master.config.records import Commit, Position, StepAnswer
from ganeti.master.config.store import Loaded
from ganeti.model.membership import Membership
from ganeti.model.objects import CLUSTER_KEY
from ganeti.node.promises import established_epoch
from ganeti.ports.replica import DAMAGED, DISK, SOFTWARE
from ganeti.stores.config_store import SCHEMA_VERSION, SqliteStore, is_corrupt, weight
from ganeti.stores.replica_fault import ReplicaFaultError
from ganeti.system.files import sync_directory
from ganeti.system.pause_points import reach

_SET_META = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_MEMBERSHIP, _KEPT, _SUM = "membership", "membership_kept", "membership_sum"
_NOT_OUR_TABLES = 1
"""SQLite's general error has no other reason: our statements do not change."""
_NO_TEXT = "Could not decode"
"""How Python's module says, without a code, that what should be text is none."""
_BUSY_S = 10.0


@dataclass(frozen=True)
class Marks:
    """What a glance at a database tells, without reading the configuration."""

    cluster: str | None = None
    """UUID of the cluster, None where nothing is stored."""
    own: str | None = None
    """UUID of this node."""
    is_candidate: bool = False
    established: int = 0
    """The highest epoch of which there is a record."""


@dataclass(frozen=True)
class Content:
    """What a database holds, found to be as it was written. *position* is None where no configuration is stored."""

    position: Position | None = None
    digest: str = ""
    membership: Membership | None = None
    loaded: Loaded | None = None
    """The configuration itself, where that was asked for."""


class ReplicaStore(SqliteStore):
    """The one writer, for as long as another node is the master."""

    @classmethod
    def for_reading(cls, path: str) -> "ReplicaStore":
        """Open what is there beside its writer; raises `sqlite3.Error`."""
        store = cls.__new__(cls)
        store._path = path
        store._uncheckpointed = 0
        store._db = sqlite3.connect(
            database_uri(path, "rw"), uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_S
        )
        store._db.execute("PRAGMA query_only = 1")
        return store

    @property
    def has_older_layout(self) -> bool:
        """Whether it was written by an earlier release: opening it for writing brings it up."""
        return 0 < int(self._db.execute("PRAGMA user_version").fetchone()[0]) < SCHEMA_VERSION

    def apply(self, commits: Sequence[Commit], membership: Membership | None, ended_jobs: Iterable[int] = ()) -> None:
        """Take over records and a membership durably, all or none, and forget the steps of jobs that are archived.

        Raises `ConfigurationError`.
        """
        try:
            with self._transaction():
                for commit in commits:
                    self._write(commit)
                mark = commits[-1].published if commits else None
                if mark is not None:
                    self._set_published(mark.position, mark.digest)
                self._set_membership(membership)
                for job in ended_jobs:
                    self._db.execute("DELETE FROM steps WHERE job = ?", (job,))
                reach("replica-applying")
        except sqlite3.Error as err:
            raise ConfigurationError(f"The configuration database {self._path} cannot be written: {err}") from err
        self._uncheckpointed += len(commits)

    def restore(self, commit: Commit, steps: Iterable[StepAnswer], membership: Membership | None) -> None:
        """Replace everything by a whole commit, in one transaction; raises `ConfigurationError`."""
        try:
            with self._transaction():
                self._db.execute("DELETE FROM steps")
                self._write(commit)
                for step in steps:
                    self._put_step(step)
                self._set_membership(membership)
                reach("replica-restoring")
        except sqlite3.Error as err:
            raise ConfigurationError(f"The configuration database {self._path} cannot be written: {err}") from err
        self._uncheckpointed += weight([commit])

    def read_membership(self) -> Membership | None:
        """Who the members are, if it is as it was written: a replica keeps a sum beside it, a master the value twice.

        Raises `ReplicaFaultError`.
        """
        rows = self._db.execute("SELECT key, value FROM meta WHERE key IN (?, ?, ?)", (_MEMBERSHIP, _SUM, _KEPT))
        found: dict[str, str] = dict(rows)
        text = found.get(_MEMBERSHIP)
        if text is None:
            return None
        if found.get(_SUM) != _sum_of(text):
            kept = msgspec.json.decode(found.get(_KEPT, "{}"))
            if not isinstance(kept, dict) or kept.get(_MEMBERSHIP) != msgspec.json.decode(text):
                raise ReplicaFaultError(
                    DAMAGED,
                    f"The configuration database {self._path} is damaged: its list of members is not as written",
                )
        return msgspec.json.decode(text, type=Membership)

    def read_marks(self, node_name: str) -> Marks:
        row = self._db.execute(
            "SELECT data FROM objects WHERE kind = 'cluster' AND uuid = ?", (CLUSTER_KEY,)
        ).fetchone()
        cluster = None if row is None else msgspec.json.decode(row[0]).get("uuid")
        row = self._db.execute(
            "SELECT uuid, data FROM objects WHERE kind = 'nodes' AND name = ?", (node_name,)
        ).fetchone()
        own, node = (None, {}) if row is None else (row[0], msgspec.json.decode(row[1]))
        row = self._db.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
        membership = self.read_membership()
        established = established_epoch(
            None if row is None else (int(row[0]), 0), None if membership is None else membership.version
        )
        return Marks(cluster, own, bool(node.get("master_candidate")), established)

    def read_content(self, *, decoded: bool) -> Content:
        """Read everything in one transaction and hold it against SQLite's check and the fingerprint.

        Raises `ReplicaFaultError` and what reading damaged data raises.
        """
        self._db.execute("BEGIN")
        try:
            for (text,) in self._db.execute("PRAGMA quick_check(1)"):
                if text != "ok":
                    raise self._damaged(text)
            membership = self.read_membership()
            meta: dict[str, str] = dict(self._db.execute("SELECT key, value FROM meta"))
            if "serial" not in meta:
                return Content(membership=membership)
            position, digest = self._last_record(meta)
            rows = self._db.execute("SELECT kind, uuid, data FROM objects")
            fingerprint = Fingerprint(
                msgspec.json.decode(meta["header"]), {(kind, uuid): data for kind, uuid, data in rows}
            )
            if position != (int(meta["epoch"]), int(meta["serial"])):
                raise self._damaged("it does not end with its last record")
            if fingerprint.now(position[1], float(meta["mtime"])) != digest:
                raise self._damaged("its content is not what its fingerprint says")
            self._check_answers()
            return Content(position, digest, membership, self.load() if decoded else None)
        finally:
            self._db.execute("ROLLBACK")

    def _check_answers(self) -> None:
        """The answers to the last steps of jobs are in no fingerprint, and go to other nodes as text."""
        for (answer,) in self._db.execute("SELECT answer FROM steps"):
            try:
                msgspec.json.decode(answer)
            except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
                raise self._damaged("the answer to a step of a job is not as written") from None

    def _last_record(self, meta: dict[str, str]) -> tuple[Position, str]:
        """Position and fingerprint of the last commit, or of the whole configuration that none has followed."""
        row = self._db.execute(
            "SELECT epoch, serial, digest FROM commits ORDER BY epoch DESC, serial DESC LIMIT 1"
        ).fetchone()
        if row is not None:
            return (row[0], row[1]), row[2]
        _, published = msgspec.json.decode(meta["published"], type=tuple[Position, list[str]])
        return msgspec.json.decode(meta["stream_start"], type=Position), published[-1]

    def _damaged(self, how: str) -> ReplicaFaultError:
        return ReplicaFaultError(DAMAGED, f"The configuration database {self._path} is damaged: {how}")

    def _write(self, commit: Commit) -> None:
        """A step that comes again, because its answer was lost, is the same one."""
        super()._write(replace(commit, step=None))
        if commit.step is not None:
            self._put_step(commit.step)

    def _put_step(self, step: StepAnswer) -> None:
        row = (step.job, step.attempt, step.step, step.settles, step.lock_file, step.answer)
        self._db.execute("INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?)", row)

    def _set_membership(self, membership: Membership | None) -> None:
        if membership is not None:
            text = msgspec.json.encode(membership).decode()
            self._db.executemany(_SET_META, [(_MEMBERSHIP, text), (_SUM, _sum_of(text))])


def _sum_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def fault_of(err: Exception, path: str) -> ReplicaFaultError:
    """What an error of the database means for a copy."""
    if isinstance(err, ReplicaFaultError):
        return err
    cause = err if isinstance(err, sqlite3.Error) else err.__cause__
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        if is_corrupt(cause) or code == _NOT_OUR_TABLES or _NO_TEXT in str(cause):
            return ReplicaFaultError(DAMAGED, f"The configuration database {path} is damaged: {cause}")
        return ReplicaFaultError(DISK, f"The configuration database {path} cannot be used: {cause}")
    if isinstance(err, OSError) or isinstance(cause, OSError):
        return ReplicaFaultError(DISK, f"The configuration database {path} cannot be used: {err}")
    if isinstance(err, ConfigurationError) and "has layout" in err.message:
        return ReplicaFaultError(SOFTWARE, err.message)
    said = str(err) if isinstance(err, ConfigurationError) else f"{type(err).__name__}: {err}"
    return ReplicaFaultError(DAMAGED, f"The configuration database {path} is damaged: {said}")


def glance(path: str, node_name: str) -> Marks:
    """Whose copy it is; raises `ReplicaFaultError`."""
    if not os.path.exists(path):
        return Marks()
    try:
        with closing(ReplicaStore.for_reading(path)) as store:
            return store.read_marks(node_name)
    except sqlite3.OperationalError as err:
        if "no such table" in str(err):
            return Marks()
        raise fault_of(err, path) from err
    except Exception as err:
        raise fault_of(err, path) from err


def examine(path: str) -> Content:
    """Read the whole database from the disk, beside the process that has it open; raises `ReplicaFaultError`."""
    if not os.path.exists(path):
        _refuse_lost(path)
        return Content()
    try:
        with closing(ReplicaStore.for_reading(path)) as store:
            if not store.has_older_layout:
                content = store.read_content(decoded=False)
            else:
                store.close()
                with closing(ReplicaStore(path)) as brought_up:
                    content = brought_up.read_content(decoded=False)
    except sqlite3.OperationalError as err:
        if "no such table" not in str(err):
            raise fault_of(err, path) from err
        content = Content()
    except Exception as err:
        raise fault_of(err, path) from err
    if content.position is None:
        _refuse_lost(path)
    return content


def open_store(path: str) -> tuple[ReplicaStore, Content]:
    """Open or create the database for writing, and read it; raises `ReplicaFaultError`."""
    try:
        if not os.path.exists(path):
            _set_aside(path, "-wal", "-shm")
        store = ReplicaStore(path)
        try:
            content = store.read_content(decoded=True)
            if content.position is None:
                _refuse_lost(path)
        except BaseException:
            store.close()
            raise
    except Exception as err:
        raise fault_of(err, path) from err
    return store, content


def make_anew(path: str) -> ReplicaStore:
    """Keep a damaged database beside, and begin an empty one; raises `ReplicaFaultError`."""
    try:
        _set_aside(path, "", "-wal", "-shm")
        return ReplicaStore(path)
    except Exception as err:
        raise fault_of(err, path) from err


def damaged_path(path: str) -> str:
    return f"{path}.damaged"


def _refuse_lost(path: str) -> None:
    if os.path.exists(damaged_path(path)):
        raise ReplicaFaultError(
            DAMAGED, f"The configuration database {path} was damaged, and no copy of the master's has replaced it yet"
        )


def _set_aside(path: str, *suffixes: str) -> None:
    """The database first: without it, what is left of its log is nobody's."""
    for suffix in suffixes:
        if os.path.exists(path + suffix):
            os.replace(path + suffix, damaged_path(path) + suffix)
    sync_directory(os.path.dirname(path))

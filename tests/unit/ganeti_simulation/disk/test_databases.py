# SPDX-License-Identifier: BSD-2-Clause
"""SQLite on a simulated disk: whose snapshots, locks, losses and faults are those of SQLite on a real one."""

import errno
import os
import sqlite3
from random import Random

import pytest

from ganeti_simulation.disk.databases import Databases, _memory, _prefix, facade
from ganeti_simulation.disk.disk import Disk
from ganeti_simulation.disk.preparing import make_directories, put_file
from ganeti_simulation.disk.rot import flip_some_bit

PATH = "/var/lib/ganeti/config.db"


class PowerCutError(BaseException):
    """The process is gone."""


@pytest.fixture
def disk():
    disk = Disk()
    make_directories(disk, "/var/lib/ganeti")
    disk.sync_all()
    return disk


@pytest.fixture
def databases():
    databases = Databases()
    yield databases
    databases.close()


@pytest.fixture
def writer(databases, disk):
    writer = databases.connect(disk, PATH, isolation_level=None, check_same_thread=False)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA synchronous = FULL")
    writer.executescript("BEGIN IMMEDIATE; CREATE TABLE t (a INTEGER); PRAGMA user_version = 2; COMMIT;")
    return writer


def add(connection, *values):
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
    connection.execute("COMMIT")


def rows(connection):
    return [row[0] for row in connection.execute("SELECT a FROM t ORDER BY a")]


def reader_of(databases, disk, path=PATH):
    return databases.connect(disk, f"file:{path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)


def test_what_is_committed_is_read_by_others(databases, disk, writer):
    add(writer, 1, 2)
    reader = reader_of(databases, disk)
    assert rows(reader) == [1, 2]
    assert reader.execute("PRAGMA user_version").fetchone() == (2,)
    assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert writer.execute("PRAGMA quick_check").fetchone() == ("ok",)
    writer.execute("PRAGMA wal_autocheckpoint = 100")
    writer.execute("PRAGMA wal_checkpoint(PASSIVE)")
    assert rows(reader) == [1, 2]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("INSERT INTO t VALUES (3)")


def test_a_reader_sees_one_state_and_keeps_nobody_waiting(databases, disk, writer):
    add(writer, 1)
    reader = reader_of(databases, disk)
    reader.execute("BEGIN")
    assert rows(reader) == [1]
    add(writer, 2)
    assert rows(reader) == [1]
    reader.execute("ROLLBACK")
    assert rows(reader) == [1, 2]


def test_a_second_writer_is_told_so(databases, disk, writer):
    other = databases.connect(disk, PATH, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        other.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO t VALUES (1)")
    writer.close()  # as the kernel does for a process that is killed
    other.execute("BEGIN IMMEDIATE")
    assert rows(other) == []


def test_a_second_writer_waits_as_long_as_it_wants(disk):
    slept = []

    def sleep(delay_s):
        slept.append(delay_s)
        if sum(slept) > 2:
            first.execute("COMMIT")

    databases = Databases(sleep=sleep)
    first = databases.connect(disk, PATH, isolation_level=None)
    impatient = databases.connect(disk, PATH, isolation_level=None, timeout=0.5)
    first.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        impatient.execute("BEGIN IMMEDIATE")
    assert 0.5 <= sum(slept) < 0.7
    slept.clear()
    second = databases.connect(disk, PATH, isolation_level=None)
    second.execute("BEGIN IMMEDIATE")
    assert 2 < sum(slept) < 2.2
    databases.close()


def test_what_commit_has_returned_from_survives(databases, disk, writer):
    add(writer, 1)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO t VALUES (2)")
    disk.power_loss()
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        writer.execute("COMMIT")
    writer.close()
    assert rows(databases.connect(disk, PATH)) == [1]


@pytest.mark.parametrize(("hook", "found"), [("before_commit", []), ("after_commit", [1])])
@pytest.mark.parametrize("random", [None, Random(5)])
def test_a_commit_that_is_cut_short_is_all_or_nothing(databases, disk, writer, hook, found, random):
    def cut(where, path):
        assert (where, path) == (disk, PATH)
        setattr(databases, hook, None)
        disk.power_loss(random)
        raise PowerCutError

    setattr(databases, hook, cut)
    with pytest.raises(PowerCutError):
        add(writer, 1)
    assert rows(databases.connect(disk, PATH)) == found


def test_time_may_pass_before_the_commit(databases, disk, writer):
    reader = reader_of(databases, disk)
    seen = []
    databases.before_commit = lambda *_: seen.append(rows(reader))
    databases.after_commit = lambda *_: seen.append(rows(reader))
    add(writer, 1)
    assert seen == [[], [1]]


def test_every_way_to_commit_is_one(databases, disk, writer):
    told = []
    databases.after_commit = lambda *_: told.append(True)
    writer.execute("INSERT INTO t VALUES (1)")
    with databases.connect(disk, PATH) as other:
        other.execute("INSERT INTO t VALUES (2)")
        assert told == [True]
    assert told == [True, True]
    other.execute("DELETE FROM t")
    other.rollback()
    other.cursor().executescript("INSERT INTO t VALUES (3); INSERT INTO t VALUES (4)")
    assert len(told) == 3
    assert rows(writer) == [1, 2, 3, 4]


def test_the_file_is_there_and_changes(databases, disk, writer):
    sizes = []
    for time_s in (10, 20):
        disk.time_s = time_s
        add(writer, *range(2000))
        status = disk.stat(PATH)
        assert status.st_mtime == time_s
        sizes.append(status.st_size)
    assert sizes[0] < sizes[1] == len(disk.content(PATH))
    assert disk.content(PATH).startswith(b"SQLite format 3\0")


def test_a_file_whose_damage_sqlite_cannot_put_into_text_is_there_too(databases, disk, writer):
    """Seed 3137 with 7 nodes: the sentence of the error quoted what was no UTF-8."""
    sound = disk.content(PATH)
    rotten = sound.replace(b"CREATE TABLE t (a INTEGER)", b"CREATE TABLE t \xc5a INTEGER)")
    assert rotten != sound
    put_file(disk, "/rotten.db", rotten)
    with pytest.raises((sqlite3.DatabaseError, UnicodeDecodeError)):
        databases.connect(disk, "/rotten.db").execute("SELECT a FROM t")
    disk.find("/rotten.db")[2].source.is_stale = True
    assert disk.stat("/rotten.db").st_size == len(rotten)
    assert disk.content("/rotten.db") == rotten


def test_a_copied_file_holds_the_same(databases, disk, writer):
    add(writer, 1)
    put_file(disk, "/copy", disk.content(PATH))
    add(writer, 2)
    copied = disk.clone()
    assert rows(databases.connect(disk, "/copy")) == [1]
    assert rows(databases.connect(copied, PATH)) == [1, 2]
    disk.rename(PATH, "/var/lib/ganeti/config.db.damaged")
    add(writer, 3)
    assert rows(reader_of(databases, disk, "/var/lib/ganeti/config.db.damaged")) == [1, 2, 3]
    fresh = databases.connect(disk, PATH)
    assert fresh.execute("PRAGMA user_version").fetchone() == (0,)


def test_missing_files_are_refused_as_sqlite_does(databases, disk):
    disk.mkdir("/directory")
    for path in ("/none.db", "/none/x.db", "/directory"):
        with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
            reader_of(databases, disk, path)
    with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
        databases.connect(disk, "/none/x.db")
    databases.connect(disk, "/new.db").close()
    assert disk.stat("/new.db").st_size == 0


def test_a_quoted_path_is_meant(databases, disk):
    put_file(disk, "/var/100%?#", b"")
    reader_of(databases, disk, "/var/100%25%3f%23").close()


def test_a_full_disk_refuses_and_keeps_what_was(databases, disk, writer):
    add(writer, 1)
    disk.capacity_bytes = sum(inode.blocks() for inode in disk.inodes()) * 4096
    with pytest.raises(sqlite3.OperationalError, match="database or disk is full"):
        add(writer, *range(5000))
    writer.execute("ROLLBACK")
    assert rows(writer) == [1]
    disk.capacity_bytes += 1 << 20
    add(writer, 2)
    assert rows(writer) == [1, 2]


def test_a_failing_disk_is_told(databases, disk, writer):
    add(writer, 1)
    disk.faults.fail("fsync", errno.EIO, path_prefix=PATH)
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error") as caught:
        add(writer, 2)
    assert caught.value.sqlite_errorcode == sqlite3.SQLITE_IOERR
    writer.execute("ROLLBACK")
    disk.faults.fail("read", errno.EIO)
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        rows(writer)
    assert rows(writer) == [1]


def test_rot_is_told(databases, disk, writer):
    add(writer, *range(10000))
    random = Random(1)
    for _ in range(2000):
        flip_some_bit(disk, PATH, random)
    with pytest.raises(sqlite3.DatabaseError) as caught:
        writer.execute("SELECT 1 FROM t").fetchall()
    assert caught.value.sqlite_errorcode == sqlite3.SQLITE_CORRUPT
    with pytest.raises(sqlite3.DatabaseError):
        found = databases.connect(disk, PATH).execute("PRAGMA quick_check").fetchall()
        assert found != [("ok",)]
        raise sqlite3.DatabaseError  # told in one of the two ways
    put_file(disk, "/nonsense.db", b"nonsense" * 1000)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        databases.connect(disk, "/nonsense.db").execute("PRAGMA user_version")


def test_the_name_is_durable_with_the_first_commit(databases, disk):
    writer = databases.connect(disk, PATH, isolation_level=None)
    copy = disk.clone()
    copy.power_loss()
    assert not copy.exists(PATH)
    writer.execute("CREATE TABLE t (a)")
    disk.power_loss()
    assert disk.exists(PATH)


def test_nothing_is_left_behind(disk):
    databases = Databases()
    connection = databases.connect(disk, PATH, isolation_level=None)
    connection.execute("CREATE TABLE t (a)")
    (place,) = {os.path.dirname(row[2]) for row in connection.execute("PRAGMA database_list")}
    databases.close()
    assert not os.path.exists(place)
    assert b"CREATE TABLE t" in disk.content(PATH)
    connection.close()


def test_what_killed_processes_left_behind_is_removed(disk, monkeypatch, tmp_path):
    monkeypatch.setattr("ganeti_simulation.disk.databases._MEMORY", str(tmp_path))
    _memory.cache_clear()
    for pid in (os.getpid(), 2**22 + 1):  # no process has a number above 2**22
        (tmp_path / f"{_prefix()}{pid}-x").mkdir()
        (tmp_path / f"{_prefix()}{pid}-x" / "1").write_bytes(b"")
    databases = Databases()
    databases.connect(disk, PATH).close()
    databases.close()
    _memory.cache_clear()
    assert [path.name for path in tmp_path.iterdir()] == [f"{_prefix()}{os.getpid()}-x"]


def test_the_facade_is_sqlite_but_for_connect(databases, disk):
    module = facade(lambda path, **arguments: databases.connect(disk, path, **arguments))
    assert module.OperationalError is sqlite3.OperationalError
    connection = module.connect(PATH)
    assert isinstance(connection, module.Connection)
    assert disk.exists(PATH)

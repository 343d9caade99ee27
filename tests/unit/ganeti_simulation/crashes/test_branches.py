# SPDX-License-Identifier: BSD-2-Clause
"""What a fork does to the databases it shares is not there afterwards, whatever it was."""

import os
import sqlite3
from pathlib import Path

import pytest

from ganeti_simulation.crashes.branches import _Files


@pytest.fixture
def database(tmp_path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(tmp_path / "1", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE numbers (number)")
    connection.execute("INSERT INTO numbers VALUES (1)")
    return connection


def numbers(connection: sqlite3.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT number FROM numbers ORDER BY number")]


def in_a_fork(work) -> None:
    pid = os.fork()
    if not pid:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_fork_writes_and_closes_and_nobody_knows(tmp_path, database):
    def work():
        database.execute("INSERT INTO numbers VALUES (2)")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()  # the last one: the log goes
        assert not (tmp_path / "1-wal").exists()
        other = sqlite3.connect(tmp_path / "1", isolation_level=None)
        other.execute("INSERT INTO numbers VALUES (3)")
        assert numbers(other) == [1, 2, 3]
        sqlite3.connect(tmp_path / "2").execute("CREATE TABLE t (t)")

    for _ in range(2):
        files = _Files(str(tmp_path))
        in_a_fork(work)
        files.put_back()
        assert numbers(database) == [1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "1-shm", "1-wal", "kept"]
    database.execute("INSERT INTO numbers VALUES (4)")
    assert numbers(sqlite3.connect(tmp_path / "1")) == numbers(database) == [1, 4]


def test_a_transaction_goes_on_after_a_fork_has_ended_it(tmp_path, database):
    reader = sqlite3.connect(tmp_path / "1", isolation_level=None)
    reader.execute("BEGIN")
    assert numbers(reader) == [1]
    database.execute("BEGIN IMMEDIATE")
    database.execute("INSERT INTO numbers VALUES (2)")
    files = _Files(str(tmp_path))

    def work():
        database.execute("COMMIT")
        assert (numbers(reader), numbers(database)) == ([1], [1, 2])
        reader.execute("ROLLBACK")
        assert numbers(reader) == [1, 2]

    in_a_fork(work)
    files.put_back()
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        sqlite3.connect(tmp_path / "1", 0, isolation_level=None).execute("BEGIN IMMEDIATE")
    database.execute("ROLLBACK")
    assert (numbers(reader), numbers(database)) == ([1], [1])

# SPDX-License-Identifier: BSD-2-Clause
"""The database's write-ahead log does not stay as long as it once was."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.wconfd import GOLDEN, fast_directory

from ganeti.master.config.importing import read_foreign
from ganeti.master.config.records import Commit, Put, make_put
from ganeti.stores.config_store import LOG_LIMIT_BYTES, SqliteStore
from ganeti.stores.config_view import ConfigReader

INSTANCE = "00000040-0000-4000-8000-000000000040"


@pytest.fixture
def path() -> Iterator[str]:
    with fast_directory() as directory:
        yield str(directory / "config.sqlite")


@pytest.fixture
def store(path: str) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    store.commit([read_foreign(GOLDEN.read_bytes(), "filehash", None, 5.0).commit])
    yield store
    store.close()


def many_instances(store: SqliteStore, count: int) -> tuple[Put, ...]:
    loaded = store.load()
    assert loaded is not None
    instance = loaded.config.instance(INSTANCE)
    return tuple(make_put("instances", f"{INSTANCE}-{number}", instance) for number in range(count))


def test_the_log_stays_short(path: str, store: SqliteStore) -> None:
    """After many commits and after one of everything: what it once needed it does not keep."""
    log = Path(f"{path}-wal")
    loaded = store.load()
    assert loaded is not None
    for serial in range(43, 343):
        puts = many_instances(store, 8)
        store.commit([Commit((1, serial), 6.0, puts)])
        if store.wants_maintenance:
            store.maintain()
    assert log.stat().st_size < LOG_LIMIT_BYTES
    everything = Commit((1, 400), 7.0, many_instances(store, 9000), whole=True, header=loaded.config.header)
    store.commit([everything])
    assert log.stat().st_size > LOG_LIMIT_BYTES
    assert store.wants_maintenance
    store.maintain()
    assert log.stat().st_size < LOG_LIMIT_BYTES


def test_a_reader_keeps_the_log_for_a_while_only(path: str, store: SqliteStore) -> None:
    """Nobody waits for the reader meanwhile."""
    log = Path(f"{path}-wal")
    many = many_instances(store, 2000)
    with ConfigReader(path).view():
        store.commit([Commit((1, 43), 7.0, many)])
        for serial in range(44, 48):
            store.commit([Commit((1, serial), 7.0, many)])
        began_s = time.monotonic()
        store.maintain()
        assert time.monotonic() - began_s < 1
        assert log.stat().st_size > LOG_LIMIT_BYTES
    assert store.wants_maintenance
    store.maintain()
    assert log.stat().st_size < LOG_LIMIT_BYTES

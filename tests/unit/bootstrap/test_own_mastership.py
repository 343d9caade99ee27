# SPDX-License-Identifier: BSD-2-Clause
"""Who is the master by the files of one node: in the middle of a change of the master, and with files lost."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.bootstrap.own_mastership import OwnMastership, is_master, read_own_mastership, why_not_master

UUIDS = {f"node{number}.example.com": f"uuid-{number}" for number in (1, 2, 3)}
ONE, TWO, THREE = UUIDS


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "var/lib/ganeti").mkdir(parents=True)
    return Paths(str(tmp_path))


def write_copy(paths: Paths, master: str, epoch: int) -> None:
    with closing(sqlite3.connect(paths.config_database)) as database, database:
        database.execute("CREATE TABLE objects (id INTEGER PRIMARY KEY, kind TEXT, uuid TEXT, data BLOB)")
        database.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        database.execute("INSERT INTO meta VALUES ('epoch', ?)", (str(epoch),))
        cluster = json.dumps({"master_node": UUIDS[master]}).encode()
        database.execute("INSERT INTO objects (kind, uuid, data) VALUES ('cluster', 'cluster', ?)", (cluster,))
        for name, uuid in UUIDS.items():
            data = json.dumps({"name": name}).encode()
            database.execute("INSERT INTO objects (kind, uuid, data) VALUES ('nodes', ?, ?)", (uuid, data))


def write_promise(paths: Paths, epoch: int, holder: str | None) -> None:
    plain = {"epoch": epoch, "attempts": {}, "holder": None if holder is None else UUIDS[holder]}
    Path(paths.epoch_file).write_text(json.dumps(plain))


def name(paths: Paths, master: str) -> None:
    Path(paths.ssconf_file("master_node")).write_text(f"{master}\n")


def seen_by(paths: Paths, node: str) -> OwnMastership:
    return read_own_mastership(paths, node)


def test_a_machine_in_no_cluster_knows_nothing(paths: Paths) -> None:
    own = seen_by(paths, ONE)
    assert own == OwnMastership()
    assert not own.serves_here and not own.is_unfinished and own.master == ""


def test_the_master_and_another_candidate(paths: Paths) -> None:
    write_copy(paths, ONE, 3)
    write_promise(paths, 3, ONE)
    name(paths, ONE)
    assert seen_by(paths, ONE).serves_here and seen_by(paths, "node1").serves_here
    assert not seen_by(paths, TWO).serves_here and seen_by(paths, TWO).master == ONE


def test_promised_but_not_begun(paths: Paths) -> None:
    """All three have promised node2: it is to go on, and the others send users to it."""
    write_copy(paths, ONE, 3)
    write_promise(paths, 4, TWO)
    name(paths, ONE)
    assert seen_by(paths, TWO).is_unfinished
    assert "run daemon-util start-master" in why_not_master(paths, TWO, ONE)
    assert why_not_master(paths, THREE, ONE).endswith(f"that is {TWO}")
    for node in (ONE, THREE):
        own = seen_by(paths, node)
        assert not own.serves_here and not own.is_unfinished and own.master == TWO


def test_begun_but_not_published(paths: Paths) -> None:
    write_copy(paths, TWO, 4)
    write_promise(paths, 4, TWO)
    name(paths, ONE)
    own = seen_by(paths, TWO)
    assert own.serves_here and not own.is_unfinished
    assert is_master(paths, TWO)
    assert Path(paths.ssconf_file("master_node")).read_text() == f"{ONE}\n", "what ssconf says is WConfD's to write"


def test_a_master_that_asked_for_its_candidates_back_is_the_master(paths: Paths) -> None:
    write_copy(paths, ONE, 3)
    write_promise(paths, 4, ONE)
    own = seen_by(paths, ONE)
    assert own.serves_here and not own.is_unfinished


def test_a_call_of_a_later_epoch_says_that_somebody_else_is_the_master(paths: Paths) -> None:
    """Of a job, which does not say whose: ssconf alone can name the node."""
    write_copy(paths, ONE, 3)
    write_promise(paths, 4, None)
    name(paths, TWO)
    own = seen_by(paths, ONE)
    assert not own.serves_here and not own.is_unfinished and own.master == TWO
    Path(paths.ssconf_file("master_node")).unlink()
    assert seen_by(paths, ONE).master == ""


@pytest.mark.parametrize("left", [None, "", "\n"])
def test_a_lost_name_is_written_again_on_the_master_only(paths: Paths, left: str | None) -> None:
    write_copy(paths, ONE, 3)
    write_promise(paths, 3, ONE)
    file = Path(paths.ssconf_file("master_node"))
    if left is not None:
        file.write_text(left)
    assert not is_master(paths, TWO)
    assert not file.exists() or file.read_text() == left
    assert is_master(paths, ONE)
    assert file.read_text() == f"{ONE}\n" and file.stat().st_mode & 0o777 == 0o444


def test_config_data_alone_is_enough(paths: Paths) -> None:
    config = {
        "cluster": {"master_node": UUIDS[ONE]},
        "nodes": {uuid: {"name": name} for name, uuid in UUIDS.items()},
    }
    Path(paths.config_file).write_text(json.dumps(config))
    assert is_master(paths, ONE) and not is_master(paths, TWO)


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(5000)])
def test_what_cannot_be_read_tells_nothing(paths: Paths, content: bytes) -> None:
    for path in (paths.config_database, paths.config_file, paths.epoch_file):
        Path(path).write_bytes(content)
    name(paths, ONE)
    own = seen_by(paths, ONE)
    assert own.master == ONE and not own.is_unfinished

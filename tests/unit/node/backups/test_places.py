# SPDX-License-Identifier: BSD-2-Clause
"""The file that says where backups are kept: what it may name, and who may read it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.node.backups.directory import BackupDirectory
from ganeti.node.backups.object_store import BackupObjects
from ganeti.node.backups.places import store_of

KEYS = {"access_key": "one", "secret_key": "two"}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "etc/ganeti").mkdir(parents=True)
    return Paths(str(tmp_path))


def say(paths: Paths, place: Any, mode: int = 0o600) -> None:
    path = Path(paths.backup_store_file)
    path.write_text(place if isinstance(place, str) else json.dumps(place))
    path.chmod(mode)


def test_without_the_file_it_is_the_usual_directory(paths: Paths) -> None:
    store = store_of(paths)
    assert type(store) is BackupDirectory and store.top == paths.backup_dir


def test_a_directory_must_be_there(paths: Paths) -> None:
    say(paths, {"store": "/mnt/backups"})
    with pytest.raises(
        BlockDeviceError, match=r"/mnt/backups, which is for backups, is not there: make it, or mount it"
    ):
        store_of(paths)
    os.makedirs(paths.under("/mnt/backups"))
    say(paths, {"store": "/mnt/backups", "mount_point": ""})
    store = store_of(paths)
    assert type(store) is BackupDirectory and store.top == paths.under("/mnt/backups")


def test_the_directory_below_a_mount_that_is_gone_is_refused(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    os.makedirs(paths.under("/mnt/backups/ganeti"))
    mounted: list[str] = []
    monkeypatch.setattr(os.path, "ismount", mounted.__contains__)
    for place, point in (
        ({"store": "/mnt/backups"}, "/mnt/backups"),
        ({"store": "/mnt/backups/ganeti", "mount_point": "/mnt/backups"}, "/mnt/backups"),
        ({"store": "/mnt/backups/ganeti"}, "/mnt/backups/ganeti"),
    ):
        say(paths, place)
        mounted.clear()
        with pytest.raises(BlockDeviceError, match=f"No file system is mounted at .*{point}, which .*: mount it"):
            store_of(paths)
        mounted.append(os.path.realpath(paths.under(point)))
        assert isinstance(store_of(paths), BackupDirectory)
    say(paths, {"store": "/mnt/backups", "mount_point": "/mnt/other"})
    with pytest.raises(BlockDeviceError, match=r"does not lie below .*/mnt/other: correct mount_point"):
        store_of(paths)


def test_a_bucket_is_asked_for_nothing_yet(paths: Paths) -> None:
    for store in ("s3://kept", "s3://kept/of-us/all"):
        say(paths, {"store": store, "endpoint": "http://127.0.0.1:1", **KEYS})
        found = store_of(paths)
        assert isinstance(found, BackupObjects)
        with pytest.raises(
            BlockDeviceError, match=r"The store s3://kept.* of http://127\.0\.0\.1:1 refuses or does not"
        ):
            found.listed()


@pytest.mark.parametrize(
    "store",
    [
        *("", "backups", "/", "//", "/mnt/../etc", "/etc/backups", "/var/lib/ganeti", "/usr"),
        *("s3://", "s3://UPPER", "s3://a", "s3://kept/../b", "s3://kept//a", "s3:kept", "s3://kept/a b"),
    ],
)
def test_other_places_are_refused(paths: Paths, store: str) -> None:
    say(paths, {"store": store, **KEYS})
    with pytest.raises(BlockDeviceError, match=r"Backups cannot be kept in|is no place for backups"):
        store_of(paths)


def test_a_store_is_called_the_same_however_it_is_written(paths: Paths) -> None:
    names = set[str]()
    for ending in ("", "/"):
        say(paths, {"store": f"s3://kept/all{ending}", "endpoint": f"http://127.0.0.1:1{ending}", **KEYS})
        with pytest.raises(BlockDeviceError, match=r"The store s3://kept/all of http://127\.0\.0\.1:1 ref") as refused:
            store_of(paths).listed()
        names.add(str(refused.value).partition(" refuses")[0])
    assert len(names) == 1


@pytest.mark.parametrize(
    ("place", "mode", "words"),
    [
        ({"store": "/mnt"}, 0o640, "only root may read it: chmod 600"),
        ({"store": "s3://kept"}, 0o600, "has no access_key or no secret_key"),
        ({"store": "/mnt", "secret": "x"}, 0o600, "cannot be used: Object contains unknown field `secret`"),
        ("{", 0o600, "cannot be used: Input data was truncated"),
        ("[]", 0o600, "cannot be used: Expected `object`"),
    ],
)
def test_a_file_that_cannot_be_used_keeps_nothing_elsewhere(paths: Paths, place: Any, mode: int, words: str) -> None:
    say(paths, place, mode)
    with pytest.raises(BlockDeviceError, match=words):
        store_of(paths)

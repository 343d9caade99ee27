# SPDX-License-Identifier: BSD-2-Clause
"""Files written together are taken back together, as they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.fakes.pretend_machine import tree

from ganeti.bootstrap.file_set import FileSet


def test_everything_is_taken_back(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("before")
    (tmp_path / "old").chmod(0o604)
    before = tree(tmp_path)
    files = FileSet()
    files.put(f"{tmp_path}/old", "after", 0o640)
    files.put(f"{tmp_path}/old", "after that", 0o600)
    files.put(f"{tmp_path}/a/b/new", b"\x00", 0o400)
    files.directory(f"{tmp_path}/c/d", 0o750)
    assert (tmp_path / "c/d").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "a/b/new").stat().st_mode & 0o777 == 0o400
    (tmp_path / "c/d/made-by-others").write_text("stays")
    files.take_back()
    (tmp_path / "c/d/made-by-others").unlink()
    (tmp_path / "c/d").rmdir()
    (tmp_path / "c").rmdir()
    assert tree(tmp_path) == before


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        FileSet().put(str(path), "after", 0o600)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "before"


def test_what_is_not_durable_is_synced_while_something_else_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file once, after that their directories; one that was removed meanwhile needs none."""
    synced: list[str] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    files = FileSet()
    for name in ("one", "a/two", "gone"):
        files.put(f"{tmp_path}/{name}", "text", 0o600, durable=False)
    (tmp_path / "gone").unlink()
    assert not synced
    with files.syncing():
        pass
    assert sorted(synced[:2]) == [f"{tmp_path}/a/two", f"{tmp_path}/one"]
    assert sorted(synced[2:]) == [f"{tmp_path}", f"{tmp_path}/a"]
    with files.syncing():
        pass
    assert len(synced) == 4


def test_a_disk_that_fails_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FileSet()
    files.put(f"{tmp_path}/one", "text", 0o600, durable=False)

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"), files.syncing():
        pass

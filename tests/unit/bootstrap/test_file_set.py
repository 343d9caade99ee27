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

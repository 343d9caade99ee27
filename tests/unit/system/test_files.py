# SPDX-License-Identifier: BSD-2-Clause
"""Atomic replacement: the old file or the new one, never anything between, nothing left over."""

import os

import pytest

from ganeti.system.files import read_if_there, write_atomically


def test_a_file_is_replaced_with_its_mode(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    write_atomically(str(path), b"new", mode=0o444)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o444
    assert os.listdir(tmp_path) == ["file"]


def test_a_reader_keeps_the_old_content(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write_atomically(str(path), b"new", durable=False)
        assert reader.read() == b"old"


def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_content_is_synced_before_the_name_and_the_directory_after(tmp_path, monkeypatch):
    story = []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(
        os, "fsync", lambda fd: (story.append("dir" if os.path.isdir(f"/proc/self/fd/{fd}") else "file"), fsync(fd))
    )
    monkeypatch.setattr(os, "rename", lambda old, new: (story.append("rename"), rename(old, new)))
    write_atomically(str(tmp_path / "file"), b"new")
    assert story == ["file", "rename", "dir"]


def test_a_missing_file_is_none(tmp_path):
    assert read_if_there(str(tmp_path / "nothing")) is None

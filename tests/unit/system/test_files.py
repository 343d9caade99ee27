# SPDX-License-Identifier: BSD-2-Clause
"""Atomic replacement: the old file or the new one, never anything between, nothing left over."""

import os
import socket
import subprocess
from functools import partial

import pytest

from ganeti.system.files import (
    check_plain,
    exchange,
    open_among_others,
    plain_file,
    read_if_there,
    single_digit,
    take_number,
    write_atomically,
    write_over,
)


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
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        write_atomically(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_that_cannot_be_made_is_named_and_not_the_one_beside_it(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(f"{tmp_path}/nothing/file", b"new")
    assert caught.value.filename == f"{tmp_path}/nothing/file"


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


def test_dash_writes_to_a_descriptor_above_9() -> None:
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(10)]
    size = os.memfd_create("size")
    number = single_digit(size)
    assert number <= 9 < size
    before = os.fstat(number)
    try:
        subprocess.run(
            ["dash", "-c", "echo 4711 >&$SIZE_FD"],
            env={"PATH": os.environ["PATH"], "SIZE_FD": str(number)},
            pass_fds=(number,),
            preexec_fn=partial(take_number, size),
            check=True,
        )
        assert os.pread(size, 64, 0) == b"4711\n"
        assert os.fstat(number).st_ino == before.st_ino, "the parent keeps its own"
    finally:
        for descriptor in (*held, size):
            os.close(descriptor)


def test_two_directories_exchange_their_names(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert exchange(str(tmp_path / "one"), str(tmp_path / "other"))
    assert (tmp_path / "one" / "other").exists() and (tmp_path / "other" / "one").exists()
    with pytest.raises(FileNotFoundError):
        exchange(str(tmp_path / "one"), str(tmp_path / "nowhere"))


def test_a_file_is_written_over_in_place(tmp_path):
    path = tmp_path / "serial"
    write_over(str(path), b"12345\n", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    inode = path.stat().st_ino
    for data in (b"12346\n", b"7\n"):
        write_over(str(path), data, mode=0o600)
        assert (path.read_bytes(), path.stat().st_ino) == (data, inode)
    assert os.listdir(tmp_path) == ["serial"]


def test_what_is_no_file_keeps_nobody_waiting(tmp_path):
    """Neither a reader nor a writer: each is told what is there, and to move it away."""
    os.mkfifo(tmp_path / "fifo")
    os.mkdir(tmp_path / "directory")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"{tmp_path}/socket")
    kinds = {"fifo": "a FIFO", "directory": "a directory", "socket": "a socket"}
    ways = [
        read_if_there,
        check_plain,
        lambda path: write_over(path, b"new"),
        lambda path: plain_file(path, os.O_RDWR),
        lambda path: open_among_others(path, os.O_WRONLY | os.O_APPEND, 0o600),
    ]
    for name, kind in kinds.items():
        for way in ways:
            with pytest.raises(OSError) as caught:
                way(f"{tmp_path}/{name}")
            assert caught.value.filename == f"{tmp_path}/{name}"
            wanted = f"It is {kind}, not a file: move it away"
            assert caught.value.strerror in (wanted, "Is a directory"), (name, caught.value)
    check_plain(f"{tmp_path}/nothing")
    with pytest.raises(OSError, match="It is a device"):
        plain_file("/dev/null", os.O_RDONLY)

# SPDX-License-Identifier: BSD-2-Clause
"""Queue files on a candidate: as they are on the master, or as they were, and in one place at least."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.paths import Paths
from ganeti.noded.replica_queue import ReplicaQueue, content_digest, is_replicated


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(str(tmp_path))
    Path(paths.data_dir).mkdir(parents=True)
    return paths


def names_in(paths: Paths) -> set[str]:
    return {name for name in os.listdir(paths.queue_dir) if name not in ("archive", "version")}


def test_files_come_change_and_go(paths: Paths) -> None:
    queue = ReplicaQueue(paths)
    queue.write({"job-3": "ä", "job-3.undo": "u", "drain": ""}, [], 3)
    assert names_in(paths) == {"job-3", "job-3.undo", "drain", "serial"}
    assert Path(paths.queue_dir, "job-3").read_text() == "ä"
    assert Path(paths.queue_dir, "serial").read_text() == "3\n"
    modes = {name: Path(paths.queue_dir, name).stat().st_mode & 0o777 for name in names_in(paths)}
    assert modes == {"job-3": 0o600, "job-3.undo": 0o600, "drain": 0o600, "serial": 0o600}
    assert queue.digests() == {
        "drain": content_digest(b""),
        "job-3": content_digest("ä".encode()),
        "job-3.undo": content_digest(b"u"),
    }
    queue.write({"job-3": "b", "job-3.undo": None, "drain": None, "job-9": None}, [], 4)
    assert queue.digests() == {"job-3": content_digest(b"b")}
    queue.write({"job-3": "c"}, [], 4)
    assert queue.digests() == {"job-3": content_digest(b"c")}


def test_a_file_that_comes_as_it_was_is_not_written_again(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ReplicaQueue(paths)
    queue.write({"job-3": "a", "job-3.undo": "u"}, [], 3)
    synced: list[str] = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda number: (synced.append(os.readlink(f"/proc/self/fd/{number}")), fsync(number))
    )
    queue.write({"job-3": "a", "job-3.undo": "v"}, [], 3)
    assert [os.path.basename(path) for path in synced] == [".job-3.undo.new", "queue"]
    assert Path(paths.queue_dir, "job-3.undo").read_text() == "v"


@pytest.mark.parametrize("other", ["b", "a"])
def test_a_file_that_somebody_else_has_written_is_written_again(paths: Paths, other: str) -> None:
    """This node was the master in between: what its daemons wrote may be an older state, and need not be synced."""
    queue = ReplicaQueue(paths)
    queue.write({"job-3": "a"}, [], 3)
    file = Path(paths.queue_dir, "job-3")
    fresh = Path(paths.queue_dir, "fresh")
    fresh.write_text(other)
    fresh.rename(file)
    inode = file.stat().st_ino
    queue.write({"job-3": "a"}, [], 3)
    assert file.read_text() == "a"
    assert file.stat().st_ino != inode


def test_what_was_removed_or_archived_may_come_back_as_it_was(paths: Paths) -> None:
    queue = ReplicaQueue(paths)
    queue.write({"job-3": "a", "job-3.undo": "u"}, [], 3)
    queue.write({"job-3.undo": None}, [3], 3)
    queue.write({"job-3": "a", "job-3.undo": "u"}, [], 3)
    assert names_in(paths) == {"job-3", "job-3.undo", "serial"}


def test_the_number_given_away_last_goes_up_only(paths: Paths) -> None:
    queue = ReplicaQueue(paths)
    for serial in (3, 5, 4, 0):
        queue.write({}, [], serial)
    assert Path(paths.queue_dir, "serial").read_text() == "5\n"


def test_a_file_that_a_killed_daemon_left_unfinished_is_no_obstacle(paths: Paths) -> None:
    queue = ReplicaQueue(paths)
    queue.write({"job-3": "a"}, [], 3)
    Path(paths.queue_dir, ".job-3.new").write_text("half")
    queue.write({"job-3": "b"}, [], 3)
    assert Path(paths.queue_dir, "job-3").read_text() == "b"
    assert names_in(paths) == {"job-3", "serial"}


def test_ended_jobs_move_to_the_archive_once(paths: Paths) -> None:
    queue = ReplicaQueue(paths)
    queue.write({"job-20001": "x", "job-3": "y"}, [], 20001)
    for _ in range(2):
        queue.write({}, [20001, 3, 77], 20001)
    assert names_in(paths) == {"serial"}
    assert Path(paths.queue_dir, "archive/2/job-20001").read_text() == "x"
    assert Path(paths.queue_dir, "archive/0/job-3").read_text() == "y"


def test_one_sync_of_the_directory_for_all_files_and_each_file_before_its_name(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = ReplicaQueue(paths)
    queue.write({"job-1": "a"}, [], 1)
    seen: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_sync(descriptor: int) -> None:
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        seen.append(f"sync {place.name}" if place.is_dir() else "file")
        fsync(descriptor)

    def note_name(*names: str) -> None:
        seen.append("name")
        rename(*names)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "rename", note_name)
    queue.write({"job-1": "b", "job-2": "c"}, [], 1)
    assert [what for what in seen if what != "file"] == ["name", "name", "sync queue"]
    assert seen[:2] == ["file", "file"]
    seen.clear()
    queue.write({}, [1], 1)
    assert [what for what in seen if what.startswith("sync")] == ["sync archive", "sync 0", "sync queue"]


def test_a_full_disk_leaves_every_file_as_it_was(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ReplicaQueue(paths)
    queue.write({"job-1": "a"}, [], 1)
    write, written = os.write, []

    def refuse_second(descriptor: int, data: Any) -> int:
        written.append(descriptor)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", refuse_second)
    with pytest.raises(OSError, match="No space left"):
        queue.write({"job-1": "b", "job-2": "c", "job-3": "d"}, [], 3)
    assert names_in(paths) == {"job-1", "serial"}
    assert Path(paths.queue_dir, "job-1").read_text() == "a"


def test_what_a_killed_daemon_left_half_written_goes(paths: Paths) -> None:
    ReplicaQueue(paths).write({"job-1": "a"}, [], 1)
    Path(paths.queue_dir, ".job-7.new").write_text("half")
    Path(paths.queue_dir, ".job-7.undo.new").write_text("half")
    ReplicaQueue(paths).write({"job-2": "b"}, [], 2)
    assert names_in(paths) == {"job-1", "job-2", "serial"}


@pytest.mark.parametrize("name", ["job-0", "job-07", "job-1.tmp", "serial", "../job-1", "job-1\n", "", "job-", "job-²"])
def test_other_names_are_not_replicated(name: str) -> None:
    assert not is_replicated(name)


@pytest.mark.parametrize("name", ["job-1", "job-123.undo", "drain"])
def test_these_names_are(name: str) -> None:
    assert is_replicated(name)

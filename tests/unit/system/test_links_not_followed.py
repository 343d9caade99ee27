# SPDX-License-Identifier: BSD-2-Clause
"""In directories where daemons of several users write, a link that one of them made leads root nowhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.daemons.watcher_lock import WatcherLock
from ganeti.node.actions.files import ssconf_lock
from ganeti.noded.world import RealNodeWorld
from ganeti.system.files import open_among_others, open_lock
from ganeti.system.flight_record import FlightRecord
from ganeti.system.logs import ReopeningHandler
from ganeti.system.pid_file import PidFile


def _open_log(place: Path) -> None:
    ReopeningHandler(str(place / "name.record"))


def _note(place: Path) -> None:
    FlightRecord(str(place), "name").note(["web1"], "a line")


def _hold_pid_file(place: Path) -> None:
    PidFile(str(place / "name.record"))


def _run_program(place: Path) -> None:
    world = RealNodeWorld(Paths(str(place)), "node1")
    asyncio.run(world.run(["echo", "a line"], log_path=str(place / "name.record")))


@pytest.mark.parametrize("write", [_open_log, _note, _hold_pid_file, _run_program])
def test_what_a_link_points_to_is_left_alone(write: Callable[[Path], None], tmp_path: Path) -> None:
    target, missing = tmp_path / "shadow", tmp_path / "not-there"
    target.write_text("root's")
    for pointed_to in (target, missing):
        (tmp_path / "name.record").symlink_to(pointed_to)
        with suppress(OSError, GanetiError):  # a record loses its line, without an error
            write(tmp_path)
        (tmp_path / "name.record").unlink()
    assert target.read_text() == "root's"
    assert not missing.exists()


def test_the_error_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to("/dev/null")
    with pytest.raises(OSError, match="is a symbolic link, which is not followed: remove it"):
        open_among_others(str(tmp_path / "log"), os.O_WRONLY, 0o600)


def test_a_file_is_made_with_its_mode_and_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for line in (b"one\n", b"two\n"):
        descriptor = open_among_others(str(path), os.O_WRONLY | os.O_APPEND, 0o600)
        os.write(descriptor, line)
        os.close(descriptor)
    assert path.read_text() == "one\ntwo\n"
    assert path.stat().st_mode & 0o777 == 0o600


def _link(path: Path) -> None:
    path.symlink_to(path.parent / "not-there")


def _full_directory(path: Path) -> None:
    (path / "file").mkdir(parents=True)


def _file_of_another(path: Path) -> None:
    path.touch()
    os.chown(path, 12345, 12345)


@pytest.mark.parametrize("squat", [_link, _full_directory, lambda path: os.mkfifo(path), _file_of_another])
def test_a_lock_is_had_whatever_somebody_has_put_in_its_place(squat: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "ganeti-ssconf.lock"
    if squat is _file_of_another and os.geteuid() != 0:
        pytest.skip("only root makes a file of another user")
    squat(path)
    descriptor = open_lock(str(path))
    try:
        assert os.path.samestat(os.fstat(descriptor), path.lstat())
        assert path.lstat().st_uid == os.geteuid()
        again = open_lock(str(path))
        assert os.path.samestat(os.fstat(again), os.fstat(descriptor))
        os.close(again)
    finally:
        os.close(descriptor)
    assert not (tmp_path / "not-there").exists()


def _take_ssconf_lock(paths: Paths) -> None:
    with ssconf_lock(paths):
        pass


def _take_watcher_lock(paths: Paths) -> None:
    with WatcherLock(f"{paths.lock_dir}/ganeti-watcher.lock") as lock:
        assert lock.taken


@pytest.mark.parametrize(
    ("take", "name"), [(_take_ssconf_lock, "ganeti-ssconf.lock"), (_take_watcher_lock, "ganeti-watcher.lock")]
)
def test_locks_of_root_follow_no_link(take: Callable[[Paths], None], name: str, tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    place = Path(paths.lock_dir)
    place.mkdir(parents=True)
    (place / name).symlink_to(tmp_path / "nologin")
    take(paths)
    assert not (tmp_path / "nologin").exists()
    assert not (place / name).is_symlink()

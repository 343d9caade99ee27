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
from ganeti.noded.world import RealNodeWorld
from ganeti.system.daemonize import PidFile
from ganeti.system.files import open_among_others
from ganeti.system.flight_record import FlightRecord
from ganeti.system.logs import ReopeningHandler


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

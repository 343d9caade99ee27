# SPDX-License-Identifier: BSD-2-Clause
"""A daemon of another Ganeti on the directories of the cluster is told from one of this installation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes import pretend_machine as pretend

from ganeti.base.errors import PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap.foreign_daemons import check_no_daemon, check_no_foreign_daemon
from ganeti.bootstrap.init_checks import check

PROGRAM = """#!{python} -IS
import fcntl, os, socket, sys
what, path = sys.argv[1:]
if what == "listens":
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
else:
    file = open(path, "w")
    if what == "locks":
        fcntl.flock(file, fcntl.LOCK_EX)
    print(os.getpid(), file=file, flush=True)
print("ready", flush=True)
sys.stdin.read()
"""

Start = Callable[[str, str, str], "subprocess.Popen[str]"]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "run/ganeti/socket").mkdir(parents=True)
    return Paths(str(tmp_path))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the program of a daemon in a directory, which does something with a file."""
    running = []

    def begin(program: str, what: str, path: str) -> subprocess.Popen[str]:
        place = tmp_path / program
        place.parent.mkdir(exist_ok=True)
        place.write_text(PROGRAM.format(python=sys.executable))
        place.chmod(0o755)
        process = subprocess.Popen([place, what, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    yield begin
    for process in running:
        process.communicate(timeout=10)


@pytest.mark.parametrize(
    ("what", "file"),
    [
        ("locks", "run/ganeti/ganeti-rapi.pid"),
        ("names", "run/ganeti/ganeti-rapi.pid"),
        ("listens", "run/ganeti/socket/ganeti-query"),
    ],
)
def test_the_daemon_of_another_is_named(tmp_path: Path, paths: Paths, start: Start, what: str, file: str) -> None:
    path = f"{tmp_path}/{file}"
    process = start("foreign/ganeti-rapi", what, path)
    with pytest.raises(PrerequisiteError) as caught:
        check_no_foreign_daemon(paths, f"{tmp_path}/own")
    said = str(caught.value)
    assert f"{tmp_path}/foreign/ganeti-rapi (process {process.pid}), of another Ganeti" in said and path in said
    assert "stop it" in said and "\n" not in said


def test_a_daemon_of_this_installation_may_run(tmp_path: Path, paths: Paths, start: Start) -> None:
    (tmp_path / "linked").symlink_to(tmp_path / "own")
    start("own/ganeti-noded", "locks", paths.pid_file("ganeti-noded"))
    check_no_foreign_daemon(paths, f"{tmp_path}/linked")


def test_any_daemon_is_named_with_how_to_stop_all(paths: Paths, start: Start) -> None:
    start("own/ganeti-noded", "locks", paths.pid_file("ganeti-noded"))
    with pytest.raises(PrerequisiteError, match=r"ganeti-noded \(process .*: stop all of its daemons first \(daemon-u"):
        check_no_daemon(paths)


def test_a_process_that_has_a_dead_daemons_number_is_none(paths: Paths) -> None:
    Path(paths.pid_file("ganeti-noded")).write_text(f"{os.getpid()}\n")
    Path(paths.pid_file("ganeti-confd")).write_text("no number\n")
    check_no_foreign_daemon(paths, "/nowhere")


def test_no_cluster_is_made_beside_it(tmp_path: Path, start: Start) -> None:
    machine = pretend.make(tmp_path)
    (tmp_path / "run/ganeti").mkdir(parents=True)
    start("foreign/ganeti-rapi", "locks", machine.paths.pid_file("ganeti-rapi"))
    before = pretend.tree(tmp_path)
    with pytest.raises(PrerequisiteError, match="of another Ganeti on this machine"):
        check({"cluster_name": "cluster", "master_netdev": "eth0"}, machine, pretend.catalogue())
    assert pretend.tree(tmp_path) == before

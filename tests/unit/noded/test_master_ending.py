# SPDX-License-Identifier: BSD-2-Clause
"""Ending a master's daemons and jobs: all of them, none of anybody else's, and none twice."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.noded.master_ending import Ended, end_master_daemons, job_processes
from ganeti.system.daemonize import DEPOSED
from ganeti.system.livelock import job_lock_path
from ganeti.system.pid_files import living_process

DAEMON = """
import fcntl, os, signal, sys
for name in sys.argv[2:]:
    signal.signal(getattr(signal, name), signal.SIG_IGN)
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX)
file.truncate(0)
file.write(f"{os.getpid()}\\n")
file.flush()
print("locked", flush=True)
signal.pause()
"""
LOOKER = """
import fcntl, signal, sys
file = open(sys.argv[1])
print("open", flush=True)
signal.pause()
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(str(tmp_path))
    for directory in (paths.run_dir, paths.livelock_dir, paths.data_dir):
        os.makedirs(directory, exist_ok=True)
    return paths


@contextlib.contextmanager
def process(program: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        try:
            assert started.stdout.readline().strip() in ("locked", "open")
            yield started
        finally:
            started.kill()


def test_daemons_and_jobs_end_and_others_do_not(paths: Paths) -> None:
    job = job_lock_path(paths.livelock_dir, 7, 1)
    other = f"{paths.livelock_dir}/luxi-daemon_1"
    with (
        process(DAEMON, paths.pid_file("ganeti-wconfd")) as wconfd,
        process(DAEMON, paths.pid_file("ganeti-luxid")) as luxid,
        process(DAEMON, paths.pid_file("ganeti-noded")) as noded,
        process(DAEMON, job) as running,
        process(DAEMON, other) as stranger,
        process(LOOKER, job) as looker,
    ):
        assert job_processes(paths) == [(running.pid, job)]
        assert asyncio.run(end_master_daemons(paths)) == Ended(("ganeti-luxid", "ganeti-wconfd"), 1)
        assert [one.wait(10) for one in (luxid, running, wconfd)] == [-DEPOSED, -9, -DEPOSED]
        assert [one.poll() for one in (noded, stranger, looker)] == [None] * 3
        assert asyncio.run(end_master_daemons(paths)) == Ended((), 0)


def test_wconfd_ends_what_else_there_is_and_itself_later(paths: Paths) -> None:
    with process(DAEMON, paths.pid_file("ganeti-wconfd")) as wconfd, process(DAEMON, paths.pid_file("ganeti-luxid")):
        assert asyncio.run(end_master_daemons(paths, besides="ganeti-wconfd")) == Ended(("ganeti-luxid",), 0)
        assert wconfd.poll() is None


def test_a_daemon_that_does_not_end_is_killed(paths: Paths) -> None:
    with process(DAEMON, paths.pid_file("ganeti-luxid"), DEPOSED.name) as luxid:
        assert asyncio.run(end_master_daemons(paths, grace_s=0.1)) == Ended(("ganeti-luxid",), 0)
        assert luxid.wait(10) == -9


def test_a_pid_file_without_a_lock_names_nobody(paths: Paths) -> None:
    """Its process id may be another process's by now."""
    Path(paths.pid_file("ganeti-luxid")).write_text(f"{os.getpid()}\n")
    assert living_process(paths.pid_file("ganeti-luxid")) is None
    assert asyncio.run(end_master_daemons(paths)) == Ended((), 0)

# SPDX-License-Identifier: BSD-2-Clause
"""Going into the background: whoever starts a daemon learns how it went, and a second one is refused."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.fakes.wconfd import fast_directory

from ganeti.runtime.daemonize import DaemonRefused, PidFile

PROGRAM = """
import asyncio, sys
from ganeti.base.errors import ConfigurationError
from ganeti.runtime.daemonize import DaemonRefused, daemon_parser, parse_options, run_daemon

async def serve(daemon):
    if daemon.options.bind == "refuse":
        raise DaemonRefused("this node is not the master", 11)
    if daemon.options.bind == "broken":
        raise ConfigurationError("the file is broken")
    if daemon.options.bind == "fault":
        raise ZeroDivisionError("a mistake")
    if daemon.options.bind == "wait":
        daemon.log.info("waits for others")
        await asyncio.Event().wait()
    daemon.on_hangup = lambda: daemon.log.info("told to hang up")
    daemon.ready()
    await daemon.stopping.wait()
    daemon.log.info("two\\nlines")

sys.exit(run_daemon("ganeti-tried", parse_options("ganeti-tried", sys.argv[1:]), serve))
"""
LOG = "var/log/ganeti/ganeti-tried.log"
PID = "run/ganeti/ganeti-tried.pid"


@pytest.fixture
def root():
    with fast_directory() as path:
        yield path
        pid_file = path / PID
        if pid_file.exists():
            os.kill(int(pid_file.read_text()), signal.SIGKILL)


def start(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GANETI_ROOTDIR": str(root), "GANETI_HOSTNAME": "node1"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def until(condition, deadline_s=10.0):
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_the_life_of_a_daemon(root):
    assert start(root).returncode == 0
    pid = int((root / PID).read_text())
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) != os.getsid(0)
    second = start(root)
    assert (second.returncode, second.stderr) == (1, f"ganeti-tried: it runs already, with process id {pid}\n")
    log = root / LOG
    assert log.stat().st_mode & 0o777 == 0o600
    log.rename(root / "rotated")
    os.kill(pid, signal.SIGHUP)
    until(lambda: log.exists() and "told to hang up" in log.read_text())
    os.kill(pid, signal.SIGTERM)
    until(lambda: not (root / PID).exists())
    until(lambda: "ganeti-tried has ended" in log.read_text())
    lines = log.read_text().splitlines()
    assert lines[-2].endswith(f"ganeti-tried pid={pid} INFO two lines")
    assert "ganeti-tried is ready" in (root / "rotated").read_text()


@pytest.mark.parametrize(
    ("why", "status", "sentence"),
    [
        ("refuse", 11, "ganeti-tried: this node is not the master\n"),
        ("broken", 1, "ganeti-tried: the file is broken\n"),
        ("fault", 1, "ganeti-tried: a fault of its own: a mistake; see the log\n"),
    ],
)
@pytest.mark.parametrize("foreground", [False, True])
def test_a_refused_start_gives_its_sentence_and_status(root, why, status, sentence, foreground):
    done = start(root, "-b", why, *(["-f"] if foreground else []))
    assert done.returncode == status
    assert done.stderr.splitlines(keepends=True)[-1] == sentence
    assert not (root / PID).exists()
    assert ("Traceback" in (root / LOG).read_text()) == (why == "fault")


def test_one_that_is_told_to_stop_while_it_starts_just_ends(root):
    """It may be waiting for votes or another daemon for a minute."""
    starting = threading.Thread(target=lambda: done.append(start(root, "-b", "wait")))
    done = []
    starting.start()
    until(lambda: (root / LOG).exists() and "waits for others" in (root / LOG).read_text())
    os.kill(int((root / PID).read_text()), signal.SIGTERM)
    starting.join(10)
    assert done[0].returncode == 1
    assert done[0].stderr == "ganeti-tried: it was told to stop while it started\n"
    assert not (root / PID).exists()


def test_who_only_looks_whether_a_daemon_runs_does_not_keep_it_from_starting(tmp_path):
    path = tmp_path / "tried.pid"
    path.write_text("23\n")
    looking = os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    looks = threading.Timer(0.02, os.close, [looking])
    looks.start()
    pid_file = PidFile(str(path))
    looks.join()
    assert int(path.read_text()) == os.getpid()
    with pytest.raises(DaemonRefused, match=f"it runs already, with process id {os.getpid()}"):
        PidFile(str(path))
    pid_file.remove()

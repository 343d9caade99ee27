# SPDX-License-Identifier: BSD-2-Clause
"""Going into the background: whoever starts a daemon learns how it went, and a second one is refused."""

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.fakes.wconfd import fast_directory

from ganeti.base.errors import refusal_of_system
from ganeti.system.accounts import RUN_DIR_MODE, make_shared_directory
from ganeti.system.daemonize import DEPOSED
from ganeti.system.pid_file import DaemonRefused, DirectoryHold, PidFile

PROGRAM = """
import asyncio, os, signal, sys
from ganeti.base.errors import ConfigurationError
from ganeti.system import daemonize
from ganeti.system.daemonize import DEPOSED, DaemonRefused, daemon_parser, parse_options, run_daemon

daemonize._PID_FILE_S = 0.01

def before_loop(environment):
    early = sys.argv[2] if sys.argv[1:2] == ["-b"] else ""
    if early.startswith("early-"):
        os.kill(os.getpid(), getattr(signal, early.removeprefix("early-")))

async def serve(daemon):
    if daemon.options.bind == "late":
        loop = asyncio.get_running_loop()
        close = loop.close
        loop.close = lambda: (close(), os.kill(os.getpid(), DEPOSED))
        raise DaemonRefused("this node is not the master", 11)
    if daemon.options.bind == "deposed":
        daemon.stop_with(11)
        return
    if daemon.options.bind == "unready":
        return
    if daemon.options.bind == "tidy":
        daemon.log.info("waits for others")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return
    if daemon.options.bind == "untidy":
        daemon.log.info("waits for others")
        try:
            await asyncio.Event().wait()
        finally:
            raise ConfigurationError("the database went away")
    if daemon.options.bind == "refuse":
        raise DaemonRefused("this node is not the master", 11)
    if daemon.options.bind == "broken":
        raise ConfigurationError("the file is broken")
    if daemon.options.bind == "fault":
        raise ZeroDivisionError("a mistake")
    if daemon.options.bind == "wait":
        daemon.log.info("waits for others")
        await asyncio.Event().wait()
    if daemon.options.bind == "slow":
        daemon.log.info("waits for others")
        while not os.path.exists(daemon.environment.paths.root + "/go"):
            await asyncio.sleep(0.005)
    daemon.on_hangup = lambda: daemon.log.info("told to hang up")
    daemon.ready()
    await daemon.stopping.wait()
    daemon.log.info("two\\nlines")

sys.exit(run_daemon("ganeti-tried", parse_options("ganeti-tried", sys.argv[1:]), serve, before_loop))
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
        ("fault", 1, "ganeti-tried: an internal error: a mistake; see the log\n"),
    ],
)
@pytest.mark.parametrize("foreground", [False, True])
def test_a_refused_start_gives_its_sentence_and_status(root, why, status, sentence, foreground):
    done = start(root, "-b", why, *(["-f"] if foreground else []))
    assert done.returncode == status
    assert done.stderr.splitlines(keepends=True)[-1] == sentence
    assert not (root / PID).exists()
    assert ("Traceback" in (root / LOG).read_text()) == (why == "fault")


TOLD_TO_STOP = "ganeti-tried: it was stopped while it started\n"
NOT_MASTER = "ganeti-tried: this node stopped being the master while it started\n"


@pytest.mark.parametrize(
    ("number", "status", "sentence"), [(signal.SIGTERM, 1, TOLD_TO_STOP), (DEPOSED, 11, NOT_MASTER)]
)
@pytest.mark.parametrize("how", ["wait", "tidy"])
def test_one_that_is_told_to_stop_while_it_starts_just_ends(root, how, number, status, sentence):
    """It may be waiting for votes or another daemon for a minute; and may take its being cancelled for an end."""
    done = told_while_it_waits(root, how, number)
    assert (done.returncode, done.stderr) == (status, sentence)
    assert not (root / PID).exists()


def test_what_fails_because_it_is_told_to_end_does_not_hide_why(root):
    done = told_while_it_waits(root, "untidy", DEPOSED)
    assert (done.returncode, done.stderr) == (11, NOT_MASTER)
    assert "the database went away" in (root / LOG).read_text()
    assert told_while_it_waits(root, "untidy", signal.SIGTERM).stderr == "ganeti-tried: the database went away\n"


def told_while_it_waits(root: Path, how: str, number: int) -> subprocess.CompletedProcess[str]:
    (root / LOG).unlink(missing_ok=True)
    starting = threading.Thread(target=lambda: done.append(start(root, "-b", how)))
    done = []
    starting.start()
    until(lambda: (root / LOG).exists() and "waits for others" in (root / LOG).read_text())
    os.kill(int((root / PID).read_text()), number)
    starting.join(10)
    return done[0]


@pytest.mark.parametrize(
    ("how", "status", "sentence"),
    [
        ("early-SIGTERM", 1, TOLD_TO_STOP),
        ("early-SIGUSR1", 11, NOT_MASTER),
        ("late", 11, "ganeti-tried: this node is not the master\n"),
        ("deposed", 11, NOT_MASTER),
        ("unready", 1, "ganeti-tried: it ended before it served; see its log\n"),
    ],
)
def test_there_is_a_word_on_every_way_to_end(root, how, status, sentence):
    """Who is told to end may not listen yet, or no more; and who ends by itself must not leave its starter guessing."""
    done = start(root, "-b", how)
    assert (done.returncode, done.stderr) == (status, sentence)
    assert not (root / PID).exists()


def test_logs_that_are_rotated_while_it_starts_do_no_harm(root):
    assert start(root, "-b", "early-SIGHUP").returncode == 0


def test_one_that_is_deposed_while_it_serves_says_so_to_its_supervisor(root):
    environment = {**os.environ, "GANETI_ROOTDIR": str(root), "GANETI_HOSTNAME": "node1"}
    serving = subprocess.Popen([sys.executable, "-c", PROGRAM, "-f"], env=environment, stderr=subprocess.DEVNULL)
    until(lambda: (root / LOG).exists() and "is ready" in (root / LOG).read_text())
    serving.send_signal(DEPOSED)
    assert serving.wait(10) == 11
    assert not (root / PID).exists()


def test_whoever_waits_for_one_that_was_killed_hears_of_it(root):
    done = start(root, "-b", "early-SIGKILL")
    assert (done.returncode, done.stderr) == (1, "ganeti-tried: it died while it started; see its log\n")
    (root / PID).unlink()


def test_the_death_of_the_starting_command_does_not_end_the_daemon(root):
    environment = {**os.environ, "GANETI_ROOTDIR": str(root), "GANETI_HOSTNAME": "node1"}
    starting = subprocess.Popen([sys.executable, "-c", PROGRAM, "-b", "slow"], env=environment)
    until(lambda: (root / LOG).exists() and "waits for others" in (root / LOG).read_text())
    starting.kill()
    starting.wait(10)
    (root / "go").touch()
    until(lambda: "has ended before it heard how the start went" in (root / LOG).read_text())
    pid = int((root / PID).read_text())
    os.kill(pid, signal.SIGHUP)
    until(lambda: "told to hang up" in (root / LOG).read_text())
    os.kill(pid, signal.SIGTERM)
    until(lambda: not (root / PID).exists())


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


def closed_descriptors() -> None:
    for descriptor in range(3):
        os.close(descriptor)


def test_a_starter_without_standard_descriptors_hears_that_the_daemon_serves(root):
    environment = {**os.environ, "GANETI_ROOTDIR": str(root), "GANETI_HOSTNAME": "node1"}
    starting = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, preexec_fn=closed_descriptors)
    assert starting.wait(30) == 0
    pid = int((root / PID).read_text())
    assert {os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)} == {"/dev/null"}


def test_a_pid_file_that_was_removed_comes_back(root):
    assert start(root).returncode == 0
    pid = int((root / PID).read_text())
    (root / PID).unlink()
    until(lambda: (root / PID).exists() and (root / PID).read_text() == f"{pid}\n")
    assert start(root).stderr == f"ganeti-tried: it runs already, with process id {pid}\n"
    shutil.rmtree(root / "run/ganeti")
    until(lambda: (root / PID).exists() and (root / PID).read_text() == f"{pid}\n")
    os.kill(pid, signal.SIGTERM)
    until(lambda: not (root / PID).exists())


def test_a_pid_file_that_another_daemon_holds_is_left_alone(tmp_path):
    path = tmp_path / "tried.pid"
    before = PidFile(str(path))
    path.unlink()
    after = PidFile(str(path))
    assert not before.keep()
    after.remove()
    assert before.keep()
    before.remove()
    before.remove()


def test_one_daemon_of_a_kind_works_on_a_directory_whatever_is_removed(tmp_path):
    held = subprocess.Popen(["flock", "--no-fork", str(tmp_path), "sleep", "60"])
    try:
        until(lambda: subprocess.run(["flock", "-n", str(tmp_path), "true"], check=False).returncode)
        with pytest.raises(DaemonRefused, match=rf"process {held.pid}, works on .* \(kill {held.pid}\)"):
            DirectoryHold("ganeti-tried", str(tmp_path))
    finally:
        held.kill()
        held.wait(10)
    DirectoryHold("ganeti-tried", str(tmp_path))


def test_a_pid_file_without_room_names_itself(monkeypatch, tmp_path):
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space") as caught:
        PidFile(str(tmp_path / "tried.pid"))
    said = refusal_of_system(caught.value)
    assert said.startswith(f"{tmp_path}/tried.pid: No space left on device; make room on its file system (df ")


def test_the_directory_of_all_daemons_has_its_mode_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        make_shared_directory(f"{tmp_path}/run/ganeti", RUN_DIR_MODE)
    finally:
        os.umask(before)
    assert os.stat(tmp_path / "run/ganeti").st_mode & 0o7777 == RUN_DIR_MODE

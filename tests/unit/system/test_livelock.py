# SPDX-License-Identifier: BSD-2-Clause
"""Lock files tell the living from the dead, across forks, kills and clean-ups."""

import fcntl
import os
import signal
import subprocess
import sys
import threading

import pytest

from ganeti.base.errors import LockError
from ganeti.system.livelock import LiveLock, attempt_of, is_alive, job_lock_path

HOLDER = """
import sys
from ganeti.system.livelock import LiveLock
lock = LiveLock(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds a lock file, and the path."""
    path = str(tmp_path / "job_000007_1")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield process, path
    process.kill()
    process.communicate()


@pytest.mark.requirement("S2.23", "S2.28", "S2.25")
def test_a_killed_holder_is_dead_at_once(holder):
    process, path = holder
    assert is_alive(path)
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(path)


@pytest.mark.requirement("S2.23", "S2.28")
def test_a_stopped_holder_lives(holder):
    process, path = holder
    process.send_signal(signal.SIGSTOP)
    assert is_alive(path)


@pytest.mark.requirement("S2.28")
def test_a_missing_file_means_dead_and_cleaned_up(tmp_path):
    assert not is_alive(str(tmp_path / "nobody"))
    assert not is_alive(str(tmp_path / "nobody" / "below"))


def test_probing_takes_nothing_away(tmp_path):
    lock = LiveLock(str(tmp_path / "mine"))
    assert is_alive(lock.path)
    assert is_alive(lock.path)
    with pytest.raises(LockError, match="held by another process"):
        LiveLock(lock.path)
    assert is_alive(lock.path)
    lock.close()
    assert not is_alive(lock.path)


def test_who_probes_at_that_moment_is_not_taken_for_an_owner(tmp_path):
    """A clean-up may look at the file between its making and its locking."""
    path = str(tmp_path / "mine")
    with open(path, "w") as probe:
        fcntl.flock(probe, fcntl.LOCK_SH)
        threading.Timer(0.02, fcntl.flock, (probe, fcntl.LOCK_UN)).start()
        lock = LiveLock(path)
        assert is_alive(path)
    lock.remove()


def test_a_path_that_is_no_lock_file_never_blocks_the_probe(tmp_path):
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    assert not is_alive(fifo)


FORKING = """
import os, sys
from ganeti.system.livelock import LiveLock, is_alive
lock = LiveLock(sys.argv[1])
ready, begun = os.pipe()
wait, go = os.pipe()
if os.fork() == 0:
    os.close(go)
    os.write(begun, b"x")
    os.read(wait, 1)
    os._exit(0)
os.read(ready, 1)
held = is_alive(lock.path)
os.close(lock.fileno())
print(held, is_alive(lock.path))
"""


def test_forked_children_do_not_keep_the_lock(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path / "mine")], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == "True False\n"


def test_started_programs_do_not_inherit_it(tmp_path):
    lock = LiveLock(str(tmp_path / "mine"))
    assert not os.get_inheritable(lock.fileno())
    lock.remove()
    assert not os.path.exists(lock.path)


def test_a_file_cleaned_up_while_it_is_being_locked_is_made_again(tmp_path, monkeypatch):
    path = str(tmp_path / "mine")
    opened = os.open
    removals = [path]

    def open_then_lose(name, *rest, **more):
        descriptor = opened(name, *rest, **more)
        if name == path and removals:
            os.unlink(removals.pop())
        return descriptor

    monkeypatch.setattr(os, "open", open_then_lose)
    lock = LiveLock(path)
    assert is_alive(path)
    lock.remove()


def test_names_of_job_lock_files():
    path = job_lock_path("/run/ganeti/livelocks", 42, 3)
    assert path == "/run/ganeti/livelocks/job_000042_3"
    assert attempt_of(path) == 3
    assert attempt_of("/run/ganeti/livelocks/luxi-daemon_17") is None


@pytest.mark.requirement("S2.24")
def test_several_jobs_of_one_process_are_told_apart(tmp_path):
    first, second = LiveLock(str(tmp_path / "first")), LiveLock(str(tmp_path / "second"))
    first.close()
    assert [is_alive(lock.path) for lock in (first, second)] == [False, True]
    second.close()


@pytest.mark.requirement("S2.29")
def test_several_probe_the_same_file_at_once(tmp_path):
    lock = LiveLock(str(tmp_path / "mine"))
    lock.close()
    with open(lock.path) as probe:
        fcntl.flock(probe, fcntl.LOCK_SH)
        assert not is_alive(lock.path), "the other probe is taken for an owner"

# SPDX-License-Identifier: BSD-2-Clause
"""The spawner: it makes processes on request, passes them their socket, and ends with LuxiD."""

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.job import process as job_process
from ganeti.job import spawner
from ganeti.system import process_title
from ganeti.system.environment import Environment
from ganeti.wire.framing_sync import SyncConnection

WITHIN_S = 10.0


@pytest.fixture
def control(tmp_path, monkeypatch):
    """A spawner in a process of its own, whose jobs say their number and wait for a word."""
    environment = Environment(Paths(str(tmp_path)), "node1")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def run(environment, job_id, attempt, pipe):
        process_title.show_job(job_id)
        connection = SyncConnection(pipe)
        connection.send({"job": job_id, "attempt": attempt, "pid": os.getpid()})
        connection.receive()
        return 0

    monkeypatch.setattr(job_process, "run", run)
    pid = os.fork()
    if pid == 0:
        ours.close()
        spawner.serve(theirs.detach(), environment)
        os._exit(0)
    theirs.close()
    ours.settimeout(WITHIN_S)
    yield ours
    ours.close()
    assert os.waitpid(pid, 0)[1] == 0


def ask(control: socket.socket, job_id: int, *more: str) -> SyncConnection:
    ours, theirs = socket.socketpair()
    with theirs:
        asked = {"job": job_id, "attempt": 1, "operations": ["OP_TEST_DELAY", "OP_OF_TOMORROW", *more]}
        socket.send_fds(control, [json.dumps(asked).encode()], [theirs.fileno()])
    ours.settimeout(WITHIN_S)
    return SyncConnection(ours)


@pytest.mark.requirement("S2.5", "S2.35")
def test_each_job_is_a_process_with_its_own_socket(control):
    first, second = ask(control, 1), ask(control, 2)
    said = [first.receive(), second.receive()]
    assert [item["job"] for item in said] == [1, 2]
    assert len({item["pid"] for item in said} | {os.getpid()}) == 3
    for connection in (first, second):
        connection.send("go on")
        assert connection._socket.recv(1) == b""


def test_a_job_that_is_killed_closes_its_socket_and_the_spawner_goes_on(control):
    connection = ask(control, 1)
    os.kill(connection.receive()["pid"], signal.SIGKILL)
    assert connection._socket.recv(1) == b""
    control.send(b'{"ping":true}')
    assert json.loads(control.recv(100)) == {"pong": True}


def test_jobs_outlive_the_spawner(control):
    connection = ask(control, 1)
    connection.receive()
    control.shutdown(socket.SHUT_RDWR)
    connection.send("go on")
    assert connection._socket.recv(1) == b""


# The process that is made in advance


def end(connection: SyncConnection) -> int:
    """Let a job end; gives the id of its process."""
    pid: int = connection.receive()["pid"]
    connection.send("go on")
    assert connection._socket.recv(1) == b""
    return pid


def spare(spawner_pid: int) -> int:
    """Wait for the process that waits for a job."""
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        children = Path(f"/proc/{spawner_pid}/task/{spawner_pid}/children").read_text().split()
        for child in children:
            if name_of(int(child)) == "ganeti-spare":
                return int(child)
        time.sleep(0.005)
    raise AssertionError("no process is made in advance")


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def gone(pid: int) -> bool:
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        if name_of(pid) == "" or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.005)
    return False


@pytest.fixture
def spawner_pid(control) -> int:
    """The spawner, once it has made a job and has had time for the next one."""
    connection = ask(control, 1)
    pid = connection.receive()["pid"]
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    connection.send("go on")
    assert connection._socket.recv(1) == b""
    return parent


@pytest.mark.requirement("S2.5")
def test_a_process_made_in_advance_takes_one_job(control, spawner_pid):
    first = spare(spawner_pid)
    connection = ask(control, 2)
    assert connection.receive() == {"job": 2, "attempt": 1, "pid": first}
    other = ask(control, 3)
    assert end(other) != first
    connection.send("go on")
    assert connection._socket.recv(1) == b""
    assert spare(spawner_pid) != first


def test_a_process_is_made_in_advance_beside_a_long_job(control, spawner_pid):
    first = spare(spawner_pid)
    connection = ask(control, 2)
    assert connection.receive()["pid"] == first
    assert spare(spawner_pid) != first


def test_one_that_was_killed_is_replaced_by_one_made_for_the_job(control, spawner_pid):
    first = spare(spawner_pid)
    os.kill(first, signal.SIGKILL)
    assert gone(first)
    assert end(ask(control, 2)) != first


def test_one_that_lacks_an_operation_ends(control, spawner_pid):
    first = spare(spawner_pid)
    assert end(ask(control, 2, "OP_NODE_ADD")) != first
    assert gone(first)
    second = spare(spawner_pid)
    assert end(ask(control, 3, "OP_NODE_ADD")) == second


def test_one_that_waits_ends_with_the_spawner(control, spawner_pid):
    first = spare(spawner_pid)
    control.shutdown(socket.SHUT_RDWR)
    assert gone(first)

# SPDX-License-Identifier: BSD-2-Clause
"""The spawner: it makes processes on request, passes them their socket, and ends with LuxiD."""

import json
import os
import signal
import socket

import pytest

from ganeti.base.paths import Paths
from ganeti.job import process as job_process
from ganeti.job import spawner
from ganeti.system.environment import Environment
from ganeti.wire.framing_sync import SyncConnection

WITHIN_S = 10.0


@pytest.fixture
def control(tmp_path, monkeypatch):
    """A spawner in a process of its own, whose jobs say their number and wait for a word."""
    environment = Environment(Paths(str(tmp_path)), "node1")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def run(environment, job_id, attempt, pipe):
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


def ask(control: socket.socket, job_id: int) -> SyncConnection:
    ours, theirs = socket.socketpair()
    with theirs:
        asked = {"job": job_id, "attempt": 1, "operations": ["OP_TEST_DELAY", "OP_OF_TOMORROW"]}
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

# SPDX-License-Identifier: BSD-2-Clause
"""When the watcher takes a daemon for hung: not while it is still starting."""

import json
import os
import socket
import threading

import pytest

from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths
from ganeti.daemons import watcher_master
from ganeti.daemons.watcher_master import MasterWork

LUXID = "ganeti-luxid"


class Daemon:
    """Listens when told to; answers, or takes connections and says nothing."""

    def __init__(self, paths):
        self.path = paths.luxi_socket
        os.makedirs(paths.socket_dir)
        self._socket = socket.socket(socket.AF_UNIX)

    def listen(self, *, answers=True):
        self._socket.bind(self.path)
        self._socket.listen()
        if answers:
            threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self):
        connection, _ = self._socket.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(json.dumps({"success": True, "result": [False]}).encode() + b"\x03")

    def close(self):
        self._socket.close()


@pytest.fixture
def paths(tmp_path):
    return Paths(str(tmp_path))


@pytest.fixture
def daemon(paths):
    made = Daemon(paths)
    yield made
    made.close()


def work(paths, restarted, answer_within_s=10.0):
    return MasterWork(paths, lambda name: None, restarted.append, answer_within_s)


def test_a_daemon_that_begins_to_listen_is_left_alone(paths, daemon, monkeypatch):
    restarted, waits = [], []

    def sleep(length_s):
        waits.append(length_s)
        if len(waits) == 3:
            daemon.listen()

    monkeypatch.setattr(watcher_master.time, "sleep", sleep)
    work(paths, restarted).ensure_answer(LUXID)
    assert (restarted, len(waits)) == ([], 3)


def test_one_that_takes_connections_and_says_nothing_is_started_again(paths, daemon, monkeypatch):
    monkeypatch.setattr(watcher_master, "ANSWER_WITHIN_S", 0.1)
    daemon.listen(answers=False)
    restarted = []
    with pytest.raises(TransportError):
        work(paths, restarted, answer_within_s=0.1).ensure_answer(LUXID)
    assert restarted == [LUXID]


def test_one_that_never_listens_is_started_again(paths, daemon):
    restarted = []

    def restart(name):
        restarted.append(name)
        daemon.listen()

    MasterWork(paths, lambda name: None, restart, answer_within_s=0.0).ensure_answer(LUXID)
    assert restarted == [LUXID]

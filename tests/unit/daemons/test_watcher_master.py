# SPDX-License-Identifier: BSD-2-Clause
"""When the watcher takes a daemon for hung: not while it is still starting."""

import json
import os
import select
import signal
import socket
import threading
from pathlib import Path

import pytest

from ganeti.base.errors import PrerequisiteError, TransportError
from ganeti.base.paths import Paths
from ganeti.daemons import watcher_master
from ganeti.daemons.watcher_lock import WatcherLock
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


GROUPS = ["11111111-aaaa", "22222222-bbbb", "33333333-cccc"]


@pytest.fixture
def groups(paths, monkeypatch):
    """Three groups by ssconf; gives what their children do, by the group."""
    for directory in (paths.data_dir, paths.run_dir):
        os.makedirs(directory, exist_ok=True)
    lines = [f"{uuid} group{number}\n" for number, uuid in enumerate(GROUPS)]
    with open(paths.ssconf_file("nodegroups"), "w") as file:
        file.writelines(lines)
    acts = {uuid: lambda: 0 for uuid in GROUPS}

    class Work:
        def __init__(self, paths, uuid, groups, ignore_pause, disks):
            self.act = acts[uuid]

        def run(self):
            return self.act()

    monkeypatch.setattr(watcher_master, "GroupWork", Work)
    monkeypatch.setattr(MasterWork, "_luxi", lambda *_: [False])
    monkeypatch.setattr(MasterWork, "ensure_answer", lambda *_: None)
    return acts


def read_soon(descriptor):
    """One byte; a child that never writes it fails the test, instead of ending it by nobody's patience."""
    assert select.select([descriptor], [], [], 20.0)[0], "nobody has written in time"
    return os.read(descriptor, 1)


def run(paths, let_go=lambda: None, **options):
    wanted = {"group": None, "job_age_s": 60, "wait": True} | options
    return work(paths, []).run(let_go=let_go, **wanted)


@pytest.mark.requirement("S1.56", "S1.58", "S1.59")
def test_children_work_at_the_same_time_and_the_lock_is_let_go_of_meanwhile(paths, groups):
    """Each child waits for the next one, and the last for us, who have seen by then that nobody has the lock."""
    pipes = [os.pipe() for _ in range(4)]
    begun = pipes[3]
    here = os.getpid()
    path = f"{paths.lock_dir}/all.lock"
    let_go = []

    def waits_for(number):
        def act():
            os.write(begun[1], b"x")
            assert read_soon(pipes[number][0]) == b"x"
            if number:
                os.write(pipes[number - 1][1], b"x")
            return 0

        return act

    for number, uuid in enumerate(GROUPS):
        groups[uuid] = waits_for(number)

    def release():
        lock.release()
        if os.getpid() == here:
            assert b"".join(read_soon(begun[0]) for _ in GROUPS) == b"xxx"
            with WatcherLock(path) as other:
                let_go.append(other.taken)
            os.write(pipes[2][1], b"x")

    try:
        with WatcherLock(path) as lock:
            assert lock.taken
            assert run(paths, release) == 0
        assert let_go == [True]
    finally:
        for pair in pipes:
            for end in pair:
                os.close(end)


@pytest.mark.requirement("S1.57")
def test_a_group_in_other_hands_is_no_failure_and_one_that_fails_keeps_no_other_back(paths, groups, caplog):
    def fail():
        raise TransportError("no master answers")

    marks = {uuid: f"{paths.run_dir}/{uuid}" for uuid in GROUPS}

    def act(uuid, status):
        def mark():
            with open(marks[uuid], "w"):
                return status

        return mark

    groups |= {uuid: act(uuid, 0) for uuid in GROUPS}
    groups[GROUPS[0]] = act(GROUPS[0], watcher_master.EXIT_WATCHED)
    with caplog.at_level("INFO"):
        assert run(paths) == 0
    assert f"group {GROUPS[0]}: another watcher looks after it already" in caplog.messages
    assert run(paths, group=GROUPS[0]) == watcher_master.EXIT_WATCHED, "who names it wants to know"
    assert all(os.path.exists(mark) for mark in marks.values())
    os.unlink(marks[GROUPS[2]])
    groups[GROUPS[1]] = fail
    assert run(paths) == 1
    assert os.path.exists(marks[GROUPS[2]])


def test_children_that_nobody_waits_for_go_on(paths, groups):
    """Each one ends only after the watcher did, and its failure is told by the log alone."""
    go, done = os.pipe(), os.pipe()

    def act():
        read_soon(go[0])
        os.write(done[1], b"x")
        return 1

    groups |= dict.fromkeys(GROUPS, act)
    try:
        assert run(paths, wait=False) == 0
        os.write(go[1], b"xxx")
        assert b"".join(read_soon(done[0]) for _ in GROUPS) == b"xxx"
    finally:
        os.write(go[1], b"xxx")
        for _ in GROUPS:
            os.wait()
        for end in (*go, *done):
            os.close(end)


def test_a_group_that_gets_no_child_is_a_failure_and_keeps_no_other_back(paths, groups, monkeypatch, caplog):
    fork, made = watcher_master.fork, []

    def seldom(child):
        made.append(child)
        if len(made) == 1:
            raise BlockingIOError("no more processes")
        return fork(child)

    monkeypatch.setattr(watcher_master, "fork", seldom)
    assert run(paths) == 1
    assert len(made) == 3
    assert f"group {GROUPS[0]}: nobody can look after it now: no more processes" in caplog.messages


def test_a_child_that_is_killed_is_named(paths, groups, caplog):
    groups[GROUPS[1]] = lambda: os.kill(os.getpid(), signal.SIGKILL)
    assert run(paths) == 1
    assert f"group {GROUPS[1]}: signal 9 has ended who looked after it" in caplog.messages


def test_one_that_is_started_with_sigchld_ignored_waits_all_the_same(paths, groups):
    groups[GROUPS[1]] = lambda: 1
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert run(paths) == 1
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.requirement("S1.63")
def test_files_of_groups_that_were_removed_go_and_no_others(paths, groups):
    kept = [f"{paths.data_dir}/watcher.{GROUPS[0]}.data", f"{paths.data_dir}/watcher.pause"]
    gone = [
        f"{paths.data_dir}/watcher.99999999-dddd.data",
        f"{paths.data_dir}/watcher.99999999-dddd.instance-status",
        f"{paths.run_dir}/instance-status.group-99999999-dddd",
    ]
    for path in (*kept, *gone):
        with open(path, "w"):
            pass
    with open(paths.ssconf_file("nodegroups"), "r+") as file:
        lines = file.read()
        file.truncate(0)
    assert run(paths) == 0
    assert all(os.path.exists(path) for path in gone), "a list that names nobody may have been lost"
    with open(paths.ssconf_file("nodegroups"), "w") as file:
        file.write(lines)
    assert run(paths) == 0
    assert [path for path in (*kept, *gone) if os.path.exists(path)] == kept


def test_one_group_is_named_by_its_uuid(paths, groups):
    groups |= dict.fromkeys([GROUPS[0], GROUPS[2]], lambda: 1)
    assert run(paths, group=GROUPS[1]) == 0
    with pytest.raises(PrerequisiteError, match="gnt-group list"):
        run(paths, group="../x")


def test_certificates_are_looked_at_once_a_day(paths, monkeypatch):
    asked = []
    monkeypatch.setattr(MasterWork, "_luxi", lambda self, *words: asked.append(words))
    os.makedirs(paths.data_dir)
    stamp = f"{paths.data_dir}/watcher.certificates"
    watcher = work(paths, [])
    for _ in range(2):
        watcher._renew_certificates()
    assert asked == [] and os.path.exists(stamp)
    os.utime(stamp, (0, 0))
    for _ in range(2):
        watcher._renew_certificates()
    assert asked == [("SubmitJob", [{"OP_ID": "OP_CLUSTER_RENEW_DUE"}])]


@pytest.mark.parametrize(("unfinished", "submitted"), [("INSTANCE_MOVE(web)", 2), ("CLUSTER_RENEW_CRYPTO", 0)])
def test_where_a_node_has_missed_a_renewal_each_round_looks_unless_one_waits(paths, monkeypatch, unfinished, submitted):
    asked = []

    def luxi(self, method, *words):
        asked.append(method)
        return {"data": [] if words[0] == "node" else [[[0, [unfinished]]]]}

    monkeypatch.setattr(MasterWork, "_luxi", luxi)
    os.makedirs(paths.data_dir)
    Path(paths.former_client_cert("1")).touch()
    watcher = work(paths, [])
    for _ in range(2):
        watcher._renew_certificates()
    assert asked.count("SubmitJob") == submitted


def test_certificates_kept_for_nodes_that_are_marked_offline_are_looked_at_once(paths, monkeypatch):
    """A look each round would be a job every five minutes for as long as the node is away."""
    submitted, nodes = [], {"node1": (False, 0), "node2": (True, 4)}

    def luxi(self, method, *words):
        if method == "SubmitJob":
            submitted.append(words)
        if words[0] != "node":
            return {"data": []}
        return {"data": [[[0, name], [0, marked], [status, None]] for name, (marked, status) in nodes.items()]}

    monkeypatch.setattr(MasterWork, "_luxi", luxi)
    os.makedirs(paths.data_dir)
    Path(paths.former_client_cert("1")).touch()
    watcher = work(paths, [])

    def looks_in_three_rounds() -> int:
        submitted.clear()
        for _ in range(3):
            watcher._renew_certificates()
        return len(submitted)

    assert looks_in_three_rounds() == 1
    nodes["node1"] = (False, 2)
    assert looks_in_three_rounds() == 3, "a node that does not answer may be back each round"
    nodes["node1"] = (False, 0)
    assert looks_in_three_rounds() == 1
    nodes["node2"] = (False, 0)
    assert looks_in_three_rounds() == 3, "a node whose mark is gone is to be renewed"
    nodes["node2"] = (True, 4)
    assert looks_in_three_rounds() == 1
    os.utime(f"{paths.data_dir}/watcher.certificates", (0, 0))
    assert looks_in_three_rounds() == 1

# SPDX-License-Identifier: BSD-2-Clause
"""daemon-util with daemons that only hold the lock on their pid file."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti.base.errors import PrerequisiteError
from ganeti.bootstrap.own_mastership import OwnMastership
from ganeti.tools.daemon_util import run
from ganeti.tools.node_daemons import MASTER_DAEMONS, NODE_DAEMONS, Node

DAEMON = """#!{python} -IS
import fcntl, os, signal, sys, time
pid_file = os.environ["GANETI_ROOTDIR"] + "/run/ganeti/{name}.pid"
open(pid_file + ".arguments", "a").write(" ".join(sys.argv[1:]) + "\\n")
if {status}:
    sys.exit({status})
read, ready = os.pipe()
if os.fork():
    os.read(read, 1)
    sys.exit(0)
os.setsid()
descriptor = os.open(pid_file, os.O_RDWR | os.O_CREAT, 0o644)
fcntl.flock(descriptor, fcntl.LOCK_EX)
os.ftruncate(descriptor, 0)
os.write(descriptor, b"%d\\n" % os.getpid())
signal.signal(signal.SIGHUP, lambda *_: open(pid_file + ".hup", "w").close())
os.write(ready, b"x")
for number in (0, 1, 2):
    os.dup2(os.open(os.devnull, os.O_RDWR), number)
while True:
    signal.pause()
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    commands = tmp_path / "bin"
    commands.mkdir()
    (tmp_path / "run/ganeti").mkdir(parents=True)
    (tmp_path / "var/lib/ganeti").mkdir(parents=True)
    (tmp_path / "var/lib/ganeti/ssconf_master_node").write_text("node1\n")
    for name, status in (("ganeti-noded", 0), ("ganeti-wconfd", 0), ("ganeti-luxid", 0)):
        program = commands / name
        program.write_text(DAEMON.format(python=sys.executable, name=name, status=status))
        program.chmod(0o755)
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    made = Node(str(commands), {"GANETI_ROOTDIR": str(tmp_path), "GANETI_HOSTNAME": "node1"})
    yield made
    for name in (*NODE_DAEMONS, *MASTER_DAEMONS):
        pid = made.process_id(name)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def _replace(node: Node, name: str, status: int) -> None:
    path = Path(node.command(name) or "")
    path.write_text(DAEMON.format(python=sys.executable, name=name, status=status))


def _arguments(node: Node, name: str) -> list[str]:
    return Path(f"{node.paths.pid_file(name)}.arguments").read_text().splitlines()


def test_start_check_stop(node: Node) -> None:
    assert run(["check", "ganeti-noded"], node) == 1
    assert run(["start", "ganeti-noded", "--", "-b", "10.77.0.1"], node) == 0
    assert run(["check", "ganeti-noded"], node) == 0
    assert _arguments(node, "ganeti-noded") == ["-b 10.77.0.1"]
    pid = node.process_id("ganeti-noded")
    assert run(["check-and-start", "noded"], node) == 0
    assert node.process_id("ganeti-noded") == pid
    assert run(["stop", "ganeti-noded"], node) == 0
    assert run(["check", "ganeti-noded"], node) == 1
    assert run(["stop", "ganeti-noded"], node) == 0


@pytest.mark.parametrize("path", ["", "/usr/bin:/bin", None])
def test_a_path_without_programs_of_the_system_is_enough(
    node: Node, path: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `su` without a dash: a message told to install what is installed."""
    if path is None:
        monkeypatch.delenv("PATH")
    else:
        monkeypatch.setenv("PATH", path)
    assert run(["start", "ganeti-noded"], node) == 0
    assert run(["check", "ganeti-noded"], node) == 0
    assert run(["stop", "ganeti-noded"], node) == 0


def test_a_dead_daemons_pid_file_is_no_daemon(node: Node) -> None:
    path = Path(node.paths.pid_file("ganeti-noded"))
    path.write_text(f"{os.getpid()}\n")  # reused by a living process that is not the daemon
    assert run(["check", "ganeti-noded"], node) == 1
    assert run(["stop", "ganeti-noded"], node) == 0
    assert run(["start", "ganeti-noded"], node) == 0
    assert node.process_id("ganeti-noded") not in (None, os.getpid())


def test_all_in_order_and_only_the_masters_on_the_master(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["start-all"], node) == 1
    assert "is missing: this node is not part of a cluster" in capsys.readouterr().err
    for path in (node.paths.server_cert, node.paths.ssconf_file("cluster_name")):
        Path(path).write_text("x")
    assert run(["start-all"], node) == 1
    assert "has the data of an earlier Ganeti" in capsys.readouterr().err
    Path(node.paths.authority_cert).write_text("x")
    assert run(["check-config"], node) == 0
    assert run(["start-all"], node) == 0
    assert all(node.is_running(name) for name in node.daemons())
    assert run(["stop-master"], node) == 0
    assert [name for name in node.daemons() if node.is_running(name)] == ["ganeti-noded"]
    Path(node.paths.ssconf_file("master_node")).write_text("node2\n")
    assert run(["start-all"], node) == 0
    assert [name for name in node.daemons() if node.is_running(name)] == ["ganeti-noded"]
    assert run(["stop-all"], node) == 0
    assert not any(node.is_running(name) for name in node.daemons())


def test_a_refusal_is_passed_on_unless_it_is_not_the_master(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    _replace(node, "ganeti-wconfd", 11)
    assert run(["start", "ganeti-wconfd"], node) == 11
    assert run(["start-master"], node) == 11
    assert not node.is_running("ganeti-luxid")  # it would wait for the one that has refused
    _replace(node, "ganeti-wconfd", 1)
    assert run(["start-master"], node) == 1
    assert not node.is_running("ganeti-luxid")
    assert capsys.readouterr().err == "daemon-util: ganeti-wconfd did not start (exit status 1)\n"
    _replace(node, "ganeti-wconfd", 0)
    _replace(node, "ganeti-luxid", 3)
    assert run(["start-master"], node) == 1
    assert "ganeti-luxid did not start (exit status 3)" in capsys.readouterr().err


def test_a_start_that_starts_nothing_says_why(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    named = Path(node.paths.ssconf_file("master_node"))
    named.write_text("node2\n")
    assert run(["start-master"], node) == 11
    said = capsys.readouterr().err
    assert "nothing was started: this node, node1, is not the master, that is node2" in said
    assert "gnt-cluster master-failover" in said and said.count("\n") == 1
    named.unlink()
    assert run(["start-master"], node) == 5
    assert "this machine is in no cluster" in capsys.readouterr().err
    for path in (node.paths.server_cert, node.paths.ssconf_file("cluster_name")):
        Path(path).write_text("x")
    assert run(["start-master"], node) == 11
    assert "no file of this node says who is the master" in capsys.readouterr().err
    assert not any(node.is_running(name) for name in node.daemons())


SYSTEMCTL = """#!/bin/sh
daemon=$(basename "$2" .service)
case $1 in
start)
  {commands}/$daemon
  echo $? > {root}/status
  [ "$(cat {root}/status)" = 0 ] && exit 0
  echo "2026-01-01 00:00:00,000: $daemon pid=7 ERROR $daemon does not run: for this very reason" >> {root}/{log}
  [ "$(cat {root}/status)" = 11 ] ;;
show) echo "ExecStart={{ path=x ; argv[]=x ; pid=7 ; code=exited ; status=$(cat {root}/status) }}" ;;
esac
"""


@pytest.mark.parametrize(("refused", "status"), [(11, 11), (1, 1)])
def test_under_systemd_the_daemons_own_reason_and_status_are_told(
    node: Node,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    refused: int,
    status: int,
) -> None:
    """A unit whose daemon ends with status 11 has not failed for systemd."""
    log = "var/log/ganeti/wconf-daemon.log"
    (tmp_path / "var/log/ganeti").mkdir(parents=True)
    (tmp_path / log).write_text("ganeti-wconfd does not run: for an earlier one\n")
    (tmp_path / "tools").mkdir()
    systemctl = tmp_path / "tools/systemctl"
    systemctl.write_text(SYSTEMCTL.format(commands=tmp_path / "bin", root=tmp_path, log=log))
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/tools:{os.environ['PATH']}")
    node._systemd = True
    assert run(["start", "ganeti-noded"], node) == 0
    _replace(node, "ganeti-wconfd", refused)
    assert run(["start-master"], node) == status
    assert capsys.readouterr().err.splitlines()[0] == "ganeti-wconfd: for this very reason"
    node._systemd = False


def test_an_interrupted_take_over_is_finished(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = OwnMastership("node2", "node2", "node1", 3, 4, "node1")
    finished: list[int] = []
    monkeypatch.setattr(Node, "own_mastership", lambda node: own)
    monkeypatch.setattr(Node, "finish_take_over", lambda node, epoch: finished.append(epoch) or 0)
    Path(node.paths.ssconf_file("master_node")).write_text("node2\n")
    assert run(["start-master"], node) == 0
    assert finished == [4]
    assert "it continues now" in capsys.readouterr().err

    def refuse(node: Node, epoch: int) -> int:
        raise PrerequisiteError("1 of 3 master candidates can be counted on")

    monkeypatch.setattr(Node, "finish_take_over", refuse)
    assert run(["start-master"], node) == 1
    assert "daemon-util: 1 of 3 master candidates can be counted on" in capsys.readouterr().err


def test_a_master_that_lost_the_vote_while_it_took_over_again_goes_on_with_that(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished: list[int] = []
    monkeypatch.setattr(Node, "own_mastership", lambda node: OwnMastership("node1", "node1", "node1", 3, 5, "node1"))
    monkeypatch.setattr(Node, "finish_take_over", lambda node, epoch: finished.append(epoch) or 0)
    _replace(node, "ganeti-wconfd", 11)
    assert run(["start-master"], node) == 0
    assert finished == [5]


def test_a_program_of_the_same_name_elsewhere_is_not_ours(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Debian's ganeti-rapi, on PATH: it would read this cluster's files."""
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    mark = tmp_path / "foreign-ran"
    for name in ("ganeti-rapi", "ganeti-confd", "daemon-util"):
        (foreign / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (foreign / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{foreign}:{os.environ['PATH']}")
    assert node.command("ganeti-rapi") is None
    assert run(["start", "ganeti-rapi"], node) == 1
    assert "ganeti-rapi is not installed" in capsys.readouterr().err
    assert run(["start-master"], node) == 0
    assert not mark.exists()


def test_who_holds_a_vote_is_told_that_it_is_settled(node: Node) -> None:
    """Else each would ask for a minute for nodes that are off, and whoever took over would wait for it."""
    assert run(["start-master", "--", "--no-voting", "--yes-do-it"], node) == 0
    for name in ("ganeti-wconfd", "ganeti-luxid"):
        given = Path(f"{node.paths.pid_file(name)}.arguments").read_text()
        assert given == "--no-voting --yes-do-it\n"


def test_who_learns_while_it_starts_that_another_is_master_has_not_failed(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever its daemon says of it: it may have been killed before it could say anything."""
    program = Path(node.command("ganeti-wconfd") or "")
    named = node.paths.ssconf_file("master_node")
    program.write_text(f"#!{sys.executable} -IS\nopen({named!r}, 'w').write('node2\\n')\nraise SystemExit(1)\n")
    assert run(["start-master"], node) == 11
    assert capsys.readouterr().err == ""
    assert not node.is_running("ganeti-luxid")


def test_two_starts_at_once_do_not_meet(node: Node, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As at a boot, with the watcher: the second must not fail because of a first that is then no master."""
    began, proceed = tmp_path / "began", tmp_path / "proceed"
    program = Path(node.command("ganeti-wconfd") or "")
    program.write_text(
        f"#!{sys.executable} -IS\nimport os, time\n"
        f"if os.path.exists({str(began)!r}):\n    raise SystemExit(11 if os.path.exists({str(proceed)!r}) else 1)\n"
        f"open({str(began)!r}, 'w').close()\n"
        f"while not os.path.exists({str(proceed)!r}):\n    time.sleep(0.001)\n"
        "raise SystemExit(11)\n"
    )
    statuses = []
    starts = [threading.Thread(target=lambda: statuses.append(run(["start-master"], node))) for _ in range(2)]
    starts[0].start()
    deadline = time.monotonic() + 10
    while not began.exists():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    starts[1].start()
    with open(f"{node.paths.run_dir}/ganeti-wconfd.start") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert statuses == []
    proceed.touch()
    for start in starts:
        start.join(10)
    assert statuses == [11, 11]
    assert capsys.readouterr().err == ""


def test_default_arguments_of_the_administrator(node: Node, tmp_path: Path) -> None:
    (tmp_path / "etc/default").mkdir(parents=True)
    (tmp_path / "etc/default/ganeti").write_text('# comment\nNODED_ARGS="-p 1899"  # port\nLUXID_ARGS=""\n')
    assert run(["start", "ganeti-noded", "-d"], node) == 0
    assert _arguments(node, "ganeti-noded") == ["-p 1899 -d"]
    assert run(["start", "ganeti-luxid"], node) == 0
    assert _arguments(node, "ganeti-luxid") == [""]


def test_logs_are_opened_again(node: Node) -> None:
    assert run(["rotate-logs", "ganeti-noded"], node) == 0
    run(["start", "ganeti-noded"], node)
    assert run(["rotate-all-logs"], node) == 0
    mark = Path(f"{node.paths.pid_file('ganeti-noded')}.hup")
    deadline = time.monotonic() + 5
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_names_and_statuses(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list-start-daemons"], node) == 0
    assert capsys.readouterr().out.split() == ["ganeti-noded", "ganeti-wconfd", "ganeti-luxid"]
    run(["list-stop-daemons"], node)
    assert capsys.readouterr().out.split() == ["ganeti-luxid", "ganeti-wconfd", "ganeti-noded"]
    assert run(["is-daemon-name", "ganeti-luxid"], node) == 0
    assert run(["is-daemon-name", "ganeti-rapi"], node) == 1
    assert [run(["check-exitcode", status], node) for status in ("0", "11", "1")] == [0, 0, 1]
    assert capsys.readouterr().out == "not master\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fly"], "no action 'fly'"),
        (
            ["restart", "ganeti-noded"],
            "no action 'restart': give one of start, stop, check, check-and-start, start-master",
        ),
        (["start", "ganeti-xyz"], "no daemon 'ganeti-xyz'"),
        (["start", "ganeti-rapi"], "not installed"),
        (["start"], "Name the daemon"),
        (["check-exitcode", "much"], "one exit status"),
    ],
)
def test_bad_words(node: Node, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    assert run(words, node) == 1
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1


def test_sshd_is_told_of_new_keys_where_there_is_one(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reload-ssh-keys"], node) == 0, "a node below a root has no sshd of its own"
    path = Path(node.paths.under("/run/sshd.pid"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("nobody\n")
    assert run(["reload-ssh-keys"], node) == 1
    assert "names no process" in capsys.readouterr().err


def test_a_lock_held_by_a_reader_of_the_file_is_not_a_daemon(node: Node) -> None:
    """Two checks at once must not take each other for the daemon."""
    path = Path(node.paths.pid_file("ganeti-noded"))
    path.write_text("1\n")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        assert not node.is_running("ganeti-noded")
    finally:
        os.close(descriptor)

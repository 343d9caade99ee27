# SPDX-License-Identifier: BSD-2-Clause
"""The record of a joining: who may read it, who waits for whom, and what the cluster's answer does to it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import pretend_machine as pretend
from tests.unit.bootstrap.test_joining import AUTHORITY, KEY

from ganeti.base.errors import CommandError, PrerequisiteError
from ganeti.bootstrap import joining_machine
from ganeti.bootstrap.attempt import Attempt, take_back_interrupted
from ganeti.bootstrap.init import init_cluster
from ganeti.bootstrap.join import Joining
from ganeti.bootstrap.join_by_token import TokenJoining
from ganeti.bootstrap.machine import Machine, has_joining
from ganeti.bootstrap.prepare_join import prepare
from ganeti.daemons import noded, watcher_joining
from ganeti.daemons.watcher_joining import JOB_WITHIN_S, ask_master, ask_membership, end_joining
from ganeti.node import certificates
from ganeti.system.environment import Environment
from ganeti.tools import ensure_dirs, node_cleanup

PEM = certificates.issue_node_certificate(AUTHORITY, "node1", "cluster")
AUTHORIZED = "root/.ssh/authorized_keys"


@pytest.fixture
def machine(tmp_path: Path) -> Any:
    made = pretend.make(tmp_path)
    made.broken |= {f"check ganeti-{name}" for name in ("noded", "confd", "mond")}
    (tmp_path / "var/lib/ganeti").mkdir(parents=True)
    return made


def interrupt(machine: Any, *, asked: bool = False) -> None:
    """Begin a joining whose process then is no more."""
    begun = Attempt.begin(machine)
    paths = machine.paths
    for path, text in ((f"{paths.root}/{AUTHORIZED}", "the cluster's\n"), (paths.server_cert, PEM)):
        begun.files.put(path, text, 0o600)
    begun.start_daemons()
    if asked:
        begun.ask_cluster()
    begun.leave()


def interrupted(machine: Any, *, asked: bool = False) -> dict[str, Any]:
    """The same; gives what was there before."""
    before = pretend.tree(Path(machine.paths.root))
    interrupt(machine, asked=asked)
    machine.told.clear()
    return before


def now(machine: Any) -> dict[str, Any]:
    return pretend.tree(Path(machine.paths.root))


def later() -> float:
    return watcher_joining.time.time() + JOB_WITHIN_S + 60


def test_nobody_touches_a_joining_that_is_under_way(
    machine: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its node daemon is started by it."""
    begun = Attempt.begin(machine)
    begun.files.put(machine.paths.server_cert, PEM, 0o440)
    monkeypatch.setenv("GANETI_ROOTDIR", machine.paths.root)
    with pytest.raises(PrerequisiteError, match="is joining a cluster at this moment"):
        prepare(b'{"cluster_name": "cluster"}', machine)
    end_joining(machine, lambda paths, name: False, later)
    noded.end_joining(Environment(machine.paths, "node1"))
    assert ensure_dirs.main([]) == 0
    assert Path(machine.paths.server_cert).exists() and has_joining(machine.paths)
    begun.take_back()
    assert not has_joining(machine.paths)


@pytest.mark.parametrize("program", ["ensure-dirs", "ganeti-noded"])
def test_a_daemon_does_not_start_with_what_a_killed_joining_has_left(
    machine: Any, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    before = interrupted(machine)
    monkeypatch.setenv("GANETI_ROOTDIR", machine.paths.root)
    monkeypatch.setattr(Machine, "daemon_util", lambda *_: pytest.fail("systemd waits for the daemon that asks it"))
    if program == "ensure-dirs":
        ensure_dirs.main([])
    else:
        noded.end_joining(Environment(machine.paths, "node1"))
    assert {path: what for path, what in now(machine).items() if path in before} == before
    assert not has_joining(machine.paths) and not Path(machine.paths.server_cert).exists()


def test_a_cluster_is_made_where_a_joining_was_interrupted(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = interrupted(machine)
    monkeypatch.setattr("ganeti.bootstrap.init.Machine.here", lambda: machine)
    with pytest.raises(PrerequisiteError):
        init_cluster({"cluster_name": "no such name"})
    assert now(machine) == before


def test_node_cleanup_puts_keys_back_that_a_joining_has_replaced(machine: Any) -> None:
    before = interrupted(machine, asked=True)
    node_cleanup.clean_up(machine, backup=False)
    assert now(machine) == before


def test_a_node_that_the_cluster_knows_keeps_everything(machine: Any) -> None:
    interrupted(machine, asked=True)
    end_joining(machine, lambda paths, name: True, later)
    assert Path(machine.paths.server_cert).exists() and not has_joining(machine.paths)
    assert machine.told == []


def test_a_machine_whose_master_was_replaced_need_not_wait_for_the_hour(machine: Any) -> None:
    """The command that wanted it has ended with that master; a job that comes later finds no node daemon."""
    Path(machine.paths.ssconf_file("master_node")).write_text("node1\n")
    before = interrupted(machine, asked=True)
    for master in (None, "node1"):
        end_joining(machine, lambda paths, name: False, master=lambda paths, master=master: master)  # type: ignore[misc]
        assert Path(machine.paths.server_cert).exists() and has_joining(machine.paths)
    for answer in (True, None):
        end_joining(machine, lambda paths, name, answer=answer: answer, master=lambda paths: "node3")  # type: ignore[misc]
        assert Path(machine.paths.server_cert).exists() and has_joining(machine.paths), "its job may still fail"
    end_joining(machine, lambda paths, name: False, master=lambda paths: "node3")
    assert now(machine) == before


def test_a_record_of_a_former_release_names_no_master(machine: Any) -> None:
    interrupted(machine, asked=True)
    end_joining(machine, lambda paths, name: False, master=lambda paths: pytest.fail("nobody can compare that"))
    assert has_joining(machine.paths)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ((None,), []),
        ((False, None), ["stop ganeti-mond", "stop ganeti-confd", "stop ganeti-noded", "start ganeti-noded"]),
        ((False, True), ["stop ganeti-mond", "stop ganeti-confd", "stop ganeti-noded", "start ganeti-noded"]),
    ],
)
def test_only_the_answer_without_a_node_daemon_takes_a_machine_back(
    machine: Any, answers: tuple[bool | None, ...], told: list[str]
) -> None:
    """Its job could begin just between the answer and the end of the daemon."""
    interrupted(machine, asked=True)
    left = list(answers)
    end_joining(machine, lambda paths, name: left.pop(0), later)
    assert (left, machine.told) == ([], told)
    assert Path(machine.paths.server_cert).exists()
    assert has_joining(machine.paths) == (answers[-1] is None), "it is asked again in the next round"


def test_the_candidates_are_asked(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that knows no node at all has no copy of the configuration yet."""
    known: dict[int, Any] = {}

    class Client:
        def __init__(self, places: list[Any], key: bytes) -> None:
            assert (places, key) == ([("10.77.0.9", 1814)], b"secret\n")

        def deadline_s(self) -> float:
            return 0.0

        def ask(self, kind: int, query: Any, deadline_s: float) -> Any:
            if not known:
                raise watcher_joining.SilentError("nobody")
            return known.get(kind)

    monkeypatch.setattr(watcher_joining, "ConfdClient", Client)
    paths = machine.paths
    Path(paths.ssconf_file("master_candidates_ips")).write_text("10.77.0.9\n")
    assert ask_membership(paths, "node1") is None, "there is no key"
    Path(paths.hmac_key).write_text("secret\n")
    assert ask_membership(paths, "node1") is None
    known[watcher_joining.Kind.CONFIG] = {}
    assert ask_membership(paths, "node1") is None
    known[watcher_joining.Kind.NODE_ADDRESSES] = ["10.77.0.9"]
    assert ask_membership(paths, "node1") is False
    known[watcher_joining.Kind.NODE_ROLE] = 0
    assert ask_membership(paths, "node1") is True
    assert ask_master(paths) is None
    known[watcher_joining.Kind.MASTER] = "node3"
    assert ask_master(paths) == "node3"


def test_a_record_that_another_user_could_write_is_none(machine: Any) -> None:
    """It says which files root writes; the data directory belongs to the master's user."""
    interrupt(machine)
    record = Path(machine.paths.joining_record)
    record.chmod(0o666)
    for act in (take_back_interrupted, Attempt.begin):
        with pytest.raises(PrerequisiteError, match="not written by a joining of this machine: remove it"):
            act(machine)
    record.unlink()
    record.symlink_to(machine.paths.server_cert)
    with pytest.raises(OSError, match="symbolic links"):
        take_back_interrupted(machine)
    end_joining(machine, lambda paths, name: False, later)  # and the watcher goes on


def test_a_last_line_that_is_cut_off_tells_of_nothing(machine: Any) -> None:
    before = interrupted(machine)
    with open(machine.paths.joining_record, "ab") as file:
        file.write(b'{"mark": "ask')
    again = Attempt.begin(machine)
    again.files.put(machine.paths.hmac_key, "secret", 0o440)
    again.leave()
    assert take_back_interrupted(machine)
    assert now(machine) == before


def test_only_root_reads_the_keys_in_the_record(machine: Any) -> None:
    interrupt(machine)
    assert Path(machine.paths.joining_record).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("said", [b"", b'{"state": "keep"}\n', b"junk\n"])
def test_the_cluster_is_not_asked_for_a_machine_that_has_not_noted_it(said: bytes) -> None:
    class Connection:
        def say(self, message: Any) -> None: ...

        send = say

        def hear(self, timeout_s: float) -> Any:
            if not said:
                raise CommandError("node-daemon-setup on node2 failed: it was killed")
            return json.loads(said) if said.startswith(b"{") else {}

        def receive(self, limit_bytes: int) -> Any:
            if not said:
                raise ConnectionResetError
            return json.loads(said)

    over_ssh: Any = object.__new__(Joining)
    over_ssh._talk, over_ssh._name = Connection(), "node2"
    by_token = TokenJoining(Connection(), None)  # type: ignore[arg-type]
    for joining in (over_ssh, by_token):
        with pytest.raises(CommandError):
            joining.asks_cluster()


def test_a_machine_whose_disk_is_full_has_the_master_ask_nobody(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Attempt) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Attempt, "ask_cluster", full)
    before = now(machine)
    request = {
        "prepare": {"cluster_name": "cluster", "ssh_host_key": [list(KEY)]},
        "setup": {"cluster_name": "cluster", "start_node_daemon": True},
    }
    said = io.BytesIO()
    lines = b"".join(json.dumps(line).encode() + b"\n" for line in (request, {"state": "asked"}))
    joining_machine.converse(machine, io.BytesIO(lines), said)
    states = [json.loads(line).get("state") for line in said.getvalue().splitlines()]
    assert states == ["ready", None, "take back"]
    assert now(machine) == before

# SPDX-License-Identifier: BSD-2-Clause
"""A joining that is killed before each of its changes: the machine is as it was, or a node, and the next try works."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import killed
from tests.fakes import pretend_machine as pretend
from tests.unit.bootstrap.test_joining import AUTHORITY, KEY, OTHER, SECOND

from ganeti.base.errors import CommandError, PrerequisiteError
from ganeti.bootstrap import joining_machine
from ganeti.bootstrap.attempt import take_back_interrupted
from ganeti.bootstrap.joining_record import JoiningRecord
from ganeti.bootstrap.machine import has_joining
from ganeti.daemons.watcher_joining import JOB_WITHIN_S, end_joining
from ganeti.node import certificates

PEM = certificates.issue_node_certificate(AUTHORITY, "node2", "cluster")
OLD_PEM = certificates.issue_node_certificate(AUTHORITY, "node2", "cluster")
ASKED, KEEP, TAKE_BACK = ({"state": word} for word in ("asked", "keep", "take back"))
DATA = "var/lib/ganeti"


class Node(pretend.PretendMachine):
    """Its daemons are files, and so is what sshd answers with: they outlive the process that starts them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.hostname = "node2"
        self._running = root.parent / f"{root.name} runs"
        self._running.mkdir(exist_ok=True)
        self._host_key = root / "etc/ssh/ssh_host_ed25519_key"

    def daemon_util(self, *words: str, timeout_s: float = 120.0) -> None:
        sys.audit(killed.STEP)
        super().daemon_util(*words)
        if words[0] == "reload-ssh-keys":
            (self._running / "sshd").write_bytes(self._key())
            return
        place = self._running / words[-1]
        if words[0] == "start":
            place.touch()
        elif words[0] == "stop":
            place.unlink(missing_ok=True)
        elif words[0] == "check" and not place.exists():
            raise CommandError("it does not run")

    def _key(self) -> bytes:
        return self._host_key.read_bytes() if self._host_key.exists() else b""

    def running(self) -> set[str]:
        names = {place.name for place in self._running.iterdir()}
        if "sshd" in names:
            assert (self._running / "sshd").read_bytes() == self._key(), "sshd has been told of its keys"
        return names - {"sshd"}


def conversation(
    is_member: bool | None,
    *words: dict[str, str],
    authority: Any = AUTHORITY,
    pem: str = PEM,
    is_alone: bool = False,
    cluster: str = "cluster",
) -> bytes:
    """What the master says."""
    name = {"cluster_name": cluster}
    prepare = {
        **name,
        "node_daemon_certificate": authority.certificate,
        "ssh_host_key": [list(KEY)],
        "authorized_keys": {"uuid": [SECOND[2]]},
        "ssh_key_type": "ed25519",
    }
    setup = {
        **name,
        "node_name": "node2",
        "node_daemon_certificate": pem,
        "ssconf": {**name, "node_list": "node1"},
        "hmac_key": "secret",
        "start_node_daemon": True,
    }
    request = {"prepare": prepare, "setup": setup, "is_member": is_member, "is_alone": is_alone}
    return b"".join(json.dumps(line).encode() + b"\n" for line in (request, *words))


def join(node: Node, *words: dict[str, str], is_member: bool | None = False, **other: Any) -> str:
    """Hold the conversation; gives what the machine said last."""
    said = io.BytesIO()
    joining_machine.converse(node, io.BytesIO(conversation(is_member, *words, **other)), said)
    return str(next(iter(json.loads(said.getvalue().splitlines()[-1]).values())))


def fresh(root: Path) -> Node:
    pretend.make(root)
    (root / "etc/ssh/ssh_host_ed25519_key").write_text(SECOND[1])
    return Node(root)


def kept(root: Path) -> Node:
    """A machine whose administrator has something in the data directory."""
    node = fresh(root)
    (root / DATA).mkdir(parents=True)
    (root / DATA / "notes").write_text("the administrator's")
    return node


def former(root: Path) -> Node:
    """A node that comes back."""
    node = kept(root)
    for name, text in (("server.pem", OLD_PEM), ("client.pem", OLD_PEM), ("ca.pem", AUTHORITY.certificate)):
        (root / DATA / name).write_text(text)
    (root / DATA / "config.sqlite").write_text("its copy")
    for name in ("ganeti-noded", "ganeti-confd", "ganeti-mond"):
        node.daemon_util("start", name)
    return node


MACHINES: dict[str, Callable[[Path], Node]] = {"fresh": fresh, "kept": kept, "former": former}


def state(node: Node, root: Path) -> tuple[dict[str, tuple[int, bytes]], set[str]]:
    """All files and daemons; an empty data directory is none."""
    found = pretend.tree(root)
    for path in (DATA, "var/lib", "var"):
        if path in found and not any(other.startswith(f"{path}/") for other in found):
            del found[path]
    return found, node.running()


def outcome(node: Node, root: Path) -> tuple[Any, set[str]]:
    """The same of a node that has joined, but for the key of root, which is another one each time."""
    files, daemons = state(node, root)
    return {path: what for path, what in files.items() if not path.startswith("root/.ssh/id_")}, daemons


def interrupted(tmp_path: Path, kind: str, *words: dict[str, str]) -> Iterator[tuple[Node, Path, Any]]:
    """One machine of the kind after each way to be killed, with what it was before."""
    for step in range(1, 1000):
        root = tmp_path / f"{step}"
        node = MACHINES[kind](root)
        before = state(node, root)
        if not killed.kill_at(step, root, lambda node=node: join(node, *words)):  # type: ignore[misc]
            assert step > 40, "each change was the one before which it died"
            return
        yield node, root, before
        shutil.rmtree(root)
        shutil.rmtree(node._running)


def never(paths: Any, name: str) -> bool:
    raise AssertionError("the cluster was not asked: nobody needs to know what it says")


def much_later() -> float:
    return time.time() + JOB_WITHIN_S + 60


def how_it_ended(node: Node) -> str:
    record = JoiningRecord.left_behind(node.paths)
    if record is None:
        return "begun"
    record.close()
    return "begun" if record.asked_at_s is None else "asked"


def apart(one: Any, other: Any) -> list[str]:
    """What differs, by name."""
    files = [path for path in one[0].keys() | other[0].keys() if one[0].get(path) != other[0].get(path)]
    return sorted([*files, *(one[1] ^ other[1])])


@pytest.fixture(autouse=True)
def _without_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are killed here, no machine is."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def whole(tmp_path: Path) -> Callable[[str], Any]:
    """What a machine of a kind is like that has joined undisturbed."""

    def made(kind: str) -> Any:
        root = tmp_path / "whole" / kind
        node = MACHINES[kind](root)
        assert join(node, ASKED, KEEP) == "keep"
        return outcome(node, root)

    return made


@pytest.mark.parametrize("kind", MACHINES)
def test_the_next_round_of_the_watcher_leaves_it_as_it_was(tmp_path: Path, kind: str, whole: Any) -> None:
    """Or, where the cluster was asked, the first one after the job cannot run any more."""
    wanted = whole(kind)
    ends = set()
    for node, root, before in interrupted(tmp_path, kind, ASKED, KEEP):
        end, files = how_it_ended(node), state(node, root)[0]
        if end == "asked":
            end_joining(node, never)
            assert state(node, root)[0] == files, "its job may still run"
            end_joining(node, lambda paths, name: False, much_later)
        elif "asked" not in ends:
            end_joining(node, never)
        else:
            end = "kept"
            assert outcome(node, root)[0] == wanted[0]
            assert "ganeti-noded" in node.running()
        assert not has_joining(node.paths)
        assert end == "kept" or not apart(state(node, root), before)
        ends.add(end)
    assert ends == {"begun", "asked", "kept"}


@pytest.mark.parametrize("kind", MACHINES)
def test_the_next_try_works_at_once(tmp_path: Path, kind: str, whole: Any) -> None:
    wanted = whole(kind)
    for node, root, _ in interrupted(tmp_path, kind, ASKED, KEEP):
        assert join(node, ASKED, KEEP) == "keep"
        assert not apart(outcome(node, root), wanted)


def test_the_next_try_that_fails_leaves_what_was_before_the_first(tmp_path: Path) -> None:
    for node, root, before in interrupted(tmp_path, "kept", ASKED):
        assert join(node, ASKED, TAKE_BACK) == "take back"
        assert not apart(state(node, root), before)


def test_another_cluster_may_have_the_machine_afterwards(tmp_path: Path) -> None:
    pem = certificates.issue_node_certificate(OTHER, "node2", "cluster")
    for node, root, _ in interrupted(tmp_path, "fresh", ASKED):
        assert join(node, ASKED, KEEP, authority=OTHER, pem=pem) == "keep"
        assert (root / DATA / "server.pem").read_text() == pem


def begin_and_die(node: Node) -> None:
    """Be killed while the master is still heard."""

    class Master(io.BytesIO):
        def __next__(self) -> bytes:
            os._exit(0)

    def work() -> None:
        joining_machine.converse(node, Master(conversation(False)), io.BytesIO())

    killed.kill_at(0, Path("/"), work)
    assert "ganeti-noded" in node.running()


def test_taking_back_may_be_interrupted_too(tmp_path: Path) -> None:
    for step in range(1, 1000):
        root = tmp_path / f"{step}"
        node = kept(root)
        before = state(node, root)
        begin_and_die(node)
        assert how_it_ended(node) == "begun"
        if not killed.kill_at(step, root, lambda node=node: take_back_interrupted(node)):  # type: ignore[misc]
            assert step > 20
            assert not apart(state(node, root), before)
            return
        end_joining(node, never)
        assert not apart(state(node, root), before)


def begin_and_wait(node: Node, *words: dict[str, str]) -> int:
    """Have a process join that does not hear of its master's end; gives its number, once *words* are heard."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:

        class Master(io.BytesIO):
            def __next__(self) -> bytes:
                if (line := self.readline()) == b"":
                    os.write(write_end, b"x")
                    signal.pause()
                return line

        joining_machine.converse(node, Master(conversation(False, *words)), io.BytesIO())
        os._exit(1)
    os.close(write_end)
    assert os.read(read_end, 1) == b"x"
    os.close(read_end)
    return child


@pytest.mark.parametrize("words", [(), (ASKED,)])
def test_the_next_try_ends_a_process_that_nobody_talks_to_any_more(
    tmp_path: Path, words: tuple[dict[str, str], ...], whole: Any
) -> None:
    """The master was without power, say: the connection from before that stays open here for hours."""
    node = kept(tmp_path / "node")
    child = begin_and_wait(node, *words)
    assert "at this moment" in refused(node)
    assert join(node, ASKED, KEEP, is_alone=True) == "keep"
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not apart(outcome(node, tmp_path / "node"), whole("kept"))


def test_the_master_of_another_cluster_ends_nothing(tmp_path: Path) -> None:
    node = fresh(tmp_path / "node")
    child = begin_and_wait(node)
    try:
        assert "at this moment" in refused(node, is_alone=True, cluster="other")
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def refused(node: Node, **other: Any) -> str:
    with pytest.raises(PrerequisiteError) as raised:
        join(node, ASKED, KEEP, **other)
    return str(raised.value)

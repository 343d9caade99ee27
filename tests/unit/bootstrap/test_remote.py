# SPDX-License-Identifier: BSD-2-Clause
"""Running helpers over ssh: no secret in an argument, host keys checked, one sentence when it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import pretend_machine as pretend

from ganeti.base.errors import CommandError
from ganeti.bootstrap import remote as remote_module
from ganeti.bootstrap.remote import Remote


class Recorder:
    def __init__(self, *answers: tuple[int, str]) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[list[str], str]] = []

    def __call__(self, argv: Sequence[str], *, stdin: str, **_: Any) -> subprocess.CompletedProcess[str]:
        self.calls.append((list(argv), stdin))
        status, errors = self.answers.pop(0)
        return subprocess.CompletedProcess(argv, status, "", errors)


def remote(tmp_path: Path, recorder: Recorder, *, check: bool = True) -> Remote:
    machine = pretend.make(tmp_path)
    machine.run = recorder  # type: ignore[method-assign,assignment]
    return Remote(machine, "node2", "cluster", 2222, check_host_key=check)


@pytest.mark.requirement("S3.3")
def test_input_goes_through_standard_input_only(tmp_path: Path) -> None:
    recorder = Recorder((0, ""))
    remote(tmp_path, recorder).run("prepare-node-join", "very secret", "-v")
    [(argv, stdin)] = recorder.calls
    assert stdin == "very secret"
    assert not any("secret" in word for word in argv)
    assert argv[-3:] == ["--", "/usr/lib/ganeti/prepare-node-join", "-v"]
    assert "2222" in argv
    assert "BatchMode=yes" in argv
    assert "StrictHostKeyChecking=yes" in argv


def test_a_machine_that_was_no_node_yet_shows_its_own_key(tmp_path: Path) -> None:
    recorder = Recorder((255, "Host key verification failed."), (0, ""))
    remote(tmp_path, recorder).run("prepare-node-join", "{}")
    first, second = (argv for argv, _ in recorder.calls)
    assert "HostKeyAlias=cluster" in first
    assert "HostKeyAlias=cluster" not in second
    assert "StrictHostKeyChecking=yes" in second


def test_an_unknown_key_is_told_with_the_remedy(tmp_path: Path) -> None:
    recorder = Recorder((255, "Host key verification failed."), (255, "Host key verification failed."))
    with pytest.raises(CommandError, match=r"host key of node2 is not known here.*--no-ssh-key-check"):
        remote(tmp_path, recorder).run("prepare-node-join", "{}")


def test_a_key_that_has_changed_is_not_called_unknown(tmp_path: Path) -> None:
    changed = "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed."
    recorder = Recorder((255, changed), (255, changed))
    with pytest.raises(CommandError, match=r"another ssh host key than.*ssh-keygen -R '\[node2\]:2222'"):
        remote(tmp_path, recorder).run("prepare-node-join", "{}")


def test_without_the_check_nothing_is_remembered(tmp_path: Path) -> None:
    recorder = Recorder((0, ""))
    remote(tmp_path, recorder, check=False).run("prepare-node-join", "{}")
    assert "UserKnownHostsFile=/dev/null" in recorder.calls[0][0]


def test_an_unreachable_machine_is_named_and_the_second_try_works(tmp_path: Path) -> None:
    silent = "ssh: connect to host node2 port 2222: No route to host"
    recorder = Recorder((255, silent), (255, silent), (0, ""))
    again = remote(tmp_path, recorder)
    before = pretend.tree(tmp_path)
    with pytest.raises(CommandError, match=r"node2 cannot be reached as root over ssh: .*No route to host"):
        again.run("prepare-node-join", "{}")
    assert pretend.tree(tmp_path) == before
    recorder.answers = [(0, "")]
    again.run("prepare-node-join", "{}")


def test_a_helpers_refusal_is_passed_on(tmp_path: Path) -> None:
    recorder = Recorder((1, "prepare-node-join: This machine belongs to the cluster 'x'\n"))
    with pytest.raises(CommandError, match="on node2 failed: prepare-node-join: This machine belongs to"):
        remote(tmp_path, recorder).run("prepare-node-join", "{}")
    assert len(recorder.calls) == 1


@pytest.mark.requirement("S3.3")
def test_the_systems_ssh_is_run_and_no_library(tmp_path: Path) -> None:
    recorder = Recorder((0, ""))
    remote(tmp_path, recorder).run("prepare-node-join", "{}")
    assert Path(recorder.calls[0][0][0]).name == "ssh"
    source = Path(remote_module.__file__).parents[1]
    assert not [path for path in source.rglob("*.py") if "paramiko" in path.read_text()]


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ("Welcome to node2", None),
        ("[1]", None),
        ('{"state": "ready"}', {"state": "ready"}),
        ('Welcome to node2\n[1]\n{"state": "ready"}', {"state": "ready"}),
    ],
)
def test_what_a_shell_prints_before_the_helper_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, message: Any
) -> None:
    """The .bashrc of root may greet whoever comes; a helper that has begun says JSON alone."""
    started = subprocess.Popen

    def ssh(words: Sequence[str], **options: Any) -> Any:
        return started(["printf", "%s\\n%s\\n", printed, "no JSON"], **options)

    monkeypatch.setattr(remote_module.subprocess, "Popen", ssh)
    talk = remote(tmp_path, Recorder()).begin("node-daemon-setup")
    if message is None:
        with pytest.raises(CommandError, match="node-daemon-setup on node2"):
            talk.hear_first(60)
    else:
        assert talk.hear_first(60) == message
        with pytest.raises(CommandError, match="answered with something else than JSON"):
            talk.hear(60)
    talk.end()


@pytest.mark.parametrize("command", ['echo \'{"state": "keep"}\'; exec sleep 600', "exit 255"])
def test_after_the_last_word_nobody_waits_for_the_helper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    started, made = subprocess.Popen, []

    def ssh(words: Sequence[str], **options: Any) -> Any:
        made.append(started(["sh", "-c", command], **options))
        return made[-1]

    monkeypatch.setattr(remote_module.subprocess, "Popen", ssh)
    talk = remote(tmp_path, Recorder()).begin("node-daemon-setup")
    talk.part(600)
    assert made[0].poll() == (255 if command == "exit 255" else None)
    made[0].kill()
    talk.end()

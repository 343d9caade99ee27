# SPDX-License-Identifier: BSD-2-Clause
"""Commands of the node's white lists, and its restart (protocols, section 11)."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import ExecutionError
from ganeti.node import white_list

RESTRICTED, REPAIR = "/etc/ganeti/restricted-commands", "/etc/ganeti/node-repair-commands"


@pytest.fixture
def slept(node: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the node waited, without waiting."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(node.state.world, "sleep", sleep)
    return waited


def test_a_command_of_the_list_runs_without_arguments_and_environment(node: Any, slept: list[float]) -> None:
    node.program(f"{RESTRICTED}/check-disks", 'echo "$# $HOME"; echo seen >&2')
    assert node.call("restricted_command", name="check-disks") == "0 \nseen\n"
    assert slept == []


def test_a_link_may_lead_elsewhere(node: Any, slept: list[float]) -> None:
    target = node.program("/opt/check", "echo linked")
    Path(node.paths.under(RESTRICTED)).mkdir()
    Path(node.paths.under(f"{RESTRICTED}/check")).symlink_to(target)
    assert node.call("restricted_command", name="check") == "linked\n"
    target.chmod(0o777)
    with pytest.raises(ExecutionError):
        node.call("restricted_command", name="check")


@pytest.mark.parametrize(
    ("name", "mode", "fault"),
    [
        ("../etc", 0o755, "is no plain name"),
        ("nosuch", 0o755, "No such file"),
        ("check", 0o775, "has mode 0775: the widest is 0755"),
        ("check", 0o644, "is not executable"),
    ],
)
@pytest.mark.parametrize(("call", "directory"), [("restricted_command", RESTRICTED), ("repair_command", REPAIR)])
def test_what_may_not_run_is_told_slowly_and_in_the_log_alone(
    node: Any, slept: list[float], call: str, directory: str, name: str, mode: int, fault: str
) -> None:
    node.program(f"{directory}/check", "echo never", mode=mode)
    with pytest.raises(ExecutionError) as caught:
        node.call(call, name=name)
    assert str(caught.value) == f"Executing command '{name}' failed: the log of the node daemon says why"
    assert slept == [10.0]
    assert fault in node.logged[-1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_neither_a_command_nor_a_link_to_it_may_be_somebody_else_s(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for name, linked in (("given", False), ("target", True)):
        command = tmp_path / name
        command.write_text("#!/bin/sh\n")
        command.chmod(0o755)
        os.chown(command, 1, 0)
        if linked:
            (tmp_path / "link").symlink_to(command)
    for name in ("given", "link"):
        assert "does not belong to root:root" in str(white_list.fault_of(str(tmp_path), name, (0, 0), links=True))
    os.lchown(tmp_path / "link", 1, 0)
    os.chown(tmp_path / "target", 0, 0)
    assert "does not belong to root:root" in str(white_list.fault_of(str(tmp_path), "link", (0, 0), links=True))


def test_one_look_up_at_a_time(node: Any, slept: list[float]) -> None:
    node.program(f"{RESTRICTED}/check", "echo never")
    os.makedirs(node.paths.lock_dir)
    with open(node.paths.restricted_commands_lock, "w", encoding="utf-8") as other:
        fcntl.flock(other, fcntl.LOCK_SH)  # which only an exclusive lock does not get on with
        with pytest.raises(ExecutionError, match="the log of the node daemon says why"):
            node.call("restricted_command", name="check")
    assert sum(slept) == pytest.approx(8.0)
    assert "is held" in node.logged[-1]


def test_without_the_directory_they_are_off(node: Any) -> None:
    with pytest.raises(ExecutionError, match="Restricted commands are off on this node: make "):
        node.call("restricted_command", name="check")


def test_a_command_that_fails_says_how(node: Any, slept: list[float]) -> None:
    node.program(f"{RESTRICTED}/check", "echo bad; exit 3")
    with pytest.raises(ExecutionError, match="Command 'check' failed with status 3; output: bad"):
        node.call("restricted_command", name="check")
    assert slept == []


@pytest.mark.requirement("S4.12")
def test_a_repair_command_reads_what_it_is_given(node: Any, slept: list[float]) -> None:
    node.program(f"{REPAIR}/fan", "cat")
    assert node.call("repair_command", name="fan", input='{"status": "live-repair"}') == '{"status": "live-repair"}'


def test_the_machine_restarts_after_the_answer(node: Any, slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    restarted = asyncio.Event()

    async def spawn(argv: Any, **_: Any) -> int:
        started.append(list(argv))
        restarted.set()
        return 1

    monkeypatch.setattr(node.state.world, "spawn", spawn)
    with pytest.raises(ExecutionError, match="There is no program "):
        node.call("node_powercycle")
    program = node.program("/sbin/reboot", "exit 1")

    async def ask_and_wait() -> Any:
        answer = await node.make_call("node_powercycle")
        assert started == []
        await asyncio.wait_for(restarted.wait(), 10)
        return answer

    assert node.run(ask_and_wait()) == "Reboot scheduled in 5 seconds"
    assert (slept, started) == ([5.0], [[str(program), "-f"]])

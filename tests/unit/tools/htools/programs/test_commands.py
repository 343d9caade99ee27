# SPDX-License-Identifier: BSD-2-Clause
"""The shell commands and the opcodes of each kind of step."""

import subprocess
from pathlib import Path

import pytest

from ganeti.placement.balance.steps import Step
from ganeti.placement.cluster.picture import Cluster, Group, Instance, Node, Status
from ganeti.placement.kernel.state import ClusterState
from ganeti.tools.htools.programs.commands import listing, opcodes, script, shell_commands

UP, DOWN, PROMISED = 0, 1, 2


@pytest.fixture
def state() -> ClusterState:
    nodes = [Node(name, "g", 1000, 0, 1000, 4096, 4096, 4) for name in ("a.x", "b.x", "c.x")]
    instances = [
        Instance("up.x", 1, 1, 1, "drbd", "a.x", "b.x"),
        Instance("down.x", 1, 1, 1, "drbd", "a.x", "b.x", status=Status.ADMIN_DOWN),
        Instance("promised.x", 1, 1, 1, "drbd", "a.x", "b.x", forthcoming=True),
    ]
    return ClusterState(Cluster(nodes, instances, [Group("g", "group")]))


def step(kind: str, instance: int = UP) -> Step:
    return Step(instance, kind, -1 if kind == "f" else 2, (0, 1), (1, 0), 0.5)


def short(name: str) -> str:
    return name.removesuffix(".x")


@pytest.mark.parametrize(
    ("kind", "commands"),
    [
        ("f", ["migrate -f up"]),
        ("fa", ["migrate -f -n c up"]),
        ("r", ["replace-disks -n c up"]),
        ("rf", ["replace-disks -n c up", "migrate -f up"]),
        ("fr", ["migrate -f up", "replace-disks -n c up"]),
        ("frf", ["migrate -f up", "replace-disks -n c up", "migrate -f up"]),
    ],
)
def test_commands_and_opcodes_agree(state: ClusterState, kind: str, commands: list[str]) -> None:
    assert shell_commands(state, step(kind), short) == commands
    found = opcodes(state, step(kind))
    names = {"migrate": "OP_INSTANCE_MIGRATE", "replace-disks": "OP_INSTANCE_REPLACE_DISKS"}
    assert [opcode["OP_ID"] for opcode in found] == [names[command.split()[0]] for command in commands]
    assert all(opcode["instance_name"] == "up.x" for opcode in found)


def test_opcodes_name_the_target_where_there_is_one(state: ClusterState) -> None:
    (move,) = opcodes(state, step("fa"))
    assert move["target_node"] == "c.x"
    replace, failover = opcodes(state, step("rf"))
    assert (replace["remote_node"], replace["mode"]) == ("c.x", "replace_new_secondary")
    assert "target_node" not in failover


def test_what_does_not_run_fails_over(state: ClusterState) -> None:
    assert shell_commands(state, step("f", DOWN), short) == ["failover -f down"]
    assert opcodes(state, step("f", PROMISED))[0]["OP_ID"] == "OP_INSTANCE_FAILOVER"


def test_a_listing_counts_sets_and_jobs(state: ClusterState) -> None:
    assert listing(state, [[step("f"), step("r", DOWN)], [step("fa")]], short).splitlines() == [
        "  ",
        "  echo jobset 1, 2 jobs",
        "    echo job 1/1",
        "    gnt-instance migrate -f up",
        "    echo job 1/2",
        "    gnt-instance replace-disks -n c down",
        "  ",
        "  echo jobset 2, 1 jobs",
        "    echo job 2/1",
        "    gnt-instance migrate -f -n c up",
    ]


def test_the_script_runs_in_a_shell(state: ClusterState, tmp_path: Path) -> None:
    program = tmp_path / "gnt-instance"
    program.write_text('#!/bin/sh\necho "did $*"\n')
    program.chmod(0o755)
    ran = subprocess.run(
        ["/bin/sh"],
        input=script(state, [[step("fr")]], short),
        env={"PATH": f"{tmp_path}:/bin:/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == [
        "jobset 1, 1 jobs",
        "job 1/1",
        "did migrate -f up",
        "did replace-disks -n c up",
    ]

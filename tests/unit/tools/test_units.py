# SPDX-License-Identifier: BSD-2-Clause
"""The systemd units: one for each daemon there is, none of which takes guests or jobs down with it."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.bootstrap.demanded_daemons import ON_DEMAND
from ganeti.tools.node_daemons import MASTER_DAEMONS, NODE_DAEMONS

TREE = Path(__file__).resolve().parents[3]
UNITS = [
    path
    for path in sorted((TREE / "setup/systemd").glob("ganeti-*.service"))
    if path.stem not in ("ganeti-cleaner", "ganeti-watcher")
]


def read(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return parser


def test_every_daemon_of_the_tree_has_a_unit() -> None:
    here = {f"ganeti-{path.stem}" for path in (TREE / "src/ganeti/daemons").glob("*.py")}
    wanted = {name for name in (*NODE_DAEMONS, *MASTER_DAEMONS, *ON_DEMAND) if name in here}
    assert {path.stem for path in UNITS} == wanted


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_ends_the_daemon_alone_and_takes_its_arguments(path: Path) -> None:
    service = read(path)["Service"]
    variable = f"${path.stem.removeprefix('ganeti-').upper()}_ARGS"
    assert service["KillMode"] == "process"
    assert service["ExecStart"] == f"/usr/sbin/{path.stem} {variable}"
    assert service["PIDFile"] == Paths().pid_file(path.stem)
    assert service["RestartPreventExitStatus"] == "5 11"


@pytest.mark.parametrize("name", ["ganeti-noded", "ganeti-mirrord", "ganeti-luxid", "ganeti-mond", "ganeti-watcher"])
def test_a_guest_job_or_storage_daemon_that_is_killed_for_memory_ends_no_daemon(name: str) -> None:
    """Of a unit that says nothing, systemd ends the daemon as well when the kernel kills any process of the unit."""
    assert read(TREE / f"setup/systemd/{name}.service")["Service"]["OOMPolicy"] == "continue"


def test_no_round_of_the_watcher_waits_for_the_slowest_group_of_the_one_before() -> None:
    service = read(TREE / "setup/systemd/ganeti-watcher.service")["Service"]
    assert service["ExecStart"] == "/usr/sbin/ganeti-watcher --no-wait-children"
    assert service["KillMode"] == "process", "or the groups' processes end with it"


@pytest.mark.parametrize("name", ["ganeti-watcher", "ganeti-cleaner"])
def test_what_is_run_now_and_then_has_a_timer(name: str) -> None:
    assert read(TREE / f"setup/systemd/{name}.timer")["Install"]["WantedBy"] == "timers.target"

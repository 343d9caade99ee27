# SPDX-License-Identifier: BSD-2-Clause
"""`daemon-util start-master` on real daemons: deposed meanwhile, refused by WConfD, or with files of the node lost."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.master_daemons import HOST, Master, is_stopped
from tests.fakes.wconfd import fast_directory

from ganeti.base.errors import EXIT_NOT_MASTER
from ganeti.noded.master_ending import Ended, end_master_daemons
from ganeti.tools.daemon_util import run
from ganeti.tools.node_daemons import MASTER_DAEMONS, Node

pytestmark = pytest.mark.daemons


@pytest.fixture
def master() -> Iterator[Master]:
    with fast_directory() as root:
        master = Master(root)
        Path(master.paths.ssconf_file("master_node")).write_text(f"{HOST}\n")
        yield master


@pytest.mark.parametrize("daemon", ["ganeti-wconfd", "ganeti-luxid"])
@pytest.mark.parametrize("where", ["locked", "starting"])
def test_deposed_at_this_point_of_its_start(
    master: Master, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], daemon: str, where: str
) -> None:
    """The node daemon ends them before ssconf names the new master: only the signal tells them why."""
    for variable, value in {**master.environment, "GANETI_PAUSE_AT": f"{daemon}-{where}"}.items():
        monkeypatch.setenv(variable, value)
    node = Node(os.path.dirname(sys.executable), os.environ)
    statuses: list[int] = []
    starting = threading.Thread(target=lambda: statuses.append(run(["start-master"], node)))
    starting.start()
    try:
        master.until(lambda: is_stopped(node.process_id(daemon)), f"{daemon} is at its pause point")
        before = [name for name in MASTER_DAEMONS if node.is_running(name)]
        assert asyncio.run(end_master_daemons(master.paths)) == Ended(tuple(before[::-1]), 0)
        starting.join(10)
        assert statuses == [EXIT_NOT_MASTER]
        assert not any(node.is_running(name) for name in MASTER_DAEMONS)
        assert capfd.readouterr().err == f"{daemon}: this node stopped being the master while it started\n"
    finally:
        asyncio.run(end_master_daemons(master.paths))


@pytest.fixture
def node(master: Master, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    for variable, value in master.environment.items():
        monkeypatch.setenv(variable, value)
    yield Node(os.path.dirname(sys.executable), os.environ)
    asyncio.run(end_master_daemons(master.paths))


def test_it_says_what_it_has_started(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["start-master"], node) == 0
    assert capfd.readouterr().out == "Started ganeti-wconfd and ganeti-luxid\n"
    assert run(["start-master"], node) == 0
    assert capfd.readouterr().out == "The daemons of the master run already\n"


@pytest.mark.parametrize("damaged", ["config_file", "config_database"])
def test_what_wconfd_refuses_is_told_at_once(
    master: Master, node: Node, capfd: pytest.CaptureFixture[str], damaged: str
) -> None:
    """LuxiD is not started then: it would wait a minute for WConfD."""
    Path(getattr(master.paths, damaged)).write_bytes(b"{ this is nothing" * 100)
    began_s = time.monotonic()
    assert run(["start-master"], node) == 1
    assert time.monotonic() - began_s < 20
    said = capfd.readouterr().err.splitlines()
    assert said[0].startswith("ganeti-wconfd: ") and getattr(master.paths, damaged) in said[0], said
    assert said[1:] == ["daemon-util: ganeti-wconfd did not start (exit status 1)"]
    assert not any(node.is_running(name) for name in MASTER_DAEMONS)


def test_a_master_that_has_lost_its_name_in_ssconf_writes_it_again(master: Master, node: Node) -> None:
    lost = Path(master.paths.ssconf_file("master_node"))
    assert run(["start-master"], node) == 0
    lost.unlink()
    assert run(["stop-master"], node) == 0
    assert run(["start-master"], node) == 0
    assert lost.read_text() == f"{HOST}\n"
    lost.unlink()
    assert run(["start-master"], node) == 0, "they run already, and the name is back"
    assert lost.read_text() == f"{HOST}\n"

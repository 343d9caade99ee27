# SPDX-License-Identifier: BSD-2-Clause
"""A node that is deposed while its master's daemons start is not the master: nothing has failed, nothing is left."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.master_daemons import HOST, Master, is_stopped
from tests.fakes.wconfd import fast_directory

from ganeti.runtime.master_ending import Ended, end_master_daemons
from ganeti.tools.daemon_util import MASTER_DAEMONS, Node, run

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
        assert statuses == [0]
        assert not any(node.is_running(name) for name in MASTER_DAEMONS)
        assert (
            capfd.readouterr().err == f"{daemon}: it was told while it started that this node is the master no longer\n"
        )
    finally:
        asyncio.run(end_master_daemons(master.paths))

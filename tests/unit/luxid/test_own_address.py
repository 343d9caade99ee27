# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD has the cluster's address brought up when it starts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import configuration

from ganeti.base.errors import ExecutionError, NodeUnreachableError
from ganeti.base.paths import Paths
from ganeti.luxid.own_address import TRIES, take_address

CLUSTER = configuration().cluster


class Nodes:
    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.asked: list[tuple[str, str, str]] = []

    async def call(self, node: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> None:
        self.asked.append((node, call, arguments["master"].ip))
        if self.failures:
            raise self.failures.pop(0)


def start(tmp_path: Path, nodes: Nodes, **changes: Any) -> list[float]:
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    given: Any = nodes
    asyncio.run(take_address(Paths(str(tmp_path)), replace(CLUSTER, **changes), given, pause))
    return paused


TAKEN = (CLUSTER.master_node, "node_activate_master_ip", CLUSTER.master_ip)


def test_the_node_of_the_master_takes_it_as_soon_as_its_daemon_answers(tmp_path: Path) -> None:
    nodes = Nodes(NodeUnreachableError("it starts"), NodeUnreachableError("it starts"))
    assert len(start(tmp_path, nodes)) == 2
    assert nodes.asked == [TAKEN] * 3


def test_what_goes_wrong_is_told_and_left_to_the_watcher(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes(ExecutionError("another machine answers there"))
    assert start(tmp_path, nodes) == []
    assert "cannot be brought up: another machine answers there" in caplog.text
    nodes = Nodes(*(NodeUnreachableError("it is gone") for _ in range(TRIES)))
    assert len(start(tmp_path, nodes)) == TRIES - 1
    assert "cannot be brought up: it is gone" in caplog.text


def test_one_that_was_taken_down_on_purpose_or_is_a_scripts_stays_as_it_is(tmp_path: Path) -> None:
    nodes = Nodes()
    start(tmp_path, nodes, use_external_mip_script=True)
    given_up = Path(Paths(str(tmp_path)).given_up_address_file)
    given_up.parent.mkdir(parents=True)
    given_up.touch()
    start(tmp_path, nodes)
    assert nodes.asked == []

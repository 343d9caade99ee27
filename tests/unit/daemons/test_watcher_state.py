# SPDX-License-Identifier: BSD-2-Clause
"""One child of the watcher asks the nodes at a time, for all that wait meanwhile, and never for those after it."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.luxi_master import FakeMaster, fake_master

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.daemons import watcher_state
from ganeti.daemons.watcher_lock import WatcherLock
from ganeti.daemons.watcher_state import cluster_state
from ganeti.master.watcher import InstanceNow

CHILDREN = 50
WITHIN_S = 60.0
ONE, TWO = "11111111-aaaa", "22222222-bbbb"
INSTANCES = [
    [[0, ONE], [0, "web1"], [0, "running"], [0, "node1"], [0, "up"]],
    [[0, TWO], [0, "web2"], [0, "ERROR_down"], [0, "node2"], [0, "up"]],
    [[0, TWO], [0, "web3"], [2, None], [0, "node2"], [0, "up"]],
]
NODES = [
    [[0, ONE], [0, "node1"], [0, False], [0, "b1"]],
    [[0, TWO], [0, "node2"], [0, False], [2, None]],
    [[0, TWO], [0, "node3"], [0, True], [0, "b3"]],
]


def rows(arguments: list[Any]) -> tuple[bool, Any]:
    return True, {"fields": [], "data": INSTANCES if arguments[0] == "instance" else NODES}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(str(tmp_path))
    os.makedirs(found.socket_dir)
    return found


@pytest.fixture
def master(paths: Paths) -> Iterator[FakeMaster]:
    with fake_master(Path(paths.luxi_socket)) as found:
        found.answers["Query"] = rows
        yield found


def test_each_group_gets_its_own_and_nodes_without_an_answer_have_no_boot_id(paths: Paths, master: FakeMaster) -> None:
    now = cluster_state(paths, ONE)
    assert (now.instances, now.boot_ids) == ([InstanceNow("web1", "running", "node1")], {"node1": "b1"})
    now = cluster_state(paths, TWO)
    assert now.instances == [InstanceNow("web2", "ERROR_down", "node2")]
    assert now.boot_ids == {"node2": None, "node3": None}


def test_many_children_ask_the_nodes_one_at_a_time_and_twice_in_all(
    paths: Paths, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first begins alone; all others come while it looks, and one look after it serves them."""
    counting = threading.Lock()
    waiting, under_way, most = 0, 0, 0
    all_wait = threading.Event()

    class CountedLock(WatcherLock):
        def __enter__(self) -> WatcherLock:
            nonlocal waiting
            with counting:
                waiting += 1
                if waiting == CHILDREN:
                    all_wait.set()
            return super().__enter__()

    def query(arguments: list[Any]) -> tuple[bool, Any]:
        nonlocal under_way, most
        with counting:
            under_way += 1
            most = max(most, under_way)
        assert all_wait.wait(WITHIN_S)
        with counting:
            under_way -= 1
        return rows(arguments)

    monkeypatch.setattr(watcher_state, "WatcherLock", CountedLock)
    master.answers["Query"] = query
    with ThreadPoolExecutor(CHILDREN) as children:
        found = list(children.map(lambda number: cluster_state(paths, (ONE, TWO)[number % 2]), range(CHILDREN)))
    assert most == 1
    assert [arguments[0] for arguments in master.arguments_of("Query")] == ["instance", "node"] * 2
    assert all(now.boot_ids for now in found)


def test_what_was_seen_before_or_cannot_be_read_is_not_enough(paths: Paths, master: FakeMaster) -> None:
    cluster_state(paths, ONE)
    cluster_state(paths, ONE)
    assert len(master.arguments_of("Query")) == 4
    (file,) = Path(paths.run_dir).glob("*look*")
    file.write_text(file.read_text().replace('"began_s":', '"began_s":9'))  # as a machine that ran longer would say
    assert cluster_state(paths, ONE).boot_ids == {"node1": "b1"}
    file.write_text("{")
    assert cluster_state(paths, ONE).boot_ids == {"node1": "b1"}
    assert len(master.arguments_of("Query")) == 8


def test_nobody_waits_for_ever(paths: Paths, master: FakeMaster, monkeypatch: pytest.MonkeyPatch) -> None:
    os.makedirs(paths.lock_dir)
    other = os.open(f"{paths.lock_dir}/ganeti-watcher-look.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    monkeypatch.setattr(watcher_state, "LOOK_WITHIN_S", 0.05)
    with pytest.raises(GanetiError, match=r"for 0\.05 seconds"):
        cluster_state(paths, ONE)
    os.close(other)
    assert not master.asked

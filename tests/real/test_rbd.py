# SPDX-License-Identifier: BSD-2-Clause
"""Images of a real Ceph cluster in memory: one writer, migration, failover from a node that still writes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import ceph_cluster
from tests.fakes.ceph_cluster import Ceph, CephWorld

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.ceph_silence import CephSilence
from ganeti.node.storage.rbd import CephImages

pytestmark = pytest.mark.real
NAME = "u.rbd.disk0"


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


@pytest.fixture
def ceph() -> Iterator[Ceph]:
    if reason := ceph_cluster.why_not():
        pytest.skip(reason)
    found = ceph_cluster.cluster()
    yield found
    for name in found.run("rbd", "ls", "rbd").split():
        found.run("rbd", "snap", "purge", f"rbd/{name}")
        found.run("rbd", "rm", f"rbd/{name}")


def driver(ceph: Ceph, root: Path, node: str) -> CephImages:
    world = CephWorld(Paths(str(root / node)), node)
    world.ceph = ceph
    world.log = lambda sentence: None  # type: ignore[method-assign]
    return CephImages(world)


def disk(**params: Any) -> DiskSpec:
    return DiskSpec(uuid="u", template="rbd", logical_id=["rbd", NAME], size_mib=16, index=0, params=params)


@contextlib.contextmanager
def guest(ceph: Ceph, blockdev: dict[str, Any], socket: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """QEMU with the image open, as a guest's is; gives where what it writes can be sent, and its process."""
    words = ["qemu-storage-daemon", "--blockdev", json.dumps(blockdev | {"node-name": "d"})]
    words += [
        "--nbd-server",
        f"addr.type=unix,addr.path={socket}",
        "--export",
        "nbd,id=e,node-name=d,name=x,writable=on",
    ]
    process = subprocess.Popen(words, env=ceph.environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not socket.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    try:
        yield f"nbd+unix:///x?socket={socket}", process
    finally:
        process.kill()
        process.wait()


def write(uri: str, pattern: int) -> bool:
    words = ["qemu-io", "-f", "raw", "-c", f"write -P {pattern} 0 64k", "-c", "flush", uri]
    return subprocess.run(words, capture_output=True, timeout=60).returncode == 0


def test_one_node_uses_an_image_and_hands_it_over(ceph: Ceph, tmp_path: Path) -> None:
    one, two, three = (driver(ceph, tmp_path, f"node{number}") for number in (1, 2, 3))
    run(one.create(disk()))
    run(one.activate(disk(), "web1"))
    with pytest.raises(BlockDeviceError, match="is in use on node node1: stop the instance there"):
        run(two.activate(disk(), "web1"))
    with pytest.raises(BlockDeviceError, match="cannot be removed: node node1 uses it"):
        run(two.remove(disk()))
    run(two.activate(disk(), "web1", for_migration=True))
    with pytest.raises(BlockDeviceError, match="is in use on node node1"):
        run(three.activate(disk(), "web1", for_migration=True))
    run(two.settle_migration(disk(), "web1", arrived=True))
    run(one.deactivate(disk()))
    with pytest.raises(BlockDeviceError, match="is in use on node node2"):
        run(one.activate(disk(), "web1"))
    run(one.activate(disk(), "web1", for_migration=True))
    run(one.settle_migration(disk(), "web1", arrived=False))
    run(two.activate(disk(), "web1"))
    run(two.deactivate(disk()))
    run(one.activate(disk(), "web1"))
    run(one.remove(disk()))


def test_what_a_dead_nodes_guest_still_writes_is_refused(ceph: Ceph, tmp_path: Path) -> None:
    one, two = driver(ceph, tmp_path, "node1"), driver(ceph, tmp_path, "node2")
    run(one.create(disk()))
    old = run(one.activate(disk(), "web1"))
    with guest(ceph, old.blockdev, tmp_path / "old") as (old_uri, _):
        assert write(old_uri, 1)
        begun_s = time.monotonic()
        run(two.steal(disk(), "web1", "failover from node1"))
        new = run(two.activate(disk(), "web1"))
        with guest(ceph, new.blockdev, tmp_path / "new") as (new_uri, _):
            assert write(new_uri, 2)
            print(f"the disk was written by its new node after {time.monotonic() - begun_s:.1f} s")
            assert not write(old_uri, 3)
            assert not write(old_uri, 3)
            read = ["qemu-io", "-f", "raw", "-c", "read -P 2 0 64k", new_uri]
            assert "Pattern verification failed" not in subprocess.run(read, capture_output=True, text=True).stdout
    with pytest.raises(BlockDeviceError, match="is in use on node node2"):
        run(one.activate(disk(), "web1"))


def watchers(ceph: Ceph) -> list[str]:
    """Addresses of the clients that have the image open for writing and still answer."""
    return [
        each["address"] for each in json.loads(ceph.run("rbd", "status", "--format", "json", f"rbd/{NAME}"))["watchers"]
    ]


@pytest.mark.parametrize("hangs", [False, True])
def test_a_guest_that_has_not_yet_written_writes_no_more_either(ceph: Ceph, tmp_path: Path, *, hangs: bool) -> None:
    """It holds no lock; one that hangs for long is not even seen any more."""
    one, two = driver(ceph, tmp_path, "node1"), driver(ceph, tmp_path, "node2")
    run(one.create(disk()))
    old = run(one.activate(disk(), "web1"))
    with guest(ceph, old.blockdev, tmp_path / "old") as (old_uri, process):
        run(one.opened(disk()))
        if hangs:
            process.send_signal(signal.SIGSTOP)
            deadline = time.monotonic() + 60
            while watchers(ceph):
                assert time.monotonic() < deadline, "the hanging client is still seen"
                time.sleep(0.1)
        run(two.steal(disk(), "web1", "failover from node1"))
        new = run(two.activate(disk(), "web1"))
        with guest(ceph, new.blockdev, tmp_path / "new") as (new_uri, _):
            assert write(new_uri, 2)
            process.send_signal(signal.SIGCONT)
            assert not write(old_uri, 3)
            read = ["qemu-io", "-f", "raw", "-c", "read -P 2 0 64k", new_uri]
            assert "Pattern verification failed" not in subprocess.run(read, capture_output=True, text=True).stdout


def test_a_pool_that_is_not_there_or_a_cluster_that_hangs_is_said(ceph: Ceph, tmp_path: Path) -> None:
    one = driver(ceph, tmp_path, "node1")
    missing = DiskSpec(uuid="u", template="rbd", logical_id=["none", NAME], size_mib=16, index=0)
    with pytest.raises(BlockDeviceError, match="error opening pool 'none'"):
        run(one.create(missing))
    one.ask.silence = CephSilence(2.0)
    ceph.stop_answering(stopped=True)
    try:
        begun_s = time.monotonic()
        for _ in range(20):
            with pytest.raises(
                BlockDeviceError, match="did not end within 2 seconds and was stopped: the Ceph cluster does not answer"
            ):
                run(one.find(disk()))
        assert time.monotonic() - begun_s < 15
    finally:
        ceph.stop_answering(stopped=False)


@pytest.mark.parametrize("logical_id", [["a"], ["a/b", "c"], ["-p", "c"], ["a", "c@s"], [1, 2], ["", "c"]])
def test_what_names_no_image_is_refused(tmp_path: Path, logical_id: list[Any]) -> None:
    one = CephImages(CephWorld(Paths(str(tmp_path)), "node1"))
    with pytest.raises(BlockDeviceError, match=r"names no image: it must be \[pool, image\]"):
        run(one.find(DiskSpec(uuid="u", template="rbd", logical_id=logical_id, size_mib=1, index=0)))

# SPDX-License-Identifier: BSD-2-Clause
"""Mirrored disks on two nodes of this machine: real storage daemons, the real relay over TLS, real losses."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.thoroughness import examples

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.bootstrap.certificates import Authority, create_authority, issue_node_certificate
from ganeti.model.node_calls.disks import DiskStatus
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.mirror.driver import MirroredDisks
from ganeti.node.storage.mirror.places import Places, read_kept
from ganeti.node.storage.mirror.requests import PORT, PRIMARY
from ganeti.noded.world import RealNodeWorld

pytestmark = pytest.mark.real
SETTING = "/srv/disks"
MIB = 1024 * 1024
PATIENCE_S = 30.0
LONGEST_STALL_S = 3.5
"""On a loaded machine; the bar of 2 s is measured in ``bench/mirror.py``."""
_NUMBERS = itertools.count(1)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


class Node:
    """One node below a root of its own, at an address of its own."""

    def __init__(self, root: Path, name: str, address: str, authority: Authority) -> None:
        self.name, self.address = name, address
        self.paths = Paths(str(root / name))
        self.places = Places(self.paths)
        for directory in (self.paths.data_dir, self.paths.sysconf_dir, self.paths.log_dir, self.paths.under(SETTING)):
            os.makedirs(directory)
        pem = issue_node_certificate(authority, name, "cluster.example.com", [address])
        for path in (self.paths.server_cert, self.paths.client_cert):
            Path(path).write_text(pem)
        Path(self.paths.authority_cert).write_text(authority.certificate)
        Path(self.paths.file_storage_paths_file).write_text(f"{SETTING}\n")
        self.daemon: subprocess.Popen[bytes] | None = None
        world = RealNodeWorld(self.paths, name)
        world.log = lambda sentence: None  # type: ignore[method-assign]
        self.driver = MirroredDisks(world)

    def start(self) -> None:
        environment = {**os.environ, "GANETI_ROOTDIR": self.paths.root, "GANETI_HOSTNAME": self.name}
        program = f"{Path(sys.executable).parent}/ganeti-mirrord"
        self.daemon = subprocess.Popen([program, "-f", "-b", self.address], env=environment)
        wait_until(lambda: os.path.exists(self.places.control) and self.answers(), f"{self.name} answers")

    def answers(self) -> bool:

        with socket.socket() as client:
            return client.connect_ex((self.address, PORT)) == 0

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self.daemon is not None
        self.daemon.send_signal(number)
        if number != signal.SIGSTOP:
            self.daemon.wait(10)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.places.control)

    def storage_daemons(self) -> list[int]:
        found = []
        with contextlib.suppress(FileNotFoundError):
            for path in Path(self.places.directory).glob("*.pid"):
                with contextlib.suppress(FileNotFoundError, ValueError, IndexError):
                    found.append(int(path.read_text().split()[0]))
        return found

    def pull_the_plug(self) -> None:
        """Every process of the node ends at once, and what lies in memory is gone."""
        for process_id in self.storage_daemons():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        self.kill()
        shutil.rmtree(self.places.directory, ignore_errors=True)

    def image(self, disk: DiskSpec) -> Path:
        return Path(self.paths.under(disk.logical_id[1]))

    def socket(self, disk: DiskSpec) -> str:
        return self.places.socket(disk.uuid)


class Pair:
    """Two nodes, and disks with a copy on each."""

    def __init__(self, root: Path) -> None:
        authority = create_authority("cluster.example.com")
        own = f"127.{100 + os.getpid() % 100}.{next(_NUMBERS) % 250}"
        self.one = Node(root, "node1.example.com", f"{own}.1", authority)
        self.two = Node(root, "node2.example.com", f"{own}.2", authority)
        for node in self.nodes:
            node.start()

    @property
    def nodes(self) -> tuple[Node, Node]:
        return self.one, self.two

    def disk(self, index: int = 0, size_mib: int = 16) -> DiskSpec:
        uuid = f"{os.getpid():08x}-{index:04x}"
        return DiskSpec(
            uuid=uuid,
            template="mirror",
            logical_id=["mirror", f"{SETTING}/web1/{uuid}.mirror.disk{index}"],
            size_mib=size_mib,
            index=index,
            copies={node.name: node.address for node in self.nodes},
        )

    def opened(self, disk: DiskSpec) -> DiskSpec:
        """Made on both nodes, the first one the primary, both copies equal."""
        for node in (self.two, self.one):
            run(node.driver.create(disk))
        self.use(disk, self.one, self.two)
        return disk

    def use(self, disk: DiskSpec, primary: Node, secondary: Node) -> None:
        run(secondary.driver.become_secondary(disk))
        run(primary.driver.activate(disk, "web1"))
        self.wait_equal(disk, primary)

    def wait_equal(self, disk: DiskSpec, primary: Node) -> None:
        wait_until(lambda: not status(primary, disk).is_degraded, "both copies are equal")

    def are_equal(self, disk: DiskSpec) -> bool:
        return self.one.image(disk).read_bytes() == self.two.image(disk).read_bytes()

    def close(self) -> None:
        for node in self.nodes:
            for process_id in node.storage_daemons():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGCONT)
                    os.kill(process_id, signal.SIGKILL)
            if node.daemon is not None and node.daemon.poll() is None:
                node.daemon.send_signal(signal.SIGCONT)
                node.daemon.kill()
                node.daemon.wait()


def status(node: Node, disk: DiskSpec) -> DiskStatus:
    found = run(node.driver.find(disk))
    assert found is not None
    return found


def wait_until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:g} s"
        time.sleep(0.05)


class Guest:
    """What a guest's QEMU does with its disk: writes, each acknowledged before the next."""

    def __init__(self, node: Node, disk: DiskSpec) -> None:
        self._size = disk.size_mib * MIB
        self._process = subprocess.Popen(
            ["qemu-io", "-f", "raw", "--cache", "none", f"nbd+unix:///disk?socket={node.socket(disk)}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.acknowledged: dict[int, int] = {}
        """Pattern by offset, of what the guest was told is written."""

    def write(self, offset: int, pattern: int, length: int = 4096) -> bool:
        """True when the write was acknowledged."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"write -f -P {pattern} {offset} {length}\n".encode())
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            return False
        if b"wrote" not in line:
            return False
        self._process.stdout.readline()
        self.acknowledged[offset] = pattern
        return True

    def write_some(self, draw: random.Random, count: int) -> None:
        for _ in range(count):
            assert self.write(draw.randrange(self._size // 4096) * 4096, draw.randrange(1, 255))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def pair() -> Iterator[Pair]:
    root = Path(tempfile.mkdtemp(prefix="gntm", dir="/tmp"))  # sockets have short names
    nodes = Pair(root)
    try:
        yield nodes
    finally:
        nodes.close()
        shutil.rmtree(root)


@contextlib.contextmanager
def guest(node: Node, disk: DiskSpec) -> Iterator[Guest]:
    running = Guest(node, disk)
    try:
        yield running
    finally:
        running.end()


def test_a_disk_lives_on_both_nodes_from_creation_to_removal(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as web1:
        web1.write_some(random.Random(1), 50)
    assert pair.are_equal(disk)
    assert pair.one.image(disk).read_bytes() != bytes(16 * MIB)
    for node in pair.nodes:
        run(node.driver.deactivate(disk))
        run(node.driver.deactivate(disk))
        assert node.storage_daemons() == []
    for node in pair.nodes:
        run(node.driver.remove(disk))
        run(node.driver.remove(disk))
        assert list(Path(node.paths.under(SETTING)).iterdir()) == []


def test_copies_that_were_closed_equal_are_not_copied_again(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as web1:
        web1.write_some(random.Random(2), 20)
    for node in pair.nodes:
        run(node.driver.deactivate(disk))
    assert all(read_kept(str(node.image(disk))).clean for node in pair.nodes)
    before = pair.one.image(disk).stat().st_mtime_ns
    pair.use(disk, pair.two, pair.one)
    assert pair.one.image(disk).stat().st_mtime_ns == before, "nothing was written to the copy"
    with guest(pair.two, disk) as web1:
        web1.write_some(random.Random(3), 20)
    assert pair.are_equal(disk)


def test_one_node_writes_and_the_other_one_may_not(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    with pytest.raises(BlockDeviceError, match=r"in use on node node1\.example\.com"):
        run(pair.two.driver.activate(disk, "web1"))
    assert pair.are_equal(disk)


def test_a_copy_that_is_not_complete_is_neither_opened_nor_taken(pair: Pair) -> None:
    disk = pair.disk()
    for node in pair.nodes:
        run(node.driver.create(disk))
    pair.two.kill()
    with pytest.raises(BlockDeviceError, match="not complete, and the other one cannot be reached"):
        run(pair.one.driver.activate(disk, "web1"))
    with pytest.raises(BlockDeviceError, match=r"not complete: .* recreate-disks"):
        run(pair.one.driver.steal(disk, "web1", "node2 is lost"))


def test_a_lost_secondary_stops_nothing_and_gets_what_it_missed(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as web1:
        web1.write_some(random.Random(4), 10)
        pair.two.pull_the_plug()
        web1.write_some(random.Random(5), 30)
        wait_until(lambda: status(pair.one, disk).is_degraded, "the loss is seen")
        assert read_kept(str(pair.one.image(disk))).generation > read_kept(str(pair.two.image(disk))).generation
        pair.two.start()
        run(pair.two.driver.become_secondary(disk))
        pair.wait_equal(disk, pair.one)
        web1.write_some(random.Random(6), 10)
    assert pair.are_equal(disk)


@pytest.mark.parametrize("whom", ["relay", "storage daemon"])
def test_a_node_that_hangs_is_cut_off_and_joins_again(pair: Pair, whom: str) -> None:
    disk = pair.opened(pair.disk())
    hanging = pair.two.storage_daemons()[0] if whom == "storage daemon" else pair.two.daemon.pid  # type: ignore[union-attr]
    with guest(pair.one, disk) as web1:
        web1.write_some(random.Random(7), 5)
        os.kill(hanging, signal.SIGSTOP)
        begun = time.monotonic()
        web1.write_some(random.Random(8), 1)
        assert time.monotonic() - begun < LONGEST_STALL_S
        web1.write_some(random.Random(9), 20)
        os.kill(hanging, signal.SIGCONT)
        wait_until(lambda: status(pair.one, disk).is_degraded, "the loss is seen")
        pair.wait_equal(disk, pair.one)
        web1.write_some(random.Random(10), 5)
    assert pair.are_equal(disk)


def test_a_relay_that_is_started_again_goes_on(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as web1:
        for node in pair.nodes:
            node.kill()
            web1.write_some(random.Random(11), 5)
            node.start()
            web1.write_some(random.Random(12), 5)
            pair.wait_equal(disk, pair.one)
    assert pair.are_equal(disk)


def test_what_was_promoted_elsewhere_takes_nothing_of_the_old_primary(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as web1:
        web1.write_some(random.Random(13), 10)
        pair.one.kill(signal.SIGSTOP)  # cut off: its guest runs on, nobody hears of it
        run(pair.two.driver.steal(disk, "web1", "node1 is lost"))
        promoted = asyncio.run(pair.two.driver.activate(disk, "web1"))
        assert promoted.blockdev is not None
        before = pair.two.image(disk).read_bytes()
        pair.one.daemon.send_signal(signal.SIGCONT)  # type: ignore[union-attr]
        assert web1.write(0, 99)
        time.sleep(2.0)  # both look for each other meanwhile
        assert pair.two.image(disk).read_bytes() == before
    run(pair.one.driver.deactivate(disk))
    run(pair.one.driver.become_secondary(disk))
    pair.wait_equal(disk, pair.two)
    assert pair.are_equal(disk) and pair.one.image(disk).read_bytes() == before


def test_roles_change_at_a_switchover_and_back(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    source, target = pair.one, pair.two
    for turn in range(2):
        with guest(source, disk) as web1:
            web1.write_some(random.Random(14 + turn), 10)
        run(target.driver.activate(disk, "web1", for_migration=True))
        run(source.driver.hand_over(disk))
        written_ns = source.image(disk).stat().st_mtime_ns
        run(target.driver.take_over(disk, "web1"))
        run(target.driver.settle_migration(disk, "web1", arrived=True))
        run(source.driver.become_secondary(disk))
        pair.wait_equal(disk, target)
        assert source.image(disk).stat().st_mtime_ns == written_ns, "nothing had to be copied"
        with guest(target, disk) as web1:
            web1.write_some(random.Random(16 + turn), 10)
        assert pair.are_equal(disk)
        source, target = target, source


@pytest.mark.parametrize("taken", [False, True])
def test_a_guest_that_goes_on_at_the_source_has_its_disk_back(pair: Pair, taken: bool) -> None:
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as web1:
        web1.write_some(random.Random(20), 10)
        run(pair.one.driver.hand_over(disk))
        if taken:
            run(pair.two.driver.take_over(disk, "web1"))
        web1.write_some(random.Random(21), 5)
        run(pair.one.driver.take_back(disk))
        run(pair.two.driver.settle_migration(disk, "web1", arrived=False))
        pair.wait_equal(disk, pair.one)
        web1.write_some(random.Random(22), 5)
    assert pair.are_equal(disk)


def test_a_storage_daemon_that_dies_is_started_again(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as web1:
        web1.write_some(random.Random(23), 10)
    os.kill(pair.one.storage_daemons()[0], signal.SIGKILL)
    wait_until(lambda: status(pair.one, disk).is_degraded, "the loss is seen")
    pair.wait_equal(disk, pair.one)
    with guest(pair.one, disk) as web1:
        web1.write_some(random.Random(24), 10)
    assert pair.are_equal(disk)


def test_a_program_reads_and_writes_a_file(pair: Pair) -> None:
    if not os.path.exists("/dev/fuse"):
        pytest.fail("this machine has no /dev/fuse", pytrace=False)
    disk = pair.opened(pair.disk())
    shown = run(pair.one.driver.as_file(asyncio.run(pair.one.driver.activate(disk, "web1"))))
    with open(shown.path, "r+b") as file:
        file.write(b"x" * MIB)
        os.fsync(file.fileno())
    assert pair.two.image(disk).read_bytes()[:MIB] == b"x" * MIB
    run(pair.one.driver.deactivate(disk))
    assert not os.path.exists(shown.path)


def test_no_acknowledged_write_is_lost_with_the_primary(pair: Pair) -> None:
    """The primary's guest, storage daemon and relay die at a random moment of writing; the other node goes on."""
    disk = pair.opened(pair.disk())
    primary, secondary = pair.nodes
    for seed in range(examples(8, quick=2, campaign=200)):
        draw = random.Random(seed)
        with guest(primary, disk) as web1:
            web1.write_some(draw, draw.randrange(1, 20))
            killer = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    f"import os, time; time.sleep({draw.random() * 0.05})\n"
                    f"for one in {[*primary.storage_daemons(), primary.daemon.pid]}: os.kill(one, 9)",
                ]  # type: ignore[union-attr]
            )
            offset = 0
            while web1.write(offset := draw.randrange(4096) * 4096, draw.randrange(1, 255)):
                continue
            killer.wait()
            primary.daemon.wait()  # type: ignore[union-attr]
        primary.pull_the_plug()
        run(secondary.driver.steal(disk, "web1", f"{primary.name} is lost"))
        run(secondary.driver.activate(disk, "web1"))
        content = secondary.image(disk).read_bytes()
        wrong = [
            (seed, at)
            for at, pattern in web1.acknowledged.items()
            if content[at : at + 4096] != bytes([pattern]) * 4096 and at != offset
        ]
        assert not wrong
        primary.start()
        run(primary.driver.become_secondary(disk))
        pair.wait_equal(disk, secondary)
        assert pair.are_equal(disk), seed
        primary, secondary = secondary, primary


def test_what_is_open_is_told(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    assert [opened.role for opened in pair.one.places.opened()] == [PRIMARY]
    assert status(pair.two, disk).ldisk_status == 1
    with pytest.raises(BlockDeviceError, match="stop the instance"):
        run(pair.one.driver.grow(disk, 16))
    for node in pair.nodes:
        run(node.driver.deactivate(disk))
        run(node.driver.grow(disk, 16))
        assert status(node, disk).size_mib == 32

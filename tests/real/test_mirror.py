# SPDX-License-Identifier: BSD-2-Clause
"""Mirrored disks on two nodes of this machine: real daemons, real TLS, real losses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from tests.fakes.thoroughness import examples
from tests.real.mirror_lab import MIB, SETTING, Guest, Master, Node, Pair, PatientGuest, run, status, wait_until

from ganeti.base.errors import BlockDeviceError
from ganeti.mirrord.loss_reports import WAIT_S
from ganeti.model.node_requests import DiskSpec
from ganeti.model.objects import TERM
from ganeti.node.storage.mirror.places import identity, kept_file, read_kept
from ganeti.node.storage.mirror.requests import PRIMARY, SECONDARY
from ganeti.system.boot import process_start

pytestmark = pytest.mark.real
LONGEST_STALL_S = 3.5
"""On a loaded machine; the bar of 2 s is measured in ``bench/mirror.py``."""


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
def guest(node: Node, disk: DiskSpec, kind: type[Guest] = Guest) -> Iterator[Guest]:
    running = kind(node, disk)
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
        run(node.driver.give_back(disk, "web1"))  # as it is stopped
        assert node.storage_daemons() == []
        run(node.driver.deactivate(disk))
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


def test_a_copy_is_opened_while_the_other_one_is_closed_and_is_the_newer_one_then(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    for node in pair.nodes:
        run(node.driver.deactivate(disk))
    run(pair.one.driver.activate(disk, "web1"))
    with guest(pair.one, disk) as web1:
        web1.write_some(random.Random(30), 5)
    run(pair.one.driver.deactivate(disk))
    run(pair.one.driver.become_secondary(disk))
    with pytest.raises(BlockDeviceError, match=r"is behind that of node node1\.example\.com"):
        run(pair.two.driver.activate(disk, "web1"))
    run(pair.one.driver.deactivate(disk))
    pair.use(disk, pair.one, pair.two)
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


def test_the_guest_goes_on_when_the_master_knows_of_the_loss(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as web1, Master(pair.one) as master, ThreadPoolExecutor(1) as beside:
        assert web1.write(0, 7)
        begun = time.monotonic()
        pair.two.pull_the_plug()
        writing = beside.submit(web1.write, 4096, 8)
        report = master.heard.get(timeout=60)
        assert (report.node, report.disk) == (pair.one.name, disk.uuid)
        assert report.generation == read_kept(str(pair.one.image(disk))).generation
        time.sleep(1.2)
        held = not writing.done()
        assert held or time.monotonic() - begun > WAIT_S, "this machine was too busy to look in time"
        master.may_answer.set()
        assert writing.result(60)


def test_a_storage_daemon_that_hangs_is_cut_off_and_joins_again(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    [hanging] = pair.two.storage_daemons()
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


def test_writes_go_to_both_copies_while_ganeti_mirrord_hangs(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    generation = read_generation(pair.one, disk)
    with guest(pair.one, disk) as web1:
        for node in pair.nodes:
            node.kill(signal.SIGSTOP)
            web1.write_some(random.Random(7), 20)
            assert pair.are_equal(disk)
            node.daemon.send_signal(signal.SIGCONT)  # type: ignore[union-attr]
        pair.wait_equal(disk, pair.one)
    assert read_generation(pair.one, disk) == generation


def test_a_guest_waits_for_ganeti_mirrord_to_note_a_loss(pair: Pair) -> None:
    """It has ended, and no other node may take the other copy for complete when the guest goes on."""
    disk = pair.opened(pair.disk())
    generation = read_generation(pair.one, disk)
    with guest(pair.one, disk) as web1, ThreadPoolExecutor(1) as beside:
        web1.write_some(random.Random(7), 5)
        pair.one.kill()
        pair.two.pull_the_plug()
        writing = beside.submit(web1.write, 4096, 8)
        time.sleep(1.5)  # longer than silence is taken for slowness
        assert not writing.done() and read_generation(pair.one, disk) == generation
        pair.one.start()
        assert writing.result(60)
        assert read_generation(pair.one, disk) > generation
        web1.write_some(random.Random(8), 5)
        pair.two.start()
        run(pair.two.driver.become_secondary(disk))
        pair.wait_equal(disk, pair.one)
    assert pair.are_equal(disk)


def test_an_idle_disk_gets_another_secondary_while_the_former_one_hangs(pair: Pair) -> None:
    """Without writes nobody has found out before that the node is lost."""
    disk = pair.opened(pair.disk())
    for process_id in (pair.two.daemon.pid, *pair.two.storage_daemons()):  # type: ignore[union-attr]
        os.kill(process_id, signal.SIGSTOP)
    with guest(pair.one, disk) as web1:
        elsewhere = disk.copies | {"node3.example.com": pair.one.address.rpartition(".")[0] + ".3"}
        del elsewhere[pair.two.name]
        run(pair.one.driver.activate(msgspec.structs.replace(disk, copies=elsewhere), "web1"))
        assert status(pair.one, disk).is_degraded
        assert web1.write(0, 7)


def test_a_ganeti_mirrord_that_is_started_again_goes_on(pair: Pair) -> None:
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


def test_of_two_primaries_that_were_cut_apart_one_goes_on(pair: Pair) -> None:
    """The configuration names the second one; the first finds that out as soon as it reaches it, and follows."""
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as left_behind:
        left_behind.write_some(random.Random(50), 10)
        pair.two.pull_the_plug()
        left_behind.write_some(random.Random(51), 10)
        pair.one.kill()
        pair.two.start()
        promoted = msgspec.structs.replace(disk, generation=TERM)
        run(pair.two.driver.steal(promoted, "web1", "node1 is lost"))
        run(pair.two.driver.activate(promoted, "web1"))
        with guest(pair.two, promoted) as web1:
            web1.write_some(random.Random(52), 10)
            pair.one.start()
            pair.wait_equal(promoted, pair.two)
            assert not left_behind.write(0, 99), "nothing that the former primary's guest writes is taken"
            web1.write_some(random.Random(53), 10)
        content = pair.two.image(disk).read_bytes()
        for at, pattern in web1.acknowledged.items():
            assert content[at : at + 4096] == bytes([pattern]) * 4096
    assert pair.are_equal(disk)
    assert [(opened.role, opened.owner, opened.lost_to) for opened in pair.one.places.opened()] == [
        (SECONDARY, "web1", pair.two.name)
    ], "the node daemon ends the guest by that"
    with subprocess.Popen(
        [
            "qemu-io",
            "-f",
            "raw",
            "-c",
            "write 0 4096",
            "nbd+unix:///disk-0?socket=" + pair.one.places.socket(disk.uuid),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as old:
        assert old.stdout is not None and b"not" in old.stdout.read(), "it cannot connect again"
    assert pair.are_equal(disk)


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


def test_a_killed_storage_daemon_of_the_secondary_comes_back_by_itself(pair: Pair) -> None:
    """Nobody asks for it, and what has changed is copied: a block that no write touches stays as it is there."""
    disk = pair.opened(pair.disk())
    [killed] = pair.two.storage_daemons()
    with guest(pair.one, disk) as web1:
        web1.write_some(random.Random(60), 10)
        with pair.two.image(disk).open("r+b") as image:
            image.seek(15 * MIB)
            image.write(b"x" * 4096)
            os.fsync(image.fileno())
        os.kill(killed, signal.SIGKILL)
        draw = random.Random(61)
        for _ in range(20):
            assert web1.write(draw.randrange(8 * MIB // 4096) * 4096, draw.randrange(1, 255))
        wait_until(lambda: read_generation(pair.one, disk) > 1, "the loss is noted")
        wait_until(lambda: is_served(pair.two, disk, but=killed), "a storage daemon is there again")
        pair.wait_equal(disk, pair.one)
        assert not status(pair.two, disk).is_degraded
        with pair.two.image(disk).open("r+b") as image:
            image.seek(15 * MIB)
            assert image.read(4096) == b"x" * 4096, "all of it was copied"
            image.seek(15 * MIB)
            image.write(bytes(4096))
            os.fsync(image.fileno())
        web1.write_some(random.Random(62), 10)
    assert pair.are_equal(disk)


def test_copies_of_an_idle_guest_are_equal_again_whichever_storage_daemons_are_killed(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk, PatientGuest) as web1:
        for nodes in ((pair.two,), (pair.one,), pair.nodes):
            killed = {node.name: node.storage_daemons()[0] for node in nodes}
            for pid in killed.values():
                os.kill(pid, signal.SIGKILL)
            for node in nodes:
                wait_until(lambda node=node, but=killed[node.name]: is_served(node, disk, but=but), "it is there again")
            pair.wait_equal(disk, pair.one)
            web1.write_some(random.Random(63), 5)
    assert pair.are_equal(disk)


@pytest.mark.parametrize("side", ["primary", "secondary"])
def test_a_storage_daemon_that_ends_again_and_again_is_started_ever_later(pair: Pair, side: str) -> None:
    disk = pair.opened(pair.disk())
    node = pair.one if side == "primary" else pair.two
    killed = [0]
    with guest(pair.one, disk, PatientGuest) as web1:
        web1.write_some(random.Random(64), 5)
        until = time.monotonic() + 6.0
        while time.monotonic() < until:
            if is_served(node, disk, but=killed[-1]):
                killed += node.storage_daemons()
                os.kill(killed[-1], signal.SIGKILL)
                if len(killed) > 2:
                    wait_until(lambda: status(node, disk).is_degraded, "the node says so")
                    if side == "secondary":  # without a write, the primary asks within five seconds
                        web1.write_some(random.Random(66), 1)
                        assert status(pair.one, disk).is_degraded
            time.sleep(0.01)
        assert 4 <= len(killed) <= 5, "at once, after a second, after two more, after four more"
        log = (Path(node.paths.log_dir) / "mirror-daemon.log").read_text()
        assert "its storage daemon was ended by signal 9: it is started again at once" in log
        assert "is started again in 2 s" in log
        assert len(log.splitlines()) < 60, log
        web1.write_some(random.Random(65), 5)
        pair.wait_equal(disk, pair.one)
    assert pair.are_equal(disk)


def test_what_was_closed_is_not_brought_back(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    for node in pair.nodes:
        [storage_daemon] = node.storage_daemons()
        os.kill(storage_daemon, signal.SIGKILL)
        run(node.driver.deactivate(disk))
    time.sleep(2.0)  # longer than the first pauses
    for node in pair.nodes:
        assert not list(Path(node.places.directory).glob(f"{identity(disk.uuid)}.*"))
        run(node.driver.remove(disk))


def test_what_died_together_with_ganeti_mirrord_comes_back_with_it(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk, PatientGuest) as web1:
        for node in (pair.two, pair.one):
            [storage_daemon] = node.storage_daemons()
            node.kill()
            os.kill(storage_daemon, signal.SIGKILL)
            if node is pair.two:
                web1.write_some(random.Random(66), 5)
            node.start()
            wait_until(lambda node=node, pid=storage_daemon: is_served(node, disk, but=pid), "it is there again")
            pair.wait_equal(disk, pair.one)
            [later] = node.storage_daemons()
            os.kill(later, signal.SIGKILL)  # this ganeti-mirrord has started it, or found it
            pair.wait_equal(disk, pair.one)
            web1.write_some(random.Random(67), 5)
    assert pair.are_equal(disk)


def is_served(node: Node, disk: DiskSpec, *, but: int) -> bool:
    """Whether another storage daemon than that one serves the disk on a node."""
    return node.storage_daemons() not in ([], [but]) and os.path.exists(node.places.socket(disk.uuid))


def read_generation(node: Node, disk: DiskSpec) -> int:
    return read_kept(str(node.image(disk))).generation


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


def test_a_killed_process_that_showed_a_file_leaves_no_mount(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    attached = run(pair.one.driver.activate(disk, "web1"))
    path = run(pair.one.driver.as_file(attached)).path
    for _ in range(2):
        shower = int(Path(pair.one.places.file(disk.uuid, "show")).read_text().split()[0])
        os.kill(shower, signal.SIGKILL)
        wait_until(lambda pid=shower: process_start(pid) is None, "the process has ended")
        assert run(pair.one.driver.as_file(attached)).path == path
        assert os.path.getsize(path) == 16 * MIB
    os.kill(int(Path(pair.one.places.file(disk.uuid, "show")).read_text().split()[0]), signal.SIGKILL)
    wait_until(lambda: not os.path.lexists(path), "nobody serves the mount any more")
    run(pair.one.driver.deactivate(disk))
    assert os.path.basename(path) not in os.listdir(os.path.dirname(path))
    assert not os.path.lexists(path) and path not in Path("/proc/self/mountinfo").read_text()


def test_no_acknowledged_write_is_lost_with_the_primary(pair: Pair) -> None:
    """The primary's guest and both daemons die at a random moment of writing; the other node goes on."""
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


def test_both_copies_are_identical_after_each_loss_of_the_secondary(pair: Pair) -> None:
    """Its power, ganeti-mirrord or storage daemon goes at a random moment of writing, and comes back at another one."""
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as web1:
        for seed in range(examples(5, quick=2, campaign=200)):
            draw = random.Random(f"secondary {seed}")
            web1.write_some(draw, draw.randrange(1, 15))
            match draw.choice(("power", "ganeti-mirrord", "storage daemon")):
                case "power":
                    pair.two.pull_the_plug()
                    web1.write_some(draw, draw.randrange(1, 15))
                    pair.two.start()
                case "ganeti-mirrord":
                    pair.two.kill()
                    web1.write_some(draw, draw.randrange(1, 15))
                    pair.two.start()
                case _:
                    os.kill(pair.two.storage_daemons()[0], signal.SIGKILL)
                    web1.write_some(draw, draw.randrange(1, 15))
            run(pair.two.driver.become_secondary(disk))  # as the watcher has it done
            wait_until(lambda: pair.are_equal(disk), f"loss {seed}: both copies are identical")
            pair.wait_equal(disk, pair.one)
            assert pair.are_equal(disk), seed


def test_what_is_open_is_told(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    assert [opened.role for opened in pair.one.places.opened()] == [PRIMARY]
    assert status(pair.two, disk).ldisk_status == 1
    for node in pair.nodes:
        run(node.driver.deactivate(disk))
        run(node.driver.grow(disk, 16))
        assert status(node, disk).size_mib == 32


def test_a_copy_that_was_made_anew_is_not_taken_for_the_former_one(pair: Pair) -> None:
    """As replace-disks -s asks for it: whoever waits for the copies then is not told at once that they are equal."""
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as web1:
        assert web1.write(0, 7)
        run(pair.two.driver.renew(disk))
        run(pair.two.driver.become_secondary(disk))
        run(pair.one.driver.activate(disk, "web1"))
        assert status(pair.one, disk).is_degraded or pair.are_equal(disk)
        pair.wait_equal(disk, pair.one)
        assert pair.are_equal(disk)


def test_a_disk_in_use_grows_on_both_nodes_and_a_copy_that_grew_alone_gives_back(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    with guest(pair.one, disk) as web1:
        web1.write_some(random.Random(40), 10)
    run(pair.two.driver.grow(disk, 16))
    run(pair.two.driver.ungrow(disk))
    with pytest.raises(BlockDeviceError, match="is in use here"):
        run(pair.one.driver.ungrow(disk))
    pair.wait_equal(disk, pair.one)
    assert pair.are_equal(disk) and status(pair.two, disk).size_mib == 16
    for _ in range(2):
        for node in (pair.two, pair.one):
            run(node.driver.grow(disk, 16))
    grown = msgspec.structs.replace(disk, size_mib=32)
    with guest(pair.one, grown) as web1:
        assert web1.write(31 * MIB, 7)
        web1.write_some(random.Random(41), 20)
    pair.wait_equal(grown, pair.one)
    assert pair.are_equal(grown) and pair.two.image(grown).stat().st_size == 32 * MIB


def test_a_disk_whose_storage_daemon_dies_while_it_grows_keeps_its_size(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    for _ in range(5):
        run(pair.two.driver.grow(disk, 16))
        os.kill(pair.one.storage_daemons()[0], signal.SIGKILL)
        try:
            run(pair.one.driver.grow(disk, 16, in_use=True))
        except BlockDeviceError:
            break
        disk = msgspec.structs.replace(disk, size_mib=disk.size_mib + 16)  # it had been started again meanwhile
        pair.wait_equal(disk, pair.one)
    run(pair.two.driver.ungrow(disk))
    pair.wait_equal(disk, pair.one)
    assert pair.are_equal(disk) and pair.one.image(disk).stat().st_size == disk.size_mib * MIB


def test_a_disk_whose_record_cannot_be_written_leaves_nothing_open(pair: Pair) -> None:
    disk = pair.opened(pair.disk())
    for node in pair.nodes:
        run(node.driver.deactivate(disk))
    record = kept_file(str(pair.one.image(disk)))
    subprocess.run(["chattr", "+i", record], check=True)
    try:
        with pytest.raises(BlockDeviceError):
            run(pair.one.driver.activate(disk, "web1"))
    finally:
        subprocess.run(["chattr", "-i", record], check=True)
    assert pair.one.storage_daemons() == []
    assert not list(Path(pair.one.places.directory).glob(f"{identity(disk.uuid)}.*"))
    pair.use(disk, pair.one, pair.two)


def test_a_copy_is_made_equal_at_the_rate_that_is_set(pair: Pair) -> None:
    disk = pair.disk(size_mib=64)
    slow = msgspec.structs.replace(disk, params={"resync-rate": 4096})
    for node in (pair.two, pair.one):
        run(node.driver.create(disk))
    pair.one.image(disk).write_bytes(random.Random(42).randbytes(MIB) * 64)
    run(pair.two.driver.become_secondary(slow))
    run(pair.one.driver.activate(slow, "web1"))
    wait_until(lambda: status(pair.one, slow).sync_speed_kib is not None, "the speed is known")
    found = status(pair.one, slow)
    assert found.is_degraded and found.sync_percent is not None and found.sync_percent < 60
    assert 0 < found.sync_speed_kib <= 3 * 4096 and found.estimated_time_s is not None
    run(pair.one.driver.activate(disk, "web1"))  # without a limit
    pair.wait_equal(disk, pair.one)

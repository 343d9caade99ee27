# SPDX-License-Identifier: BSD-2-Clause
"""A guest migrates with its disks, which only one node has at a time; the target lost or hanging costs it nothing."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.contract import hypervisor_world
from tests.real import kvm_lab
from tests.real.kvm_lab import GUEST_ADDRESS, Lab, LabNode, Pings

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import AttachedDisk, InstanceSpec

pytestmark = pytest.mark.real
in_campaign = pytest.mark.skipif(not os.environ.get("GANETI_CAMPAIGN"), reason="part of the campaign")
NAME = "mover"
LONGEST_GAP_S = 2.0
"""On a loaded machine."""
SIZES_MIB = (16, 8)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, guest_image):
    with kvm_lab.opened(tmp_path_factory.mktemp("kvm") / "lab", guest_image) as opened:
        yield opened


@dataclass
class Moving:
    lab: Lab
    spec: InstanceSpec
    source: LabNode
    target: LabNode

    def paths(self, node: LabNode) -> list[Path]:
        return [self.lab.directory / f"{node.namespace}-{index}.img" for index in range(len(SIZES_MIB))]

    def disks(self, node: LabNode) -> list[AttachedDisk]:
        return [hypervisor_world.disk(path, index) for index, path in enumerate(self.paths(node))]

    def make_disks(self, node: LabNode) -> list[AttachedDisk]:
        for path, size in zip(self.paths(node), SIZES_MIB, strict=True):
            path.write_bytes(b"")
            os.truncate(path, size * 1024 * 1024)
        return self.disks(node)

    def accept(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Where the target listens for memory and for disks."""
        info = self.source.call("migration_info", name=NAME)
        disks = self.make_disks(self.target)
        address = self.target.address
        where = self.target.call("accept", spec=self.spec, disks=disks, info=info, address=address)
        return where, self.target.call("receive_disks", spec=self.spec, address=address)

    def send(self, door: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.source.call("send_disks", spec=self.spec, door=door)
        return found

    def sent(self, door: dict[str, Any]) -> None:
        kvm_lab.wait_until(lambda: all(disk["is_equal"] for disk in self.send(door)), "the disks")

    def migrate(self, where: dict[str, Any]) -> None:
        self.source.call("migrate", name=NAME, target=where, live=True)
        self.lab.wait_status(self.source, NAME, "pre-switchover")

    def hand_over(self) -> None:
        self.source.call("hand_over_disks", spec=self.spec)
        self.target.call("disks_received", spec=self.spec)

    def take_back(self) -> None:
        """As the undo records of a failed move do."""
        self.source.call("stop_sending", spec=self.spec)
        self.source.call("cancel_migration", name=NAME)
        self.source.call("finalize_source", name=NAME, success=False)
        self.target.call("finalize_target", name=NAME, success=False)

    def goes_on(self) -> None:
        self.source.wait_beats(NAME)
        assert (self.target.state(NAME), self.target.leftovers(NAME)) == (None, [])
        assert not list((self.source.root / "run/ganeti/kvm-hypervisor/keys").iterdir())


@pytest.fixture
def guest(lab: Lab) -> Moving:
    first, second = lab.nodes
    spec = lab.instance(NAME, disk=False)
    moving = Moving(lab, spec, first, second)
    moving.spec = replace(spec, disks=[disk.spec for disk in moving.disks(first)])
    for node in lab.nodes:
        node.forget_console(NAME)
    if first.state(NAME) != "running":
        first.call("start", spec=moving.spec, disks=moving.make_disks(first))
    first.wait_beats(NAME, 1)
    return moving


@in_campaign
def test_the_target_hangs_while_disks_are_sent(guest: Moving) -> None:
    _, door = guest.accept()
    guest.sent(door)
    os.kill(guest.target.pid(NAME), signal.SIGSTOP)
    guest.source.wait_beats(NAME)
    guest.take_back()
    guest.goes_on()


def test_the_target_hangs_at_the_switchover(guest: Moving) -> None:
    where, door = guest.accept()
    guest.sent(door)
    guest.migrate(where)
    os.kill(guest.target.pid(NAME), signal.SIGSTOP)
    guest.take_back()
    guest.goes_on()


@in_campaign
def test_the_target_is_lost_while_disks_are_sent(guest: Moving) -> None:
    _, door = guest.accept()
    guest.send(door)
    os.kill(guest.target.pid(NAME), signal.SIGKILL)
    with pytest.raises(HypervisorError, match="of mover was not copied"):
        kvm_lab.wait_until(lambda: guest.send(door) is None, "the failure")
    guest.take_back()
    guest.goes_on()


def test_without_the_key_no_disk_is_received(guest: Moving) -> None:
    _, door = guest.accept()
    with pytest.raises(HypervisorError, match=r"TLS|handshake"):
        guest.send(door | {"key": "00" * 32})
    guest.take_back()
    guest.goes_on()


def test_a_guest_moves_with_its_disks_and_back(guest: Moving) -> None:
    there = Moving(guest.lab, guest.spec, guest.target, guest.source)
    pings = Pings(guest.source, GUEST_ADDRESS)
    for moving in (guest, there):
        with pings.running():
            where, door = moving.accept()
            moving.source.kill_daemon()
            with pytest.raises(HypervisorError, match="still runs here"):
                moving.source.call("hand_over_disks", spec=moving.spec)
            moving.sent(door)
            moving.migrate(where)
            moving.hand_over()
            moving.source.call("continue_switchover", name=NAME)
            moving.lab.wait_status(moving.source, NAME, "completed")
            images = [[path.read_bytes() for path in moving.paths(node)] for node in (moving.source, moving.target)]
            assert images[0] == images[1]
            moving.target.call("finalize_target", name=NAME, success=True)
            moving.source.call("finalize_source", name=NAME, success=True)
            for path in moving.paths(moving.source):
                path.unlink()
            moving.target.wait_beats(NAME)
        assert pings.longest_gap_s() <= LONGEST_GAP_S
        assert moving.source.leftovers(NAME) == []
    acknowledged = guest.source.beats(NAME)[-1]
    guest.source.call("stop", name=NAME, timeout_s=0)
    with open(guest.paths(guest.source)[0], "rb") as disk:
        assert int(disk.read(8)) >= acknowledged

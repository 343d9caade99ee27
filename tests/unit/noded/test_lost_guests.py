# SPDX-License-Identifier: BSD-2-Clause
"""A node ends guests whose image lock another node has taken, and no others."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.node.storage.image_lock import ImageLock
from ganeti.node.storage.mirror.places import Places
from ganeti.node.storage.mirror.requests import Opened
from ganeti.noded.lost_guests import IDLE_S, LostGuests

PATH = "/srv/disks/web1/one.file.disk0"


class World:
    """A node with the running guest web1, and what another node does to its image lock."""

    def __init__(self, root: Path, limit_s: int = 8) -> None:
        self.node = OneNode(root)
        Path(self.node.paths.ssconf_file("hypervisor_list")).write_text("fake\n")
        self.disk = disk_spec(
            template="sharedfile", logical_id=["loop", PATH], params={"lost_lock_timeout": limit_s}, size_mib=1
        )
        self.node.call("blockdev_create", disk=self.disk)
        self.told: list[tuple[str, str]] = []
        self.guard = LostGuests(self.node.state, lambda name, why: self.told.append((name, why)))
        self.start()

    @property
    def template(self) -> Any:
        return self.node.state.template("sharedfile")

    def start(self) -> None:
        async def run() -> None:
            attached = await self.template.activate(self.disk, "web1")
            await self.node.state.hypervisor("fake").start(instance_spec(name="web1", disks=[self.disk]), [attached])

        self.node.run(run())

    def elsewhere(self, name: str = "node2") -> ImageLock:
        return ImageLock(self.node.paths.under(PATH), node=name, boot="other", log=lambda sentence: None)

    def look(self, times: int = 1) -> float:
        return [self.node.run(self.guard.look()) for _ in range(times)][-1]

    def runs(self) -> bool:
        return bool(self.node.run(self.node.state.hypervisor("fake").list_instances()))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_it_is_ended_at_the_second_look_and_told(world: World) -> None:
    assert world.look() == 2.0, "four looks within the limit"
    world.elsewhere().steal("web1", "failover")
    world.look()
    assert world.runs() and not world.told
    world.look()
    assert not world.runs()
    ((name, why),) = world.told
    assert name == "web1" and "node node2 holds the image lock" in why


def test_the_lock_of_the_other_node_stays(world: World) -> None:
    world.elsewhere().steal("web1", "failover")
    world.look(3)
    world.node.run(world.template.deactivate(world.disk))
    assert world.elsewhere().taken_from_here() is None and world.elsewhere("node3").taken_from_here() is not None
    assert world.look() == IDLE_S, "nothing is held, nothing is to be lost"


def test_a_guest_in_migration_is_no_lost_one(world: World) -> None:
    world.elsewhere().take_incoming("web1")
    world.look(3)
    assert world.runs()
    world.elsewhere().settle("web1", arrived=False)
    world.look(3)
    assert world.runs()


def test_a_guest_that_has_come_here_is_none_before_its_lock_follows(world: World) -> None:
    world.node.run(world.template.deactivate(world.disk))
    source = world.elsewhere()
    source.take("web1")
    world.node.run(world.template.activate(world.disk, "web1", for_migration=True))
    world.look(3)
    assert world.runs()
    world.node.run(world.template.settle_migration(world.disk, "web1", arrived=True))
    world.look(3)
    assert world.runs() and source.taken_from_here() is not None


def test_whoever_gets_the_disk_back_in_between_goes_on(world: World) -> None:
    world.elsewhere().steal("web1", "failover")
    world.look()
    world.node.run(world.template.steal(world.disk, "web1", "failover back"))
    world.look(2)
    assert world.runs()


def test_a_limit_of_zero_leaves_it_running(tmp_path: Path) -> None:
    world = World(tmp_path, limit_s=0)
    world.elsewhere().steal("web1", "failover")
    assert world.look(3) == IDLE_S
    assert world.runs()


@pytest.mark.parametrize(("role", "ended"), [("secondary", True), ("incoming", False), ("primary", False)])
def test_a_mirrored_disk_that_the_other_node_was_made_primary_of(world: World, role: str, ended: bool) -> None:
    places = Places(world.node.paths)
    Path(places.directory).mkdir(parents=True)
    disk = Opened(uuid="0123456789abcdef", image="/srv/disks/web1/mirror", role=role, owner="web1")
    places.write_opened(disk)
    world.look(3)
    assert world.runs() and not world.told
    places.write_opened(replace(disk, lost_to="node2"))
    world.look(2)
    assert world.runs() is not ended
    assert world.told == ([("web1", world.told[0][1])] if ended else [])
    Path(places.file(disk.uuid, "json")).write_bytes(b'{"uuid": "\xff')
    world.look()


def test_a_guest_that_arrives_while_guests_are_listed_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hypervisor answers late, when the disks of the second guest of that name are this node's already."""
    places = Places(world.node.paths)
    Path(places.directory).mkdir(parents=True)
    lost = Opened(uuid="0123456789abcdef", image="/disk", role="secondary", owner="web1", lost_to="node2")
    places.write_opened(lost)
    world.look()
    hypervisor = world.node.state.hypervisor("fake")
    listed = hypervisor.list_instances

    async def late() -> Any:
        places.write_opened(replace(lost, role="incoming"))
        return await listed()

    monkeypatch.setattr(hypervisor, "list_instances", late)
    world.look(2)
    assert world.runs() and not world.told


def test_a_lock_that_cannot_be_read_is_told_and_ends_nothing(world: World) -> None:
    Path(f"{world.node.paths.under(PATH)}.lock").write_text("{")
    world.look(3)
    assert world.runs() and any("cannot be looked at" in line for line in world.node.logged)


def test_a_guest_that_cannot_be_ended_is_tried_again(world: World) -> None:
    fail = Path(world.node.paths.run_dir, "fake-hypervisor/.fail")
    fail.mkdir(parents=True)
    (fail / "stop").write_text("fail the process waits for its disk")
    world.elsewhere().steal("web1", "failover")
    world.look(3)
    assert world.runs() and not world.told
    (fail / "stop").unlink()
    world.look()
    assert not world.runs()

# SPDX-License-Identifier: BSD-2-Clause
"""Migration calls: the guest and the right to write its disks go together, whoever dies on the way."""

import asyncio
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError, HypervisorError
from ganeti.node.hypervisors.interface import RunningInstance

SPEC = instance_spec(disks=[disk_spec()])


class Pair:
    """Two nodes with the same shared directory."""

    def __init__(self, root: Path) -> None:
        self.source, self.target = OneNode(root / "one", "node1"), OneNode(root / "two", "node2")
        shared = Path(self.target.paths.under("/srv/disks"))
        shared.rmdir()
        shared.symlink_to(self.source.paths.under("/srv/disks"))
        self.source.call("blockdev_create", disk=disk_spec())
        self.source.call("instance_start", instance=SPEC)

    async def accept(self) -> None:
        info = await self.source.make_call("migration_info", instance=SPEC)
        self.reached = await self.target.make_call("accept_instance", instance=SPEC, info=info, address="127.0.0.1")

    async def send(self, *, until: str) -> None:
        await self.source.make_call("instance_migrate", instance=SPEC, target=vars_of(self.reached), live=True)
        async with asyncio.timeout(10):
            while (status := await self.status()) != until:
                if status == "pre-switchover":
                    await self.source.make_call("migration_continue", instance=SPEC)
                await asyncio.sleep(0.01)

    async def status(self) -> str:
        return (await self.source.make_call("instance_get_migration_status", instance=SPEC)).status

    def may_write(self) -> list[str]:
        names = []
        for node in (self.source, self.target):
            try:
                node.call("instance_disks_assemble", instance=SPEC)
            except BlockDeviceError:
                continue
            names.append(node.state.world.node_name)
        return names

    def running(self) -> list[str]:
        found = []
        for node in (self.source, self.target):
            guest = node.call("instance_info", instance=SPEC)
            if guest is not None and guest.state == "running":
                found.append(node.state.world.node_name)
        return found


def vars_of(struct):
    return {field: getattr(struct, field) for field in struct.__struct_fields__}


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def migrate(pair: Pair, until: str = "completed") -> None:
    async def whole() -> None:
        await pair.accept()
        await pair.send(until=until)

    asyncio.run(whole())


def test_guest_and_lock_arrive_together(pair) -> None:
    migrate(pair)
    pair.target.call("instance_finalize_migration_dst", instance=SPEC, success=True)
    pair.source.call("instance_finalize_migration_src", instance=SPEC, success=True)
    assert pair.running() == ["node2"]
    assert pair.may_write() == ["node2"]


def test_a_cancelled_migration_leaves_guest_and_lock_at_the_source(pair) -> None:
    migrate(pair, until="pre-switchover")
    resolution = pair.source.call("migration_resolve", instance=SPEC)
    assert not resolution.settled
    pair.target.call("instance_finalize_migration_dst", instance=SPEC, success=False)
    assert pair.running() == ["node1"]
    assert pair.may_write() == ["node1"]


def test_a_finished_migration_is_settled_however_often_one_asks(pair) -> None:
    migrate(pair)
    for _ in range(2):
        assert pair.source.call("migration_resolve", instance=SPEC).settled
    pair.target.call("instance_finalize_migration_dst", instance=SPEC, success=True)
    assert pair.source.call("migration_resolve", instance=SPEC).settled
    assert pair.running() == ["node2"]
    assert pair.may_write() == ["node2"]


def test_a_job_that_died_after_the_source_was_cleaned_up_finds_it_settled(pair) -> None:
    migrate(pair)
    pair.source.call("instance_finalize_migration_src", instance=SPEC, success=True)
    assert pair.source.call("migration_resolve", instance=SPEC).settled
    assert pair.may_write() == ["node2"], "the target takes the lock that the source has let go"


def test_a_guest_that_comes_back_can_be_resolved_anew(pair) -> None:
    migrate(pair)
    pair.target.call("instance_finalize_migration_dst", instance=SPEC, success=True)
    pair.source.call("instance_finalize_migration_src", instance=SPEC, success=True)
    pair.source, pair.target = pair.target, pair.source
    migrate(pair)
    pair.target.call("instance_finalize_migration_dst", instance=SPEC, success=True)
    pair.source.call("instance_finalize_migration_src", instance=SPEC, success=True)
    pair.source, pair.target = pair.target, pair.source
    assert pair.running() == ["node1"]
    assert not pair.source.call("migration_resolve", instance=SPEC).settled


def test_a_guest_that_ended_with_its_source_is_nothing_to_undo(pair) -> None:
    """The source has lost its power in the midst: the target gives up what it got, and the guest can be started."""
    migrate(pair, until="pre-switchover")
    Path(pair.source.paths.run_dir, "fake-hypervisor", SPEC.name).unlink()
    for _ in range(2):
        resolution = pair.source.call("migration_resolve", instance=SPEC)
        assert (resolution.settled, resolution.status) == (False, "ended")
    pair.target.call("instance_finalize_migration_dst", instance=SPEC, success=False)
    assert pair.running() == []
    assert pair.may_write() == ["node1"]


def test_a_guest_that_its_user_shut_down_on_the_way_is_noted_as_that(pair, monkeypatch) -> None:
    """What the hypervisor has of it says so: nothing starts it again."""
    migrate(pair, until="pre-switchover")
    Path(pair.source.paths.run_dir, "fake-hypervisor", SPEC.name).unlink()
    hypervisor = type(pair.source.state.hypervisor_of(SPEC))
    ended = RunningInstance(name=SPEC.name, memory_mib=0, vcpus=0, state="shutdown")
    monkeypatch.setattr(hypervisor, "info", AsyncMock(return_value=ended))
    monkeypatch.setattr(hypervisor, "finalize_source", AsyncMock(side_effect=AssertionError("it forgets the note")))
    resolution = pair.source.call("migration_resolve", instance=SPEC)
    assert (resolution.settled, resolution.status) == (False, "ended")


def test_a_guest_that_ended_with_its_target_is_nothing_to_undo(pair) -> None:
    """It had arrived when the job died, and the target lost its power before anybody asked."""
    migrate(pair)
    assert pair.source.call("migration_resolve", instance=SPEC).settled
    Path(pair.target.paths.run_dir, "fake-hypervisor", SPEC.name).unlink()
    with pytest.raises(HypervisorError, match="did not arrive"):
        pair.target.call("instance_finalize_migration_dst", instance=SPEC, success=True)
    for _ in range(2):
        pair.target.call("instance_finalize_migration_dst", instance=SPEC, success=True, may_have_ended=True)
    assert pair.running() == []
    pair.target.call("instance_start", instance=SPEC)
    assert pair.running() == ["node2"]


def test_a_target_that_cannot_accept_keeps_nothing(pair) -> None:
    failures = Path(pair.target.paths.run_dir, "fake-hypervisor/.fail")
    failures.mkdir(parents=True)
    (failures / "accept").write_text("fail no room")
    with pytest.raises(HypervisorError, match="no room"):
        asyncio.run(pair.accept())
    assert not Path(pair.source.paths.under("/srv/disks/web1/d0.file.disk0.lock.incoming")).exists()
    assert pair.running() == ["node1"]


def test_what_a_dead_job_left_is_freed_by_telling_a_node_that_nothing_arrived(pair) -> None:
    migrate(pair)
    failed = Path(pair.source.paths.run_dir, "fake-hypervisor/web1")
    failed.unlink()
    pair.source.call("instance_finalize_migration_dst", instance=SPEC, success=False)
    assert pair.may_write() == ["node2"]


def test_only_running_guests_can_be_migrated(pair) -> None:
    pair.source.call("instance_migratable", instance=SPEC)
    with pytest.raises(HypervisorError, match="is not running here"):
        pair.target.call("instance_migratable", instance=SPEC)


def test_cancelling_when_nothing_goes_on_does_no_harm(pair) -> None:
    pair.source.call("migration_cancel", instance=SPEC)
    assert pair.running() == ["node1"]

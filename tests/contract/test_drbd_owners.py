# SPDX-License-Identifier: BSD-2-Clause
"""A device that another disk left under a minor is never taken for the disk's own, and no copy is called good that
lacks something, in version 8.4 and in version 9.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes import volume_groups
from tests.fakes.drbd.tool import read_meta, write_meta
from tests.fakes.replicated_nodes import EIGHT, NINE, ReplicatedNodes, disk

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import FAULTY, GOOD, UNCERTAIN
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.drbd.driver import ReplicatedVolumes

pytestmark = pytest.mark.real
OLD = disk(0)


@pytest.fixture(params=[EIGHT, NINE])
def nodes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ReplicatedNodes]:
    if reason := volume_groups.why_not():
        pytest.skip(reason)
    found = ReplicatedNodes(tmp_path, request.param)
    yield found
    found.close()


@pytest.fixture
def new() -> DiskSpec:
    """A disk that has got the minor of `OLD` on the first node."""
    fresh = disk(1)
    return replace(fresh, logical_id=[*fresh.logical_id[:3], 0, *fresh.logical_id[4:]])


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def own(nodes: ReplicatedNodes) -> ReplicatedVolumes:
    return ReplicatedVolumes(nodes.world("node1"))


def volume_of(nodes: ReplicatedNodes, made: DiskSpec) -> Path:
    group, name = made.children[0].logical_id
    return Path(nodes.paths("node1").under(f"/dev/{group}/{name}")).resolve()


def test_a_device_left_behind_makes_way_for_the_disk_that_has_its_minor(nodes: ReplicatedNodes, new: DiskSpec) -> None:
    driver = own(nodes)
    run(driver.create(OLD))
    run(driver.become_secondary(OLD))
    run(driver.create(new))
    run(driver.become_secondary(OLD))
    assert run(driver.find(new)).is_degraded is False, "the device that is up tells nothing of this disk"
    attached = run(driver.activate(new, "web2"))
    assert Path(attached.path).resolve() == volume_of(nodes, new)
    assert any("taken down" in line for line in nodes.logged)


def test_a_device_that_is_written_stays_and_is_not_used(nodes: ReplicatedNodes, new: DiskSpec) -> None:
    driver = own(nodes)
    run(driver.create(OLD))
    attached = run(driver.activate(OLD, "web1"))
    for act in (driver.create(new), driver.activate(new, "web2"), driver.steal(new, "web2", "test")):
        with pytest.raises(BlockDeviceError, match=r"Disk 1 cannot be used on node1: its device /dev/drbd0 is in use"):
            run(act)
    run(driver.deactivate(new))
    assert Path(attached.path).resolve() == volume_of(nodes, OLD)


def test_a_late_removal_leaves_the_device_of_the_disk_that_has_the_minor_now(
    nodes: ReplicatedNodes, new: DiskSpec
) -> None:
    driver = own(nodes)
    run(driver.create(OLD))
    run(driver.create(new))
    run(driver.become_secondary(new))
    for _ in ("once", "again"):
        run(driver.remove(OLD))
        assert run(driver.find(OLD)) is None
    assert 0 in run(driver.replication()).minors
    assert len(nodes.groups["node1"].volumes()) == 2


def test_a_copy_whose_making_was_cut_short_is_told_as_lost(nodes: ReplicatedNodes) -> None:
    driver = own(nodes)
    for volume in OLD.children:
        run(driver.volumes.create(volume))
    assert run(driver.find(OLD)).ldisk_status == FAULTY
    run(driver.renew(OLD))
    assert run(driver.find(OLD)).ldisk_status == UNCERTAIN


def test_a_copy_that_never_got_its_content_is_not_told_as_good(nodes: ReplicatedNodes) -> None:
    driver, other = own(nodes), ReplicatedVolumes(nodes.world("node2"))
    run(other.create(OLD))
    assert run(other.find(OLD)).ldisk_status == UNCERTAIN
    run(other.become_secondary(OLD))
    assert run(other.find(OLD)).ldisk_status == UNCERTAIN
    run(driver.create(OLD))
    run(driver.activate(OLD, "web1"))
    while run(other.find(OLD)).ldisk_status != GOOD:
        assert run(driver.find(OLD)).ldisk_status == GOOD
    run(nodes.world("node1").run(["drbdsetup", "detach", "0"]))
    assert run(driver.find(OLD)).ldisk_status == FAULTY


def test_a_copy_that_the_other_node_has_called_old_is_not_told_as_good(nodes: ReplicatedNodes) -> None:
    """Its node went down after the primary had gone on without it: DRBD's own data say so."""
    driver = own(nodes)
    run(driver.create(OLD))
    assert (run(driver.find(OLD)).ldisk_status, run(driver.find(OLD)).is_degraded) == (GOOD, False)
    meta = run(driver.volumes.stored_path(OLD.children[1]))
    write_meta(meta, read_meta(meta) | {"state": "Outdated"})
    assert (run(driver.find(OLD)).ldisk_status, run(driver.find(OLD)).is_degraded) == (UNCERTAIN, True)

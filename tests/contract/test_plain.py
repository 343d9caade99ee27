# SPDX-License-Identifier: BSD-2-Clause
"""Logical volumes by the real tools of LVM 2: stripes, adoption, exclusive storage, and volume groups that are gone."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import volume_groups
from tests.fakes.volume_groups import ToolWorld, VolumeGroup

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.lvm.driver import LogicalVolumes

pytestmark = pytest.mark.real


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[VolumeGroup]:
    if reason := volume_groups.why_not():
        pytest.skip(reason)
    found = VolumeGroup(tmp_path / "lvm", Path(Paths(str(tmp_path)).under("/dev")), physical=3)
    yield found
    found.close()


@pytest.fixture
def driver(tmp_path: Path, group: VolumeGroup) -> LogicalVolumes:
    world = ToolWorld(Paths(str(tmp_path)), "node1")
    world.tools = group.tools
    return LogicalVolumes(world)


def disk(name: str = "u.disk0", size_mib: int = 4, group: str = "xenvg", **changes: Any) -> DiskSpec:
    return DiskSpec(
        uuid="u", template="plain", logical_id=[group, name], size_mib=size_mib, index=0, **{"params": {}} | changes
    )


def test_a_disk_is_spread_over_as_many_stripes_as_there_are(driver: LogicalVolumes) -> None:
    for name, asked, stripes in (("two", 2, 2), ("nine", 9, 3)):
        run(driver.create(disk(name, 6, params={"stripes": asked})))
        found = run(driver.volumes.look("xenvg", name))
        assert (found.stripes, len(found.devices)) == (stripes, stripes)


def test_a_volume_is_adopted_with_its_content_and_given_back(driver: LogicalVolumes, group: VolumeGroup) -> None:
    group.run("lvcreate", "-L", "4m", "-n", "old", "xenvg")
    (group.dev / "xenvg/old").write_bytes(b"precious")
    assert run(driver.find(disk("old"))).size_mib == 4
    for _ in ("once", "again"):
        run(driver.adopt(disk(), ["xenvg", "old"]))
    assert group.volumes() == ["u.disk0"]
    assert Path(run(driver.activate(disk(), "web1")).path).read_bytes().startswith(b"precious")
    for _ in ("once", "again"):
        run(driver.rename(disk(), ["xenvg", "old"]))
    assert group.volumes() == ["old"]
    with pytest.raises(BlockDeviceError, match="Volume xenvg/gone is missing"):
        run(driver.adopt(disk(), ["xenvg", "gone"]))


def test_the_owner_is_noted_for_people(driver: LogicalVolumes) -> None:
    run(driver.create(disk()))
    for owner in ("web1", "web2"):
        run(driver.activate(disk(), owner))
        found = run(driver.volumes.look("xenvg", "u.disk0"))
        assert found.tags == (f"originstname+{owner}",)


def test_with_exclusive_storage_a_physical_volume_holds_one_disk(driver: LogicalVolumes) -> None:
    run(driver.create(disk("a", 40, exclusive=True)))
    [a] = run(driver.volumes.of_group("xenvg"))
    assert len(a.devices) == 2
    assert run(driver.spindles("xenvg")) == (3, 1)
    assert run(driver.find(disk("a", 40, exclusive=True))).spindles == 2
    with pytest.raises(BlockDeviceError, match="needs 2 empty physical volumes with 4 MiB, and 1 are empty"):
        run(driver.create(disk("b", 4, exclusive=True, spindles=2)))
    run(driver.create(disk("b", 4, exclusive=True, spindles=1)))
    with pytest.raises(BlockDeviceError, match="cannot grow to 40 MiB"):
        run(driver.grow(disk("b", 4, exclusive=True), 36))
    run(driver.grow(disk("b", 4, exclusive=True), 4))
    found = run(driver.volumes.look("xenvg", "b"))
    assert len(found.devices) == 1


def test_a_disk_with_snapshots_does_not_grow(driver: LogicalVolumes, group: VolumeGroup) -> None:
    """LVM says something about inactive origins."""
    run(driver.create(disk()))
    group.run("lvcreate", "-L", "4m", "-n", "u.disk0.snap-before", "xenvg")
    with pytest.raises(BlockDeviceError, match=r"while it has snapshots \(before\): remove them first"):
        run(driver.grow(disk(), 8))
    group.run("lvremove", "-y", "xenvg/u.disk0.snap-before")
    run(driver.grow(disk(), 8))
    assert run(driver.find(disk())).size_mib == 12


def test_what_has_no_room_or_no_group_is_said(driver: LogicalVolumes) -> None:
    with pytest.raises(
        BlockDeviceError, match=r"of 200 MiB cannot be made: 200 MiB are needed and 9\d MiB are free in"
    ):
        run(driver.create(disk(size_mib=200)))
    with pytest.raises(BlockDeviceError, match='Volume group "gone" not found'):
        run(driver.find(disk(group="gone")))
    assert "volume group 'gone' is missing or cannot be read" in run(driver.verify("gone"))[0]
    for name in ("-x", "a/b", "..", ""):
        with pytest.raises(BlockDeviceError, match="cannot be the name of a volume"):
            run(driver.find(disk(name)))
    with pytest.raises(BlockDeviceError, match=r"it must be \[volume group, volume\]"):
        run(driver.find(_three()))


def _three() -> DiskSpec:
    return DiskSpec(uuid="u", template="plain", logical_id=["a", "b", "c"], size_mib=4, index=0)

# SPDX-License-Identifier: BSD-2-Clause
"""Names of logical volumes, and what the tools of LVM 2 print."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from ganeti.base.errors import BlockDeviceError, CommandError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.model.new_disk import NewDisk
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage import devices
from ganeti.node.storage.lvm.driver import LogicalVolumes
from ganeti.node.storage.lvm.snapshots import VolumeSnapshots, is_of_disk
from ganeti.node.storage.lvm.volumes import Volumes, read_physical, read_volumes
from ganeti.ports.node_world import Completed


def test_a_new_volume_lies_in_the_group_that_is_named() -> None:
    naming, adoptee = LogicalVolumes.traits.naming, LogicalVolumes.traits.adoptee
    assert naming is not None and adoptee is not None
    new = NewDisk("plain", "u", 1, "web1", volume_group="xenvg")
    assert naming(new) == ["xenvg", "u.disk1"]
    assert naming(NewDisk("plain", "u", 1, "web1", volume_group="xenvg", asked={"vg": "fast"})) == ["fast", "u.disk1"]
    assert adoptee(NewDisk("plain", "u", 1, "web1", volume_group="xenvg", asked={"adopt": "old"})) == ["xenvg", "old"]
    for asked, sentence in (({}, "the cluster has no volume group"), ({"vg": "../x"}, "cannot be a name")):
        with pytest.raises(PrerequisiteError, match=sentence):
            naming(NewDisk("plain", "u", 1, "web1", asked=asked))


def test_a_snapshot_of_a_disk_is_not_adopted() -> None:
    adoptee = LogicalVolumes.traits.adoptee
    assert adoptee is not None
    with pytest.raises(PrerequisiteError, match=r"is a snapshot of the disk u\.disk0:"):
        adoptee(NewDisk("plain", "v", 0, "web2", volume_group="xenvg", asked={"adopt": "u.disk0.snap-before"}))


def test_what_lvs_and_pvs_print_is_read() -> None:
    """As LVM 2.03.16 of Debian 12 printed it."""
    printed = """\
  xenvg|b.disk0|8388608|-wi-XX----||2|||/dev/loop0(4),/dev/loop1(0)
  xenvg|c.disk0|8388608|-wi-XX----|originstname+web1|1|||/dev/loop0(0)
  xenvg|c.disk0|8388608|-wi-XX----|originstname+web1|1|||/dev/loop0(8)
"""
    b, c = read_volumes(printed)
    assert (b.size, b.stripes, b.devices) == (8 * 2**20, 2, ("/dev/loop0", "/dev/loop1"))
    assert (c.owner, c.devices, c.broken, c.in_use) == ("web1", ("/dev/loop0",), False, False)
    [pv, _] = read_physical("  /dev/loop0|66060288|53477376|12582912|a--\n  /dev/loop2|66060288|66060288|0|u--\n")
    assert (pv.free, pv.used, pv.allocatable) == (53477376, 12582912, True)
    for text in ("x|y", "xenvg|b|huge|-wi||2|||/dev/x"):
        with pytest.raises(BlockDeviceError, match="What lvs prints cannot be read"):
            read_volumes(text)


def test_what_an_export_has_left_is_named_by_verify() -> None:
    """No export is under way then, since instances are locked; snapshots of users belong to their disk."""
    names = {"u.disk0", "u.disk0.snap-before", "u.disk0.snap-.export", "v.disk0.snap-before"}
    assert {name for name in names if not is_of_disk(name, names)} == names - {"u.disk0.snap-before"}


class Told:
    """A world in which lvs says *lines* of volumes, and other tools are noted."""

    paths = Paths()

    def __init__(self, **lines: str) -> None:
        self.lines, self.ran = lines, list[str]()

    async def run(self, words: Sequence[str], **_: Any) -> Completed:
        if words[0] != "lvs":
            self.ran.append(" ".join(words))
            return Completed(tuple(words), 0, "", "")
        found = self.lines.get(words[-1].rpartition("/")[2].replace(".", "_").replace("-", "_"))
        if found is None:
            raise CommandError(f"lvs ended with status 5: Failed to find logical volume {words[-1]}")
        return Completed(tuple(words), 0, found, "")


DISK = DiskSpec(uuid="u", template="plain", logical_id=["xenvg", "u.disk0"], size_mib=8, index=0)
ORIGIN = "  xenvg|u.disk0|8388608|owi-a-s---||1|||/dev/sda(0)"
SNAPSHOT = "  xenvg|u.disk0.snap-a|12582912|swi-{}-s---||1|u.disk0|{}|/dev/sda(9)"


def test_a_snapshot_has_room_for_what_lvm_notes_of_each_piece() -> None:
    """LVM 2.03.16 says that 1.02 GiB are what a snapshot of 1 GiB can use."""
    world = Told(u_disk0=ORIGIN)
    asyncio.run(VolumeSnapshots(Volumes(world)).take(DISK, "a"))  # type: ignore[arg-type]
    assert world.ran == ["lvcreate --yes -l 100%ORIGIN -s -n u.disk0.snap-a xenvg/u.disk0"]


def test_a_snapshot_that_has_overflown_is_refused_before_anything_changes() -> None:
    lost = Told(u_disk0=ORIGIN, u_disk0_snap_a=SNAPSHOT.format("I", "100.00"))
    kept = VolumeSnapshots(Volumes(lost))  # type: ignore[arg-type]
    for act in (kept.check_revert, kept.revert):
        with pytest.raises(BlockDeviceError, match=r"Snapshot a of disk 0 has overflown.*lost: remove it"):
            asyncio.run(act(DISK, "a"))
    assert lost.ran == [] and not asyncio.run(kept.has_whole(DISK, "a"))
    whole = VolumeSnapshots(Volumes(Told(u_disk0=ORIGIN, u_disk0_snap_a=SNAPSHOT.format("a", "40.00"))))  # type: ignore[arg-type]
    asyncio.run(whole.check_revert(DISK, "a"))
    assert asyncio.run(whole.has_whole(DISK, "a"))


class Group(Told):
    """A volume group with room on *physical* volumes, whose tools do what they are told."""

    def __init__(self, physical: str) -> None:
        super().__init__()
        self.physical = physical

    async def run(self, words: Sequence[str], **options: Any) -> Completed:
        told = {"pvs": self.physical, "vgs": "1073741824|1073741824|4194304"}
        if words[0] == "lvcreate" and "|a--" not in self.physical:
            raise CommandError("lvcreate ended with status 5: Insufficient suitable allocatable extents")
        done = await super().run(words, **options)
        return Completed(done.argv, 0, told[words[0]], "") if words[0] in told else done


def test_a_volume_for_which_no_physical_one_is_to_be_used_is_not_said_to_be_made() -> None:
    driver = LogicalVolumes(Group("/dev/sda|1073741824|1073741824|0|---"))  # type: ignore[arg-type]
    with pytest.raises(BlockDeviceError, match=r"u.disk0 of 8 MiB cannot be made: .*Insufficient suitable"):
        asyncio.run(driver.create(DISK))


def test_a_volume_of_larger_extents_has_room_on_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its guest uses all of it: the second partition table lies at its end."""
    world = Group("/dev/sda|1073741824|1073741824|0|a--")
    driver, zeros = LogicalVolumes(world), list[int]()  # type: ignore[arg-type]
    monkeypatch.setattr(devices, "write_zeros", lambda path, offset, size: zeros.append(size))
    monkeypatch.setattr(LogicalVolumes, "activate", AsyncMock(return_value=SimpleNamespace(path="/dev/x")))
    asyncio.run(driver.begin_copy(DISK, 32 * 2**20))
    assert [line for line in world.ran if line.startswith("lvcreate")] == [
        "lvcreate --wipesignatures y --yes -L 32m -n u.disk0.new xenvg"
    ]
    assert zeros == [32 * 2**20]

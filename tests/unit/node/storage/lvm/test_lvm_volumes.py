# SPDX-License-Identifier: BSD-2-Clause
"""Names of logical volumes, and what the tools of LVM 2 print."""

import pytest

from ganeti.base.errors import BlockDeviceError, PrerequisiteError
from ganeti.model.new_disk import NewDisk
from ganeti.node.storage.lvm.driver import LogicalVolumes
from ganeti.node.storage.lvm.snapshots import is_of_disk
from ganeti.node.storage.lvm.volumes import read_physical, read_volumes


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

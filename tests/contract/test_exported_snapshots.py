# SPDX-License-Identifier: BSD-2-Clause
"""What an OS reads of snapshots while the guest writes: the node calls of an export, by the real tools of LVM 2."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import volume_groups
from tests.fakes.one_node import OneNode, disk_spec, instance_spec
from tests.fakes.volume_groups import ToolWorld, VolumeGroup

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.exports import EXPORTED
from ganeti.node.state import NodeState
from ganeti.node.storage.interface import DiskTemplate

pytestmark = pytest.mark.real
DIRECTORY = "web1.new"


class Site:
    """A node with a volume group, and an instance with two disks of *size_mib* there."""

    def __init__(self, root: Path) -> None:
        self.node = OneNode(root)
        self.group = VolumeGroup(root / "lvm", Path(self.node.paths.under("/dev")))
        world = ToolWorld(self.node.paths, "node1")
        world.log = self.node.logged.append  # type: ignore[method-assign]
        world.tools = self.group.tools
        self.node.state = NodeState(world, self.node, self.node)
        self.node.definition(export='cat "$EXPORT_DEVICE"')

    def instance(self, size_mib: int) -> Any:
        disks = [
            disk_spec("plain", index, logical_id=["xenvg", f"d{index}"], size_mib=size_mib, params={})
            for index in range(2)
        ]
        made = instance_spec(disks=disks, os="test")
        for disk in disks:
            self.node.run(self.node.state.template_of(disk).create(disk))
        return made

    def write(self, letter: str) -> None:
        for index in range(2):
            with (self.group.dev / f"xenvg/d{index}").open("r+b") as file:
                file.write(letter.encode() * 65536)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if reason := volume_groups.why_not():
        pytest.skip(reason)
    found = Site(tmp_path)
    yield found
    found.group.close()


def test_a_dump_has_what_the_disk_had_when_its_snapshot_was_taken(site: Site) -> None:
    instance = site.instance(4)
    site.write("a")
    for letter in "bc":  # the second takes the place of what an older export has left
        site.node.call("export_snapshot_disks", instance=instance, directory=DIRECTORY)
        site.write(letter)
    for index in range(2):
        dump = f"disk{index}.dump"
        site.node.call(
            "export_dump", instance=instance, index=index, directory=DIRECTORY, dump=dump, debug=0, copied=True
        )
        data = (Path(site.node.paths.export_dir) / DIRECTORY / dump).read_bytes()
        assert (data[:65536], len(data)) == (b"b" * 65536, 4 * 2**20)
    kept = site.node.call("instance_snapshots", instance=instance)
    assert [[each.name for each in disk] for disk in kept] == [[EXPORTED], [EXPORTED]]
    for _ in ("once", "again"):
        site.node.call("export_remove_snapshots", instance=instance)
    assert site.group.volumes() == ["d0", "d1"]
    site.node.call("export_discard", name="web1")
    assert (site.group.dev / "xenvg/d0").read_bytes().startswith(b"c")


def test_without_room_for_all_snapshots_there_is_none(site: Site) -> None:
    instance = site.instance(20)
    with pytest.raises(BlockDeviceError):
        site.node.call("export_snapshot_disks", instance=instance, directory=DIRECTORY)
    assert site.group.volumes() == ["d0", "d1"]


def test_templates_with_quick_snapshots_say_where_they_are() -> None:
    quick = {name for name, driver in DiskTemplate.registry.items() if driver.traits.quick_snapshots}
    assert quick == {"plain", "drbd"}

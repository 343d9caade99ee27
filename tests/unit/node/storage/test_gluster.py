# SPDX-License-Identifier: BSD-2-Clause
"""Images on a Gluster volume: mounted before they are touched, reached by QEMU past the mount where that is asked for.

`mount` and `mountpoint` are stand-ins; no Gluster runs here.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.base.paths import Paths
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.gluster import GlusterDisks
from ganeti.noded.world import RealNodeWorld
from ganeti.ports.node_world import Completed

PLACE = "/srv/gluster"


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


class MountingWorld(RealNodeWorld):
    mounted = False
    refuses = False

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        if argv[0] == "mountpoint":
            return Completed(tuple(argv), 0 if self.mounted else 32, "", "")
        if argv[0] != "mount":
            return await super().run(argv, **options)
        if self.refuses:
            raise CommandError("mount ended with status 1: Mount failed")
        self.words, self.mounted = list(argv), True
        return Completed(tuple(argv), 0, "", "")


@pytest.fixture
def world(tmp_path: Path) -> MountingWorld:
    paths = Paths(str(tmp_path))
    Path(paths.sysconf_dir).mkdir(parents=True)
    Path(paths.file_storage_paths_file).write_text(f"{PLACE}\n")
    return MountingWorld(paths, "node1")


def disk(**params: Any) -> DiskSpec:
    place = ["loop", f"{PLACE}/web1/u.gluster.disk0"]
    return DiskSpec(uuid="u", template="gluster", logical_id=place, size_mib=4, index=0, params=params)


def test_the_volume_is_mounted_before_a_disk_is_made(world: MountingWorld) -> None:
    driver, place = GlusterDisks(world), world.paths.under(PLACE)
    run(driver.create(disk(host="san", port=24008, volume="vms")))
    assert world.words == ["mount", "-t", "glusterfs", "-o", "server-port=24008", "san:/vms", place]
    assert run(driver.find(disk())).size_mib == 4
    attached = run(driver.activate(disk(), "web1"))
    assert (attached.path, attached.blockdev) == (f"{place}/web1/u.gluster.disk0", None)
    run(driver.deactivate(disk()))
    run(driver.remove(disk()))
    assert list(Path(place).iterdir()) == []


def test_qemu_reaches_an_image_by_itself_where_that_is_asked_for(world: MountingWorld) -> None:
    driver, wanted = GlusterDisks(world), disk(host="san", volume="vms", access="userspace")
    run(driver.create(wanted))
    attached = run(driver.activate(wanted, "web1"))
    assert attached.uri == "gluster://san:24007/vms/web1/u.gluster.disk0"
    assert attached.blockdev == {
        "driver": "gluster",
        "volume": "vms",
        "path": "web1/u.gluster.disk0",
        "server": [{"type": "inet", "host": "san", "port": "24007"}],
    }
    assert run(driver.as_file(attached)).blockdev is None


def test_a_server_may_have_an_address_of_ipv6(world: MountingWorld) -> None:
    driver, wanted = GlusterDisks(world), disk(host="fd77::9", volume="vms", access="userspace")
    run(driver.create(wanted))
    assert world.words[-2] == "[fd77::9]:/vms"
    attached = run(driver.activate(wanted, "web1"))
    assert attached.uri == "gluster://[fd77::9]:24007/vms/web1/u.gluster.disk0"
    assert attached.blockdev is not None
    assert attached.blockdev["server"] == [{"type": "inet", "host": "fd77::9", "port": "24007"}]


def test_a_volume_that_cannot_be_mounted_takes_no_disk(world: MountingWorld) -> None:
    world.refuses = True
    for act in (GlusterDisks(world).create(disk()), GlusterDisks(world).activate(disk(), "web1")):
        with pytest.raises(
            BlockDeviceError, match=r"Gluster volume gv0 of 127\.0\.0\.1 cannot be mounted on .*; see that"
        ):
            run(act)
    assert not Path(world.paths.under(f"{PLACE}/web1")).exists()
    for params in ({"volume": "-o"}, {"host": "a b"}):
        with pytest.raises(BlockDeviceError, match="cannot be"):
            run(GlusterDisks(world).create(disk(**params)))

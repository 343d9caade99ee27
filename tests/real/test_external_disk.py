# SPDX-License-Identifier: BSD-2-Clause
"""A real guest on a volume of a provider: by a device of the kernel that grows under it, and by a URI."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.one_node import OneNode, disk_spec
from tests.real import kvm_lab
from tests.real.kvm_lab import Lab

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        os.geteuid() != 0 or not os.path.exists("/dev/loop-control"), reason="the provider attaches loop devices"
    ),
]
LOOPED = Path(__file__).resolve().parents[1] / "fakes/extstorage/looped"
NAME = "extern"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, guest_image):
    with kvm_lab.opened(tmp_path_factory.mktemp("kvm") / "lab", guest_image) as opened:
        yield opened


@pytest.fixture
def storage(tmp_path: Path) -> Any:
    node = OneNode(tmp_path)
    place = Path(node.paths.under("/srv/ganeti/extstorage"))
    place.mkdir(parents=True)
    (place / "looped").symlink_to(LOOPED)
    (tmp_path / "volumes").mkdir()
    yield node
    disk = volume(tmp_path)
    node.call("blockdev_shutdown", disk=disk)
    node.call("blockdev_remove", disk=disk)


def volume(root: Path, **params: str) -> Any:
    params["dir"] = str(root / "volumes")
    return disk_spec("ext", logical_id=["looped", "vol1"], size_mib=16, params=params)


@pytest.mark.parametrize("access", ["kernelspace", "userspace"])
def test_a_guest_beats_on_a_volume(lab: Lab, storage: OneNode, tmp_path: Path, access: str) -> None:
    node, disk = lab.nodes[0], volume(tmp_path, access=access)
    node.forget_console(NAME)
    storage.call("blockdev_create", disk=disk)
    attached = storage.call("blockdev_assemble", disk=disk, owner=NAME)
    spec = lab.instance(NAME, nics=0, disk=False)
    spec = kvm_lab.hypervisor_world.msgspec.structs.replace(spec, disks=[disk])
    try:
        node.call("start", spec=spec, disks=[attached])
        node.wait_beats(NAME)
        if access == "kernelspace":
            storage.call("blockdev_grow", disk=disk, amount_mib=16, in_use=True)
            grown = storage.call("blockdev_assemble", disk=disk, owner=NAME)
            node.call("resize_disk", name=NAME, disk=grown, size_mib=32)
            node.wait_beats(NAME)
    finally:
        node.call("stop", name=NAME, timeout_s=0)
    assert int((tmp_path / "volumes/vol1").read_bytes()[:8]) >= node.beats(NAME)[-1] > 0

# SPDX-License-Identifier: BSD-2-Clause
"""What templates that adopt volumes must do with a volume that is there already."""

import asyncio
import os
import subprocess
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import BlockDeviceError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.model.new_disk import NewDisk
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.blockdev import AdoptedDevices
from ganeti.noded.world import RealNodeWorld

PATH = "/dev/disk/by-id/san-1"


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """A loop device of 4 MiB that a node finds at `PATH`."""
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        pytest.skip("a loop device is adopted")
    backing = tmp_path / "backing"
    with backing.open("wb") as file:
        file.truncate(4 * 2**20)
    words = ["losetup", "-f", "--show", str(backing)]
    name = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    link = Path(Paths(str(tmp_path)).under(PATH))
    link.parent.mkdir(parents=True)
    link.symlink_to(name)
    yield link
    subprocess.run(["losetup", "-d", name], check=True)


@pytest.fixture
def driver(tmp_path: Path) -> AdoptedDevices:
    return AdoptedDevices(RealNodeWorld(Paths(str(tmp_path)), "node1"))


def disk(size_mib: int = 4, path: str = PATH) -> DiskSpec:
    return DiskSpec(uuid="u", template="blockdev", logical_id=["manual", path], size_mib=size_mib, index=0)


def test_a_device_is_adopted_used_and_left_as_it_is(driver: AdoptedDevices, device: Path) -> None:
    device.write_bytes(b"was here before")
    run(driver.adopt(disk(), disk().logical_id))
    assert run(driver.find(disk())).size_mib == 4
    attached = run(driver.activate(disk(), "web1"))
    assert Path(attached.path).read_bytes().startswith(b"was here before")
    run(driver.deactivate(disk()))
    run(driver.remove(disk()))
    run(driver.rename(disk(), ["manual", PATH]))
    assert device.read_bytes().startswith(b"was here before")


def test_a_part_of_a_device_is_wiped(driver: AdoptedDevices, device: Path) -> None:
    device.write_bytes(b"x" * 4 * 2**20)
    with pytest.raises(BlockDeviceError, match="cannot be wiped from 3 to 5 MiB"):
        run(driver.wipe(disk(), 3, 2))
    run(driver.wipe(disk(), 1, 2))
    assert device.read_bytes() == b"x" * 2**20 + bytes(2 * 2**20) + b"x" * 2**20


def test_what_cannot_be_adopted_is_said(driver: AdoptedDevices, device: Path) -> None:
    with pytest.raises(BlockDeviceError, match=r"of 8 MiB cannot be made: there is one of 4 MiB"):
        run(driver.adopt(disk(8), disk().logical_id))
    gone = disk(path="/dev/disk/by-id/gone")
    with pytest.raises(BlockDeviceError, match="there is none; attach it"):
        run(driver.adopt(gone, gone.logical_id))
    with pytest.raises(BlockDeviceError, match="is missing on node node1"):
        run(driver.activate(gone, "web1"))
    with pytest.raises(BlockDeviceError, match="cannot grow: enlarge"):
        run(driver.grow(disk(), 4))
    (device.parent / "file").write_text("")
    with pytest.raises(BlockDeviceError, match="is no block device"):
        run(driver.find(disk(path="/dev/disk/by-id/file")))


def test_a_device_that_is_mounted_is_refused(driver: AdoptedDevices, device: Path, tmp_path: Path) -> None:
    subprocess.run(["mkfs.ext4", "-q", str(device)], check=True)
    (tmp_path / "mounted").mkdir()
    subprocess.run(["mount", str(device.resolve()), str(tmp_path / "mounted")], check=True)
    try:
        with pytest.raises(BlockDeviceError, match="is in use on node node1: unmount it"):
            run(driver.adopt(disk(), disk().logical_id))
    finally:
        subprocess.run(["umount", str(tmp_path / "mounted")], check=True)


@pytest.mark.parametrize("path", ["/dev/sdb", "by-id/x", "/dev/disk/../sdb", "", None, 7])
def test_only_names_that_stay_are_taken(path: Any) -> None:
    assert AdoptedDevices.traits.naming is not None
    with pytest.raises(PrerequisiteError, match=r"Disk 0: '.*' cannot be adopted"):
        AdoptedDevices.traits.naming(NewDisk("blockdev", "u", 0, "web1", asked={"adopt": path}))

# SPDX-License-Identifier: BSD-2-Clause
"""The root of a guest that is given up: its processes end and nothing stays mounted, whatever kind it is of."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract import hypervisor_world
from tests.contract.hypervisor_world import NodeOnDisk

from ganeti.model.node_requests import AttachedDisk
from ganeti.node.hypervisors.root_filesystem import RootFilesystem

MKFS_XFS = shutil.which("mkfs.xfs")


def why_not() -> str:
    if os.geteuid() != 0:
        return "mounting needs root"
    return "" if os.path.exists("/dev/loop-control") else "this machine has no loop devices"


pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@pytest.fixture(params=["ext4", "xfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> AttachedDisk:
    if request.param == "ext4":
        found = hypervisor_world.root_disk(tmp_path)
        subprocess.run(["tune2fs", "-e", "panic", found.path], check=True, timeout=60, stdout=subprocess.DEVNULL)
        return found
    if MKFS_XFS is None:
        pytest.skip("mkfs.xfs is not installed")
    image = tmp_path / "xfs.img"
    with open(image, "wb") as file:
        file.truncate(320 << 20)
    subprocess.run([MKFS_XFS, "-q", str(image)], check=True, timeout=60)
    return hypervisor_world.disk(image)


@pytest.fixture
def places(tmp_path: Path) -> Iterator[list[RootFilesystem]]:
    found = [RootFilesystem(NodeOnDisk(tmp_path), str(tmp_path / f"root {number}")) for number in (1, 2)]
    yield found
    for root in found:
        asyncio.run(root.end_processes())
        asyncio.run(root.unmount())


def guest_in(root: RootFilesystem) -> subprocess.Popen[bytes]:
    Path(root.place, "bin").mkdir(exist_ok=True)
    shutil.copy("/bin/busybox", Path(root.place, "bin/busybox"))
    argv = ["/usr/sbin/chroot", root.place, "/bin/busybox", "sh", "-c", "echo up; read -r nothing"]
    guest = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert guest.stdout is not None and guest.stdout.readline() == b"up\n"
    return guest


def silence(monkeypatch: pytest.MonkeyPatch, root: RootFilesystem) -> None:
    """Have the file system answer as XFS does when it is shut down: ext4 still tells about its root."""
    device, ask = os.stat(root.place).st_dev, os.stat

    def asked(path: Any, *words: Any, **options: Any) -> os.stat_result:
        found = ask(path, *words, **options)
        if found.st_dev == device:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return found

    monkeypatch.setattr(os, "stat", asked)
    monkeypatch.setattr(os, "lstat", lambda path, **options: asked(path, follow_symlinks=False, **options))


def test_an_abandoned_root_is_left_by_its_processes(
    disk: AttachedDisk, places: list[RootFilesystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = places[0]

    async def story() -> None:
        await root.mount(disk)
        guest = guest_in(root)
        try:
            assert root.processes() == [guest.pid]
            silence(monkeypatch, root)
            root.abandon()
            assert root.is_mounted and root.processes() == [guest.pid]
            ended = asyncio.create_task(asyncio.to_thread(guest.wait))
            await root.end_processes()
            assert await ended == -9
        finally:
            guest.kill()
            guest.communicate()
        await root.unmount()
        assert not root.is_mounted and not os.path.exists(root.place)

    asyncio.run(story())


def test_an_image_says_nothing_about_the_node(disk: AttachedDisk, places: list[RootFilesystem], tmp_path: Path) -> None:
    """Neither that an error of its stops the node, nor that a copy of it cannot run beside it."""
    copy = tmp_path / "copy.img"
    shutil.copy(disk.path, copy)

    async def story() -> None:
        for root, image in zip(places, (Path(disk.path), copy), strict=True):
            await root.mount(hypervisor_world.disk(image))
        with open("/proc/mounts", encoding="utf-8") as source:
            mounts = [line.split() for line in source if str(tmp_path) in line]
        assert len(mounts) == 2 and len({root.device for root in places}) == 2
        for _, _, kind, options, *_ in mounts:
            wanted = {"ext4": "errors=remount-ro", "xfs": "nouuid"}[kind]
            assert wanted in options.split(","), options

    asyncio.run(story())

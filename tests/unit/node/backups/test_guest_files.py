# SPDX-License-Identifier: BSD-2-Clause
"""Files out of a backup fill no file system: what a guest made large is refused first, and bounded while it is read."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
import pytest
from tests.fakes.one_node import OneNode

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.backup_files import FileSystem
from ganeti.node.backups import volumes
from ganeti.node.backups.guest_files import Entry, GuestFiles
from ganeti.node.backups.room import require_room, room

root = pytest.mark.skipif(os.geteuid() != 0, reason="a program that reads as nobody is started by root")


@root
def test_a_sparse_file_that_is_larger_than_the_room_is_not_taken(node: OneNode, tmp_path: Path) -> None:
    tree, image, spool = tmp_path / "tree", tmp_path / "image", tmp_path / "spool"
    tree.mkdir()
    spool.mkdir()
    (tree / "small").write_text("web\n")
    with (tree / "lastlog").open("wb") as file:
        file.truncate(2**43)
    words = ["mkfs.ext4", "-q", "-F", "-d", str(tree), str(image), "9M"]
    subprocess.run(words, check=True)
    image.chmod(0o644)
    file_system = FileSystem(disk=0, partition=0, offset=0, kind="ext4", label="", readable=True)
    with volumes.opened(str(image)) as descriptor:
        files = GuestFiles(node.state.world, file_system, descriptor, str(spool))
        with pytest.raises(BlockDeviceError, match=r"lastlog .* has 8796093022208 bytes, and .* has room for"):
            node.run(files.take("lastlog", f"{spool}/lastlog"))
        node.run(files.take("small", f"{spool}/small"))
    assert [(path.name, path.read_text()) for path in spool.iterdir()] == [("small", "web\n")]


@root
def test_a_long_directory_is_read_beside_the_event_loop(
    node: OneNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 MiB of names would hold all other calls of the node for seconds."""
    image, threads = tmp_path / "image", set()
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image), "9M"], check=True)
    image.chmod(0o644)
    parse = GuestFiles._entries

    def noted(files: GuestFiles, file: IO[bytes]) -> Iterator[Entry]:
        threads.add(threading.current_thread())
        return parse(files, file)

    monkeypatch.setattr(GuestFiles, "_entries", noted)
    file_system = FileSystem(disk=0, partition=0, offset=0, kind="ext4", label="", readable=True)
    with volumes.opened(str(image)) as descriptor:
        files = GuestFiles(node.state.world, file_system, descriptor, str(tmp_path))
        found = node.run(files.find("/"))
    assert [each.name for each in found.entries] == ["lost+found"]
    assert threads and threading.current_thread() not in threads


@root
def test_what_writes_more_than_it_may_is_ended(node: OneNode, tmp_path: Path) -> None:
    target = tmp_path / "out"
    with volumes.opened("/dev/null") as descriptor:
        words = ["head", "-c", "100000", "/dev/zero"]
        asked = volumes.as_nobody(node.state.world, words, descriptor, stdout_path=str(target), most_bytes=5000)
        assert node.run(asked).status == -signal.SIGXFSZ
    assert target.stat().st_size == 5000


def test_the_master_takes_no_file_without_room(node: OneNode) -> None:
    with pytest.raises(
        BlockDeviceError, match=r"The file from the backup has 1152921504606846976 bytes, and .* has room"
    ):
        node.call("fetched_write", name="7", offset=0, data=b"", size=2**60)
    assert list(Path(node.paths.backup_files_dir).iterdir()) == []
    path = node.call("fetched_write", name="7", offset=0, data=b"web", size=3)
    assert Path(path).read_bytes() == b"web"


def test_a_part_of_a_file_system_stays_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = 2**20
    said = os.statvfs_result((4096, 4096, blocks, blocks // 10, blocks // 10, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: said)
    free, spare = room(str(tmp_path))
    assert spare == 4096 * blocks // 20 and free == 4096 * (blocks // 10) - spare
    require_room(str(tmp_path), free, "it")
    with pytest.raises(BlockDeviceError, match="make room there, or mount a larger file system"):
        require_room(str(tmp_path), free + 1, "it")


def test_a_disk_with_places_without_end_is_shown_in_part(tmp_path, monkeypatch):
    """128 partitions with 256 volumes each would take more than 30,000 programs."""
    looked = []

    async def partitions(world, descriptor):
        return [(number, 512 * number) for number in range(1, 129)]

    async def file_system(world, descriptor, place):
        looked.append(place)
        return msgspec.structs.replace(place, kind=volumes.LVM)

    async def logical_volumes(world, descriptor, physical):
        return [msgspec.structs.replace(physical, volume=f"vg/{number}") for number in range(256)]

    monkeypatch.setattr(volumes, "_partitions", partitions)
    monkeypatch.setattr(volumes, "_file_system", file_system)
    monkeypatch.setattr(volumes, "_logical_volumes", logical_volumes)
    image = tmp_path / "image"
    image.touch()
    found = asyncio.run(volumes.file_systems(None, 0, str(image)))
    assert (len(found), len(looked)) == (512, 2)

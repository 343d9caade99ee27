# SPDX-License-Identifier: BSD-2-Clause
"""Files of FAT are read out of a backup as they are; a damaged file system is said, and ends.

The images are of mkfs.vfat and mtools: a file at the top, one three directories down, long names, a read-only file, an
empty and a deleted one.
"""

from __future__ import annotations

import gzip
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.one_node import OneNode

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.backup_files import FileSystem, FoundPath
from ganeti.node.backups import fat_program, volumes
from ganeti.node.backups.fat_files import FatFiles

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a program that reads as nobody is started by root")
IMAGES = Path(__file__).with_name("fat")
BIG = b"".join(b"%07d\n" % number for number in range(12000))
OFFSET = 4096


class Read:
    """One image, in a partition."""

    def __init__(self, node: OneNode, directory: Path, content: bytes) -> None:
        self._node, self._image, self._spool = node, directory / "image", directory / "spool"
        self._image.write_bytes(bytes(OFFSET) + content)
        self._image.chmod(0o644)
        self._spool.mkdir(exist_ok=True)
        self.file_system = FileSystem(disk=0, partition=1, offset=OFFSET, kind=volumes.FAT, label="BOOT", readable=True)

    def find(self, path: str) -> FoundPath | None:
        with volumes.opened(str(self._image)) as descriptor:
            files = FatFiles(self._node.state.world, self.file_system, descriptor, str(self._spool))
            found: FoundPath | None = self._node.run(files.find(path))
            return found

    def take(self, path: str) -> bytes:
        target = self._spool / "taken"
        with volumes.opened(str(self._image)) as descriptor:
            files = FatFiles(self._node.state.world, self.file_system, descriptor, str(self._spool))
            self._node.run(files.take(path, str(target)))
        return target.read_bytes()


def image(name: str) -> bytes:
    return gzip.decompress((IMAGES / f"{name}.img.gz").read_bytes())


@pytest.fixture(params=["fat12", "fat16", "fat32"])
def read(request: pytest.FixtureRequest, node: OneNode, tmp_path: Path) -> Read:
    return Read(node, tmp_path, image(request.param))


def test_files_and_directories_are_found_whatever_the_case(read: Read) -> None:
    top = read.find("/")
    assert top is not None and top.entries is not None
    assert [each.name for each in top.entries] == sorted(
        ["EFI", "many", "GRUB.CFG", "A long name äö.configuration", "empty", "Spread.out"]
    )
    found = read.find("/efi/Boot/BOOTX64.EFI")
    assert found is not None and (found.path, found.file.size) == ("/EFI/boot/bootx64.efi", len(BIG))
    assert stat.filemode(found.file.mode) == "-rw-r--r--"
    locked, many = read.find("grub.cfg"), read.find("/many/../many")
    assert locked is not None and stat.filemode(locked.file.mode) == "-r--r--r--"
    assert many is not None and len(many.entries or ()) == 58
    assert read.find("/gone") is None and read.find("/grub.cfg/x") is None and read.find("/EFI/nothing") is None


def test_a_file_is_copied_out(read: Read) -> None:
    for path in ("EFI/boot/bootx64.efi", "spread.out"):
        assert read.take(path) == BIG
    assert read.take("/a long name äö.configuration") == b"root = hda1\n"
    assert read.take("empty") == b""
    with pytest.raises(BlockDeviceError, match="is no regular file"):
        read.take("EFI")


def test_a_fat32_with_few_clusters_is_one_by_its_table(node: OneNode, tmp_path: Path) -> None:
    content = bytearray(image("fat32"))
    content[32:36] = (60000).to_bytes(4, "little")
    read = Read(node, tmp_path, bytes(content))
    assert read.find("/") is not None
    with (tmp_path / "image").open("rb") as opened:
        assert any(fat_program.Fat(opened.fileno(), OFFSET).directory(0))


def test_blkid_and_the_reader_agree_on_the_name_of_the_kind(node: OneNode, tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(image("fat16"))
    path.chmod(0o644)
    (found,) = node.run(volumes.file_systems(node.state.world, 0, str(path)))
    assert (found.kind, found.label, found.readable) == (volumes.FAT, "BOOT", True)


def test_a_chain_in_a_circle_and_one_that_is_cut_are_said(node: OneNode, tmp_path: Path) -> None:
    content = bytearray(image("fat16"))
    table = int.from_bytes(content[14:16], "little") * 512
    for cluster in range(2, 600):
        content[table + 2 * cluster : table + 2 * cluster + 2] = cluster.to_bytes(2, "little")  # each its own next
    read = Read(node, tmp_path, bytes(content))
    with pytest.raises(BlockDeviceError, match=r"damaged: (clusters of it form a circle|a directory is larger)"):
        read.find("/EFI")
        read.find("/EFI/boot")
    with pytest.raises(BlockDeviceError, match="damaged: it is larger than its partition"):
        Read(node, tmp_path, image("fat16")[:30000]).find("/many/x")
    with pytest.raises(BlockDeviceError, match="damaged: its boot sector"):
        Read(node, tmp_path, bytes(100_000)).find("/")


def test_no_damage_makes_it_fail_otherwise_or_run_on(tmp_path: Path) -> None:
    chance = random.Random(22)
    path = tmp_path / "image"
    for _ in range(15):
        content = bytearray(image("fat12"))
        for _ in range(40):
            content[chance.randrange(0, 20_000)] = chance.randrange(256)
        path.write_bytes(content)
        words = [sys.executable, "-IS", fat_program.__file__, str(path), "0"]
        for command in (["list", "0"], ["list", "3"], ["cat", "4", "100000"]):
            done = subprocess.run([*words, *command], capture_output=True, text=True, timeout=60, errors="replace")
            assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr

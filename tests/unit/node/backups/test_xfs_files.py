# SPDX-License-Identifier: BSD-2-Clause
"""Files of XFS are read out of a backup as they are, also from logical volumes; a damaged one is said, and ends.

The images are of mkfs.xfs. Of version 5 the kernel has filled two: directories in their inode, in one block and in
many, a file in two hundred pieces with holes, one that was allocated without content, links of both kinds. Version 4,
which kernels write no longer, was filled by mkfs.xfs. The beginning of a physical volume is of pvcreate, vgcreate,
lvcreate and lvextend, with a second volume of its group on another disk.
"""

from __future__ import annotations

import json
import lzma
import os
import random
import stat
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType

import pytest
from tests.fakes.one_node import OneNode

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.backup_files import FileSystem, FoundPath
from ganeti.node.backups import lvm_program, volumes, xfs_program
from ganeti.node.backups.xfs_files import XfsFiles

root = pytest.mark.skipif(os.geteuid() != 0, reason="a program that reads as nobody is started by root")
IMAGES = Path(__file__).parent
BIG = b"".join(b"%07d\n" % number for number in range(12000))
SPREAD = b"".join((b"%07d\n" % number).ljust(8192, b"\0") for number in range(200)) + bytes(5)
LONG = "a rather long name of a file so that the directory has many blocks"
MIB = 1024 * 1024
PARTITION = MIB
ROOT = [(2 * MIB, 20 * MIB), (31 * MIB, 14 * MIB)]
"""The pieces of rl-web/root, of which the first lies behind the metadata of its physical volume."""


class Read:
    """One file system of a disk."""

    def __init__(self, node: OneNode, path: Path, file_system: FileSystem) -> None:
        self._node, self._path, self._file_system = node, path, file_system
        self._spool = path.with_name("spool")
        self._spool.mkdir(exist_ok=True)

    def find(self, path: str) -> FoundPath | None:
        with volumes.opened(str(self._path)) as descriptor:
            files = XfsFiles(self._node.state.world, self._file_system, descriptor, str(self._spool))
            found: FoundPath | None = self._node.run(files.find(path))
            return found

    def names(self, path: str) -> list[str]:
        found = self.find(path)
        assert found is not None and found.entries is not None
        return [each.name for each in found.entries]

    def take(self, path: str) -> bytes:
        target = self._spool / "taken"
        with volumes.opened(str(self._path)) as descriptor:
            files = XfsFiles(self._node.state.world, self._file_system, descriptor, str(self._spool))
            self._node.run(files.take(path, str(target)))
        return target.read_bytes()


def image(name: str) -> bytes:
    return lzma.decompress((IMAGES / f"{name}.img.xz").read_bytes())


def disk(directory: Path, parts: dict[int, bytes], size: int) -> Path:
    """A sparse file with *parts* at their offsets, which everybody may read."""
    path = directory / "image"
    with path.open("wb") as file:
        for offset, content in parts.items():
            for at in range(0, len(content), MIB):
                if (piece := content[at : at + MIB]).count(0) < len(piece):
                    file.seek(offset + at)
                    file.write(piece)
        file.truncate(size)
    path.chmod(0o644)
    return path


@pytest.fixture(params=["xfs5", "xfs5-small-blocks", "xfs4"])
def read(request: pytest.FixtureRequest, node: OneNode, tmp_path: Path) -> Read:
    path = disk(tmp_path, {PARTITION: image(f"xfs/{request.param}")}, 40 * MIB)
    return Read(node, path, FileSystem(disk=0, partition=1, offset=PARTITION, kind=volumes.XFS, readable=True))


def guest_disk(directory: Path, metadata: bytes | None = None) -> Path:
    """A disk of DOS partitions, of which one is a physical volume that has XFS in two pieces."""
    content = image("xfs/xfs5")
    entry = (
        bytes([0, 0, 0, 0, 0x8E, 0, 0, 0])
        + (PARTITION // 512).to_bytes(4, "little")
        + (72 * 2048).to_bytes(4, "little")
    )
    table = bytes(446) + entry + bytes(48) + b"\x55\xaa"
    first = ROOT[0][1]
    parts = {
        0: table,
        PARTITION: metadata or image("lvm/head"),
        ROOT[0][0]: content[:first],
        ROOT[1][0]: content[first:],
    }
    return disk(directory, parts, 73 * MIB)


@root
def test_files_and_directories_are_found(read: Read) -> None:
    assert {"a", "empty", "etc", "far", "many"} <= set(read.names("/")) and "gone" not in read.names("/")
    found, empty = read.find("/a/b/c/big"), read.find("empty")
    assert found is not None and (found.path, found.file.size) == ("/a/b/c/big", len(BIG))
    assert stat.filemode(found.file.mode) == "-rw-r--r--"
    assert empty is not None and (empty.file.uid, empty.file.gid, empty.file.mode & 0o777) == (1000, 100, 0o600)
    assert len(read.names("/a/b/../../many")) == 60
    assert read.find("/gone") is None and read.find("/empty/x") is None and read.find("/a/nothing") is None


@root
def test_a_file_is_copied_out(read: Read) -> None:
    assert read.take("/a/b/c/big") == BIG
    for path in ("/etc/fstab", "/far", "/a/near"):
        assert read.take(path) == b"UUID=1 / xfs\n"
    assert read.take("empty") == b""
    with pytest.raises(BlockDeviceError, match="is no regular file"):
        read.take("etc")


@root
@pytest.mark.parametrize("name", ["xfs5", "xfs5-small-blocks"])
def test_what_lies_in_many_pieces_is_read(node: OneNode, tmp_path: Path, name: str) -> None:
    path = disk(tmp_path, {0: image(f"xfs/{name}")}, 32 * MIB)
    read = Read(node, path, FileSystem(disk=0, partition=0, offset=0, kind=volumes.XFS, readable=True))
    assert read.names("/lots") == sorted(["one", *(f"{LONG} {number:05}" for number in (*range(50), *range(690, 700)))])
    assert read.take("/spread") == SPREAD
    assert read.take("/promised") == bytes(8192) + b"xxxxx" + bytes(65536 - 8197)
    assert read.take("/deep") == b"UUID=1 / xfs\n"


@root
def test_logical_volumes_are_named_and_read(node: OneNode, tmp_path: Path) -> None:
    path = guest_disk(tmp_path)
    found = node.run(volumes.file_systems(node.state.world, 0, str(path)))
    said = [(each.partition, each.volume, each.kind, each.label, each.readable) for each in found]
    assert sorted(said) == [
        (1, "rl-web/away", "", "", False),
        (1, "rl-web/boot", "", "", False),
        (1, "rl-web/root", "xfs", "ROOT", True),
        (1, "rl-web/wide", "", "", False),
    ]
    (held,) = [each for each in found if each.readable]
    assert held.pieces == ROOT
    read = Read(node, path, held)
    assert read.take("/a/b/c/big") == BIG and read.take("/spread") == SPREAD
    assert len(read.names("/lots")) == 61


@root
def test_a_damaged_physical_volume_is_one_that_cannot_be_read(node: OneNode, tmp_path: Path) -> None:
    metadata = image("lvm/head")
    at = metadata.rindex(b"start_extent")
    path = guest_disk(tmp_path, metadata[:at] + b"S" + metadata[at + 1 :])
    (found,) = node.run(volumes.file_systems(node.state.world, 0, str(path)))
    assert (found.kind, found.volume, found.readable) == (volumes.LVM, "", False)


@root
def test_a_damaged_inode_is_named_and_the_others_are_there(node: OneNode, tmp_path: Path) -> None:
    content = bytearray(image("xfs/xfs5"))
    here = FileSystem(disk=0, partition=0, offset=0, kind=volumes.XFS, readable=True)
    path = disk(tmp_path, {0: bytes(content)}, 32 * MIB)
    names = Read(node, path, here).names("/")
    number = inode_of(path, "empty")
    content[number * 512 : number * 512 + 2] = b"\0\0"
    path.write_bytes(content)
    read = Read(node, path, here)
    found = read.find("/")
    assert found is not None and found.entries is not None and [each.name for each in found.entries] == names
    said = f"inode {number} is damaged: an inode does not begin as one"
    assert [(each.name, each.problem) for each in found.entries if each.problem] == [("empty", said)]
    assert read.take("/a/b/c/big") == BIG
    with pytest.raises(BlockDeviceError, match=f"/empty cannot be read: {said}"):
        read.find("/empty")


def inode_of(path: Path, name: str) -> int:
    lines = map(json.loads, asked(xfs_program, path, "0", "list", "0").stdout.splitlines())
    return next(int(line["inode"]) for line in lines if line["name"] == name)


@root
def test_cut_and_unknown_file_systems_are_said(node: OneNode, tmp_path: Path) -> None:
    content = image("xfs/xfs5")
    here = FileSystem(disk=0, partition=0, offset=0, kind=volumes.XFS, readable=True)
    cut = Read(node, disk(tmp_path, {0: content[: MIB // 2]}, MIB // 2), here)
    with pytest.raises(BlockDeviceError, match="damaged: it is larger than its partition"):
        cut.find("/a/b")
    for offset, data, said in (
        (0, bytes(4), "it has no superblock"),
        (216, b"\x00\x00\x10\x03", "features that are not known here"),
        (84, bytes(4), "names no possible sizes"),
    ):
        changed = content[:offset] + data + content[offset + len(data) :]
        with pytest.raises(BlockDeviceError, match=said):
            Read(node, disk(tmp_path, {0: changed}, 32 * MIB), here).find("/")


def test_no_damage_makes_them_fail_otherwise_or_run_on(tmp_path: Path) -> None:
    chance = random.Random(22)
    path = tmp_path / "image"
    commands = (["list", "0"], ["list", "43842"], ["cat", "141", "1638405"], ["link", "140"])
    for program, name, asked in (
        (xfs_program, "xfs/xfs5", [["0", *words] for words in commands]),
        (lvm_program, "lvm/head", [["0"]]),
    ):
        whole = image(name)
        spots = [at for at in range(0, len(whole), 256) if any(whole[at : at + 256])]
        for _ in range(12):
            content = bytearray(whole)
            for _ in range(60):
                content[chance.choice(spots) + chance.randrange(256)] = chance.randrange(256)
            if program is xfs_program:
                content[:120] = whole[:120]
            path.write_bytes(content)
            for words in asked:
                command = [sys.executable, "-IS", program.__file__, str(path), *words]
                done = subprocess.run(command, capture_output=True, timeout=60, check=False)
                assert done.returncode in (0, 1) and b"Traceback" not in done.stderr, done.stderr


def asked(program: ModuleType, path: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-IS", str(program.__file__), str(path), *words]
    return subprocess.run(command, capture_output=True, timeout=60, check=False)


def test_a_tree_of_empty_blocks_ends(tmp_path: Path) -> None:
    """Each block of it names the one below 251 times, the lowest names nothing: no order of extents ends that."""
    content = bytearray(image("xfs/xfs5"))
    block, group_log, first, deep = 4096, content[124], 3000, 12
    for level in range(deep):
        head = b"BMA3" + struct.pack(">HH", level, 251 if level else 0)
        pointers = struct.pack(">Q", (1 << group_log) + first + level - 1) * 251 if level else b""
        at = (block + first + level) * block
        content[at : at + block] = (head.ljust(72 + 251 * 8, b"\0") + pointers).ljust(block, b"\0")
    inode = 141 * 512
    size = content[inode + 82] * 8 or 512 - 176
    content[inode + 5] = 3
    root = struct.pack(">HH", deep, 1).ljust(4 + (size - 4) // 16 * 8, b"\0")
    root += struct.pack(">Q", (1 << group_log) + first + deep - 1)
    content[inode + 176 : inode + 176 + len(root)] = root
    path = tmp_path / "image"
    path.write_bytes(content)
    done = asked(xfs_program, path, "0", "cat", "141", "8192")
    assert done.returncode == 1 and b"the tree of a file's extents is damaged" in done.stderr


def test_numbers_beyond_any_disk_are_said(tmp_path: Path) -> None:
    content = bytearray(image("xfs/xfs5"))
    struct.pack_into(">Q", content, 56, (1 << 63) - 1 - (1 << 20))
    struct.pack_into(">II", content, 84, (1 << 31) - 1, (1 << 32) - 1)
    content[124] = 31
    path = tmp_path / "image"
    path.write_bytes(content)
    done = asked(xfs_program, path, "0", "list", "0")
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"is damaged" in done.stderr


def test_a_name_that_lvm_does_not_give_is_none(tmp_path: Path) -> None:
    """Names stand in every line: one of a megabyte would fill the memory of whoever reads the lines."""
    content = image("lvm/head")
    area = struct.unpack_from("<QQII", content, 4096 + 40)
    text = content[4096 + area[0] : 4096 + area[0] + area[1]]
    for old, new, said in ((b"rl-web {", b"rl\x1bweb {", []), (b"\nwide {", b"\nwi/de {", ["away", "boot", "root"])):
        changed = text.replace(old, new)
        assert len(changed) >= len(text) and changed != text
        changed = changed.rstrip(b"\0") + b"\0"
        metadata = bytearray(content)
        metadata[4096 + area[0] : 4096 + area[0] + len(changed)] = changed
        checksum = zlib.crc32(changed, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
        struct.pack_into("<QI", metadata, 4096 + 48, len(changed), checksum)
        path = tmp_path / "image"
        path.write_bytes(metadata)
        done = asked(lvm_program, path, "0")
        names = [json.loads(line)["name"] for line in done.stdout.splitlines()]
        assert sorted(names) == [f"rl-web/{name}" for name in said], done.stderr

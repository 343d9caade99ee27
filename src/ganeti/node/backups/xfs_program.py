# SPDX-License-Identifier: BSD-2-Clause
"""Reads XFS (versions 4 and 5) out of an image: a program that runs without any right (`volumes.as_nobody`).

    xfs_program.py IMAGE PIECES list INODE      a JSON object a line, '.' first; inode 0 is the root directory
    xfs_program.py IMAGE PIECES cat INODE SIZE  the bytes of a file
    xfs_program.py IMAGE PIECES link INODE      where a symbolic link leads

PIECES is where the file system lies in the image, in bytes: OFFSET, or OFFSET+LENGTH,OFFSET+LENGTH for a logical
volume in several pieces. A guest wrote the image: every number of it is checked, and no circle is followed for ever.
Needs the standard library only. Numbers on the disk are big-endian; names are those of XFS's documentation.
"""

import json
import os
import signal
import stat
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

_LOCAL, _EXTENTS, _BTREE = 1, 2, 3
_MOREBITS, _FTYPE_4, _DIRECTORIES_2 = 0x8000, 0x200, 0x2000
_FTYPE_5, _KNOWN_5 = 0x1, 0xFF
_REALTIME, _MANY_EXTENTS = 0x1, 0x10
_DATA_ENDS = 32 * 1024**3
"""Blocks of a directory from here on are its index, which a list does not need."""
_MOST_DIRECTORY_BYTES = 256 * 1024**2
_DEEPEST_TREE = 16
_PIECE = 1024 * 1024
_LONGEST_LINK = 4096


class DamagedError(Exception):
    """The file system is not what it says, or is of a kind that is not read here."""


_DAMAGE = (DamagedError, struct.error, IndexError)


@dataclass(frozen=True)
class Extent:
    """Blocks of a file."""

    at: int
    """Its first block, in the file."""
    block: int
    """Where that one lies, as XFS numbers blocks."""
    count: int
    unwritten: bool
    """Whether it has room, and no content."""


class Inode:
    """What an inode says; raises `DamagedError`."""

    def __init__(self, data: bytes) -> None:
        if data[:2] != b"IN" or data[4] not in (1, 2, 3):
            raise DamagedError("an inode does not begin as one")
        self.mode, version, self.format = struct.unpack_from(">HBB", data, 2)
        self.uid, self.gid = struct.unpack_from(">II", data, 8)
        (self.size,) = struct.unpack_from(">Q", data, 56)
        (self.extents,) = struct.unpack_from(">I", data, 76)
        (flags,) = struct.unpack_from(">H", data, 90)
        begins = 100
        if version == 3:
            begins = 176
            if struct.unpack_from(">Q", data, 120)[0] & _MANY_EXTENTS:
                (self.extents,) = struct.unpack_from(">Q", data, 24)
        ends = begins + data[82] * 8 if data[82] else len(data)
        if ends > len(data):
            raise DamagedError("an inode of it is larger than inodes are")
        if flags & _REALTIME and stat.S_ISREG(self.mode):
            raise DamagedError("the file lies on a realtime device, which is not read here")
        self.fork = data[begins:ends]
        """Its content, or where that is."""


class Xfs:
    """One file system; raises `DamagedError`."""

    def __init__(self, image: int, pieces: list[tuple[int, int | None]]) -> None:
        self._image, self._pieces = image, pieces
        head = self._at(0, 264)
        if head[:4] != b"XFSB":
            raise DamagedError("it has no superblock")
        (self._block,) = struct.unpack_from(">I", head, 4)
        (self._root,) = struct.unpack_from(">Q", head, 56)
        self._group_blocks, self._groups = struct.unpack_from(">II", head, 84)
        versions, _, self._inode = struct.unpack_from(">HHH", head, 100)
        self._inodes_log, self._group_log, self._directory_log = head[123], head[124], head[192]
        self._is_5 = versions & 0xF == 5
        self._require_known(head, versions)
        self._types = bool(self._features(head, versions))
        self._near: tuple[int, bytes] = (-1, b"")

    def _require_known(self, head: bytes, versions: int) -> None:
        sizes = self._block in (512 << log for log in range(8)) and self._inode in (256, 512, 1024, 2048)
        inodes = sizes and self._block // self._inode == 1 << self._inodes_log
        groups = self._group_log < 32 and 0 < self._group_blocks <= 1 << self._group_log and self._groups
        if not inodes or not groups or self._directory_log > 7:
            raise DamagedError("its superblock names no possible sizes")
        if versions & 0xF not in (4, 5) or (not self._is_5 and not versions & _DIRECTORIES_2):
            raise DamagedError(f"version {versions & 0xF} of XFS is not read here")
        if self._is_5 and (unknown := struct.unpack_from(">I", head, 216)[0] & ~_KNOWN_5):
            raise DamagedError(f"it has features that are not known here ({unknown:#x})")

    def _features(self, head: bytes, versions: int) -> int:
        """Whether directories name the type of each file."""
        if self._is_5:
            return int(struct.unpack_from(">I", head, 216)[0]) & _FTYPE_5
        return int(struct.unpack_from(">I", head, 200)[0]) & _FTYPE_4 if versions & _MOREBITS else 0

    def inode(self, number: int) -> Inode:
        """0 is the root directory's."""
        number = number or self._root
        group, inside = number >> self._group_log + self._inodes_log, number & (1 << self._inodes_log) - 1
        block = number >> self._inodes_log & (1 << self._group_log) - 1
        place, data = self._near
        begins = self._place(group, block)
        if place != begins:  # inodes that are listed one after the other mostly share a block
            data = self._at(begins, self._block)
            self._near = (begins, data)
        return Inode(data[inside * self._inode : (inside + 1) * self._inode])

    def directory(self, number: int) -> Iterator[tuple[str, int]]:
        """Names and inodes of what it holds, without `.` and `..`."""
        inode = self.inode(number)
        if not stat.S_ISDIR(inode.mode):
            raise DamagedError("what it calls a directory is no directory")
        if inode.format == _LOCAL:
            yield from self._short(inode.fork)
            return
        size = self._block << self._directory_log
        if inode.size > _MOST_DIRECTORY_BYTES:
            raise DamagedError("a directory is too large to be read")
        known: dict[int, bytearray] = {}
        for extent in self._extents(inode):
            for index in range(extent.count):
                at = (extent.at + index) * self._block
                if at >= min(_DATA_ENDS, inode.size):
                    break
                content = known.setdefault(at // size, bytearray(size))
                content[at % size : at % size + self._block] = self._at(
                    self._place_of(extent.block + index), self._block
                )
                if at % size + self._block == size:
                    yield from self._entries(bytes(known.pop(at // size)))

    def content(self, number: int, size: int) -> Iterator[bytes]:
        """The bytes of a file; parts without content are zeros."""
        inode, done = self.inode(number), 0
        for extent in self._extents(inode):
            begins, ends = extent.at * self._block, (extent.at + extent.count) * self._block
            yield from _zeros(min(begins, size) - done)
            done = max(done, min(begins, size))
            while done < min(ends, size):
                count = min(_PIECE, ends - done, size - done)
                place = self._place_of(extent.block) + done - begins
                yield bytes(count) if extent.unwritten else self._at(place, count)
                done += count
        yield from _zeros(size - done)

    def link(self, number: int) -> bytes:
        inode = self.inode(number)
        if not stat.S_ISLNK(inode.mode) or inode.size > _LONGEST_LINK:
            raise DamagedError("what it calls a symbolic link is no link")
        if inode.format == _LOCAL:
            return inode.fork[: inode.size]
        header = 56 if self._is_5 else 0
        target = bytearray()
        for extent in self._extents(inode):
            for index in range(min(extent.count, _LONGEST_LINK)):
                target += self._at(self._place_of(extent.block + index), self._block)[header:]
                if len(target) >= inode.size:
                    return bytes(target[: inode.size])
        raise DamagedError("a symbolic link of it ends before it should")

    def _short(self, fork: bytes) -> Iterator[tuple[str, int]]:
        """A directory that lies in its inode."""
        wide = 8 if fork[1] else 4
        at = 2 + wide
        for _ in range(fork[0]):
            length = fork[at]
            name = fork[at + 3 : at + 3 + length]
            at += 3 + length + self._types
            number = int.from_bytes(fork[at : at + wide], "big")
            at += wide
            if at > len(fork):
                raise DamagedError("a directory of it does not fit into its inode")
            yield from _named(name, number)

    def _entries(self, data: bytes) -> Iterator[tuple[str, int]]:
        """Those of one block of a directory."""
        magic, ends = data[:4], len(data)
        if magic in (b"XD2B", b"XDB3"):
            ends -= 8 + 8 * int(struct.unpack_from(">I", data, len(data) - 8)[0])
        elif magic not in (b"XD2D", b"XDD3"):
            raise DamagedError("a block of a directory is not valid")
        at = 64 if magic in (b"XDB3", b"XDD3") else 16
        while 0 <= at < ends - 8:
            if data[at : at + 2] == b"\xff\xff":
                length = int(struct.unpack_from(">H", data, at + 2)[0])
            else:
                count = data[at + 8]
                length = 8 + 1 + count + self._types + 2 + 7 & ~7
                yield from _named(data[at + 9 : at + 9 + count], int(struct.unpack_from(">Q", data, at)[0]))
            if length < 8:
                raise DamagedError("an entry of a directory has no length")
            at += length

    def _extents(self, inode: Inode) -> Iterator[Extent]:
        """In the order of the file, which is checked, and no block of a tree is empty: so they come to an end."""
        if inode.format == _EXTENTS:
            found = self._records(inode.fork, 0, inode.extents)
        elif inode.format == _BTREE:
            found = self._tree(inode.fork)
        else:
            raise DamagedError("an inode of it does not say where its content is")
        next_at = 0
        for extent in found:
            if extent.at < next_at or not extent.count:
                raise DamagedError("extents of a file are out of order")
            next_at = extent.at + extent.count
            yield extent

    def _tree(self, root: bytes) -> Iterator[Extent]:
        level, count = struct.unpack_from(">HH", root, 0)
        most = (len(root) - 4) // 16
        if not 0 < level <= _DEEPEST_TREE or not 0 < count <= most:
            raise DamagedError("the tree of a file's extents is damaged")
        for pointer in struct.unpack_from(f">{count}Q", root, 4 + most * 8):
            yield from self._node(pointer, level - 1)

    def _node(self, block: int, level: int) -> Iterator[Extent]:
        data = self._at(self._place_of(block), self._block)
        header = 72 if self._is_5 else 24
        found, count = struct.unpack_from(">HH", data, 4)
        most = (self._block - header) // 16
        if data[:4] != (b"BMA3" if self._is_5 else b"BMAP") or found != level or not 0 < count <= most:
            raise DamagedError("the tree of a file's extents is damaged")
        if not level:
            yield from self._records(data, header, count)
            return
        for pointer in struct.unpack_from(f">{count}Q", data, header + most * 8):
            yield from self._node(pointer, level - 1)

    def _records(self, data: bytes, begins: int, count: int) -> Iterator[Extent]:
        if begins + count * 16 > len(data):
            raise DamagedError("a file has more extents than there is room for")
        for at in range(begins, begins + count * 16, 16):
            high, low = struct.unpack_from(">QQ", data, at)
            block = (high & 0x1FF) << 43 | low >> 21
            yield Extent((high & (1 << 63) - 1) >> 9, block, low & 0x1FFFFF, bool(high >> 63))

    def _place_of(self, block: int) -> int:
        return self._place(block >> self._group_log, block & (1 << self._group_log) - 1)

    def _place(self, group: int, block: int) -> int:
        if group >= self._groups or block >= self._group_blocks:
            raise DamagedError("it names a block that there is not")
        return int((group * self._group_blocks + block) * self._block)

    def _at(self, place: int, count: int) -> bytes:
        data = bytearray()
        for offset, length in self._pieces:
            if length is not None and place >= length:
                place -= length
                continue
            wanted = count - len(data)
            data += os.pread(self._image, wanted if length is None else min(wanted, length - place), offset + place)
            place = 0
            if len(data) == count:
                return bytes(data)
        raise DamagedError("it is larger than its partition")


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield bytes(min(count, _PIECE))
        count -= _PIECE


def _named(name: bytes, number: int) -> Iterator[tuple[str, int]]:
    if name not in (b"", b".", b"..") and b"/" not in name and b"\0" not in name:
        yield name.decode("utf-8", "replace"), number


def _pieces(text: str) -> list[tuple[int, int | None]]:
    parts = [part.split("+") for part in text.split(",")]
    return [(int(part[0]), int(part[1]) if len(part) > 1 else None) for part in parts]


def _list(xfs: Xfs, number: int) -> None:
    _print(".", number, xfs.inode(number))
    for name, inside in xfs.directory(number):
        try:
            _print(name, inside, xfs.inode(inside))
        except _DAMAGE as err:  # the others are there all the same
            said = f"inode {inside} is damaged: {err}"
            print(
                json.dumps({"name": name, "inode": inside, "mode": 0, "uid": 0, "gid": 0, "size": 0, "problem": said})
            )


def _print(name: str, number: int, inode: Inode) -> None:
    values = {"mode": inode.mode, "uid": inode.uid, "gid": inode.gid, "size": inode.size}
    print(json.dumps({"name": name, "inode": number, **values}))


def main(words: list[str]) -> int:
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it: the caller set the limit and waits for this end
    try:
        xfs = Xfs(os.open(words[0], os.O_RDONLY | os.O_CLOEXEC), _pieces(words[1]))
        if words[2] == "list":
            _list(xfs, int(words[3]))
        elif words[2] == "link":
            sys.stdout.buffer.write(xfs.link(int(words[3])))
        else:
            for piece in xfs.content(int(words[3]), int(words[4])):
                sys.stdout.buffer.write(piece)
        sys.stdout.flush()
    except (*_DAMAGE, ValueError, OverflowError, MemoryError) as err:
        print(f"the XFS file system is damaged: {err}", file=sys.stderr)
        return 1
    except OSError as err:
        print(str(err), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
